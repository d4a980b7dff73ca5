/* section_idle_lines.c: which lines of the program ran while the GPU was idle. */
#include "report/section.h"

#include "analysis/idle_lines.h"
#include "report/words.h"

static bool sampled(const struct report_view *v)
{
	return v->report->idle_lines->source == IDLE_SOURCE_SAMPLES;
}

/*
 * Time in gaps without samples, in which the thread was off the CPU, if that was not recorded: the
 * rest of the gaps, if it is more than three standard deviations of the sampled time. Else 0.
 */
static uint64_t unsampled_ns(const struct idle_lines *l)
{
	double rest = (double)l->gaps_ns - (double)l->sampled_ns, found = (double)l->sampled_ns;

	if (l->source != IDLE_SOURCE_SAMPLES || l->off_cpu_ns || rest <= 0 ||
	    rest * rest * (double)l->samples <= 9 * found * found)
		return 0;
	return l->gaps_ns - l->sampled_ns;
}

static const char *off_cpu_head(const struct report_view *v)
{
	return v->report->idle_lines->off_cpu_ns && sampled(v) ? "off the CPU" : NULL;
}

static const char *count_head(const struct report_view *v)
{
	return sampled(v) ? "samples" : "gaps";
}

static const char *line_head(const struct report_view *v)
{
	return sampled(v) ? "launching thread was at" : "next launch came from";
}

static const char *source_name(unsigned source)
{
	static const char *const names[] = {
		[IDLE_SOURCE_NONE] = "none",
		[IDLE_SOURCE_SAMPLES] = "samples",
		[IDLE_SOURCE_LAUNCHES] = "launches",
	};

	return names[source];
}

#define LINE(member) MEMBER(struct idle_line, member)

static const struct field line_fields[] = {
	FIELD(NULL, "share", SHARE, LINE(ns), WHOLE(struct idle_lines, whole_ns)),
	FIELD("total_ns", "time", NS, LINE(ns)),
	FIELD("off_cpu_ns", NULL, NS, .head_of = off_cpu_head, LINE(off_cpu_ns),
	      COUNTED(struct idle_line, off_cpu_ns)),
	FIELD("count", NULL, COUNT, .head_of = count_head, LINE(count)),
	FIELD("caller", NULL, PATH, .head_of = line_head, LINE(caller), FLEXIBLE_COLUMN),
};

#define ALL(member) MEMBER(struct idle_lines, member)

static const struct field fields[] = {
	FIELD("source", NULL, CHOICE, ALL(source), .names = source_name),
	FIELD("gaps", NULL, COUNT, ALL(gaps)),
	FIELD("gaps_ns", NULL, NS, ALL(gaps_ns)),
	FIELD("samples", NULL, COUNT, ALL(samples)),
	FIELD("sampled_ns", NULL, NS, ALL(sampled_ns)),
	FIELD("off_cpu_ns", NULL, NS, ALL(off_cpu_ns)),
	LIST("items", ITEMS(struct idle_lines, items, count), line_fields, .half = true),
};

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	const struct idle_lines *l = v->report->idle_lines;

	sentence_add(out, DURATION(l->gaps_ns), WORDS(" in "), COUNTED_AS(l->gaps, "gap"),
		     WORDS(" between work"));
}

static void add_unsampled(const struct report_view *v, struct strbuf *out)
{
	uint64_t ns = unsampled_ns(v->report->idle_lines);

	if (ns)
		sentence_add(out, PERCENT(ns, v->report->idle_lines->whole_ns), WORDS(", "),
			     DURATION(ns), WORDS(" without samples: the thread was off the CPU\n"));
}

const struct section section_idle_lines = {
	.key = "idle_lines",
	.title = "GPU idle by line",
	RESULT(idle_lines),
	FIELDS(fields),
	.remark = add_remark,
	.after = add_unsampled,
};
