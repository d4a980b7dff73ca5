#include "record/monitor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/io.h"
#include "format/rows.h"
#include "format/recording_dir.h"
#include "system/nvml.h"

#define FLUSH_NS NS_PER_S
#define ACCOUNT_NS (10 * NS_PER_S)
#define EVENTS_MAX 16u /* per round */

/* --- readings --- */

struct target {
	struct monitor *monitor;
	size_t gpu; /* SIZE_MAX: the host */
};

static void record_counter(struct monitor *m, uint32_t id)
{
	const struct metric *metric = metric_find(id);
	char room[METRIC_NAME_MAX];
	struct row_counter row = {
		.id = id,
		.name = rows_text(m->writer, metric_name(id, room)),
		.unit = rows_text(m->writer, metric->unit),
		.decimals = metric->decimals,
		.description = rows_text(m->writer, metric->description),
		.kind = (uint8_t)metric->kind,
	};

	ROW_MISSING(&row, counter, reading);
	writer_append(m->writer, TABLE_counter, &row);
	m->named[id / 64] |= UINT64_C(1) << id % 64;
}

static void record_value(struct monitor *m, uint32_t id, size_t gpu, uint64_t time_ns,
			 int64_t value)
{
	struct row_counter_sample row = {
		.time_ns = time_ns, .counter = id, .device = (uint32_t)gpu, .value = value
	};

	if (!(m->named[id / 64] >> id % 64 & 1))
		record_counter(m, id);
	ROW_MISSING_IF(&row, counter_sample, device, gpu == SIZE_MAX);
	ROW_MISSING(&row, counter_sample, thread);
	writer_append(m->writer, TABLE_counter_sample, &row);
}

static struct monitor_reading *reading_of(struct monitor *m, uint32_t id, size_t gpu)
{
	if (gpu != SIZE_MAX)
		return &m->gpus[gpu].readings[id];
	return id < METRIC_CORE_FIRST ? &m->host_readings[id] : &m->cores[id - METRIC_CORE_FIRST];
}

static void store_value(void *user, uint32_t id, uint64_t time_ns, int64_t value)
{
	struct target *t = user;
	struct monitor_reading *r = reading_of(t->monitor, id, t->gpu);

	*r = (struct monitor_reading){ time_ns, r->time_ns, value, r->value };
	t->monitor->readings++;
	if (t->monitor->writer)
		record_value(t->monitor, id, t->gpu, time_ns, value);
}

static void add_absent(void *user, uint32_t id, const char *why)
{
	const struct target *t = user;
	struct monitor_reading *r = reading_of(t->monitor, id, t->gpu);
	char whose[64] = "no ";

	if (t->gpu != SIZE_MAX)
		snprintf(whose, sizeof(whose), "GPU %zu has no ", t->gpu);
	metric_add_absent(&t->monitor->missing, whose, id, why);
	*r = (struct monitor_reading){ 0 };
}

static struct metric_sink sink_of(struct target *t)
{
	return (struct metric_sink){ .user = t, .value = store_value, .absent = add_absent };
}

bool monitor_rate(const struct monitor_reading *r, int64_t *per_s)
{
	if (!r->before_ns || r->time_ns <= r->before_ns || r->value < r->before)
		return false;
	*per_s = (int64_t)((__int128)(r->value - r->before) * NS_PER_S /
			   (r->time_ns - r->before_ns));
	return true;
}

static void read_processes(struct monitor_gpu *g)
{
	struct nvml_process processes[MONITOR_PROCESSES_MAX];

	g->process_count =
		g->device.reader->processes(&g->device, processes, MONITOR_PROCESSES_MAX);
	for (unsigned i = 0; i < g->process_count; i++) {
		struct monitor_process *p = &g->processes[i];
		_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

		*p = (struct monitor_process){ .pid = processes[i].pid,
					       .used_bytes = processes[i].used_bytes };
		io_process_text((pid_t)p->pid, "comm", sizeof(p->name) - 1, &name);
		memcpy(p->name, strbuf_text(&name), MIN(name.length, sizeof(p->name) - 1));
	}
}

static void read_events(struct monitor *m)
{
	nvml_handle handle;
	int64_t xid;

	for (unsigned n = 0; n < EVENTS_MAX && nvml_next_event(&handle, &xid); n++)
		for (unsigned i = 0; i < m->gpu_count; i++)
			if (m->gpus[i].is.vendor == gpu_vendor_nvidia &&
			    m->gpus[i].device.is.nvml.handle == handle)
				store_value(&(struct target){ m, i }, METRIC_gpu_xid,
					    clock_monotonic_ns(), xid);
}

static void read_last(struct monitor *m)
{
	for (unsigned i = 0; i < m->gpu_count; i++) {
		struct target t = { m, i };
		const struct metric_sink sink = sink_of(&t);

		if (m->gpus[i].device.reader->read_last && !m->gpus[i].device.lost)
			m->gpus[i].device.reader->read_last(&m->gpus[i].device, &sink);
	}
}

/* Clears the readings of a lost GPU, except its last error. */
static void clear_lost(struct monitor_gpu *g)
{
	struct monitor_reading xid = g->readings[METRIC_gpu_xid];

	memset(g->readings, 0, sizeof(g->readings));
	g->readings[METRIC_gpu_xid] = xid;
}

static void read_all(struct monitor *m, uint64_t now_ns)
{
	struct target host = { m, SIZE_MAX };
	const struct metric_sink host_sink = sink_of(&host);

	for (unsigned i = 0; i < m->gpu_count; i++) {
		struct monitor_gpu *g = &m->gpus[i];
		struct target t = { m, i };
		const struct metric_sink sink = sink_of(&t);

		if (!g->device.lost)
			g->device.reader->read(&g->device, now_ns, &sink);
		if (g->device.lost)
			clear_lost(g);
		if (pace_is_due(&g->process_pace, NS_PER_S, now_ns))
			read_processes(g);
	}
	read_events(m);
	host_read(&m->host, now_ns, &host_sink);
}

/* GPUs are indexed by number, so a GPU that cannot be opened is kept as lost. */
static void open_gpu(struct monitor *m, const struct gpu_reader *reader, unsigned index)
{
	struct monitor_gpu *g = &m->gpus[m->gpu_count++];
	const char *why;

	g->device.reader = reader;
	why = reader->open(&g->device, index);
	g->device.lost = why != NULL;
	if (why)
		strbuf_addf(&m->missing, "%sno readings of GPU %u: %s",
			    m->missing.length ? "; " : "", m->gpu_count - 1, why);
	else
		reader->describe(&g->device, &g->is);
}

int monitor_open(struct monitor *m, struct error *e)
{
	struct target host = { m, SIZE_MAX };
	const struct metric_sink sink = sink_of(&host);
	unsigned counts[GPU_READERS], count = 0;

	for (unsigned r = 0; r < GPU_READERS; r++)
		count += counts[r] = gpu_readers[r]->find(&sink, &m->no_gpus);
	m->gpus = calloc(MAX(count, 1u), sizeof(*m->gpus));
	if (!m->gpus || host_open(&m->host, HOST_MACHINE, &sink) < 0)
		return error_set(e, -ENOMEM, "out of memory");
	for (unsigned r = 0; r < GPU_READERS; r++)
		for (unsigned i = 0; i < counts[r]; i++)
			open_gpu(m, gpu_readers[r], i);
	if (count)
		strbuf_clear(&m->no_gpus);
	return 0;
}

/* --- the recording --- */

static void record_process(struct monitor *m, uint64_t end_ns)
{
	_cleanup_strbuf_ struct strbuf command = STRBUF_INIT, boot_id = STRBUF_INIT;
	char path[4096];
	struct utsname system = { 0 };
	struct row_process row = {
		.pid = (uint32_t)getpid(),
		.parent_pid = (uint32_t)getppid(),
		.start_ns = m->identity.start_monotonic_ns,
		.end_ns = end_ns,
		.uid = (uint32_t)getuid(),
		.source = process_source_record,
		.missing = schema_missing(TABLE_process),
	};
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path));

	row.executable = writer_string(m->writer, path, (size_t)MAX(n, 0));
	for (char **argument = m->identity.command; *argument; argument++)
		strbuf_addf(&command, "%s%s", command.length ? " " : "", *argument);
	row.command = writer_string(m->writer, strbuf_text(&command), command.length);
	row.directory = rows_text(m->writer, getcwd(path, sizeof(path)) ? path : "");
	uname(&system);
	row.host = rows_text(m->writer, system.nodename);
	io_read_text("/proc/sys/kernel/random/boot_id", 64, &boot_id);
	row.boot_id = writer_string(m->writer, strbuf_text(&boot_id), boot_id.length);
	if (end_ns) {
		ROW_PRESENT(&row, process, end_ns);
		ROW_PRESENT(&row, process, exit_status);
	}
	writer_append(m->writer, TABLE_process, &row);
}

static void record_missing(struct monitor *m)
{
	bool has_nvml = m->gpu_count == 0;

	for (unsigned i = 0; i < m->gpu_count; i++)
		has_nvml |= m->gpus[i].device.reader == gpu_readers[0];
	if (has_nvml)
		rows_capability(m->writer, feature_nvml,
				m->gpu_count ? capability_state_on : capability_state_unavailable,
				NULL, NULL, m->gpu_count ? NULL : strbuf_text(&m->no_gpus));
	if (m->missing.length)
		rows_capability(m->writer, feature_counters, capability_state_degraded, NULL, NULL,
				strbuf_text(&m->missing));
}

int monitor_record(struct monitor *m, const char *output, bool force, char **command,
		   struct error *e)
{
	struct writer_options options = { .prefix = "record" };
	struct folder_id folder;
	int err;

	m->directory = recording_dir_create(output, "monitor", force, &folder, e);
	if (!m->directory)
		return e->code;
	m->identity = (struct recording_identity){
		.folder = folder,
		.name = "monitor",
		.command = command,
		.options = "",
		.engine = "monitor",
		.start_monotonic_ns = clock_monotonic_ns(),
		.start_realtime_ns = clock_read_ns(CLOCK_REALTIME),
	};
	options.directory = m->directory;
	options.folder = folder;
	err = recording_json_write(m->directory, &m->identity, e);
	if (err >= 0)
		err = writer_open(&options, &m->writer, e);
	if (err < 0) {
		recording_dir_remove(m->directory, &folder, NULL);
		return err;
	}
	rows_clock(m->writer, 0);
	record_process(m, 0);
	rows_capability(m->writer, feature_gpu, capability_state_unavailable, NULL, NULL,
			"pitot monitor records readings, and no work");
	for (unsigned i = 0; i < m->gpu_count; i++)
		device_row_write(m->writer, i, &m->gpus[i].is);
	m->flushed_ns = m->accounted_ns = m->identity.start_monotonic_ns;
	return 0;
}

/* Writes clock readings, and Pitot's cost since the last call. */
static void account(struct monitor *m, uint64_t now_ns)
{
	uint64_t cpu_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);

	rows_clock(m->writer, 0);
	rows_cost(m->writer, cost_kind_collector, m->accounted_ns, now_ns, 1, cpu_ns - m->cpu_ns);
	m->cpu_ns = cpu_ns;
	m->accounted_ns = now_ns;
}

static void flush(struct monitor *m, uint64_t now_ns)
{
	int err = writer_flush(m->writer);

	if (err < 0 && !m->error)
		m->error = err;
	m->flushed_ns = now_ns;
}

void monitor_read(struct monitor *m)
{
	uint64_t now_ns = clock_monotonic_ns();
	size_t missing = m->missing.length;
	bool first = m->readings == 0;

	m->round_ns = now_ns;
	read_all(m, now_ns);
	if (!m->writer)
		return;
	if (first || m->missing.length != missing)
		record_missing(m);
	if (now_ns - m->accounted_ns >= ACCOUNT_NS)
		account(m, now_ns);
	if (now_ns - m->flushed_ns >= FLUSH_NS)
		flush(m, now_ns);
}

int monitor_finish(struct monitor *m, struct error *e)
{
	int json, err;

	read_last(m);
	m->identity.end_monotonic_ns = clock_monotonic_ns();
	record_process(m, m->identity.end_monotonic_ns);
	account(m, m->identity.end_monotonic_ns);
	flush(m, m->identity.end_monotonic_ns);
	err = writer_close(&m->writer);
	if (m->error)
		err = m->error;
	json = recording_json_write(m->directory, &m->identity, e);
	if (json < 0)
		return json;
	return err < 0 ? error_errno(e, -err, "cannot write all of '%s'", m->directory) : 0;
}

void monitor_write_gpus(struct monitor *m, struct writer *w)
{
	memset(m->named, 0, sizeof(m->named));
	m->writer = w;
	for (unsigned i = 0; i < m->gpu_count; i++) {
		const struct monitor_gpu *g = &m->gpus[i];

		device_row_write(w, i, &g->is);
		for (uint32_t id = METRIC_GPU_FIRST; id < METRIC_GPU_END; id++)
			if (g->readings[id].time_ns)
				record_value(m, id, i, g->readings[id].time_ns,
					     g->readings[id].value);
	}
	if (m->no_gpus.length)
		rows_capability(w, feature_nvml, capability_state_unavailable, NULL, NULL,
				strbuf_text(&m->no_gpus));
	m->writer = NULL;
}

void monitor_release(struct monitor *m)
{
	writer_abandon(&m->writer);
	host_close(&m->host);
	free(m->gpus);
	free(m->directory);
	strbuf_release(&m->no_gpus);
	strbuf_release(&m->missing);
}
