/*
 * rule_ranks.c: ranks for which the others wait.
 *
 * A collective's kernel begins when its rank has come, and ends when all have. Parts with one key
 * are one collective; when those of all processes that use its communicator here have ended, it is
 * known who came last, and by how much later than the one before: that long all others waited for
 * this rank alone. Ranks of other machines are not seen: they may be later still, or wait, too.
 */
#include "base/human.h"
#include "rules/rule_watch_state.h"

#define MEETINGS_MAX ((size_t)1 << 16) /* beyond it all are forgotten */
#define LATE_MIN 5 /* collectives: one late arrival may be a checkpoint */
#define STRETCH_NS (10 * NS_PER_S) /* over which it is judged without `for` */

static void forget_meetings(struct rule_watch *w)
{
	map_clear(&w->meeting_of);
	w->meetings.count = 0;
	for (size_t i = 0; i < w->processes.count; i++)
		map_clear(&w->processes.data[i].parts);
}

static void add_member(struct rule_watch *w, uint32_t process, uint32_t communicator)
{
	uint64_t *known = map_at(&w->members, (uint64_t)communicator << 32 | process, 0);
	uint64_t *count = known && !*known ? map_at(&w->member_count, communicator, 0) : NULL;

	if (!count)
		return;
	*known = 1;
	++*count;
}

void watch_part_begins(struct rule_watch *w, struct watched *p, const struct fact *f)
{
	struct meeting new = { .communicator = f->thread };
	uint64_t *at;

	if (!w->of[RULE_OF_STRAGGLER] || !f->other_ns)
		return;
	if (w->meetings.count >= MEETINGS_MAX || p->parts.count >= MEETINGS_MAX)
		forget_meetings(w);
	add_member(w, watched_number(w, p), f->thread);
	at = map_at(&w->meeting_of, f->other_ns, w->meetings.count);
	if (at && *at == w->meetings.count && vec_push(&w->meetings, new) < 0)
		(void)!map_remove(&w->meeting_of, f->other_ns, &(uint64_t){ 0 });
	else if (at)
		(void)!map_put(&p->parts, f->value, f->other_ns);
}

/* All parts have ended, the last one now. */
static void all_came(struct rule_watch *w, const struct meeting *m, uint64_t now)
{
	uint64_t waited_ns = m->last_ns - m->before_ns;
	struct fact f = { .process = m->last };

	FOR_EACH_RULE (i, w->of[RULE_OF_STRAGGLER]) {
		struct state *s = watch_state(w, i, &f);
		uint64_t part_ns = now - MIN(now, m->last_ns);

		if (!s)
			continue;
		if (!s->since_ns)
			s->since_ns = now - MIN(now, part_ns + waited_ns);
		s->held_ns += MIN(waited_ns, now - s->since_ns);
		s->last++;
	}
}

void watch_part_ends(struct rule_watch *w, struct watched *p, const struct fact *f)
{
	uint64_t key, at, members = 0, came_ns = f->other_ns;
	struct meeting *m;

	if (!map_remove(&p->parts, f->value, &key) || !map_get(&w->meeting_of, key, &at))
		return;
	m = &w->meetings.data[at];
	if (!m->parts || came_ns >= m->last_ns) {
		m->before_ns = m->parts ? m->last_ns : came_ns;
		m->last_ns = came_ns;
		m->last = watched_number(w, p);
	} else {
		m->before_ns = m->parts == 1 ? came_ns : MAX(m->before_ns, came_ns);
	}
	m->parts++;
	(void)!map_get(&w->member_count, m->communicator, &members);
	if (m->parts < members || members < 2)
		return;
	all_came(w, m, f->time_ns);
	(void)!map_remove(&w->meeting_of, key, &(uint64_t){ 0 });
	if (!w->meeting_of.count)
		w->meetings.count = 0;
}

void watch_check_stragglers(struct rule_watch *w, struct watched *p, uint64_t now)
{
	struct fact f = { .process = watched_number(w, p) };

	FOR_EACH_RULE (i, w->of[RULE_OF_STRAGGLER]) {
		const struct rule *rule = &w->rules[i];
		struct state *s = watch_state(w, i, &f);
		uint64_t length_ns = rule->for_ns ? rule->for_ns : STRETCH_NS;
		_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
		double percent;

		if (!s || !s->since_ns || now - MIN(now, s->since_ns) < length_ns)
			continue;
		percent = 100 * (double)s->held_ns / (double)(now - s->since_ns);
		strbuf_addf(&text, "%.1f%% of ", percent);
		human_duration(&text, now - s->since_ns);
		strbuf_addf(&text, " the others waited for it, in %.0f collectives", s->last);
		if (s->last >= LATE_MIN && !p->has_ended && !p->is_unknown &&
		    stretch_fires(s, rule, percent))
			watch_fire(w, i, p, now, &text);
		s->since_ns = s->held_ns = 0;
		s->last = 0;
	}
}
