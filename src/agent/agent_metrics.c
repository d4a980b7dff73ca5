#include "agent/agent_metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include "agent/metric_writer.h"
#include "base/clock.h"
#include "base/io.h"

#define LIVE_SEARCHES 2u /* a program has its metrics for so many searches after its end */

static const struct metric_labels no_labels = { .count = 0 };

static void add_label(struct metric_labels *l, const char *name, const char *value)
{
	l->items[l->count].name = name;
	l->items[l->count++].value = value;
}

static void write_one(struct metric_writer *w, const struct metric *metric, uint64_t value)
{
	w->begin(w, metric);
	w->value(w, &no_labels, value);
	w->end(w);
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

/* Labels of a program, and room for their texts. */
struct program_labels {
	struct metric_labels labels;
	char rank[16], pid[16], session[24];
};

static void label_program(struct program_labels *p, const struct source *s)
{
	*p = (struct program_labels){ .labels.count = 0 };
	snprintf(p->rank, sizeof(p->rank), "%" PRIu32, s->identity.rank);
	snprintf(p->pid, sizeof(p->pid), "%" PRIu32, s->pid);
	snprintf(p->session, sizeof(p->session), "%016" PRIx64, s->session);
	if (*s->identity.job)
		add_label(&p->labels, "job_id", s->identity.job);
	if (s->identity.rank != TRACE_NO_RANK)
		add_label(&p->labels, "rank", p->rank);
	add_label(&p->labels, "pid", p->pid);
	add_label(&p->labels, "session", p->session);
}

static void add_work(struct metric_writer *w, const struct metric_labels *l, const uint64_t *values,
		     const struct source *s)
{
	for (size_t k = 0; k < GPU_WORK_KINDS; k++) {
		struct metric_labels labels = *l;

		if (!s->work.count[k])
			continue;
		add_label(&labels, "kind", schema_gpu_work[k]->name);
		w->value(w, &labels, values[k]);
	}
}

static void add_counts(struct metric_writer *w, const struct metric_labels *l,
		       const struct source *s)
{
	add_work(w, l, s->work.count, s);
}

static void add_times(struct metric_writer *w, const struct metric_labels *l,
		      const struct source *s)
{
	add_work(w, l, s->work.total_ns, s);
}

static void add_busy(struct metric_writer *w, const struct metric_labels *l, const struct source *s)
{
	for (size_t k = 0; k < s->work.devices.count; k++) {
		struct metric_labels labels = *l;
		char gpu[16];

		snprintf(gpu, sizeof(gpu), "%" PRIu32, s->work.devices.data[k].device);
		add_label(&labels, "gpu", gpu);
		w->value(w, &labels, s->work.devices.data[k].busy_ns);
	}
}

static void add_steps(struct metric_writer *w, const struct metric_labels *l,
		      const struct source *s)
{
	w->histogram(w, l,
		     &(struct metric_histogram){ .limits_ns = step_buckets_ns,
						 .counts = s->work.step_buckets,
						 .limits = STEP_BUCKETS,
						 .sum_ns = s->work.steps_ns });
}

static void add_windows(struct metric_writer *w, const struct metric_labels *l,
			const struct source *s)
{
	w->counted(w, l, s->windows, &(struct metric_exemplar){ s->last_window, s->window_ns });
}

static void write_programs(const struct sources *s, struct metric_writer *w)
{
	static const struct {
		struct metric metric;
		void (*add)(struct metric_writer *w, const struct metric_labels *l,
			    const struct source *s);
	} metrics[] = {
		{ { "pitot_gpu_work_total", METRIC_COUNTER, "1", "Pieces of GPU work, by kind.",
		    false },
		  add_counts },
		{ { "pitot_gpu_work_seconds_total", METRIC_COUNTER, "s",
		    "Sum of the durations of GPU work.", true },
		  add_times },
		{ { "pitot_gpu_busy_seconds_total", METRIC_COUNTER, "s",
		    "Time in which work of the program ran on a GPU.", true },
		  add_busy },
		{ { "pitot_step_duration_seconds", METRIC_HISTOGRAM, "s",
		    "Durations of steps: ranges that are named like one.", true },
		  add_steps },
		{ { "pitot_windows_total", METRIC_COUNTER, "1",
		    "Windows that rules have made of the program; the exemplar is the last one.",
		    false },
		  add_windows },
	};

	for (size_t m = 0; m < ARRAY_SIZE(metrics); m++) {
		w->begin(w, &metrics[m].metric);
		for (size_t i = 0; i < s->all.count; i++) {
			struct program_labels p;

			if (!is_shown(s, i))
				continue;
			label_program(&p, s->all.data[i]);
			metrics[m].add(w, &p.labels, s->all.data[i]);
		}
		w->end(w);
	}
}

/* --- the agent --- */

static void write_process(struct metric_writer *w)
{
	static const struct metric cpu = { "process_cpu_seconds_total", METRIC_COUNTER, "s",
					   "CPU time of the agent.", true };
	static const struct metric memory = { "process_resident_memory_bytes", METRIC_GAUGE, "By",
					      "Resident memory of the agent.", false };
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct rusage usage = { 0 };
	unsigned long long pages = 0;

	getrusage(RUSAGE_SELF, &usage);
	write_one(w, &cpu,
		  (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * NS_PER_S +
			  (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000);
	if (io_read_text("/proc/self/statm", 256, &text) < 0 ||
	    sscanf(strbuf_text(&text), "%*u %llu", &pages) != 1)
		return;
	write_one(w, &memory, pages * (uint64_t)sysconf(_SC_PAGESIZE));
}

static void write_agent(const struct agent *a, struct metric_writer *w)
{
	static const struct metric recordings = { "pitot_agent_recordings", METRIC_GAUGE, "1",
						  "Processes that are being recorded.", false };
	static const struct metric rows = { "pitot_agent_rows_total", METRIC_COUNTER, "1",
					    "Rows of objects, by table.", false };
	const struct {
		struct metric metric;
		uint64_t value;
	} values[] = {
		{ { "pitot_agent_objects_total", METRIC_COUNTER, "1",
		    "Objects shipped into the lake.", false },
		  a->counts.objects },
		{ { "pitot_agent_kafka_objects_total", METRIC_COUNTER, "1",
		    "Files of rows that Kafka has confirmed.", false },
		  a->counts.kafka_objects },
		{ { "pitot_agent_profiles_total", METRIC_COUNTER, "1",
		    "Profiles sent to a server of profiles.", false },
		  a->counts.profiles },
		{ { "pitot_agent_windows_total", METRIC_COUNTER, "1",
		    "Windows shipped into the lake.", false },
		  a->counts.windows },
		{ { "pitot_agent_gpufl_windows_total", METRIC_COUNTER, "1",
		    "Windows sent to gpufl's backend.", false },
		  a->counts.gpufl_windows },
		{ { "pitot_agent_windows_failed_total", METRIC_COUNTER, "1",
		    "Windows that could not be made.", false },
		  a->windows ? windows_counts(a->windows)->failed : 0 },
		{ { "pitot_agent_dropped_rows_total", METRIC_COUNTER, "1",
		    "Rows of objects that the spool had no room for.", false },
		  a->counts.dropped_rows },
		{ { "pitot_agent_failures_total", METRIC_COUNTER, "1",
		    "Failures to write into the spool or to ship.", false },
		  a->counts.failures },
		{ { "pitot_agent_spool_bytes", METRIC_GAUGE, "By",
		    "Objects that wait in the spool.", false },
		  a->spool.bytes },
		{ { "pitot_agent_spool_objects", METRIC_GAUGE, "1",
		    "Objects that wait in the spool.", false },
		  a->spool.objects.count },
	};
	uint64_t live = 0;

	for (size_t i = 0; i < a->sources.all.count; i++)
		live += a->sources.all.data[i]->is_live;
	write_one(w, &recordings, live);
	w->begin(w, &rows);
	for (enum fleet_table t = 0; t < FLEET_TABLE_COUNT; t++) {
		struct metric_labels labels = { .count = 0 };

		add_label(&labels, "table", fleet_schemas[t].name);
		w->value(w, &labels, a->counts.rows[t]);
	}
	w->end(w);
	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		write_one(w, &values[i].metric, values[i].value);
}

static void write_all(const struct agent *a, struct metric_writer *w)
{
	write_programs(&a->sources, w);
	write_agent(a, w);
	write_process(w);
}

const char *agent_metrics_render(const struct agent *a, const char *accept, struct strbuf *out)
{
	bool is_open_metrics = accept && strstr(accept, "application/openmetrics-text");
	struct metric_writer w;

	metric_writer_init_text(&w, is_open_metrics, out);
	write_all(a, &w);
	metric_writer_finish_text(&w);
	return is_open_metrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
			       : "text/plain; version=0.0.4; charset=utf-8";
}

void agent_metrics_render_otlp(const struct agent *a, const char *service, struct strbuf *out)
{
	struct metric_writer w;
	uint64_t now_ns = clock_read_ns(CLOCK_REALTIME);
	struct utsname names = { .nodename = "" };

	uname(&names);
	metric_writer_init_otlp(&w, service, names.nodename, a->begun_ns, MAX(now_ns, a->begun_ns),
				out);
	write_all(a, &w);
	metric_writer_finish_otlp(&w);
}
