#include "sql/sql_views.h"

#include <errno.h>
#include <string.h>

/* clang-format off */

/* Columns from the report's JSON: a member of each item of a list, by its name. */
#define COPY(member) " value ->> '" #member "' AS " #member
#define COPY_TIME(member) " value ->> '$.time." #member "' AS " #member
#define STATISTICS(copy)                                                                           \
	copy(count) "," copy(total_ns) "," copy(mean_ns) "," copy(median_ns) "," copy(p99_ns) ","  \
	copy(min_ns) "," copy(max_ns)
#define REPORT(list) " FROM report, json_each(report.json, '$." list "')"
#define KERNEL_REPORT(list)                                                                        \
	" FROM report_kernels, json_each(report_kernels.json, '$." list "')"
#define CAUSES(list) " FROM report_causes, json_each(report_causes.json, '$." list "')"

/* The number of an enum's value, and the enum's values as rows. */
#define WHEN(E, name, value) " WHEN '" #name "' THEN " #value
#define ROW(E, name, value) " UNION ALL SELECT " #value ", '" #name "'"
#define LABELED(label, rows)                                                                        \
	"SELECT id, name, upper(substr(" label ", 1, 1)) || substr(" label ", 2) AS label"         \
	" FROM (SELECT 0 AS id, '' AS name WHERE 0" rows ")"
/* Nsight Systems numbers kinds of memory from 0, has the unknown one at the end, and no others. */
#define WHEN_NSYS(E, name, value) " WHEN '" #name "' THEN (" #value " + 7) % 8"
#define ROW_NSYS(E, name, value)                                                                   \
	" UNION ALL SELECT (" #value " + 7) % 8, '" #name "' WHERE " #value " < 8"
#define NSYS_MEMORY(column) " CASE " column ENUM_memory_kind(WHEN_NSYS, ) " END"

#define OWNER                                                                                      \
	COPY(pid) "," COPY(device) "," COPY(kind) "," COPY(name) "," COPY(bytes) "," COPY(count)
#define OWNERS(at, by)                                                                             \
	"SELECT recording, '" at "' AS at, '" by "' AS part," OWNER CAUSES("memory_peak.by_" by)

#define SPAN " start_ns AS start, end_ns AS \"end\","
#define PLACE                                                                                      \
	" device AS deviceId, context AS contextId, stream AS streamId,"                           \
	" correlation AS correlationId, pid << 24 AS globalPid,"
#define GLOBAL_TID(thread) " (pid << 24 | " thread ") AS globalTid"
/* Rows of kernels with their configurations: k and c. */
#define KERNELS                                                                                    \
	" FROM kernel k LEFT JOIN kernel_config c ON c.row = k.config AND c.recording = k.recording"

struct view {
	const char *name, *meaning, *select;
};

static const struct view summaries[] = {
	{ "kernel_summary", "kernels by name, the longest in sum first",
	  "SELECT recording, value ->> 'label' AS name," STATISTICS(COPY_TIME) "," COPY(untimed) ","
	  " value ->> 'name' AS full_name" KERNEL_REPORT("hotspots.items") },
	{ "launch_summary", "launching calls, and the delay from their return to the work",
	  "SELECT recording, key AS kind," STATISTICS(COPY)
	  KERNEL_REPORT("launches") " WHERE type = 'object'" },
	{ "copy_summary", "copies and memory sets by direction and kind of memory",
	  "SELECT recording, iif(value ->> 'set', 'memset', value ->> 'kind') AS kind,"
	  COPY(source) "," COPY(destination) "," COPY(count) "," COPY(bytes) "," COPY(async) ","
	  COPY(total_ns) ", 1.0 * (value ->> 'timed_bytes') / (value ->> 'total_ns') AS gb_per_s"
	  REPORT("copies") },
	{ "nvtx_kernel", "NVTX ranges and scopes by name, with the GPU work launched in them",
	  "SELECT recording," COPY(name) "," COPY(work) "," COPY(gpu_ns) "," COPY(open) ","
	  STATISTICS(COPY_TIME) REPORT("nvtx.items") },
	{ "call_summary", "other CUDA calls, which launch no kernel, by function and thread",
	  "SELECT recording," COPY(function) "," COPY(kind) "," COPY(pid) "," COPY(thread) ","
	  COPY(thread_name) "," COPY(count) "," COPY(total_ns) "," COPY(max_ns) REPORT("calls") },
	{ "gpu_summary", "GPUs, and how long they were busy",
	  "SELECT recording," COPY(gpu) "," COPY(ordinal) "," COPY(name) "," COPY(uuid) ","
	  " value ->> '$.busy.union_ns' AS busy_ns, value ->> '$.busy.sum_ns' AS sum_ns,"
	  " value ->> '$.busy.compute_ns' AS compute_ns, value ->> '$.busy.copy_ns' AS copy_ns,"
	  " value ->> '$.busy.overlap_ns' AS overlap_ns,"
	  " (value ->> '$.busy.last_ns') - (value ->> '$.busy.first_ns') AS span_ns"
	  REPORT("gpus") },
	{ "memory_peak", "memory that GPUs see, by kind: its peak, and what is left (--memory)",
	  "SELECT recording," COPY(pid) "," COPY(device) "," COPY(kind) "," COPY(allocations) ","
	  COPY(allocated_bytes) "," COPY(releases) "," COPY(unknown_releases) "," COPY(peak_bytes)
	  ", start_ns + (value ->> 'peak_time_ns') AS peak_ns," COPY(live) "," COPY(live_bytes)
	  REPORT("memory") },
	{ "memory_owner", "who owns memory: its peak by line, scope, step and size, its end by line",
	  OWNERS("peak", "line") " UNION ALL " OWNERS("peak", "scope") " UNION ALL "
	  OWNERS("peak", "step") " UNION ALL " OWNERS("peak", "size") " UNION ALL "
	  "SELECT recording, 'end', 'line'," OWNER CAUSES("memory_peak.live") },
	{ "memory_leak", "lines whose live memory grows from step to step",
	  "SELECT recording," COPY(pid) "," COPY(device) "," COPY(kind) "," COPY(name) ","
	  COPY(step_bytes) "," COPY(steps) "," COPY(first_bytes) "," COPY(last_bytes) ","
	  COPY(last_count) "," COPY(p) CAUSES("memory_steps.leaks") },
	{ "memory_churn", "lines that allocate or release memory of the driver within steps",
	  "SELECT recording," COPY(pid) "," COPY(name) "," COPY(allocations) "," COPY(releases) ","
	  COPY(allocated_bytes) "," COPY(synchronizing) "," COPY(host_ns) "," COPY(steps) ","
	  COPY(loop_steps) CAUSES("memory_steps.churn") },
	{ "state", "what GPUs and streams did; stream is NULL for a whole GPU",
	  "SELECT recording," COPY(gpu) "," COPY(pid) "," COPY(stream) "," COPY(count) ","
	  COPY(span_ns) "," COPY(running_ns) "," COPY(queued_ns) "," COPY(waiting_ns) ","
	  COPY(starved_ns) "," COPY(idle_ns) "," COPY(unknown_ns) CAUSES("states.rows") },
	{ "step", "steps of a training or another loop, with the GPU work launched in them",
	  "SELECT recording," COPY(pid) "," COPY(number) ","
	  " start_ns + (value ->> 'start_ns') AS start_ns," COPY(duration_ns) "," COPY(launches) ","
	  COPY(work_ns) "," COPY(slow) CAUSES("steps.items") },
	{ "step_summary", "loops whose passes are steps, or why there is none",
	  "SELECT recording," COPY(pid) "," COPY(source) "," COPY(reason) "," COPY(name) ","
	  COPY(count) "," COPY(median_ns) "," COPY(p90_ns) "," COPY(p99_ns) "," COPY(mad_ns) ","
	  COPY(min_ns) "," COPY(max_ns) "," COPY(slow_count) CAUSES("steps.loops") },
	{ "critical_path", "what bounded the recording's length: the parts add up to it",
	  "SELECT recording," COPY(class) "," COPY(name) "," COPY(count) "," COPY(total_ns) ","
	  COPY(potential_ns) CAUSES("critical_path.owners") },
	{ "rank_summary", "ranks of a job: where the time went, and how late they were",
	  "SELECT recording," COPY(rank) "," COPY(gpu) "," COPY(pid) "," COPY(compute_ns) ","
	  COPY(copy_ns) "," COPY(host_ns) "," COPY(transfer_ns) "," COPY(wait_ns) ","
	  COPY(collectives) "," COPY(last) "," COPY(late_ns) REPORT("job.ranks") },
	{ "rank_cause", "why ranks of a job were late",
	  "SELECT recording," COPY(rank) "," COPY(state) "," COPY(place) "," COPY(count) ","
	  COPY(late_ns) "," COPY(excess_ns) REPORT("job.causes") },
	{ "rank_path", "what bounded a job of several ranks: the parts add up to it",
	  "SELECT recording," COPY(rank) "," COPY(class) "," COPY(name) "," COPY(line) ","
	  COPY(count) "," COPY(total_ns) CAUSES("rank_path.owners") },
	{ "host_clock", "clocks of the hosts of a job, aligned by its collectives",
	  "SELECT recording," COPY(host) "," COPY(method) "," COPY(ahead_ns) "," COPY(drift_ppm) ","
	  COPY(uncertainty_ns) "," COPY(steps) "," COPY(collectives) ","
	  COPY(synchronized) "," COPY(realtime_error_ns) REPORT("job.hosts") },

};

/* SQL that DuckDB understands as well. */
static const struct view aliases[] = {
	{ "StringIds", "texts by their number, as in databases of Nsight Systems",
	  /* SQLite makes an index of what it has to keep: names of ranges are many. */
	  "WITH s AS MATERIALIZED (SELECT text_id(value) AS id, value FROM"
	  " (SELECT kernel_full(name) AS value"
	  " FROM kernel_config UNION SELECT kernel_short(name) FROM kernel_config"
	  " UNION SELECT name FROM kernel_config UNION SELECT name FROM api_function"
	  " UNION SELECT name FROM thread UNION SELECT name FROM nvtx_range"
	  " UNION SELECT message FROM nvtx WHERE kind = 'mark' AND message IS NOT NULL))"
	  " SELECT id, value FROM s" },
	{ "CUPTI_ACTIVITY_KIND_KERNEL", "kernel, by names of Nsight Systems",
	  "SELECT" SPAN PLACE " text_id(config_name) AS demangledName,"
	  " text_id(kernel_short(config_name)) AS shortName, text_id(c.name) AS mangledName,"
	  " registers AS registersPerThread, grid_x AS gridX, grid_y AS gridY, grid_z AS gridZ,"
	  " block_x AS blockX, block_y AS blockY, block_z AS blockZ,"
	  " static_shared_bytes AS staticSharedMemory, dynamic_shared_bytes AS dynamicSharedMemory,"
	  " local_bytes_per_thread AS localMemoryPerThread, local_bytes_total AS localMemoryTotal,"
	  " graph AS graphId, graph_node AS graphNodeId,"
	  " cluster_x AS clusterX, cluster_y AS clusterY, cluster_z AS clusterZ FROM (SELECT k.*,"
	  " c.name, registers, grid_x, grid_y, grid_z, block_x, block_y, block_z,"
	  " static_shared_bytes, dynamic_shared_bytes, local_bytes_per_thread, local_bytes_total,"
	  " cluster_x, cluster_y, cluster_z" KERNELS ") c" },
	{ "CUPTI_ACTIVITY_KIND_MEMCPY", "memcpy, by names of Nsight Systems",
	  "SELECT" SPAN PLACE " bytes, CASE kind" ENUM_copy_kind(WHEN, ) " END AS copyKind,"
	  NSYS_MEMORY("source_kind") " AS srcKind," NSYS_MEMORY("destination_kind") " AS dstKind,"
	  " source_device AS srcDeviceId, source_context AS srcContextId,"
	  " destination_device AS dstDeviceId, destination_context AS dstContextId,"
	  " graph_node AS graphNodeId, copies AS copyCount FROM memcpy" },
	{ "CUPTI_ACTIVITY_KIND_MEMSET", "memset, by names of Nsight Systems",
	  "SELECT" SPAN PLACE " value, bytes," NSYS_MEMORY("memory_kind") " AS memKind,"
	  " graph_node AS graphNodeId FROM memset" },
	{ "CUPTI_ACTIVITY_KIND_RUNTIME", "api_call, by names of Nsight Systems",
	  "SELECT" SPAN " 2 - (f.id >> 16) AS eventClass, (c.pid << 24 | thread) AS globalTid,"
	  " correlation AS correlationId, text_id(f.name) AS nameId,"
	  " ifnull(result, 0) AS returnValue FROM api_call c LEFT JOIN api_function f"
	  " ON f.row = c.function AND f.recording = c.recording" },
	{ "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "synchronization, by names of Nsight Systems",
	  "SELECT" SPAN " context AS contextId, stream AS streamId, correlation AS correlationId,"
	  " pid << 24 AS globalPid, CASE kind" ENUM_synchronization_kind(WHEN, ) " END AS syncType"
	  " FROM synchronization" },
	{ "NVTX_EVENTS", "nvtx_range and marks, by names of Nsight Systems",
	  "SELECT start_ns AS start, iif(open, NULL, end_ns) AS \"end\","
	  " iif(pushed, 59, 60) AS eventType, name AS text, text_id(name) AS textId,"
	  GLOBAL_TID("thread") ", domain AS domainId FROM nvtx_range UNION ALL SELECT time_ns, NULL,"
	  " 34, message, text_id(message)," GLOBAL_TID("thread") ", domain FROM nvtx"
	  " WHERE kind = 'mark'" },
	{ "ThreadNames", "names of threads, by names of Nsight Systems",
	  "SELECT text_id(name) AS nameId, 0 AS priority," GLOBAL_TID("tid") " FROM thread" },
	{ "PROCESSES", "processes, by names of Nsight Systems",
	  "SELECT DISTINCT pid << 24 AS globalPid, pid, command AS name FROM process" },
	{ "TARGET_INFO_GPU", "device, by names of Nsight Systems",
	  "SELECT id, name, uuid, memory_bytes AS totalMemory, multiprocessors AS smCount,"
	  " compute_major AS computeMajor, compute_minor AS computeMinor, pci AS busLocation,"
	  " clock_khz * 1000 AS clockRate, l2_bytes AS l2CacheSize FROM device" },
	{ "TARGET_INFO_SESSION_START_TIME", "what to add to times, by names of Nsight Systems: 0",
	  "SELECT 0 AS utcEpochNs" },
	{ "TARGET_INFO_SYSTEM_ENV", "names of hosts, by names of Nsight Systems",
	  "SELECT DISTINCT 'Hostname' AS name, host AS value FROM process" },
	{ "ENUM_CUDA_MEMCPY_OPER", "numbers of copyKind",
	  LABELED("replace(replace(replace(replace(replace(name, 'to', '-to-'), 'H', 'Host'),"
		  " 'D', 'Device'), 'A', 'Array'), 'P', 'Peer')", ENUM_copy_kind(ROW, )) },
	{ "ENUM_CUDA_MEM_KIND", "numbers of srcKind, dstKind, memKind",
	  LABELED("replace(name, '_s', ' S')", ENUM_memory_kind(ROW_NSYS, )) },

	{ "kernels", "kernel, by names of rocprofv3",
	  "SELECT k.rowid AS id, kernel_short(config_name) AS name," SPAN
	  " duration_ns AS duration, k.pid AS pid, device AS agent_abs_index, stream AS stream_id,"
	  " correlation AS corr_id, grid_x * block_x AS grid_x, grid_y * block_y AS grid_y,"
	  " grid_z * block_z AS grid_z, block_x AS workgroup_x, block_y AS workgroup_y,"
	  " block_z AS workgroup_z, static_shared_bytes + dynamic_shared_bytes AS lds_size" KERNELS },
	{ "memory_copies", "memcpy, by names of rocprofv3",
	  "SELECT rowid AS id, kind AS name," SPAN " duration_ns AS duration, bytes AS size, pid,"
	  " stream AS stream_id, correlation AS corr_id FROM memcpy" },
	{ "regions", "api_call and nvtx_range, by names of rocprofv3",
	  "SELECT 'HIP_API' AS category, function_name AS name," SPAN " duration_ns AS duration, pid,"
	  " thread AS tid, correlation AS corr_id FROM api_call UNION ALL SELECT"
	  " 'MARKER_CORE_API', name, start_ns, end_ns, duration_ns, pid, thread, NULL"
	  " FROM nvtx_range" },
};

/* Columns of summaries that are no integers, for those who must know the type beforehand. */
static const char *const texts[] = {
	"at", "class", "destination", "full_name", "function", "host", "kind", "line", "method", "name",
	"part", "place", "reason", "recording", "source", "state", "thread_name", "uuid", NULL
};
static const char *const reals[] = {
	"ahead_ns", "drift_ppm", "gb_per_s", "p", NULL
};

/* clang-format on */

static bool is_in(const char *const *names, const char *name)
{
	for (; *names; names++)
		if (!strcmp(*names, name))
			return true;
	return false;
}

const char *sql_summary_type(const char *column)
{
	return is_in(texts, column) ? "TEXT" : is_in(reals, column) ? "REAL" : "INTEGER";
}

static void add_views(struct strbuf *out, const struct view *views, size_t count)
{
	for (size_t i = 0; i < count; i++)
		strbuf_addf(out, "CREATE VIEW \"%s\" AS %s;\n", views[i].name, views[i].select);
}

int sql_views_add(struct sql *s, struct error *e)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	add_views(&text, summaries, ARRAY_SIZE(summaries));
	add_views(&text, aliases, ARRAY_SIZE(aliases));
	if (text.failed)
		return error_set(e, -ENOMEM, "out of memory");
	if (sqlite3_exec(s->db, strbuf_text(&text), NULL, NULL, NULL) != SQLITE_OK)
		return error_set(e, -EIO, "cannot make the views: %s", sqlite3_errmsg(s->db));
	return 0;
}

static void visit_views(const struct view *views, size_t count, sql_visit *visit, void *user)
{
	for (size_t i = 0; i < count; i++)
		visit(user,
		      &(struct sql_item){ .name = views[i].name, .meaning = views[i].meaning });
}

void sql_views_visit(sql_visit *visit, void *user)
{
	visit_views(summaries, ARRAY_SIZE(summaries), visit, user);
	sql_aliases_visit(visit, user);
}

void sql_aliases_visit(sql_visit *visit, void *user)
{
	visit_views(aliases, ARRAY_SIZE(aliases), visit, user);
}

static const struct view *find(const struct view *views, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (!sqlite3_stricmp(views[i].name, name))
			return &views[i];
	return NULL;
}

const char *sql_view_name(const char *name)
{
	const struct view *view = find(summaries, ARRAY_SIZE(summaries), name)
					  ?: find(aliases, ARRAY_SIZE(aliases), name);

	return view ? view->name : NULL;
}

const char *sql_alias_select(const char *name)
{
	const struct view *view = find(aliases, ARRAY_SIZE(aliases), name);

	return view ? view->select : NULL;
}
