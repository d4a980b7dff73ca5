#include "cli/window.h"

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
