/* rule_rates.c: how busy GPUs are, for how long they are idle, and how often processes launch. */
#include "base/human.h"
#include "base/plural.h"
#include "rules/rule_watch_state.h"

#define WINDOW_NS NS_PER_S
#define WINDOWS_MAX 1000u /* that are looked at after a pause */

/* The start of the first second that is looked at. Times may be near 2^64. */
static uint64_t first_second(uint64_t start_ns, uint64_t now)
{
	return now > WINDOWS_MAX * WINDOW_NS ? MAX(start_ns, now - WINDOWS_MAX * WINDOW_NS)
					     : start_ns;
}

void watch_check_idle(struct rule_watch *w, struct watched *p, size_t device, uint64_t now)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct watched_gpu *gpu = &p->gpus.data[device];

	if (!gpu->busy_until_ns || p->has_ended || p->is_unknown)
		return;
	FOR_EACH_RULE (i, w->of[RULE_OF_IDLE] & ~gpu->fired) {
		uint64_t limit = (uint64_t)w->rules[i].value, seen_ns = watched_until(p, now);

		if (seen_ns - MIN(gpu->busy_until_ns, seen_ns) <= limit)
			continue;
		gpu->fired |= UINT32_C(1) << i;
		strbuf_clear(&text);
		strbuf_addf(&text, "GPU %zu has had no work for ", device);
		human_duration(&text, limit);
		watch_fire(w, i, p, gpu->busy_until_ns + limit, &text);
	}
}

static void judge_second(struct rule_watch *w, struct watched *p, size_t device, double percent,
			 uint64_t end_ns)
{
	struct fact f = { .process = watched_number(w, p), .instance = (uint32_t)device };

	FOR_EACH_RULE (i, w->of[RULE_OF_BUSY]) {
		const struct rule *rule = &w->rules[i];
		struct state *s = watch_state(w, i, &f);
		bool is_low = rule->op == RULE_LESS || rule->op == RULE_AT_MOST;

		if (!s || !level_fires(s, rule, percent, end_ns))
			continue;
		/* A program that never used the GPU as much is not slow. */
		if (is_low && !s->was_away)
			s->has_fired = false;
		else
			watch_fire_text(w, i, p, end_ns, "GPU %zu was busy %.1f%% of a second",
					device, percent);
	}
}

void watch_check_busy(struct rule_watch *w, struct watched *p, size_t device, uint64_t now)
{
	struct watched_gpu *gpu = &p->gpus.data[device];
	const struct launch *oldest = launch_list_oldest(&p->launches);

	now = watched_until(p, now);
	if (oldest)
		now = MIN(now, oldest->time_ns);
	if (!w->of[RULE_OF_BUSY] || !gpu->second_ns || p->has_ended || p->is_unknown)
		return;
	gpu->second_ns = first_second(gpu->second_ns, now);
	while (now > gpu->second_ns && now - gpu->second_ns >= WINDOW_NS) {
		uint64_t end_ns = gpu->second_ns + WINDOW_NS;
		uint64_t busy_ns = busy_time_take(&gpu->busy, gpu->second_ns, end_ns);

		gpu->second_ns = end_ns;
		judge_second(w, p, device, 100 * (double)busy_ns / (double)WINDOW_NS, end_ns);
	}
}

static void add_busy(struct rule_watch *w, struct watched *p, struct watched_gpu *gpu,
		     const struct fact *f)
{
	if (!w->of[RULE_OF_BUSY])
		return;
	gpu->second_ns = gpu->second_ns ? gpu->second_ns : f->time_ns;
	if (f->other_ns > f->time_ns && busy_time_add(&gpu->busy, f->time_ns, f->other_ns) < 0)
		p->is_unknown = true;
}

void watch_work_begins(struct rule_watch *w, struct watched *p, const struct fact *f)
{
	const struct launch *oldest = launch_list_oldest(&p->launches);
	struct watched_gpu *gpu;

	while (p->gpus.count <= f->instance && f->instance < 4096)
		if (vec_push(&p->gpus, ((struct watched_gpu){ 0 })) < 0)
			return;
	if (f->instance >= p->gpus.count)
		return;
	gpu = &p->gpus.data[f->instance];
	/* What was launched before the pause may have run in it without an end until now. */
	if (!oldest || oldest->time_ns > gpu->busy_until_ns)
		watch_check_idle(w, p, f->instance, f->time_ns);
	if (f->other_ns > gpu->busy_until_ns) {
		gpu->busy_until_ns = f->other_ns;
		gpu->fired = 0;
	}
	add_busy(w, p, gpu, f);
}

void watch_check_rate(struct rule_watch *w, struct watched *p, uint64_t now)
{
	struct fact f = { .process = watched_number(w, p) };

	now = watched_until(p, now);
	if (p->window_ns)
		p->window_ns = first_second(p->window_ns, now);
	while (p->window_ns && !p->has_ended && now > p->window_ns &&
	       now - p->window_ns >= WINDOW_NS) {
		uint64_t end_ns = p->window_ns + WINDOW_NS;

		FOR_EACH_RULE (i, w->of[RULE_OF_RATE]) {
			struct state *s = watch_state(w, i, &f);

			if (s && level_fires(s, &w->rules[i], (double)p->launched, end_ns)) {
				/* A program that never launched as much is not slow. */
				if (s->was_away || w->rules[i].op == RULE_GREATER ||
				    w->rules[i].op == RULE_AT_LEAST)
					watch_fire_text(w, i, p, end_ns,
							"%llu launch%s in a second",
							(unsigned long long)p->launched,
							plural_es(p->launched));
				else
					s->has_fired = false;
			}
		}
		p->launched = 0;
		p->window_ns = end_ns;
		if (!w->of[RULE_OF_RATE])
			p->window_ns = now;
	}
}

/* Moments that have passed unseen are left out. */
void watch_check_timers(struct rule_watch *w, uint64_t now)
{
	FOR_EACH_RULE (i, w->of[RULE_OF_TIMER]) {
		struct state *s = watch_state(w, i, &(struct fact){ 0 });
		uint64_t period_ns = (uint64_t)w->rules[i].value, passed_ns;

		if (!s)
			continue;
		s->last_ns = s->has_last ? s->last_ns : now;
		s->has_last = true;
		passed_ns = now - MIN(now, s->last_ns);
		if (passed_ns < period_ns)
			continue;
		s->last_ns += passed_ns - passed_ns % period_ns;
		watch_fire_text(w, i, NULL, s->last_ns, "the time has passed");
	}
}
