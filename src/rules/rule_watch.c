#include "rules/rule_watch_state.h"

#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/failures.h"
#include "base/human.h"
#include "base/plural.h"
#include "system/throttle.h"

#define HISTORY_MIN 20u
#define EXCESS_MIN_NS ((double)(10 * NS_PER_MS))
#define NEAR 0.1 /* part of the limit by which a value must leave it */
#define TICK_NS (100 * NS_PER_MS)
#define OPEN_MAX ((size_t)1 << 20)
#define THROTTLE_NS (10 * NS_PER_S) /* over which it is judged without `for` */
#define GROWTH_NS (60 * NS_PER_S) /* the same of memory's growth */
#define READINGS_APART_NS (5 * NS_PER_S) /* between them nothing is known */

/* The rules of a kind, as bits. */
static uint32_t rules_of_family(const struct rule *rules, unsigned count, enum rule_family family)
{
	uint32_t bits = 0;

	for (unsigned i = 0; i < count; i++)
		if (rule_metrics[rules[i].metric].family == family)
			bits |= UINT32_C(1) << i;
	return bits;
}

struct rule_watch *rule_watch_new(const struct rule *rules, unsigned count, rule_fired *fired,
				  void *user)
{
	struct rule_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->rules = rules;
	w->count = MIN(count, RULES_MAX);
	w->fired = fired;
	w->user = user;
	for (unsigned family = 0; family < ARRAY_SIZE(w->of); family++)
		w->of[family] = rules_of_family(rules, w->count, (enum rule_family)family);
	return w;
}

void rule_watch_free(struct rule_watch *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->processes.count; i++) {
		struct watched *p = &w->processes.data[i];

		for (size_t gpu = 0; gpu < p->gpus.count; gpu++)
			busy_time_release(&p->gpus.data[gpu].busy);
		vec_release(&p->gpus);
		launch_list_release(&p->launches);
		map_release(&p->collectives);
		map_release(&p->parts);
	}
	vec_release(&w->processes);
	vec_release(&w->states);
	vec_release(&w->histories);
	vec_release(&w->open);
	vec_release(&w->free_open);
	map_release(&w->number_of);
	map_release(&w->state_of);
	map_release(&w->open_of);
	map_release(&w->meeting_of);
	vec_release(&w->meetings);
	map_release(&w->members);
	map_release(&w->member_count);
	free(w);
}

int64_t rule_watch_process(struct rule_watch *w, uint64_t session, uint32_t pid)
{
	uint64_t *number = map_at(&w->number_of, session, w->processes.count);

	if (!number)
		return -ENOMEM;
	if (*number == w->processes.count &&
	    vec_push(&w->processes, ((struct watched){ .pid = pid, .writer_pid = pid })) < 0) {
		(void)!map_remove(&w->number_of, session, &(uint64_t){ 0 });
		return -ENOMEM;
	}
	return (int64_t)*number;
}

void rule_watch_writer(struct rule_watch *w, uint32_t process, uint32_t pid)
{
	w->processes.data[process].writer_pid = pid;
}

/* --- firing --- */

void watch_fire(struct rule_watch *w, unsigned rule, struct watched *p, uint64_t time_ns,
		const struct strbuf *evidence)
{
	struct rule_firing firing = { .rule = rule, .time_ns = time_ns };
	bool is_fault = rule_metrics[w->rules[rule].metric].is_fault;

	if (p) {
		firing.pid = p->pid;
		firing.process = (uint32_t)(p - w->processes.data);
		firing.follows = is_fault && p->is_faulty;
		p->is_faulty |= is_fault;
	}
	snprintf(firing.evidence, sizeof(firing.evidence), "%s", strbuf_text(evidence));
	w->fired(w->user, &firing);
}

void watch_fire_text(struct rule_watch *w, unsigned rule, struct watched *p, uint64_t time_ns,
		     const char *format, ...)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	va_list arguments;

	va_start(arguments, format);
	strbuf_vaddf(&text, format, arguments);
	va_end(arguments);
	watch_fire(w, rule, p, time_ns, &text);
}

struct state *watch_state(struct rule_watch *w, unsigned rule, const struct fact *f)
{
	uint64_t key =
		(uint64_t)f->process << 26 | (uint64_t)(f->instance & ((1u << 20) - 1)) << 6 | rule;
	uint64_t *at = map_at(&w->state_of, key, w->states.count);

	if (!at)
		return NULL;
	if (*at == w->states.count && vec_push(&w->states, ((struct state){ 0 })) < 0) {
		(void)!map_remove(&w->state_of, key, &(uint64_t){ 0 });
		return NULL;
	}
	return &w->states.data[*at];
}

/* Whether a value for which the rule does not hold is away from the limit. */
static bool is_away(const struct rule *rule, double value)
{
	double margin = fabs(rule->value) * NEAR;

	switch (rule->op) {
	case RULE_GREATER:
	case RULE_AT_LEAST:
		return value <= rule->value - margin;
	case RULE_LESS:
	case RULE_AT_MOST:
		return value >= rule->value + margin;
	default:
		return true;
	}
}

bool level_fires(struct state *s, const struct rule *rule, double value, uint64_t time_ns)
{
	if (!rule_compares(rule, value, rule->value)) {
		s->since_ns = 0;
		if (is_away(rule, value)) {
			s->has_fired = false;
			s->was_away = true;
		}
		return false;
	}
	s->since_ns = s->since_ns ? MIN(s->since_ns, time_ns) : time_ns;
	if (s->has_fired || time_ns - s->since_ns < rule->for_ns)
		return false;
	s->has_fired = true;
	return true;
}

bool stretch_fires(struct state *s, const struct rule *rule, double value)
{
	if (is_away(rule, value))
		s->has_fired = false;
	if (s->has_fired || !rule_compares(rule, value, rule->value))
		return false;
	return s->has_fired = true;
}

/* --- hangs and collectives --- */

uint32_t watched_number(const struct rule_watch *w, const struct watched *p)
{
	return (uint32_t)(p - w->processes.data);
}

uint64_t watched_until(const struct watched *p, uint64_t now)
{
	return p->seen_until_ns ? MIN(p->seen_until_ns, now) : now;
}

static void forget_launches(struct watched *p)
{
	launch_list_forget(&p->launches);
	map_clear(&p->collectives);
}

static void launched(struct watched *p, const struct fact *f)
{
	if (p->captures)
		return;
	if (!launch_list_oldest(&p->launches))
		p->progress_ns = MAX(p->progress_ns, f->time_ns);
	launch_list_add(&p->launches, f->value, f->time_ns);
}

static void work_ended(struct watched *p, const struct fact *f)
{
	launch_list_end(&p->launches, f->value, f->time_ns);
	(void)!map_remove(&p->collectives, f->value, &(uint64_t){ 0 });
}

/* It lived until then, whatever its last row is. */
static void lived_until(struct watched *p, uint64_t time_ns)
{
	if (p->seen_until_ns)
		p->seen_until_ns = MAX(p->seen_until_ns, time_ns);
}

/*
 * A collective is known to run, or to wait for other ranks, once all that was launched before it
 * has ended.
 */
static void check_collective(struct rule_watch *w, struct watched *p, uint64_t now)
{
	const struct launch *oldest = launch_list_oldest(&p->launches);
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	uint64_t since_ns;

	if (!oldest || !map_get(&p->collectives, oldest->correlation, &(uint64_t){ 0 }))
		return;
	since_ns = MAX(oldest->time_ns, p->launches.front_ns);
	FOR_EACH_RULE (i, w->of[RULE_OF_COLLECTIVE]) {
		struct state *s =
			watch_state(w, i, &(struct fact){ .process = watched_number(w, p) });
		uint64_t limit = (uint64_t)w->rules[i].value;

		if (!s || s->last_ns == oldest->correlation + 1 ||
		    watched_until(p, now) <= since_ns + limit)
			continue;
		s->last_ns = oldest->correlation + 1; /* one firing for each */
		strbuf_clear(&text);
		strbuf_adds(&text, "a collective has not ended for ");
		human_duration(&text, limit);
		strbuf_adds(&text, ", and all work that was launched before it has");
		watch_fire(w, i, p, since_ns + limit, &text);
	}
}

static void check_hang(struct rule_watch *w, struct watched *p, uint64_t now)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	size_t outstanding = launch_list_count(&p->launches);

	if (!outstanding || !p->has_records || p->is_unknown || p->has_ended)
		return;
	check_collective(w, p, now);
	FOR_EACH_RULE (i, w->of[RULE_OF_HANG] & ~p->hung) {
		uint64_t limit =
			MAX((uint64_t)w->rules[i].value, 2 * MIN(p->longest_ns, UINT64_MAX / 2));
		uint64_t seen_ns = watched_until(p, now);

		if (seen_ns - MIN(p->progress_ns, seen_ns) <= limit)
			continue;
		p->hung |= UINT32_C(1) << i;
		strbuf_clear(&text);
		strbuf_adds(&text, "no GPU work has ended for ");
		human_duration(&text, limit);
		strbuf_addf(&text, ", and %zu launch%s outstanding", outstanding,
			    plural_of(outstanding, " is", "es are"));
		watch_fire(w, i, p, p->progress_ns + limit, &text);
	}
}

void rule_watch_last_seen(struct rule_watch *w, uint32_t process, uint64_t time_ns)
{
	struct watched *p = &w->processes.data[process];

	p->seen_until_ns = MAX(p->seen_until_ns, time_ns);
}

static void progress(struct rule_watch *w, struct watched *p, uint64_t now)
{
	check_hang(w, p, now);
	if (p->hung)
		p->is_faulty = false;
	p->hung = 0;
	p->progress_ns = MAX(p->progress_ns, now);
}

void rule_watch_restart(struct rule_watch *w, uint32_t process, uint64_t time_ns)
{
	progress(w, &w->processes.data[process], time_ns);
}

/* --- ranges --- */

static double quantile(const struct history *h, enum rule_base base)
{
	double sorted[HISTORY];
	size_t count = (size_t)MIN(h->count, HISTORY);

	memcpy(sorted, h->durations, count * sizeof(*sorted));
	for (size_t i = 1; i < count; i++) {
		double value = sorted[i];
		size_t at = i;

		for (; at && sorted[at - 1] > value; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = value;
	}
	return sorted[base == RULE_P99 ? count * 99 / 100 : count / 2];
}

static uint64_t whole_ns(double ns)
{
	return ns < 1e18 ? (uint64_t)ns : UINT64_C(1000000000000000000);
}

static void add_evidence(struct strbuf *text, double duration, const struct rule *rule, double base)
{
	strbuf_adds(text, "it took ");
	human_duration(text, whole_ns(duration));
	if (rule->base == RULE_ABSOLUTE)
		return;
	strbuf_addf(text, "; the %s of those before is ",
		    rule->base == RULE_P99 ? "99th percentile" : "median");
	human_duration(text, whole_ns(base));
}

static void check_duration(struct rule_watch *w, unsigned i, const struct fact *f, double duration)
{
	const struct rule *rule = &w->rules[i];
	struct watched *p = &w->processes.data[f->process];
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct state *s = rule->base == RULE_ABSOLUTE ? NULL : watch_state(w, i, f);
	double base = 0, limit = rule->value;
	struct history *h = NULL;

	if (rule->base != RULE_ABSOLUTE) {
		if (!s || (!s->history && vec_push(&w->histories, ((struct history){ 0 })) < 0))
			return;
		s->history = s->history ? s->history : w->histories.count;
		h = &w->histories.data[s->history - 1];
		base = h->count >= HISTORY_MIN ? quantile(h, rule->base) : INFINITY;
		limit = MAX(base * rule->value, base + EXCESS_MIN_NS);
	}
	if (rule_compares(rule, duration, limit)) {
		add_evidence(&text, duration, rule, base);
		watch_fire(w, i, p, f->time_ns, &text);
	}
	if (h)
		h->durations[h->count++ % HISTORY] = duration;
}

static void range_opens(struct rule_watch *w, const struct fact *f)
{
	struct open_range range = { f->time_ns, f->rules & w->of[RULE_OF_RANGE], f->instance };
	uint64_t old;

	if (map_remove(&w->open_of, f->value, &old))
		(void)!vec_push(&w->free_open, (size_t)old);
	if (!range.rules || w->open_of.count >= OPEN_MAX)
		return;
	if (w->free_open.count)
		w->open.data[w->free_open.data[w->free_open.count - 1]] = range;
	else if (vec_push(&w->open, range) < 0)
		return;
	old = w->free_open.count ? w->free_open.data[--w->free_open.count] : w->open.count - 1;
	(void)!map_put(&w->open_of, f->value, old);
}

static void range_closes(struct rule_watch *w, const struct fact *f)
{
	struct open_range range;
	struct fact closed = *f;
	uint64_t at;

	if (!map_remove(&w->open_of, f->value, &at))
		return;
	range = w->open.data[at];
	(void)!vec_push(&w->free_open, (size_t)at);
	closed.instance = range.instance;
	if (f->time_ns >= range.start_ns)
		FOR_EACH_RULE (i, range.rules)
			check_duration(w, i, &closed, (double)(f->time_ns - range.start_ns));
}

static void name_appears(struct rule_watch *w, struct watched *p, const struct fact *f)
{
	FOR_EACH_RULE (i, f->rules & w->of[RULE_OF_NAME])
		watch_fire_text(w, i, p, f->time_ns,
				f->kind == FACT_MARK ? "the mark is set" : "the range begins");
}

/* --- counters --- */

/*
 * Throttling is judged over stretches of `for`: the part of the time between readings in which a
 * limit held the clocks down at the reading before. *value: the reading's bits, then the part.
 */
static bool throttle_fires(struct state *s, const struct rule *rule, uint64_t time_ns,
			   double *value)
{
	uint64_t length_ns = rule->for_ns ? rule->for_ns : THROTTLE_NS, bits, part_ns;

	bits = *value >= 0 && *value < 9e15 ? (uint64_t)*value : 0;
	part_ns = time_ns - MIN(time_ns, s->last_ns);
	if (!s->has_last || part_ns > READINGS_APART_NS) {
		s->since_ns = time_ns;
		s->held_ns = 0;
	} else {
		s->held_ns += s->last > 0 ? part_ns : 0;
	}
	s->has_last = true;
	s->last_ns = time_ns;
	s->last = 0;
	for (unsigned bit = 0; bit < THROTTLE_REASONS; bit++)
		s->last += bits >> bit & 1 && throttle_is_a_limit(bit);
	if (time_ns - s->since_ns < length_ns)
		return false;
	*value = 100 * (double)s->held_ns / (double)(time_ns - s->since_ns);
	s->since_ns = time_ns;
	s->held_ns = 0;
	return stretch_fires(s, rule, *value);
}

/* Memory grows over stretches of `for`. *value: the reading in bytes, then bytes a second. */
static bool growth_fires(struct state *s, const struct rule *rule, uint64_t time_ns, double *value)
{
	uint64_t length_ns = rule->for_ns ? rule->for_ns : GROWTH_NS;
	bool is_new = !s->has_last || time_ns - MIN(time_ns, s->last_ns) > READINGS_APART_NS;
	double bytes = *value;

	s->has_last = true;
	s->last_ns = time_ns;
	if (is_new) {
		s->since_ns = time_ns;
		s->last = bytes;
	}
	if (time_ns - s->since_ns < length_ns)
		return false;
	*value = (bytes - s->last) * 1e9 / (double)(time_ns - s->since_ns);
	s->since_ns = time_ns;
	s->last = bytes;
	return stretch_fires(s, rule, *value);
}

static void add_reading(struct strbuf *text, enum rule_value kind, bool grows, double value)
{
	strbuf_adds(text, "it is ");
	if (kind == RULE_VALUE_SPEED && value >= 0 && value < 1e15) {
		human_bytes(text, (uint64_t)(value * 60));
		strbuf_adds(text, " a minute");
		return;
	}
	if (isfinite(value))
		human_real(text, value);
	else
		strbuf_adds(text, isnan(value) ? "NaN" : "infinite");
	strbuf_adds(text, kind == RULE_VALUE_PERCENT ? "%" : grows ? "/s" : "");
}

static void counter_read(struct rule_watch *w, struct watched *p, const struct fact *f)
{
	FOR_EACH_RULE (i, f->rules & w->of[RULE_OF_COUNTER]) {
		_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
		const struct rule *rule = &w->rules[i];
		struct state *s = watch_state(w, i, f);
		enum rule_value kind = rule_metrics[rule->metric].value;
		double value = f->real;
		bool fires;

		if (!s)
			continue;
		if (f->grows) {
			double grown = value - s->last;
			bool was = s->has_last && f->time_ns > s->last_ns && grown >= 0;

			value = was ? grown / ((double)(f->time_ns - s->last_ns) / 1e9) : 0;
			s->last = f->real;
			s->last_ns = f->time_ns;
			s->has_last = true;
			if (!was)
				continue;
		}
		if (rule->metric == RULE_throttle)
			fires = throttle_fires(s, rule, f->time_ns, &value);
		else if (rule->metric == RULE_memory_growth)
			fires = growth_fires(s, rule, f->time_ns, &value);
		else if (kind == RULE_VALUE_CODE)
			fires = rule_compares(rule, value, rule->value);
		else if (kind == RULE_VALUE_EVENT)
			fires = value > 0;
		else
			fires = level_fires(s, rule, value, f->time_ns);
		if (!fires)
			continue;
		add_reading(&text, kind, f->grows, value);
		watch_fire(w, i, p, f->time_ns, &text);
	}
}

/* --- errors and ends --- */

static void call_failed(struct rule_watch *w, struct watched *p, const struct fact *f)
{
	uint32_t result = (uint32_t)f->value;
	const char *name = failure_name(result);

	FOR_EACH_RULE (i, w->of[RULE_OF_ERROR]) {
		const struct rule *rule = &w->rules[i];

		if (rule->metric == RULE_sticky_error ? failure_is_fatal(result) && !p->is_faulty
						      : rule_compares(rule, result, rule->value))
			watch_fire_text(w, i, p, f->time_ns, "a CUDA call returned %s (%u)",
					name ? name : "an error", (unsigned)result);
	}
}

static bool is_of_fault(int number)
{
	static const int signals[] = { SIGSEGV, SIGABRT, SIGBUS,  SIGFPE,
				       SIGILL,  SIGSYS,  SIGTRAP, SIGKILL };

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		if (signals[i] == number)
			return true;
	return false;
}

#define OUT_OF_MEMORY " when its control group was out of memory"

static void process_ended(struct rule_watch *w, struct watched *p, const struct fact *f)
{
	int number = f->value > 128 ? (int)(f->value - 128) : 0;
	bool is_oom = number == SIGKILL && f->other_ns;

	FOR_EACH_RULE (i, w->of[RULE_OF_EXIT]) {
		const struct rule *rule = &w->rules[i];

		if (rule->metric == RULE_exit_status &&
		    rule_compares(rule, (double)f->value, rule->value))
			watch_fire_text(w, i, p, f->time_ns, "it ended with status %u",
					(unsigned)f->value);
		else if (rule->metric == RULE_fatal_signal && is_of_fault(number))
			watch_fire_text(w, i, p, f->time_ns, "it was killed by SIG%s%s",
					sigabbrev_np(number), is_oom ? OUT_OF_MEMORY : "");
		else if (rule->metric == RULE_oom_killed && is_oom)
			watch_fire_text(w, i, p, f->time_ns, "it was killed%s", OUT_OF_MEMORY);
	}
	p->has_ended = true;
}

/* The last image with that process id that has not ended; only they have recorded something. */
static void find_ended(struct rule_watch *w, const struct fact *f)
{
	for (size_t i = w->processes.count; i-- > 0;)
		if (w->processes.data[i].writer_pid == f->process) {
			lived_until(&w->processes.data[i], f->time_ns);
			check_hang(w, &w->processes.data[i], f->time_ns);
			process_ended(w, &w->processes.data[i], f);
			return;
		}
}

static void window_ends(struct rule_watch *w, uint64_t time_ns)
{
	for (size_t i = 0; i < w->processes.count; i++) {
		check_hang(w, &w->processes.data[i], time_ns);
		w->processes.data[i].has_ended = true;
	}
}

/* --- facts --- */

static void add(struct rule_watch *w, struct watched *p, const struct fact *f)
{
	switch ((enum fact_kind)f->kind) {
	case FACT_RECORDS:
		p->has_records = true;
		p->progress_ns = MAX(p->progress_ns, f->time_ns);
		break;
	case FACT_LOST:
		forget_launches(p);
		p->is_unknown = true;
		break;
	case FACT_LAUNCH:
		watch_check_rate(w, p, f->time_ns);
		p->window_ns = p->window_ns ? p->window_ns : f->time_ns;
		p->launched++;
		launched(p, f);
		break;
	case FACT_WAITED:
		progress(w, p, f->time_ns);
		forget_launches(p);
		break;
	case FACT_CAPTURE:
		p->captures += f->value ? 1 : p->captures ? UINT_MAX : 0;
		break;
	case FACT_FAILURE:
		call_failed(w, p, f);
		break;
	case FACT_WORK_BEGINS:
		watch_work_begins(w, p, f);
		break;
	case FACT_WORK_ENDS:
		p->has_records = true;
		progress(w, p, f->time_ns);
		p->longest_ns = MAX(p->longest_ns, f->time_ns - MIN(f->other_ns, f->time_ns));
		work_ended(p, f);
		watch_part_ends(w, p, f);
		break;
	case FACT_COLLECTIVE:
		if (w->of[RULE_OF_COLLECTIVE] && p->collectives.count < OPEN_MAX)
			(void)!map_put(&p->collectives, f->value, 0);
		watch_part_begins(w, p, f);
		break;
	case FACT_OPENS:
		name_appears(w, p, f);
		range_opens(w, f);
		break;
	case FACT_CLOSES:
		range_closes(w, f);
		break;
	case FACT_MARK:
		name_appears(w, p, f);
		break;
	case FACT_COUNTER:
		counter_read(w, p, f);
		break;
	case FACT_ENDS:
		lived_until(p, f->time_ns);
		check_hang(w, p, f->time_ns);
		p->has_ended = true;
		break;
	case FACT_COPY:
	case FACT_EXIT:
	case FACT_WINDOW_ENDS:
	case FACT_OUTSIDE:
		break;
	}
}

void rule_watch_add(struct rule_watch *w, const struct fact *f)
{
	rule_watch_advance(w, f->time_ns);
	if (f->kind == FACT_EXIT)
		find_ended(w, f);
	else if (f->kind == FACT_WINDOW_ENDS)
		window_ends(w, f->time_ns);
	else if (f->kind == FACT_OUTSIDE)
		FOR_EACH_RULE (i, f->rules)
			watch_fire_text(w, i, NULL, f->time_ns,
					w->rules[i].metric == RULE_file
						? "the file was touched"
						: "the signal was received");
	else if (f->process < w->processes.count)
		add(w, &w->processes.data[f->process], f);
}

void rule_watch_advance(struct rule_watch *w, uint64_t time_ns)
{
	if (time_ns < w->checked_ns || time_ns - w->checked_ns < TICK_NS)
		return;
	w->checked_ns = time_ns;
	watch_check_timers(w, time_ns);
	for (size_t i = 0; i < w->processes.count; i++) {
		struct watched *p = &w->processes.data[i];

		check_hang(w, p, time_ns);
		watch_check_rate(w, p, time_ns);
		watch_check_stragglers(w, p, time_ns);
		for (size_t device = 0; device < p->gpus.count; device++) {
			if (!launch_list_oldest(&p->launches))
				watch_check_idle(w, p, device, time_ns);
			watch_check_busy(w, p, device, time_ns);
		}
	}
}
