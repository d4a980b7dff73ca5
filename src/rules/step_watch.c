#include "rules/step_watch.h"

#define THREADS_MAX 1024u

static struct step_thread *thread_at(struct step_watch *w, uint32_t thread)
{
	struct step_thread new = { .thread = thread };

	for (size_t i = 0; i < w->threads.count; i++)
		if (w->threads.data[i].thread == thread)
			return &w->threads.data[i];
	if (w->threads.count >= THREADS_MAX || vec_push(&w->threads, new) < 0)
		return NULL;
	return &w->threads.data[w->threads.count - 1];
}

/* Whichever thread ends it. */
static struct step_thread *thread_of(const struct step_watch *w, uint64_t key)
{
	for (size_t i = 0; i < w->threads.count; i++)
		if (w->threads.data[i].is_open && w->threads.data[i].key == key)
			return &w->threads.data[i];
	return NULL;
}

static void ends(struct step_thread *t, uint64_t time_ns)
{
	struct whole_step step = { t->open_ns, time_ns };

	t->is_open = false;
	if (time_ns >= t->open_ns && t->steps.count < STEPS_MAX && vec_push(&t->steps, step) == 0)
		t->total_ns += time_ns - t->open_ns;
}

void step_watch_add(struct step_watch *w, const struct fact *f)
{
	struct step_thread *t;

	if (f->kind == FACT_CLOSES) {
		t = thread_of(w, f->value);
		if (t)
			ends(t, f->time_ns);
	} else if (f->kind == FACT_OPENS) {
		t = thread_of(w, f->value);
		if (t) /* its end is not recorded */
			t->is_open = false;
		if (!(f->rules & w->rules) || f->time_ns < w->since_ns)
			return;
		t = thread_at(w, f->thread);
		if (!t || t->is_open)
			return;
		t->is_open = true;
		t->key = f->value;
		t->open_ns = f->time_ns;
	}
}

static uint64_t total_of(const struct step_thread *t, uint64_t now_ns)
{
	return t->total_ns + (t->is_open && now_ns > t->open_ns ? now_ns - t->open_ns : 0);
}

const struct step_thread *step_watch_find(const struct step_watch *w, size_t wanted, bool at_end,
					  uint64_t now_ns)
{
	const struct step_thread *best = NULL;

	for (size_t i = 0; i < w->threads.count; i++) {
		const struct step_thread *t = &w->threads.data[i];
		bool is_whole = t->steps.count >= wanted,
		     best_is = best && best->steps.count >= wanted;

		if (at_end && (!t->steps.count || (best_is && !is_whole)))
			continue;
		if (!best || (at_end && is_whole && !best_is) ||
		    total_of(t, now_ns) > total_of(best, now_ns))
			best = t;
	}
	return best && (at_end || best->steps.count >= wanted) ? best : NULL;
}

uint64_t step_watch_open(const struct step_watch *w)
{
	uint64_t open_ns = 0;

	for (size_t i = 0; i < w->threads.count; i++)
		if (w->threads.data[i].is_open &&
		    (!open_ns || w->threads.data[i].open_ns < open_ns))
			open_ns = w->threads.data[i].open_ns;
	return open_ns;
}

void step_watch_release(struct step_watch *w)
{
	for (size_t i = 0; i < w->threads.count; i++)
		vec_release(&w->threads.data[i].steps);
	vec_release(&w->threads);
}
