/* section_header.c: what was recorded, when, and what of it is shown. */
#include "report/section.h"

#include <string.h>
#include <time.h>

#include "analysis/main_process.h"
#include "base/clock.h"
#include "base/human.h"
#include "report/words.h"

/* "2026-01-01 00:00:00 UTC" of a CLOCK_MONOTONIC time. */
static void add_date(const struct report *r, uint64_t time_ns, struct strbuf *out)
{
	time_t seconds = (time_t)(trace_unix_ns(r->trace, time_ns) / (int64_t)NS_PER_S);
	char text[64];
	struct tm tm;

	if (gmtime_r(&seconds, &tm) && strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &tm))
		strbuf_adds(out, text);
}

static void print(const struct report_view *v)
{
	const struct report *r = v->report;
	const struct trace_process *p = main_process(r->trace);
	const struct filter *f = &r->options.filter;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	uint64_t start_ns = r->span_start_ns;

	if (p)
		text_safe(&line, p->command, strlen(p->command));
	text_shorten(&line, v->width);
	style_add(v->out, v->color, STYLE_BOLD, line.length ? strbuf_text(&line) : v->path);
	strbuf_addc(v->out, '\n');
	strbuf_clear(&line);
	if (p && *p->host) {
		text_safe(&line, p->host, strlen(p->host));
		strbuf_adds(&line, ", ");
	}
	add_date(r, start_ns, &line);
	strbuf_adds(&line, ", ");
	human_duration(&line, r->span_end_ns - start_ns);
	strbuf_addf(&line, ", %zu process%s, ", report_process_count(r),
		    report_process_count(r) == 1 ? "" : "es");
	human_count(&line, trace_rows(r->trace, TABLE_kernel));
	strbuf_adds(&line, " kernels");
	if (r->selection.windowed) {
		strbuf_adds(&line, "; here from ");
		human_duration(&line, r->start_ns - start_ns);
		strbuf_adds(&line, " to ");
		human_duration(&line, r->end_ns - start_ns);
	}
	report_choice_text(f, &line);
	text_fold(v->out, strbuf_text(&line), 0, v->width);
}

/* Whether a sampler outside wrote about the process. */
static bool is_sampled(const struct trace *t, size_t process)
{
	for (size_t i = 0; i < trace_process_count(t); i++)
		if (trace_process(t, i)->of == process && trace_process(t, i)->sampler)
			return true;
	return false;
}

static void write_json(struct report_view *v)
{
	const struct trace *t = v->report->trace;

	json_key_string(&v->json, "recording", v->path);
	json_key_i64(&v->json, "start_unix_ns", trace_unix_ns(t, v->report->span_start_ns));
	json_key_u64(&v->json, "duration_ns", v->report->span_end_ns - v->report->span_start_ns);
	report_json_object(v, "window");
	report_json_time(v, "start_ns", v->report->start_ns);
	report_json_time(v, "end_ns", v->report->end_ns);
	json_end(&v->json);
	report_json_list(v, "processes");
	for (size_t i = 0; i < trace_process_count(t); i++) {
		const struct trace_process *p = trace_process(t, i);

		if (p->of != i)
			continue;
		json_object(&v->json);
		json_key_u64(&v->json, "pid", p->pid);
		json_key_u64(&v->json, "parent_pid", p->parent_pid);
		json_key_string(&v->json, "command", p->command);
		json_key_string(&v->json, "host", p->host);
		json_key_bool(&v->json, "recorded", p->inside && !p->sampler);
		json_key_bool(&v->json, "sampled", is_sampled(t, i));
		json_end(&v->json);
	}
	json_end(&v->json);
}

const struct section section_header = { .text = print, .json = write_json };
