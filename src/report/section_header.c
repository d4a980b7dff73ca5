/* section_header.c: what was recorded and when, and which part of it is shown. */
#include "report/section.h"

#include <string.h>
#include <time.h>

#include "analysis/capabilities.h"
#include "analysis/main_process.h"
#include "base/clock.h"
#include "base/plural.h"
#include "report/words.h"

/* Appends a CLOCK_MONOTONIC time as "2026-01-01 00:00:00 UTC". */
static void add_date(const struct report *r, uint64_t time_ns, struct strbuf *out)
{
	time_t seconds = (time_t)(trace_unix_ns(r->trace, time_ns) / (int64_t)NS_PER_S);
	char text[64];
	struct tm tm;

	if (gmtime_r(&seconds, &tm) && strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &tm))
		strbuf_adds(out, text);
}

#define ABSENT_SHOWN 8

/* The processes are in order of rank. */
void report_absent_ranks(const struct trace *t, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf list = STRBUF_INIT;
	uint32_t next = 0, world = 0, absent = 0, end;

	for (size_t i = 0; i < trace_process_count(t); i++) {
		const struct trace_process *p = trace_process(t, i);

		if (p->rank != TRACE_NO_RANK && p->world_size != TRACE_NO_RANK)
			world = MAX(world, p->world_size);
	}
	for (size_t i = 0; i <= trace_process_count(t); i++) {
		const struct trace_process *p =
			i < trace_process_count(t) ? trace_process(t, i) : NULL;
		uint32_t rank = p ? p->rank : world;

		if (rank == TRACE_NO_RANK || (p && (!p->inside || p->sampler)))
			continue;
		end = MIN(rank, world);
		for (; next < end && absent < ABSENT_SHOWN; next++, absent++)
			strbuf_addf(&list, "%s%u", list.length ? ", " : "", next);
		absent += end - MIN(next, end);
		next = MAX(next, rank + 1);
	}
	if (absent > ABSENT_SHOWN)
		strbuf_addf(out, "; %u of %u %s were not recorded", absent, world,
			    plural_of(world, "rank", "ranks"));
	else if (absent)
		strbuf_addf(out, "; %s %s of %u %s not recorded",
			    plural_of(absent, "rank", "ranks"), strbuf_text(&list), world,
			    plural_of(absent, "was", "were"));
}

#define HOSTS_SHOWN 4

void report_unaligned_hosts(const struct trace *t, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf list = STRBUF_INIT;
	uint32_t boot_ids[HOSTS_SHOWN], count = 0;

	for (size_t i = 0; i < trace_process_count(t) && count < HOSTS_SHOWN; i++) {
		const struct trace_process *p = trace_process(t, i);
		bool known = !p->inside || !trace_is_unaligned(t, i);

		for (uint32_t k = 0; k < count && !known; k++)
			known = boot_ids[k] == p->boot_id;
		if (known)
			continue;
		boot_ids[count++] = p->boot_id;
		strbuf_adds(&list, list.length ? ", " : "");
		text_safe(&list, *p->host ? p->host : "a host", *p->host ? strlen(p->host) : 6);
	}
	if (count)
		strbuf_addf(
			out,
			"; times of %s%s are on no common clock, because CLOCK_REALTIME was not "
			"set or not recorded there",
			strbuf_text(&list), count == HOSTS_SHOWN ? " and perhaps others" : "");
}

static void print(const struct report_view *v)
{
	const struct report *r = v->report;
	const struct trace_process *p = main_process(r->trace);
	const struct filter *f = &r->options.filter;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	uint64_t start_ns = r->span_start_ns;
	uint32_t rank;

	if (p && *capability_app_name(r->trace, p)) {
		text_safe(&line, capability_app_name(r->trace, p),
			  strlen(capability_app_name(r->trace, p)));
		strbuf_adds(&line, ": ");
	}
	if (p)
		text_safe(&line, p->command, strlen(p->command));
	text_shorten(&line, v->width);
	report_heading(v, line.length ? strbuf_text(&line) : v->path);
	strbuf_clear(&line);
	if (p && *p->host) {
		text_safe(&line, p->host, strlen(p->host));
		strbuf_adds(&line, ", ");
	}
	add_date(r, start_ns, &line);
	sentence_add(&line, WORDS(", "), DURATION(r->span_end_ns - start_ns), WORDS(", "),
		     COUNTED_AS(report_process_count(r), "process"), WORDS(", "));
	if (r->no_gpu->cpu_only)
		strbuf_adds(&line, "CPU only");
	else
		sentence_add(&line, COUNTED_AS(trace_rows(r->trace, TABLE_kernel), "kernel"));
	if (r->recorded_end_ns - r->recorded_start_ns < r->span_end_ns - start_ns)
		sentence_add(&line, WORDS("; recorded only from "),
			     DURATION(r->recorded_start_ns - start_ns), WORDS(" to "),
			     DURATION(r->recorded_end_ns - start_ns));
	if (r->selection.windowed)
		sentence_add(&line, WORDS("; window from "), DURATION(r->start_ns - start_ns),
			     WORDS(" to "), DURATION(r->end_ns - start_ns));
	if (trace_only_rank(r->trace, &rank))
		strbuf_addf(&line, "; rank %u only", rank);
	else
		report_absent_ranks(r->trace, &line);
	report_unaligned_hosts(r->trace, &line);
	report_choice_text(f, &line);
	report_paragraph(v, 0, strbuf_text(&line));
}

static const void *find_process(const struct report_view *v, const void *row, size_t i)
{
	(void)row;
	return i < trace_process_count(v->report->trace) ? trace_process(v->report->trace, i)
							 : NULL;
}

/* A sampler's view of a process is not listed separately. */
ROW_IF(is_view, struct trace_process, trace_process(v->report->trace, row->subject) != row)

ROW_READ(read_recorded, struct trace_process, out->n = row->inside && !row->sampler)

/* Whether the process was sampled from outside. */
static void read_sampled(const struct report_view *v, const void *row, struct value *out)
{
	const struct trace *t = v->report->trace;

	for (size_t i = 0; i < trace_process_count(t); i++)
		out->n |= trace_process(t, trace_process(t, i)->subject) == row &&
			  trace_process(t, i)->sampler;
}

ROW_READ(read_name, struct trace_process,
	 strbuf_adds(&out->text, capability_app_name(v->report->trace, row)))

static bool is_unaligned(const struct report_view *v, const void *row)
{
	const struct trace *t = v->report->trace;
	const struct trace_process *p = row;

	return p->inside && trace_is_unaligned(t, (size_t)(p - trace_process(t, 0)));
}

ROW_READ(read_unaligned, void, out->n = is_unaligned(v, row))
ROW_IF(has_rank, struct trace_process, row->rank != TRACE_NO_RANK)
ROW_IF(has_local_rank, struct trace_process, row->local_rank != TRACE_NO_RANK)
ROW_IF(has_world_size, struct trace_process, row->world_size != TRACE_NO_RANK)
ROW_IF(has_node_rank, struct trace_process, row->node_rank != TRACE_NO_RANK)
ROW_IF(has_job, struct trace_process, *row->job != 0)

#define PROCESS(member) MEMBER(struct trace_process, member)

static const struct field process_fields[] = {
	FIELD("pid", NULL, ID, PROCESS(pid)),
	FIELD("parent_pid", NULL, ID, PROCESS(parent_pid)),
	FIELD("name", NULL, TEXT, .value = read_name),
	FIELD("command", NULL, TEXT, PROCESS(command)),
	FIELD("host", NULL, TEXT, PROCESS(host)),
	FIELD("unaligned", NULL, FLAG, .value = read_unaligned, .when = is_unaligned),
	FIELD("rank", NULL, ID, PROCESS(rank), .when = has_rank),
	FIELD("local_rank", NULL, ID, PROCESS(local_rank), .when = has_local_rank),
	FIELD("world_size", NULL, COUNT, PROCESS(world_size), .when = has_world_size),
	FIELD("node_rank", NULL, ID, PROCESS(node_rank), .when = has_node_rank),
	FIELD("job", NULL, TEXT, PROCESS(job), .when = has_job),
	FIELD("recorded", NULL, FLAG, .value = read_recorded),
	FIELD("sampled", NULL, FLAG, .value = read_sampled),
};

static const struct field window_fields[] = {
	FIELD("start_ns", NULL, TIME, MEMBER(struct report, start_ns)),
	FIELD("end_ns", NULL, TIME, MEMBER(struct report, end_ns)),
};

ROW_READ(read_path, void, strbuf_adds(&out->text, v->path))
ROW_READ(read_start, void,
	 out->n = (uint64_t)trace_unix_ns(v->report->trace, v->report->span_start_ns))

static const struct field fields[] = {
	FIELD("recording", NULL, TEXT, .value = read_path),
	FIELD("start_unix_ns", NULL, UNIX, .value = read_start),
	FIELD("duration_ns", NULL, TIME, MEMBER(struct report, span_end_ns)),
	OBJECT("window", window_fields),
	LIST("processes", .item = find_process, process_fields, .all = true, .hidden = is_view),
};

const struct section section_header = { .whole_report = true, FIELDS(fields), .text = print };
