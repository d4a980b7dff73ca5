/* section_launches.c: what launching cost the host, and how long work waited before it ran. */
#include "report/section.h"

#include "analysis/launches.h"
#include "base/human.h"

#define LAUNCHES(member) MEMBER(struct launches, member)

static const struct field thread_fields[] = {
	{ .key = "thread", .unit = UNIT_THREAD, MEMBER(struct launching_thread, process) },
	{ .key = "count", MEMBER(struct launching_thread, count) },
	{ .key = "total_ns", .unit = UNIT_NS, MEMBER(struct launching_thread, host_ns) },
};

static const struct field fields[] = {
	{ .key = "kernel_calls",
	  .head = "kernel launch call",
	  .unit = UNIT_STATS,
	  LAUNCHES(kernel_calls) },
	{ .key = "graph_calls",
	  .head = "graph launch call",
	  .unit = UNIT_STATS,
	  LAUNCHES(graph_calls) },
	{ .key = "queue_delay",
	  .head = "queued until the start",
	  .unit = UNIT_STATS,
	  LAUNCHES(delay) },
	{ .key = "started_in_call", LAUNCHES(in_call) },
	{ .key = "started_before_call", LAUNCHES(before_call) },
	{ .key = "kernels_without_call", LAUNCHES(unmatched) },
	{ .key = "failed", LAUNCHES(failed) },
	{ .key = "threads",
	  .unit = UNIT_LIST,
	  .list = &(const struct list){ ITEMS(struct launches, threads, thread_count),
					FIELDS(thread_fields) } },
};

static bool is_shown(const struct report_view *v)
{
	const struct launches *l = v->report->launches;

	return l->kernel_calls.count + l->graph_calls.count > 0;
}

/* ", 12 of something"; nothing for none. */
static void add_count(struct strbuf *line, uint64_t count, const char *text)
{
	if (!count)
		return;
	strbuf_adds(line, ", ");
	human_count(line, count);
	strbuf_addf(line, " %s", text);
}

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	const struct launches *l = v->report->launches;
	uint64_t calls = l->kernel_calls.count + l->graph_calls.count,
		 window = v->report->end_ns - v->report->start_ns;

	if (window)
		human_count(out, (uint64_t)((unsigned __int128)calls * 1000000000 / window));
	strbuf_adds(out, window ? "/s" : "");
	add_count(out, l->in_call, "started before the call returned");
	add_count(out, l->before_call, "before it began (clock error)");
	add_count(out, l->unmatched,
		  l->unmatched == 1 ? "kernel without a recorded call"
				    : "kernels without a recorded call");
	add_count(out, l->failed, "failed");
}

const struct section section_launches = {
	.key = "launches",
	.title = "launches",
	RESULT(launches),
	FIELDS(fields),
	.shown = is_shown,
	.remark = add_remark,
};
