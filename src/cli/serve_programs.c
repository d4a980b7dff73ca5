/* serve_programs.c: what `pitot top --json` prints, in `pitot serve`. */
#include "cli/serve_views.h"
#include "cli/top_view.h"

#define TOP 5 /* kernels and lines of a program */

int serve_programs(struct strbuf *out, struct error *e)
{
	static struct monitor monitor = MONITOR_INIT;
	static struct programs programs = PROGRAMS_INIT;
	static bool is_open;
	const struct top_view view = { .filter = "" };
	int rc = is_open ? 0 : monitor_open(&monitor, e);

	if (rc < 0)
		return rc;
	is_open = true;
	programs.top = TOP;
	monitor_read(&monitor);
	rc = programs_read(&programs, &monitor, e);
	if (rc >= 0)
		top_json(&programs, top_sort_programs(&view, &programs), &monitor, out);
	return rc;
}
