#include "record/program_work.h"

#include <errno.h>
#include <string.h>

#include "analysis/busy.h"
#include "analysis/groups.h"
#include "analysis/hotspots.h"
#include "analysis/last_words.h"
#include "analysis/launches.h"
#include "format/recording_dir.h"
#include "record/symbolize.h"
#include "report/text.h"
#include "report/words.h"

static char *take(struct strbuf *text)
{
	return text->failed ? NULL : strdup(strbuf_text(text));
}

static char *line_of(const struct report *r, uint32_t caller)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	if (caller != CALLER_NONE)
		report_line_text(r, caller, CALLER_NONE, &text);
	return take(&text);
}

/* --- kernels and lines --- */

static int add_kernels(const struct report *r, size_t top, struct program_work *out)
{
	for (size_t i = 0; i < MIN(r->hotspots->count, top); i++) {
		const struct hotspot *h = &r->hotspots->items[i];
		_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
		struct work_share share = { .count = h->time.count + h->untimed,
					    .total_ns = h->time.total_ns };

		if (h->config != TRACE_NO_ROW)
			report_kernel_text(r, h->config, false, &name);
		share.name = take(&name);
		share.line = line_of(r, h->caller_count ? h->callers[0].caller : CALLER_NONE);
		if (vec_push(&out->busiest, share) < 0 || !share.name || !share.line)
			return -ENOMEM;
	}
	return 0;
}

struct line {
	uint32_t caller;
	uint64_t count, total_ns;
};
ORDER(by_time, struct line, DOWN(total_ns) ?: UP(caller))

static int add_lines(const struct report *r, size_t top, struct program_work *out)
{
	GROUPS(struct line) lines = GROUPS_INIT;
	int rc = 0;

	for (size_t i = 0; i < r->hotspots->launched_count && rc == 0; i++) {
		const struct caller_share *s = &r->hotspots->launched[i].share;
		struct line *line;

		if (s->caller == CALLER_NONE || !s->count)
			continue;
		line = groups_at(&lines, s->caller, .caller = s->caller);
		rc = line ? 0 : -ENOMEM;
		if (!line)
			break;
		line->count += s->count;
		line->total_ns += s->total_ns;
	}
	vec_sort(&lines.items, by_time);
	for (size_t i = 0; i < MIN(lines.items.count, top) && rc == 0; i++) {
		const struct line *line = &lines.items.data[i];
		struct work_share share = { .name = line_of(r, line->caller),
					    .count = line->count,
					    .total_ns = line->total_ns };

		rc = share.name ? vec_push(&out->lines, share) : -ENOMEM;
	}
	groups_release(&lines);
	return rc;
}

/* --- waits --- */

/*
 * Only work whose launch is in the tail: whether older work has ended is shown by calls that the
 * tail may lack.
 */
static char *oldest_work(const struct report *r)
{
	const struct last_work *oldest = NULL;
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	for (size_t i = 0; i < r->last_words->works.count; i++) {
		const struct last_work *w = &r->last_words->works.data[i];

		if (w->launched_ns && (!oldest || w->launched_ns < oldest->launched_ns))
			oldest = w;
	}
	if (oldest) {
		report_work_text(r, oldest, &text);
		if (oldest->caller != CALLER_NONE) {
			strbuf_adds(&text, ", launched at ");
			report_line_text(r, oldest->caller, CALLER_NONE, &text);
		}
	}
	return take(&text);
}

static int add_wait(struct report *r, uint64_t row, struct program_work *out)
{
	const struct unfinished_columns *u = unfinished_columns(r->trace);
	struct caller_place place = { .caller = CALLER_NONE };
	struct work_wait wait = { .thread = u->thread[row],
				  .for_ns = u->time_ns[row] -
					    MIN(u->time_ns[row], u->start_ns[row]) };
	size_t length = 0;
	const char *name = calls_function_name(r->trace, u->function[row], &length);
	_cleanup_strbuf_ struct strbuf function = STRBUF_INIT;
	int rc = callers_place(&r->callers, trace_row_process(r->trace, TABLE_unfinished, row),
			       u->stack[row], &place);

	if (rc < 0)
		return rc;
	text_safe(&function, length ? name : "?", length ? length : 1);
	wait.function = take(&function);
	wait.line = line_of(r, place.caller);
	wait.work = wait.for_ns >= LAST_WORDS_AGE_NS ? oldest_work(r) : strdup("");
	return vec_push(&out->waits, wait) < 0 || !wait.function || !wait.line || !wait.work
		       ? -ENOMEM
		       : 0;
}

ORDER(by_age, struct work_wait, DOWN(for_ns))

static int add_waits(struct report *r, struct program_work *out)
{
	uint64_t rows = trace_rows(r->trace, TABLE_unfinished);
	int rc = 0;

	for (uint64_t row = 0; row < rows && rc == 0; row++)
		if (unfinished_columns(r->trace)->kind[row] == unfinished_kind_call)
			rc = add_wait(r, row, out);
	vec_sort(&out->waits, by_age);
	return rc;
}

/* --- all of it --- */

static int read_report(struct report *r, size_t top, struct program_work *out)
{
	int rc = 0;

	if (out->window_ns) {
		out->kernels = r->hotspots->kernels;
		out->launches = r->launches->kernel_calls.count + r->launches->graph_calls.count +
				r->launches->measured_calls.count;
		for (size_t i = 0; i < r->busy->count; i++)
			out->busy_ns = MAX(out->busy_ns, r->busy->gpus[i].union_ns);
		rc = add_kernels(r, top, out);
		if (rc == 0)
			rc = add_lines(r, top, out);
	}
	return rc == 0 ? add_waits(r, out) : rc;
}

static int read_folder(const char *folder, uint64_t end_ns, size_t top, struct program_work *out,
		       struct error *e)
{
	struct report_options options = {
		.filter = FILTER_ALL, .callers_of = top, .now = true, .threads = 1
	};
	const struct trace_options none = { 0 };
	struct trace *trace = NULL;
	struct report report;
	int rc = trace_open(folder, &none, &trace, e);

	if (end_ns && end_ns + WORK_STALE_NS > clock_monotonic_ns()) {
		options.filter.since_ns = end_ns - MIN(end_ns, WORK_WINDOW_NS);
		options.filter.until_ns = end_ns;
	}
	if (rc >= 0)
		rc = report_init(&report, trace, &options, e);
	if (rc >= 0) {
		if (options.filter.since_ns)
			out->window_ns = report.end_ns - report.start_ns;
		rc = read_report(&report, top, out);
		report_release(&report);
	}
	trace_free(trace);
	return rc < 0 ? rc : 0;
}

int program_work_read(struct live_tail *t, size_t top, struct program_work *out, struct error *e)
{
	_cleanup_free_ char *folder = symbolize_make_temporary(e);
	_cleanup_close_ int fd = folder ? folder_open(folder, FOLDER_OWN) : -1;
	struct folder_id id = { 0 };
	uint64_t end_ns = 0;
	int rc = folder ? folder_identify(fd, &id) : e->code;

	*out = (struct program_work){ .knows_waits = t->memory >= 0 };
	if (rc >= 0)
		rc = live_tail_copy(t, WORK_WINDOW_NS, folder, &id, &end_ns, e);
	if (rc >= 0)
		rc = read_folder(folder, end_ns, top, out, e);
	if (folder)
		(void)!recording_dir_remove(folder, &id, NULL);
	return rc;
}

static void release_shares(struct work_share *shares, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(shares[i].name);
		free(shares[i].line);
	}
	free(shares);
}

void program_work_release(struct program_work *w)
{
	release_shares(w->busiest.data, w->busiest.count);
	release_shares(w->lines.data, w->lines.count);
	for (size_t i = 0; i < w->waits.count; i++) {
		free(w->waits.data[i].function);
		free(w->waits.data[i].line);
		free(w->waits.data[i].work);
	}
	vec_release(&w->waits);
	*w = (struct program_work){ 0 };
}

void work_wait_json(const struct work_wait *w, struct json *j)
{
	json_object(j);
	json_key_u64(j, "thread", w->thread);
	json_key_string(j, "function", w->function);
	json_key_u64(j, "for_ns", w->for_ns);
	json_key_string(j, "line", *w->line ? w->line : NULL);
	json_key_string(j, "work", *w->work ? w->work : NULL);
	json_end(j);
}
