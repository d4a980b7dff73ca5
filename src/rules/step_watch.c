#include "rules/step_watch.h"

#define THREADS_MAX 1024u

static struct step_thread *thread_at(struct step_watch *w, const struct fact *f)
{
	struct step_thread new = { .thread = f->thread,
				   .instance = f->instance,
				   .is_scope = f->is_scope };

	for (size_t i = 0; i < w->threads.count; i++)
		if (w->threads.data[i].thread == f->thread)
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

static void ends(struct step_watch *w, struct step_thread *t, uint64_t time_ns)
{
	struct whole_step step = { t->open_ns, time_ns };

	t->is_open = false;
	if (time_ns < t->open_ns || t->open_ns < w->since_ns)
		return;
	t->total_ns += time_ns - t->open_ns;
	if (++t->seen < w->first || t->steps.count >= w->wanted || vec_push(&t->steps, step) < 0)
		return;
	t->last_call = w->last_call;
	t->work_until_ns = w->work_until_ns;
}

void step_watch_add(struct step_watch *w, const struct fact *f)
{
	struct step_thread *t;

	if (f->kind == FACT_CLOSES) {
		t = thread_of(w, f->value);
		if (t)
			ends(w, t, f->time_ns);
	} else if (f->kind == FACT_OPENS) {
		t = thread_of(w, f->value);
		if (t) /* its end is not recorded */
			t->is_open = false;
		if (!(f->rules & w->rules))
			return;
		t = thread_at(w, f);
		if (!t || t->is_open)
			return;
		t->is_open = true;
		t->key = f->value;
		t->open_ns = f->time_ns;
	}
}

void step_watch_work(struct step_watch *w, uint64_t correlation, uint64_t end_ns)
{
	w->work_until_ns = MAX(w->work_until_ns, end_ns);
	for (size_t i = 0; i < w->threads.count; i++)
		if (correlation <= w->threads.data[i].last_call)
			w->threads.data[i].work_until_ns =
				MAX(w->threads.data[i].work_until_ns, end_ns);
}

static uint64_t total_of(const struct step_thread *t, uint64_t now_ns)
{
	return t->total_ns + (t->is_open && now_ns > t->open_ns ? now_ns - t->open_ns : 0);
}

static bool is_whole(const struct step_watch *w, const struct step_thread *t)
{
	return t && t->steps.count >= w->wanted;
}

const struct step_thread *step_watch_main(const struct step_watch *w, uint64_t known_ns)
{
	const struct step_thread *best = NULL;

	for (size_t i = 0; i < w->threads.count; i++) {
		const struct step_thread *t = &w->threads.data[i];

		if (!best || total_of(t, known_ns) > total_of(best, known_ns))
			best = t;
	}
	return best;
}

const struct step_thread *step_watch_find(const struct step_watch *w, bool at_end,
					  uint64_t known_ns)
{
	const struct step_thread *best = step_watch_main(w, known_ns);

	if (!at_end)
		return is_whole(w, best) && known_ns >= best->steps.data[w->wanted - 1].end_ns +
								STEPS_JUDGED_NS
			       ? best
			       : NULL;
	if (w->first)
		return best && best->steps.count ? best : NULL;
	best = NULL;
	for (size_t i = 0; i < w->threads.count; i++) {
		const struct step_thread *t = &w->threads.data[i];
		bool is_better =
			is_whole(w, t) != is_whole(w, best)
				? is_whole(w, t)
				: !best || total_of(t, known_ns) > total_of(best, known_ns);

		if (is_better && t->steps.count)
			best = t;
	}
	return best;
}

bool step_watch_has_begun(const struct step_watch *w)
{
	for (size_t i = 0; i < w->threads.count; i++) {
		const struct step_thread *t = &w->threads.data[i];

		if (t->steps.count || (t->is_open && t->seen + 1 >= w->first))
			return true;
	}
	return false;
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
