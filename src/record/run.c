/* run.c: follows the command while it runs. */
#include <errno.h>

#include "base/clock.h"
#include "format/rows.h"
#include "record/checks.h"
#include "record/deepen.h"
#include "record/recording.h"
#include "system/calibration.h"

#define SCAN_MS 100
#define TICK_NS NS_PER_S
#define DEEPEN_NS (10 * NS_PER_S)

static void on_end(void *user, pid_t pid, int status)
{
	struct recording *r = user;
	bool is_oom = r->tree && process_tree_ended(r->tree, pid, status);

	triggers_process_ended(r->triggers, pid, status, is_oom);
}

/* Measures hardware counters in the attached processes, in this recording. */
static void deepen(struct recording *r)
{
	struct deepen_request request = { .engine = SETTING_ENGINE_PM_SAMPLING,
					  .duration_ns = DEEPEN_NS };

	if (r->deepening) {
		record_emit(r, RECORD_NOTE, "hardware counters are being measured");
		return;
	}
	for (size_t i = 0; i < r->attached.count && request.count < DEEPEN_PROCESSES_MAX; i++)
		request.pids[request.count++] = r->attached.data[i].pid;
	if (r->request->settings.engine != SETTING_ENGINE_TRACE)
		record_emit(r, RECORD_NOTE, "engine %s is measuring until the end",
			    setting_engine_names[r->request->settings.engine]);
	else if (!request.count)
		record_emit(r, RECORD_NOTE,
			    "no hardware counters: the GPU work of the process is not recorded");
	else if ((r->deepening = deepen_begin(r, &request)))
		record_emit(r, RECORD_NOTE, "hardware counters are measured for %.3g s",
			    (double)DEEPEN_NS / (double)NS_PER_S);
	else
		record_emit(r, RECORD_WARNING,
			    "hardware counters cannot be measured: out of memory");
}

static void end_deepening(struct recording *r, bool stop)
{
	struct error e = { 0 };

	if (!r->deepening || (!deepen_end(r->deepening, stop, &e) && !stop))
		return;
	r->deepening = NULL;
	if (e.code)
		record_emit(r, RECORD_WARNING, "no hardware counters: %s", e.text);
	else
		record_emit(r, RECORD_NOTE, "hardware counters are measured no more");
}

/* Whether the window of attached processes has closed, or the user leaves them. */
static bool is_window_over(struct recording *r)
{
	uint64_t now = clock_monotonic_ns();
	enum record_wish wish = r->request->pid_count && r->listener.poll
					? r->listener.poll(r->listener.user, r->writer)
					: RECORD_GO_ON;

	if (wish == RECORD_DEEPEN)
		deepen(r);
	end_deepening(r, false);
	if (wish != RECORD_LEAVE &&
	    (!r->request->pid_count || !r->cpu.end_ns || now < r->cpu.end_ns))
		return false;
	r->spawn.end_ns = now;
	return true;
}

static void write_processes(const struct recording *r)
{
	if (process_tree_is_complete(r->tree)) {
		rows_capability(r->writer, feature_processes, capability_state_on, NULL, NULL,
				NULL);
		return;
	}
	rows_capability(r->writer, feature_processes, capability_state_degraded, NULL,
			"the command only",
			checks_foreign_proc() ? "/proc is of another pid namespace"
			: access("/proc/self/stat", R_OK) < 0
				? "there is no /proc"
				: "the OS kernel does not list child processes "
				  "(CONFIG_PROC_CHILDREN)");
}

/* Writes capabilities at the start, for readers of a growing or truncated recording. */
static void write_capabilities(const struct recording *r)
{
	bool injected = !r->request->cpu_only || r->preload;
	const char *requested = r->attached.count ? "attach" : NULL;
	const char *off = r->request->gpu_coredump ? "--gpu-coredump: NVIDIA's driver writes no "
						     "core files of a process that uses CUPTI"
						   : "--cpu-only";
	char reason[512];

	cpu_sampling_write(&r->cpu, r->writer);
	rows_capability(r->writer, feature_injection,
			injected ? capability_state_on : capability_state_off, requested,
			requested  ? "prepared process"
			: injected ? r->library
				   : NULL,
			r->request->cpu_only ? off : NULL);
	write_processes(r);
	if (r->request->cpu_only)
		rows_capability(r->writer, feature_gpu, capability_state_off, NULL, NULL, off);
	else if (machine_no_gpu_reason(reason, sizeof(reason)))
		rows_capability(r->writer, feature_gpu, capability_state_unavailable, NULL, NULL,
				reason);
}

/*
 * Writes when the window of --delay and --duration opened and closed, as soon as it has: what the
 * command did outside of it is not recorded, and a reader must not take that for idleness.
 */
static void write_window(struct recording *r, bool *opened, bool *closed)
{
	uint64_t now = clock_monotonic_ns();

	if (r->cpu.start_ns && now >= r->cpu.start_ns && !*opened) {
		rows_capability_at(r->writer, r->cpu.start_ns, feature_window, capability_state_on,
				   NULL, NULL,
				   r->request->start_at_ns ? "recording began at --start-at"
							   : "recording began after --delay");
		*opened = true;
	}
	if (r->cpu.end_ns && now >= r->cpu.end_ns && !*closed) {
		rows_capability_at(r->writer, r->cpu.end_ns, feature_window, capability_state_off,
				   NULL, NULL, "recording ended after --duration");
		*closed = true;
	}
}

/* What the user has measured on this machine; `pitot what-if` decides whether it fits. */
static void write_calibration(struct recording *r)
{
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
	struct error e = { 0 };
	struct calibration c;
	int rc = r->request->cpu_only ? -ENOENT : calibration_read(&c, &path, &e);

	if (rc == -ENOENT)
		return;
	if (rc >= 0)
		calibration_write_row(&c, r->writer);
	rows_capability(r->writer, feature_calibration,
			rc < 0 ? capability_state_unavailable : capability_state_on, NULL, NULL,
			rc < 0 ? e.text : NULL);
}

void record_run(struct recording *r)
{
	bool opened = false, closed = false;
	uint64_t tick_ns = r->spawn.start_ns, now;

	if (!r->writer) {
		while (spawn_wait(&r->spawn, SCAN_MS, on_end, r))
			;
		return;
	}
	record_write_clock(r->writer);
	write_capabilities(r);
	record_read_topology(r);
	write_calibration(r);
	writer_flush(r->writer);
	triggers_begin(r);
	recorded_steps_begin(r);

	while (spawn_wait(&r->spawn, SCAN_MS, on_end, r)) {
		segment_server_answer(&r->segments);
		record_serve_ring(r);
		triggers_step(r);
		recorded_steps_step(r);
		if (!r->request->ring) /* a ring's segments are in memory until the end */
			record_recover(r, false);
		if (is_window_over(r))
			break;
		write_window(r, &opened, &closed);
		record_write_topology(r, false);
		process_tree_scan(r->tree, false);
		process_tree_read_queues(r->tree);
		now = clock_monotonic_ns();
		if (now - tick_ns < TICK_NS)
			continue;
		tick_ns = now;
		gpu_cores_read(r, false);
		writer_flush(r->writer);
		if (r->listener.tick)
			r->listener.tick(r->listener.user, r->directory, now - r->spawn.start_ns);
	}
	end_deepening(r, true);
	write_window(r, &opened, &closed);
	if (r->cpu.start_ns && !opened)
		rows_capability(r->writer, feature_window, capability_state_unavailable, NULL, NULL,
				r->request->start_at_ns
					? "the command ended before --start-at"
					: "the command ended before --delay was over");
	process_tree_scan(r->tree, true);
	record_write_topology(r, true);
}
