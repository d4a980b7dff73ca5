#include "rules/rule_watch.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/failures.h"
#include "base/clock.h"
#include "base/human.h"
#include "base/map.h"
#include "base/plural.h"
#include "base/search.h"
#include "base/vec.h"

#define HISTORY 100u
#define HISTORY_MIN 20u
#define EXCESS_MIN_NS ((double)(10 * NS_PER_MS))
#define NEAR 0.1 /* part of the limit by which a value must leave it */
#define WINDOW_NS NS_PER_S
#define WINDOWS_MAX 1000u /* that are looked at after a pause */
#define TICK_NS (100 * NS_PER_MS)
#define LAUNCHES_MAX ((size_t)1 << 20) /* outstanding ones of a process */
#define OPEN_MAX ((size_t)1 << 20)

struct launch {
	uint64_t correlation, time_ns;
	bool is_done;
};

struct watched_gpu {
	uint64_t busy_until_ns; /* 0: it has had no work */
	uint32_t fired; /* rules, since then */
};

struct watched {
	uint32_t pid, writer_pid;
	bool has_records, has_ended, is_faulty, is_unknown; /* unknown: records were lost */
	unsigned captures;
	/* in the order of time; those from `first` on that are not done are outstanding */
	VEC(struct launch) launches;
	size_t first;
	uint64_t dropped; /* launches that were at the front of the array */
	struct map place_of; /* correlation id -> index + dropped */
	uint64_t seen_until_ns; /* 0: it goes on */
	uint64_t progress_ns, longest_ns;
	uint32_t hung; /* rules that have fired since then */
	VEC(struct watched_gpu) gpus;
	uint64_t window_ns; /* start; 0: nothing was launched */
	uint64_t launched; /* since then */
};

/* Of a rule, in a process, about a device or a name. */
struct state {
	uint64_t since_ns; /* time from which on it holds; 0: it does not */
	bool has_fired, was_away;
	bool has_last;
	double last;
	uint64_t last_ns;
	size_t history; /* item of histories + 1; 0: none */
};

struct history {
	double durations[HISTORY];
	uint64_t count;
};

struct open_range {
	uint64_t start_ns;
	uint32_t rules, instance;
};

struct rule_watch {
	const struct rule *rules;
	unsigned count;
	rule_fired *fired;
	void *user;
	uint32_t of[RULE_OF_OUTSIDE + 1]; /* by family */
	struct map number_of; /* session -> number */
	VEC(struct watched) processes;
	struct map state_of;
	VEC(struct state) states;
	VEC(struct history) histories;
	struct map open_of; /* key -> item of open */
	VEC(struct open_range) open;
	VEC(size_t) free_open;
	uint64_t checked_ns;
};

uint32_t rules_of_family(const struct rule *rules, unsigned count, enum rule_family family)
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
		vec_release(&w->processes.data[i].launches);
		vec_release(&w->processes.data[i].gpus);
		map_release(&w->processes.data[i].place_of);
	}
	vec_release(&w->processes);
	vec_release(&w->states);
	vec_release(&w->histories);
	vec_release(&w->open);
	vec_release(&w->free_open);
	map_release(&w->number_of);
	map_release(&w->state_of);
	map_release(&w->open_of);
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

#define FOR_EACH_RULE(i, bits)                                                                     \
	for (uint32_t bits_ = (bits), i; bits_ && (i = (uint32_t)__builtin_ctz(bits_), true);      \
	     bits_ &= bits_ - 1)

/* --- firing --- */

static void fire(struct rule_watch *w, unsigned rule, struct watched *p, uint64_t time_ns,
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

static void fire_text(struct rule_watch *w, unsigned rule, struct watched *p, uint64_t time_ns,
		      const char *format, ...) PRINTF_LIKE(5, 6);

static void fire_text(struct rule_watch *w, unsigned rule, struct watched *p, uint64_t time_ns,
		      const char *format, ...)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	va_list arguments;

	va_start(arguments, format);
	strbuf_vaddf(&text, format, arguments);
	va_end(arguments);
	fire(w, rule, p, time_ns, &text);
}

static struct state *state_at(struct rule_watch *w, unsigned rule, const struct fact *f)
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

/* Whether a rule about a value that lasts fires now. */
static bool level_fires(struct state *s, const struct rule *rule, double value, uint64_t time_ns)
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

/* --- hangs --- */

static uint64_t until(const struct watched *p, uint64_t now)
{
	return p->seen_until_ns ? MIN(p->seen_until_ns, now) : now;
}

static bool has_outstanding(const struct watched *p)
{
	return p->first < p->launches.count;
}

static void drop_done(struct watched *p)
{
	while (has_outstanding(p) && p->launches.data[p->first].is_done)
		p->first++;
	if (p->first < 4096 || p->first * 2 < p->launches.count)
		return;
	p->launches.count -= p->first;
	memmove(p->launches.data, p->launches.data + p->first,
		p->launches.count * sizeof(p->launches.data[0]));
	p->dropped += p->first;
	p->first = 0;
}

static void forget_launches(struct watched *p)
{
	p->dropped += p->launches.count;
	p->launches.count = p->first = 0;
	map_clear(&p->place_of);
}

static void launched(struct watched *p, const struct fact *f)
{
	struct launch launch = { f->value, f->time_ns, false };

	if (p->captures)
		return;
	if (p->launches.count - p->first >= LAUNCHES_MAX)
		forget_launches(p);
	if (!has_outstanding(p))
		p->progress_ns = MAX(p->progress_ns, f->time_ns);
	if (map_put(&p->place_of, f->value, p->dropped + p->launches.count) == 0 &&
	    vec_push(&p->launches, launch) < 0)
		(void)!map_remove(&p->place_of, f->value, &(uint64_t){ 0 });
}

static void work_ended(struct watched *p, uint64_t correlation)
{
	uint64_t place;

	if (map_remove(&p->place_of, correlation, &place) && place >= p->dropped + p->first)
		p->launches.data[place - p->dropped].is_done = true;
	drop_done(p);
}

/* It lived until then, whatever its last row is. */
static void lived_until(struct watched *p, uint64_t time_ns)
{
	if (p->seen_until_ns)
		p->seen_until_ns = MAX(p->seen_until_ns, time_ns);
}

static void check_hang(struct rule_watch *w, struct watched *p, uint64_t now)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	size_t outstanding = p->place_of.count;

	if (!outstanding || !p->has_records || p->is_unknown || p->has_ended)
		return;
	FOR_EACH_RULE (i, w->of[RULE_OF_HANG] & ~p->hung) {
		uint64_t limit =
			MAX((uint64_t)w->rules[i].value, 2 * MIN(p->longest_ns, UINT64_MAX / 2));
		uint64_t seen_ns = until(p, now);

		if (seen_ns - MIN(p->progress_ns, seen_ns) <= limit)
			continue;
		p->hung |= UINT32_C(1) << i;
		strbuf_clear(&text);
		strbuf_adds(&text, "no GPU work has ended for ");
		human_duration(&text, limit);
		strbuf_addf(&text, ", and %zu launch%s outstanding", outstanding,
			    plural_of(outstanding, " is", "es are"));
		fire(w, i, p, p->progress_ns + limit, &text);
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

/* --- idle GPUs, launch rates --- */

static void check_idle(struct rule_watch *w, struct watched *p, size_t device, uint64_t now)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct watched_gpu *gpu = &p->gpus.data[device];

	if (!gpu->busy_until_ns || p->has_ended || p->is_unknown)
		return;
	FOR_EACH_RULE (i, w->of[RULE_OF_IDLE] & ~gpu->fired) {
		uint64_t limit = (uint64_t)w->rules[i].value, seen_ns = until(p, now);

		if (seen_ns - MIN(gpu->busy_until_ns, seen_ns) <= limit)
			continue;
		gpu->fired |= UINT32_C(1) << i;
		strbuf_clear(&text);
		strbuf_addf(&text, "GPU %zu has had no work for ", device);
		human_duration(&text, limit);
		fire(w, i, p, gpu->busy_until_ns + limit, &text);
	}
}

static void work_begins(struct rule_watch *w, struct watched *p, const struct fact *f)
{
	while (p->gpus.count <= f->instance && f->instance < 4096)
		if (vec_push(&p->gpus, ((struct watched_gpu){ 0 })) < 0)
			return;
	if (f->instance >= p->gpus.count)
		return;
	/* What was launched before the pause may have run in it without an end until now. */
	if (!has_outstanding(p) ||
	    p->launches.data[p->first].time_ns > p->gpus.data[f->instance].busy_until_ns)
		check_idle(w, p, f->instance, f->time_ns);
	if (f->other_ns > p->gpus.data[f->instance].busy_until_ns)
		p->gpus.data[f->instance] = (struct watched_gpu){ f->other_ns, 0 };
}

/* Ends the seconds that are over. */
static void check_rate(struct rule_watch *w, struct watched *p, uint64_t now)
{
	struct fact f = { .process = (uint32_t)(p - w->processes.data) };

	now = until(p, now);
	if (p->window_ns && now > WINDOWS_MAX * WINDOW_NS)
		p->window_ns = MAX(p->window_ns, now - WINDOWS_MAX * WINDOW_NS);
	while (p->window_ns && !p->has_ended && now > p->window_ns &&
	       now - p->window_ns >= WINDOW_NS) {
		uint64_t end_ns = p->window_ns + WINDOW_NS;

		FOR_EACH_RULE (i, w->of[RULE_OF_RATE]) {
			struct state *s = state_at(w, i, &f);

			if (s && level_fires(s, &w->rules[i], (double)p->launched, end_ns)) {
				/* A program that never launched as much is not slow. */
				if (s->was_away || w->rules[i].op == RULE_GREATER ||
				    w->rules[i].op == RULE_AT_LEAST)
					fire_text(w, i, p, end_ns, "%llu launch%s in a second",
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
	struct state *s = rule->base == RULE_ABSOLUTE ? NULL : state_at(w, i, f);
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
		fire(w, i, p, f->time_ns, &text);
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
		fire_text(w, i, p, f->time_ns,
			  f->kind == FACT_MARK ? "the mark is set" : "the range begins");
}

/* --- counters --- */

static void counter_read(struct rule_watch *w, struct watched *p, const struct fact *f)
{
	FOR_EACH_RULE (i, f->rules & w->of[RULE_OF_COUNTER]) {
		_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
		const struct rule *rule = &w->rules[i];
		struct state *s = state_at(w, i, f);
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
		if (kind == RULE_VALUE_CODE)
			fires = rule_compares(rule, value, rule->value);
		else if (kind == RULE_VALUE_EVENT)
			fires = value > 0;
		else
			fires = level_fires(s, rule, value, f->time_ns);
		if (!fires)
			continue;
		strbuf_adds(&text, "it is ");
		if (isfinite(value))
			human_real(&text, value);
		else
			strbuf_adds(&text, isnan(value) ? "NaN" : "infinite");
		strbuf_addf(&text, "%s", kind == RULE_VALUE_PERCENT ? "%" : f->grows ? "/s" : "");
		fire(w, i, p, f->time_ns, &text);
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
			fire_text(w, i, p, f->time_ns, "a CUDA call returned %s (%u)",
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

static void process_ended(struct rule_watch *w, struct watched *p, const struct fact *f)
{
	int number = f->value > 128 ? (int)(f->value - 128) : 0;

	FOR_EACH_RULE (i, w->of[RULE_OF_EXIT]) {
		const struct rule *rule = &w->rules[i];

		if (rule->metric == RULE_exit_status &&
		    rule_compares(rule, (double)f->value, rule->value))
			fire_text(w, i, p, f->time_ns, "it ended with status %u",
				  (unsigned)f->value);
		else if (rule->metric == RULE_fatal_signal && is_of_fault(number))
			fire_text(w, i, p, f->time_ns, "it was killed by SIG%s",
				  sigabbrev_np(number));
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
		check_rate(w, p, f->time_ns);
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
		work_begins(w, p, f);
		break;
	case FACT_WORK_ENDS:
		p->has_records = true;
		progress(w, p, f->time_ns);
		p->longest_ns = MAX(p->longest_ns, f->time_ns - MIN(f->other_ns, f->time_ns));
		work_ended(p, f->value);
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
			fire_text(w, i, NULL, f->time_ns,
				  w->rules[i].metric == RULE_file ? "the file was touched"
								  : "the signal was received");
	else if (f->process < w->processes.count)
		add(w, &w->processes.data[f->process], f);
}

void rule_watch_advance(struct rule_watch *w, uint64_t time_ns)
{
	if (time_ns < w->checked_ns || time_ns - w->checked_ns < TICK_NS)
		return;
	w->checked_ns = time_ns;
	for (size_t i = 0; i < w->processes.count; i++) {
		struct watched *p = &w->processes.data[i];

		check_hang(w, p, time_ns);
		check_rate(w, p, time_ns);
		for (size_t device = 0; device < p->gpus.count && !has_outstanding(p); device++)
			check_idle(w, p, device, time_ns);
	}
}
