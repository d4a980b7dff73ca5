/*
 * rule_watch.h: finds the moments at which rules hold, from facts in the order of time.
 *
 * Facts are what rules are about: launches, GPU work, ranges, values of counters, errors and ends
 * of processes. rule_feed.h makes them of rows, alike from a finished recording and from one that
 * grows. A fact that comes late, such as the end of a long kernel that is known when its buffer is
 * full, is used when it comes.
 *
 *  - A launch is outstanding until work with its correlation id has ended, until a call that waits
 *    for the GPU has returned, or until records of GPU work were lost. Launches into a capture are
 *    never outstanding: nothing runs. So a program whose records do not come is not called hung.
 *  - A hang is over when any work of the process ends, and can then come again.
 *  - Steps are compared with the last 100 of the same name, when there are 20; a slow step is at
 *    least 10 ms slower.
 *  - What has held fires again only after it was away from the limit by a tenth.
 */
#ifndef PITOT_RULES_RULE_WATCH_H
#define PITOT_RULES_RULE_WATCH_H

#include "rules/rule.h"

enum fact_kind {
	FACT_RECORDS, /* ends of GPU work are recorded */
	FACT_LOST, /* some were lost */
	FACT_LAUNCH, /* value: correlation id */
	FACT_COPY, /* a call that copies or sets memory, only for rule_feed_observe(); the same */
	FACT_WAITED, /* a call that waits for the GPU has returned */
	FACT_CAPTURE, /* value: 1: begins, 0: ends */
	FACT_FAILURE, /* value: the call's error */
	FACT_WORK_BEGINS, /* until other_ns, on a device */
	FACT_WORK_ENDS, /* since other_ns; value: correlation id */
	/*
	 * value: correlation id of the launch that carries it; other_ns: hash of what is the same
	 * on all ranks, 0: unknown; thread: of its communicator
	 */
	FACT_COLLECTIVE,
	FACT_OPENS, /* a range; value: its key, instance: of its name */
	FACT_CLOSES,
	FACT_MARK,
	FACT_COUNTER, /* real: the value; growth: since the reading before, per second */
	/* value: status as a shell shows it; other_ns 1: its group was out of memory */
	FACT_EXIT,
	FACT_ENDS, /* the recording of the process */
	FACT_WINDOW_ENDS, /* nothing is recorded from then on, of any process */
	FACT_OUTSIDE, /* a file was touched, or a signal received */
};

struct fact {
	uint64_t time_ns, other_ns;
	uint32_t process; /* number that rule_watch_process() returned; EXIT: process id */
	uint32_t instance; /* WORK, COUNTER: device; OPENS: hash of the name; less than 2^20 */
	uint32_t thread; /* OPENS, CLOSES: thread id; COLLECTIVE: hash of the communicator */
	uint32_t rules; /* those that it is about by its name: bits */
	uint8_t kind; /* enum fact_kind */
	bool grows; /* COUNTER: its values are a sum */
	bool is_scope; /* OPENS: of Pitot; else it is NVTX's */
	union {
		uint64_t value;
		double real;
	};
};

/* A moment at which a rule holds. */
struct rule_firing {
	unsigned rule; /* its number */
	uint64_t time_ns;
	uint32_t pid; /* as the process sees it; 0: no process */
	uint32_t process;
	bool follows; /* a fault of a process that has had one */
	char evidence[200]; /* a phrase for people */
};

struct rule_watch;

typedef void rule_fired(void *user, const struct rule_firing *firing);

/* At most RULES_MAX rules, which must outlive the watch. NULL: no memory. */
struct rule_watch *rule_watch_new(const struct rule *rules, unsigned count, rule_fired *fired,
				  void *user) MUST_USE;
void rule_watch_free(struct rule_watch *w);
/* Returns the number of a process image, or a negative code. */
int64_t rule_watch_process(struct rule_watch *w, uint64_t session, uint32_t pid) MUST_USE;
/* States the process id that EXIT has for it, if it is not the one above: pid namespaces. */
void rule_watch_writer(struct rule_watch *w, uint32_t process, uint32_t pid);
/* Adds a fact. Without memory facts are forgotten: then rules do not hold. */
void rule_watch_add(struct rule_watch *w, const struct fact *fact);
/* States that all facts until `time_ns` are known, but for ends of work that has not ended. */
void rule_watch_advance(struct rule_watch *w, uint64_t time_ns);
/* States that nothing is known of a process after its last row. */
void rule_watch_last_seen(struct rule_watch *w, uint32_t process, uint64_t time_ns);
/* Forgets a hang that was none, because the process was stopped. */
void rule_watch_restart(struct rule_watch *w, uint32_t process, uint64_t time_ns);

#endif
