#include "agent/agent_metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/io.h"
#include "base/json.h"

#define LIVE_SEARCHES 2u /* a program has its metrics for so many searches after its end */

static void head(struct strbuf *out, const char *name, const char *type, const char *help)
{
	strbuf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void add_seconds(struct strbuf *out, uint64_t ns)
{
	strbuf_addf(out, " %" PRIu64 ".%09" PRIu64 "\n", ns / NS_PER_S, ns % NS_PER_S);
}

static void add_count(struct strbuf *out, const char *name, const char *labels, uint64_t value)
{
	strbuf_addf(out, "%s%s %" PRIu64 "\n", name, labels, value);
}

/* Appends a value of a label: any bytes, as UTF-8. */
static void add_label(struct strbuf *out, const char *name, const char *value)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	strbuf_add_utf8(&text, value, strlen(value));
	strbuf_addf(out, "%s=\"", name);
	for (const char *c = strbuf_text(&text); *c; c++) {
		if (*c == '\n')
			strbuf_adds(out, "\\n");
		else if (*c == '"' || *c == '\\')
			strbuf_addf(out, "\\%c", *c);
		else
			strbuf_addc(out, *c);
	}
	strbuf_adds(out, "\"");
	out->failed |= text.failed;
}

/* --- programs --- */

/* A program has one set of labels, whatever others say that their session is. */
static bool is_shown(const struct sources *s, size_t i)
{
	const struct source *source = s->all.data[i];

	if (!source->identity.host || source->used + LIVE_SEARCHES < s->searches)
		return false;
	for (size_t k = 0; k < i; k++)
		if (s->all.data[k]->session == source->session)
			return false;
	return true;
}

static void add_labels(struct strbuf *out, const struct source *s)
{
	strbuf_addc(out, '{');
	if (*s->identity.job) {
		add_label(out, "job_id", s->identity.job);
		strbuf_addc(out, ',');
	}
	if (s->identity.rank != TRACE_NO_RANK)
		strbuf_addf(out, "rank=\"%" PRIu32 "\",", s->identity.rank);
	strbuf_addf(out, "pid=\"%" PRIu32 "\",session=\"%016" PRIx64 "\"", s->pid, s->session);
}

static void add_work(const struct sources *s, struct strbuf *out, bool is_time)
{
	const char *name = is_time ? "pitot_gpu_work_seconds_total" : "pitot_gpu_work_total";

	head(out, name, "counter",
	     is_time ? "Sum of the durations of GPU work." : "Pieces of GPU work, by kind.");
	for (size_t i = 0; i < s->all.count; i++) {
		const struct source *source = s->all.data[i];

		for (size_t k = 0; k < GPU_WORK_KINDS && is_shown(s, i); k++) {
			if (!source->work.count[k])
				continue;
			strbuf_adds(out, name);
			add_labels(out, source);
			strbuf_addf(out, ",kind=\"%s\"}", schema_gpu_work[k]->name);
			if (is_time)
				add_seconds(out, source->work.total_ns[k]);
			else
				strbuf_addf(out, " %" PRIu64 "\n", source->work.count[k]);
		}
	}
}

static void add_busy(const struct sources *s, struct strbuf *out)
{
	static const char name[] = "pitot_gpu_busy_seconds_total";

	head(out, name, "counter", "Time in which work of the program ran on a GPU.");
	for (size_t i = 0; i < s->all.count; i++) {
		const struct source *source = s->all.data[i];

		for (size_t k = 0; k < source->work.devices.count && is_shown(s, i); k++) {
			strbuf_adds(out, name);
			add_labels(out, source);
			strbuf_addf(out, ",gpu=\"%" PRIu32 "\"}",
				    source->work.devices.data[k].device);
			add_seconds(out, source->work.devices.data[k].busy_ns);
		}
	}
}

static void add_histogram(const struct source *s, const char *name, struct strbuf *out)
{
	char limit[JSON_DOUBLE_BYTES];
	uint64_t count = 0;

	for (size_t k = 0; k <= STEP_BUCKETS; k++) {
		count += s->work.step_buckets[k];
		strbuf_addf(out, "%s_bucket", name);
		add_labels(out, s);
		json_double_text(limit, (double)step_buckets_ns[MIN(k, STEP_BUCKETS - 1)] / 1e9);
		if (k < STEP_BUCKETS)
			strbuf_addf(out, ",le=\"%s\"}", limit);
		else
			strbuf_adds(out, ",le=\"+Inf\"}");
		strbuf_addf(out, " %" PRIu64 "\n", count);
	}
	strbuf_addf(out, "%s_sum", name);
	add_labels(out, s);
	strbuf_addc(out, '}');
	add_seconds(out, s->work.steps_ns);
	strbuf_addf(out, "%s_count", name);
	add_labels(out, s);
	strbuf_addf(out, "} %" PRIu64 "\n", count);
}

static void add_steps(const struct sources *s, struct strbuf *out)
{
	static const char name[] = "pitot_step_duration_seconds";

	head(out, name, "histogram", "Durations of steps: ranges that are named like one.");
	for (size_t i = 0; i < s->all.count; i++)
		if (is_shown(s, i))
			add_histogram(s->all.data[i], name, out);
}

/* --- the agent --- */

static void add_process(struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct rusage usage = { 0 };
	unsigned long long pages = 0;

	getrusage(RUSAGE_SELF, &usage);
	head(out, "process_cpu_seconds_total", "counter", "CPU time of the agent.");
	strbuf_adds(out, "process_cpu_seconds_total");
	add_seconds(out,
		    (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * NS_PER_S +
			    (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000);
	if (io_read_text("/proc/self/statm", 256, &text) < 0 ||
	    sscanf(strbuf_text(&text), "%*u %llu", &pages) != 1)
		return;
	head(out, "process_resident_memory_bytes", "gauge", "Resident memory of the agent.");
	add_count(out, "process_resident_memory_bytes", "",
		  pages * (uint64_t)sysconf(_SC_PAGESIZE));
}

static void add_agent(const struct agent *a, struct strbuf *out)
{
	const struct {
		const char *name, *type, *help;
		uint64_t value;
	} values[] = {
		{ "pitot_agent_objects_total", "counter", "Objects shipped into the lake.",
		  a->counts.objects },
		{ "pitot_agent_kafka_objects_total", "counter",
		  "Files of rows that Kafka has confirmed.", a->counts.kafka_objects },
		{ "pitot_agent_windows_total", "counter", "Windows shipped into the lake.",
		  a->counts.windows },
		{ "pitot_agent_windows_failed_total", "counter", "Windows that could not be made.",
		  a->windows ? windows_counts(a->windows)->failed : 0 },
		{ "pitot_agent_dropped_rows_total", "counter",
		  "Rows of objects that the spool had no room for.", a->counts.dropped_rows },
		{ "pitot_agent_failures_total", "counter",
		  "Failures to write into the spool or the lake.", a->counts.failures },
		{ "pitot_agent_spool_bytes", "gauge", "Objects that wait in the spool.",
		  a->spool.bytes },
		{ "pitot_agent_spool_objects", "gauge", "Objects that wait in the spool.",
		  a->spool.objects.count },
	};
	uint64_t live = 0;

	for (size_t i = 0; i < a->sources.all.count; i++)
		live += a->sources.all.data[i]->is_live;
	head(out, "pitot_agent_recordings", "gauge", "Processes that are being recorded.");
	add_count(out, "pitot_agent_recordings", "", live);
	head(out, "pitot_agent_rows_total", "counter", "Rows of objects, by table.");
	for (enum fleet_table t = 0; t < FLEET_TABLE_COUNT; t++)
		strbuf_addf(out, "pitot_agent_rows_total{table=\"%s\"} %" PRIu64 "\n",
			    fleet_schemas[t].name, a->counts.rows[t]);
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		head(out, values[i].name, values[i].type, values[i].help);
		add_count(out, values[i].name, "", values[i].value);
	}
}

void agent_metrics_render(const struct agent *a, struct strbuf *out)
{
	add_work(&a->sources, out, false);
	add_work(&a->sources, out, true);
	add_busy(&a->sources, out);
	add_steps(&a->sources, out);
	add_agent(a, out);
	add_process(out);
}
