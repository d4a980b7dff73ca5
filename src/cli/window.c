#include "cli/window.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/report.h"
#include "analysis/steps.h"
#include "base/human.h"
#include "cli/ui.h"

const char *const graph_choices[] = { "launch", "capture", NULL };

int window_resolve(const struct context *c, const struct trace *t, const struct window_options *w,
		   uint64_t *since_ns, uint64_t *until_ns)
{
	uint64_t start_ns, end_ns;

	trace_span(t, &start_ns, &end_ns);
	*since_ns = 0;
	*until_ns = UINT64_MAX;
	if (w->since_given && __builtin_add_overflow(start_ns, w->since_ns, since_ns))
		*since_ns = UINT64_MAX;
	if (w->until_given && __builtin_add_overflow(start_ns, w->until_ns, until_ns))
		*until_ns = UINT64_MAX;
	if (*since_ns >= *until_ns)
		return cli_usage(c, "--since must be before --until");
	if (w->since_given && *since_ns > end_ns) {
		_cleanup_strbuf_ struct strbuf span = STRBUF_INIT;

		human_duration(&span, end_ns - start_ns);
		cli_warn(c, "nothing begins after --since: the last event is at %s",
			 strbuf_text(&span));
	}
	return EXIT_DONE;
}

bool steps_parse(const char *text, uint64_t *first, uint64_t *last)
{
	char *end;

	*first = strtoull(text, &end, 10);
	*last = *first;
	if (end != text && !strncmp(end, "..", 2)) {
		text = end + 2;
		*last = strtoull(text, &end, 10);
	}
	return end != text && !*end && *first && *first <= *last;
}

/* The loop with most GPU work that has steps; NULL: none. */
static const struct step_loop *main_loop(const struct steps *s)
{
	const struct step_loop *best = NULL;

	for (size_t i = 0; i < s->loop_count; i++)
		if (s->loops[i].count && (!best || s->loops[i].work_ns > best->work_ns))
			best = &s->loops[i];
	return best;
}

int window_of_steps(const struct context *c, const struct report *whole, const char *text,
		    uint64_t *since_ns, uint64_t *until_ns)
{
	const struct steps *s = whole->steps;
	const struct step_loop *loop = main_loop(s);
	uint64_t first, last;

	if (*since_ns || *until_ns != UINT64_MAX)
		return cli_usage(c, "--step is a window of its own: leave out --since and --until");
	if (!steps_parse(text, &first, &last))
		return cli_usage(c, "--step takes a number, such as 17, or two, such as 17..19");
	if (!loop)
		return cli_usage(c, "--step: no steps were found: pitot report --steps says why");
	if (last > loop->count)
		return cli_usage(c, "--step: there is no step %" PRIu64 ": they are 1 to %zu", last,
				 loop->count);
	*since_ns = UINT64_MAX;
	*until_ns = 0;
	for (const struct step_loop *l = s->loops; l < s->loops + s->loop_count; l++) {
		if (l->source != loop->source || l->count < last)
			continue;
		*since_ns = MIN(*since_ns, s->items[l->first + first - 1].host_start_ns);
		*until_ns = MAX(*until_ns, s->items[l->first + last - 1].end_ns);
	}
	return EXIT_DONE;
}
