/* rule_watch_state.h: private to rule_watch.c and rule_rates.c. */
#ifndef PITOT_RULES_RULE_WATCH_STATE_H
#define PITOT_RULES_RULE_WATCH_STATE_H

#include "base/clock.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "base/vec.h"
#include "rules/busy_time.h"
#include "rules/launch_list.h"
#include "rules/rule_watch.h"

#define HISTORY 100u

struct watched_gpu {
	uint64_t busy_until_ns; /* 0: it has had no work */
	uint32_t fired; /* rules, since then */
	struct busy_time busy;
	uint64_t second_ns; /* start of the second that is not judged yet; 0: it has had no work */
};

struct watched {
	uint32_t pid, writer_pid;
	bool has_records, has_ended, is_faulty, is_unknown; /* unknown: records were lost */
	unsigned captures;
	struct launch_list launches;
	struct map collectives; /* correlation ids of outstanding ones */
	struct map parts; /* correlation id -> meeting's key, of collectives that have not ended */
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
	uint64_t held_ns; /* throttle, straggler: since since_ns */
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

/* A collective whose parts have not all ended. */
struct meeting {
	uint32_t communicator, parts;
	uint32_t last; /* process that came last */
	uint64_t last_ns, before_ns; /* when it came, and when the one before it */
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
	struct map meeting_of; /* key -> item of meetings */
	VEC(struct meeting) meetings;
	struct map members; /* communicator and process -> 1 */
	struct map member_count; /* communicator -> processes */
	uint64_t checked_ns;
};

#define FOR_EACH_RULE(i, bits)                                                                     \
	for (uint32_t bits_ = (bits), i; bits_ && (i = (uint32_t)__builtin_ctz(bits_), true);      \
	     bits_ &= bits_ - 1)

/* Reports that a rule holds; p: in a process, or NULL. */
void watch_fire(struct rule_watch *w, unsigned rule, struct watched *p, uint64_t time_ns,
		const struct strbuf *evidence);
void watch_fire_text(struct rule_watch *w, unsigned rule, struct watched *p, uint64_t time_ns,
		     const char *format, ...) PRINTF_LIKE(5, 6);
/* The state of a rule for the process and instance of the fact, or NULL: no memory. */
struct state *watch_state(struct rule_watch *w, unsigned rule, const struct fact *f);
/* Whether a rule about a value of a stretch of time fires at its end. */
bool stretch_fires(struct state *s, const struct rule *rule, double value);
/* Whether a rule about a value that lasts fires now. */
bool level_fires(struct state *s, const struct rule *rule, double value, uint64_t time_ns);
/* The time until which the process is known to have lived, at most `now`. */
uint64_t watched_until(const struct watched *p, uint64_t now);
uint32_t watched_number(const struct rule_watch *w, const struct watched *p);

/* --- rule_rates.c --- */

void watch_check_idle(struct rule_watch *w, struct watched *p, size_t device, uint64_t now);
/* Judges the seconds whose work has all ended. */
void watch_check_busy(struct rule_watch *w, struct watched *p, size_t device, uint64_t now);
/* Ends the seconds that are over. */
void watch_check_rate(struct rule_watch *w, struct watched *p, uint64_t now);
void watch_work_begins(struct rule_watch *w, struct watched *p, const struct fact *f);

void watch_check_timers(struct rule_watch *w, uint64_t now);

/* --- rule_ranks.c --- */

void watch_part_begins(struct rule_watch *w, struct watched *p, const struct fact *f);
void watch_part_ends(struct rule_watch *w, struct watched *p, const struct fact *f);
void watch_check_stragglers(struct rule_watch *w, struct watched *p, uint64_t now);

#endif
