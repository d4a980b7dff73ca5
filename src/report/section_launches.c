/* section_launches.c: host time of launch calls, and queue delay. */
#include "report/section.h"

#include "analysis/launches.h"
#include "base/clock.h"
#include "report/words.h"

#define LAUNCHES(member) MEMBER(struct launches, member)

static const struct field thread_fields[] = {
	FIELD("thread", NULL, THREAD, MEMBER(struct launching_thread, process)),
	FIELD("count", NULL, COUNT, MEMBER(struct launching_thread, count)),
	FIELD("total_ns", NULL, NS, MEMBER(struct launching_thread, host_ns)),
};

static const struct field fields[] = {
	FIELD("kernel_calls", "kernel launch call", STATS, LAUNCHES(kernel_calls)),
	FIELD("graph_calls", "graph launch call", STATS, LAUNCHES(graph_calls)),
	FIELD("measured_calls", "launch call measured by Pitot", STATS, LAUNCHES(measured_calls)),
	FIELD("queue_delay", "queue delay", STATS, LAUNCHES(delay)),
	FIELD("started_in_call", NULL, COUNT, LAUNCHES(in_call)),
	FIELD("started_before_call", NULL, COUNT, LAUNCHES(before_call)),
	FIELD("kernels_without_call", NULL, COUNT, LAUNCHES(unmatched)),
	FIELD("failed", NULL, COUNT, LAUNCHES(failed)),
	LIST("threads", ITEMS(struct launches, threads, thread_count), thread_fields),
};

static bool is_shown(const struct report_view *v)
{
	const struct launches *l = v->report->launches;

	return l->kernel_calls.count + l->graph_calls.count + l->measured_calls.count + l->failed >
	       0;
}

/* Appends ", 12 text"; nothing for 0. */
static void add_count(struct strbuf *out, uint64_t count, const char *text)
{
	if (count)
		sentence_add(out, WORDS(", "), NUMBER(count), WORDS(" "), WORDS(text));
}

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	const struct launches *l = v->report->launches;
	uint64_t calls = l->kernel_calls.count + l->graph_calls.count + l->measured_calls.count,
		 window = v->report->end_ns - v->report->start_ns;

	if (window)
		sentence_add(out, NUMBER((unsigned __int128)calls * NS_PER_S / window),
			     WORDS("/s"));
	add_count(out, l->in_call, "started before the call returned");
	add_count(out, l->before_call, "started before the call began (clock error)");
	if (l->unmatched)
		sentence_add(out, WORDS(", "), COUNTED_AS(l->unmatched, "kernel"),
			     WORDS(" without a recorded call"));
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
