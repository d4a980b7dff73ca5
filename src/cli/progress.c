/* progress.c: a progress bar on stderr. */
#include <stdio.h>

#include "base/clock.h"
#include "cli/ui.h"

#define SHOW_AFTER_NS NS_PER_S
#define SHOW_EVERY_NS (100 * NS_PER_MS)
#define BAR_COLUMNS 30

void progress_start(struct progress *p, const struct context *c, const char *what)
{
	*p = (struct progress){
		.context = c,
		.what = what,
		.start_ns = clock_monotonic_ns(),
		.enabled = !c->quiet && isatty(STDERR_FILENO),
	};
}

void progress_update(void *user, uint64_t done, uint64_t total)
{
	struct progress *p = user;
	uint64_t now;
	unsigned filled;

	if (!p->enabled || !total)
		return;
	now = clock_monotonic_ns();
	if (now - p->start_ns < SHOW_AFTER_NS || now - p->shown_ns < SHOW_EVERY_NS)
		return;
	p->shown_ns = now;
	p->shown = true;
	done = MIN(done, total);
	filled = (unsigned)((double)done / (double)total * BAR_COLUMNS);
	fprintf(stderr, "\r%s [%.*s%*s] %3u%%", p->what, (int)filled,
		"==============================", (int)(BAR_COLUMNS - filled), "",
		(unsigned)((double)done / (double)total * 100));
	if (done && done < total) /* at the speed so far */
		fprintf(stderr, ", %.0f s left",
			(double)(now - p->start_ns) / NS_PER_S * (double)(total - done) /
				(double)done);
	fputs("\033[K", stderr);
}

void progress_end(struct progress *p)
{
	if (p->shown)
		fputs("\r\033[K", stderr);
	p->shown = false;
	p->enabled = false;
}
