#include "cli/monitor_view.h"

#include <string.h>
#include <time.h>

#include "base/human.h"
#include "base/json.h"
#include "base/plural.h"
#include "report/text_table.h"
#include "system/throttle.h"

#define GPU(g, name) (&(g)->readings[METRIC_gpu_##name])
#define HOST(m, name) (&(m)->host_readings[METRIC_host_##name])

/* --- values as text --- */

/* Appends a level, such as "97%" or "1,980 MHz", without decimals; "-" if it is missing. */
static void add_level(struct strbuf *out, uint32_t id, const struct monitor_reading *r)
{
	const struct metric *m = metric_find(id);
	int64_t v = r->value;

	if (!r->time_ns) {
		strbuf_adds(out, "-");
		return;
	}
	if (!strcmp(m->unit, "bytes")) {
		human_bytes(out, (uint64_t)v);
		return;
	}
	for (uint32_t i = 0; i < m->decimals; i++)
		v /= 10;
	strbuf_addf(out, "%lld%s%s", (long long)v, *m->unit && *m->unit != '%' ? " " : "", m->unit);
}

static void add_rate(struct strbuf *out, const struct monitor_reading *r)
{
	int64_t per_s;

	if (monitor_rate(r, &per_s))
		human_rate(out, (uint64_t)per_s, NS_PER_S);
	else
		strbuf_adds(out, "-");
}

/* Appends the share of time by a sum of seconds in 1/`units` s, over `parts` processors. */
static void add_share(struct strbuf *out, const struct monitor_reading *r, uint64_t units,
		      unsigned parts)
{
	int64_t per_s;

	if (monitor_rate(r, &per_s))
		human_percent(out, MIN((uint64_t)per_s, units * parts), units * parts);
	else
		strbuf_adds(out, "-");
}

static unsigned core_count(const struct monitor *m)
{
	unsigned count = 0;

	for (size_t i = 0; i < MONITOR_CORES; i++)
		count += m->cores[i].time_ns != 0;
	return MAX(count, 1u);
}

static void add_memory(struct strbuf *out, const struct monitor_gpu *g)
{
	add_level(out, METRIC_gpu_memory_used, GPU(g, memory_used));
	if (g->is.memory_bytes) {
		strbuf_adds(out, " / ");
		human_bytes(out, g->is.memory_bytes);
	}
}

static void add_power(struct strbuf *out, const struct monitor_gpu *g)
{
	add_level(out, METRIC_gpu_power, GPU(g, power));
	if (GPU(g, power_limit)->time_ns)
		strbuf_addf(out, " / %lld", (long long)GPU(g, power_limit)->value / 1000);
}

static void add_throttling(struct strbuf *out, const struct monitor_gpu *g)
{
	if (g->device.lost)
		strbuf_adds(out, "the GPU is lost");
	else if (GPU(g, throttle_reasons)->time_ns)
		throttle_text((uint64_t)GPU(g, throttle_reasons)->value, out);
	else
		strbuf_adds(out, "-");
	if (GPU(g, xid)->time_ns)
		strbuf_addf(out, "%sXid %lld", out->length ? ", " : "",
			    (long long)GPU(g, xid)->value);
}

static void add_host(struct strbuf *out, const struct monitor *m)
{
	unsigned cores = core_count(m);

	strbuf_adds(out, "CPU ");
	add_share(out, HOST(m, cpu_busy), 100, cores);
	strbuf_addf(out, " of %u processor%s, memory ", cores, plural(cores));
	add_level(out, METRIC_host_memory_used, HOST(m, memory_used));
	strbuf_adds(out, " used, ");
	add_level(out, METRIC_host_memory_available, HOST(m, memory_available));
	strbuf_adds(out, " available, disk read ");
	add_rate(out, HOST(m, disk_read));
	strbuf_adds(out, " written ");
	add_rate(out, HOST(m, disk_written));
	strbuf_adds(out, ", network in ");
	add_rate(out, HOST(m, network_received));
	strbuf_adds(out, " out ");
	add_rate(out, HOST(m, network_sent));
	strbuf_adds(out, ", tasks waited for CPU ");
	add_share(out, HOST(m, cpu_pressure), 1000000, 1);
	strbuf_adds(out, ", memory ");
	add_share(out, HOST(m, memory_pressure), 1000000, 1);
	strbuf_adds(out, ", disk ");
	add_share(out, HOST(m, io_pressure), 1000000, 1);
	strbuf_adds(out, "\n");
}

/* --- the table --- */

static void add_level_cell(struct text_table *t, const struct monitor_gpu *g, uint32_t id)
{
	add_level(text_table_begin(t), id, &g->readings[id]);
}

static void add_gpu(struct text_table *t, const struct monitor_gpu *g, unsigned index)
{
	_cleanup_strbuf_ struct strbuf throttling = STRBUF_INIT;

	text_table_addf(t, "%u", index);
	text_table_safe(t, g->is.name);
	add_level_cell(t, g, METRIC_gpu_sm_active);
	add_level_cell(t, g, METRIC_gpu_memory_clock);
	add_level_cell(t, g, METRIC_gpu_temperature);
	add_level_cell(t, g, METRIC_gpu_utilization);
	add_level_cell(t, g, METRIC_gpu_sm_clock);
	add_memory(text_table_begin(t), g);
	add_power(text_table_begin(t), g);
	add_throttling(&throttling, g);
	text_table_add(t, strbuf_text(&throttling));
}

static void add_processes(struct strbuf *out, const struct monitor *m, unsigned width)
{
	static const struct text_column columns[] = { RIGHT("GPU"), RIGHT("process"),
						      RIGHT("memory"), FLEXIBLE("name") };
	_cleanup_table_ struct text_table t = TEXT_TABLE_INIT(columns);

	for (unsigned i = 0; i < m->gpu_count; i++) {
		for (unsigned k = 0; k < m->gpus[i].process_count; k++) {
			const struct monitor_process *p = &m->gpus[i].processes[k];

			text_table_addf(&t, "%u", i);
			text_table_addf(&t, "%u", p->pid);
			if (p->used_bytes == UINT64_MAX)
				text_table_add(&t, "-");
			else
				text_table_bytes(&t, p->used_bytes);
			text_table_safe(&t, *p->name ? p->name : "-");
		}
	}
	if (text_table_rows(&t)) {
		strbuf_addc(out, '\n');
		text_table_print(&t, 0, width, false, out);
	}
}

void monitor_table(const struct monitor *m, unsigned width, bool color, struct strbuf *out)
{
	/* On a narrow terminal columns are left out from the left. */
	static const struct text_column columns[] = {
		RIGHT("GPU"),
		OPTIONAL("name"),
		OPTIONAL_RIGHT("SMs active"),
		OPTIONAL_RIGHT("memory clock"),
		OPTIONAL_RIGHT("temp"),
		RIGHT("use"),
		OPTIONAL_RIGHT("SM clock"),
		OPTIONAL_RIGHT("memory"),
		OPTIONAL_RIGHT("power"),
		FLEXIBLE("throttled by, errors"),
	};
	struct text_table t = TEXT_TABLE_INIT(columns);
	_cleanup_strbuf_ struct strbuf host = STRBUF_INIT;

	for (unsigned i = 0; i < m->gpu_count; i++)
		add_gpu(&t, &m->gpus[i], i);
	if (m->gpu_count)
		text_table_print(&t, 0, width, color, out);
	text_table_release(&t);
	add_processes(out, m, width);
	if (m->gpu_count)
		strbuf_addc(out, '\n');
	add_host(&host, m);
	text_fold(out, strbuf_text(&host), 0, width);
}

/* --- lines --- */

/* Appends the current time as "12:34:56". */
static void add_time(struct strbuf *out)
{
	time_t now = time(NULL);
	char text[16] = "";
	struct tm tm;

	if (localtime_r(&now, &tm))
		strftime(text, sizeof(text), "%H:%M:%S", &tm);
	strbuf_adds(out, text);
}

void monitor_gpu_text(const struct monitor *m, unsigned i, struct strbuf *out)
{
	const struct monitor_gpu *g = &m->gpus[i];
	_cleanup_strbuf_ struct strbuf throttling = STRBUF_INIT;

	strbuf_addf(out, "GPU %u: use ", i);
	add_level(out, METRIC_gpu_utilization, GPU(g, utilization));
	strbuf_adds(out, ", memory ");
	add_memory(out, g);
	strbuf_adds(out, ", power ");
	add_power(out, g);
	strbuf_adds(out, ", SM clock ");
	add_level(out, METRIC_gpu_sm_clock, GPU(g, sm_clock));
	strbuf_adds(out, ", ");
	add_level(out, METRIC_gpu_temperature, GPU(g, temperature));
	add_throttling(&throttling, g);
	if (throttling.length)
		strbuf_addf(out, ", throttled by: %s", strbuf_text(&throttling));
}

void monitor_lines(const struct monitor *m, struct strbuf *out)
{
	for (unsigned i = 0; i < m->gpu_count; i++) {
		add_time(out);
		strbuf_addc(out, ' ');
		monitor_gpu_text(m, i, out);
		strbuf_addc(out, '\n');
	}
	add_time(out);
	strbuf_addc(out, ' ');
	add_host(out, m);
}

/* --- JSON --- */

#define PER_S "_per_s"
#define KEY_BYTES 64

static const char *rate_key(const char *name, char key[KEY_BYTES])
{
	size_t length = MIN(strlen(name), KEY_BYTES - sizeof(PER_S));

	memcpy(key, name, length);
	memcpy(key + length, PER_S, sizeof(PER_S));
	return key;
}

/* An event appears only in the line of its round. */
static void add_metric(struct json *j, uint32_t id, const struct monitor_reading *r,
		       uint64_t round_ns)
{
	const struct metric *m = metric_find(id);
	char key[KEY_BYTES];
	int64_t per_s;

	if (!r->time_ns || m->kind == METRIC_BITS ||
	    (m->kind == METRIC_EVENT && r->time_ns < round_ns))
		return;
	if (m->kind != METRIC_SUM) {
		json_key(j, m->name);
		json_fixed(j, r->value, m->decimals);
	} else if (monitor_rate(r, &per_s)) {
		json_key(j, rate_key(m->name, key));
		json_fixed(j, per_s, m->decimals);
	}
}

static void add_throttled(struct json *j, const struct monitor_reading *r)
{
	if (!r->time_ns)
		return;
	json_key_array(j, "throttled_by");
	for (unsigned bit = 0; bit < THROTTLE_REASONS; bit++)
		if (r->value >> bit & 1 && throttle_is_a_limit(bit))
			json_string(j, throttle_reason(bit));
	json_end(j);
}

static void gpu_json(const struct monitor *m, unsigned index, struct json *j)
{
	const struct monitor_gpu *g = &m->gpus[index];

	json_object(j);
	json_key_u64(j, "gpu", index);
	json_key_string(j, "name", g->is.name);
	json_key_string(j, "uuid", g->is.uuid);
	json_key_bool(j, "lost", g->device.lost);
	if (g->is.memory_bytes)
		json_key_u64(j, "memory_bytes", g->is.memory_bytes);
	for (uint32_t id = METRIC_GPU_FIRST; id < METRIC_GPU_END; id++)
		add_metric(j, id, &g->readings[id], m->round_ns);
	add_throttled(j, GPU(g, throttle_reasons));
	json_key_array(j, "processes");
	for (unsigned i = 0; i < g->process_count; i++) {
		const struct monitor_process *p = &g->processes[i];

		json_object(j);
		json_key_u64(j, "pid", p->pid);
		json_key_string(j, "name", *p->name ? p->name : NULL);
		if (p->used_bytes != UINT64_MAX)
			json_key_u64(j, "memory_bytes", p->used_bytes);
		json_end(j);
	}
	json_end(j);
	json_end(j);
}

static void host_json(struct json *j, const struct monitor *m)
{
	int64_t per_s;

	json_object(j);
	for (uint32_t id = METRIC_HOST_FIRST; id < METRIC_HOST_END; id++)
		add_metric(j, id, &m->host_readings[id], m->round_ns);
	json_key_array(j, "processors");
	for (uint32_t i = 0; i < MONITOR_CORES; i++) {
		if (!m->cores[i].time_ns)
			continue;
		json_object(j);
		json_key_u64(j, "processor", i);
		if (monitor_rate(&m->cores[i], &per_s)) {
			json_key(j, "busy_per_s");
			json_fixed(j, per_s, metric_find(METRIC_CORE_FIRST)->decimals);
		}
		json_end(j);
	}
	json_end(j);
	json_end(j);
}

void monitor_json_begin(const struct monitor *m, struct json *j)
{
	json_object(j);
	json_key_u64(j, "realtime_ns", clock_read_ns(CLOCK_REALTIME));
	json_key_u64(j, "monotonic_ns", clock_monotonic_ns());
	json_key_array(j, "gpus");
	for (unsigned i = 0; i < m->gpu_count; i++)
		gpu_json(m, i, j);
	json_end(j);
}

void monitor_json(const struct monitor *m, struct strbuf *out)
{
	struct json j = JSON_INIT(out);

	monitor_json_begin(m, &j);
	json_key(&j, "host");
	host_json(&j, m);
	json_finish(&j);
}
