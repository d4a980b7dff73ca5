#include "cli/record_run.h"

#include <string.h>

#include "base/clock.h"
#include "base/io.h"
#include "cli/record_attach.h"
#include "cli/record_follow.h"
#include "cli/ui.h"

#define LOOK_MS 100
#define LIVE_NS NS_PER_S

static void on_end(void *user, pid_t pid, int status)
{
	struct recording *r = user;

	watch_ended(r->watch, pid, status);
}

static bool may_show_live_line(const struct context *c)
{
	/* A background job would be stopped by writing, or write over what another program shows. */
	return !c->quiet && !c->json && isatty(STDERR_FILENO) &&
	       tcgetpgrp(STDERR_FILENO) == getpgrp();
}

static void show_live_line(const struct recording *r, struct follow *follow)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	struct follow_state state;
	unsigned width = terminal_width(STDERR_FILENO);

	follow_step(follow, &state);
	strbuf_adds(&line, "\r");
	strbuf_adds(&line, style_begin(r->context->color_errors, STYLE_DIM));
	follow_line(&state, clock_monotonic_ns() - r->spawn.start_ns, width > 1 ? width - 1 : 1,
		    &line);
	strbuf_adds(&line, style_begin(r->context->color_errors, STYLE_NONE));
	/* The cursor goes back, so that what the command prints takes the line's place. */
	strbuf_adds(&line, "\033[K\r");
	if (!line.failed)
		io_write_all(STDERR_FILENO, line.data, line.length);
}

void record_run(struct recording *r)
{
	struct follow *follow = may_show_live_line(r->context) ? follow_new(r->directory) : NULL;
	uint64_t shown_ns = r->spawn.start_ns, now;
	bool shown = false;

	while (spawn_wait(&r->spawn, LOOK_MS, on_end, r)) {
		if (record_attach_is_over(r))
			break;
		if (watch_look(r->watch, false))
			record_threads_look(&r->threads);
		now = clock_monotonic_ns();
		if (now - shown_ns < LIVE_NS)
			continue;
		shown_ns = now;
		writer_flush(r->writer);
		if (follow && may_show_live_line(r->context)) {
			show_live_line(r, follow);
			shown = true;
		}
	}
	watch_look(r->watch, true);
	if (shown)
		io_write_all(STDERR_FILENO, "\r\033[K", strlen("\r\033[K"));
	follow_free(follow);
}
