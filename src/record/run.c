/* run.c: while the command runs. */
#include "base/clock.h"
#include "record/recording.h"

#define SCAN_MS 100
#define TICK_NS NS_PER_S

static void on_end(void *user, pid_t pid, int status)
{
	struct recording *r = user;

	process_tree_ended(r->tree, pid, status);
}

/* Whether the window has closed on an attached process. */
static bool is_window_over(struct recording *r)
{
	uint64_t now = clock_monotonic_ns();

	if (!r->request->given.pid || !r->cpu.end_ns || now < r->cpu.end_ns)
		return false;
	r->spawn.end_ns = now;
	return true;
}

void record_run(struct recording *r)
{
	uint64_t tick_ns = r->spawn.start_ns, now;

	while (spawn_wait(&r->spawn, SCAN_MS, on_end, r)) {
		if (is_window_over(r))
			break;
		if (process_tree_scan(r->tree, false))
			thread_names_read(&r->threads);
		now = clock_monotonic_ns();
		if (now - tick_ns < TICK_NS)
			continue;
		tick_ns = now;
		writer_flush(r->writer);
		if (r->listener.tick)
			r->listener.tick(r->listener.user, r->directory, now - r->spawn.start_ns);
	}
	process_tree_scan(r->tree, true);
}
