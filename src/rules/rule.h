/*
 * rule.h: what a rule can say, and its syntax:
 * METRIC [KEY] [OP VALUE] [for TIME] [: ACTION…].
 *
 * A rule says when something has happened that is worth a dump of the ring. Parser, errors,
 * `pitot rules` and the documentation come from the lists of metrics and actions. Whether a rule
 * holds is found by rule_watch.h.
 */
#ifndef PITOT_RULES_RULE_H
#define PITOT_RULES_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strbuf.h"

/*
 *	R(id, "name", FAMILY, KEY, VALUE, IS_FAULT, "default", "example", "meaning")
 *
 * KEY       NO, MAY (it can be left out) or MUST, and how it is called
 * VALUE     what the operator compares: TIME with a unit (RANGE: or 2x median), RATE per second,
 *           SPEED (a size per second, minute or hour), PERCENT, NUMBER, NAME; CODE is a NUMBER that
 *           can be left out with its operator; EVENT has neither
 * IS_FAULT  of faults of one process only the first is a cause; the others follow from it
 * default   the rule that is on if none is given; NULL: off
 */
/* clang-format off */
#define RULE_METRICS(R)                                                                                                \
	R(hang, "hang", HANG, NO, TIME, true, "hang > 30s", "hang > 2m",                                               \
	  "launched work has not ended, and no other work of the process, for TIME and twice its longest work before") \
	R(sticky_error, "sticky-error", ERROR, NO, EVENT, true, "sticky-error", "sticky-error",                        \
	  "a CUDA call returned an error after which its context is unusable")                                         \
	R(xid, "xid", COUNTER, NO, CODE, true, "xid", "xid == 79",                                                     \
	  "the driver reported an error of a GPU, by its Xid number")                                                  \
	R(fatal_signal, "fatal-signal", EXIT, NO, EVENT, true, "fatal-signal", "fatal-signal",                         \
	  "a recorded process was killed by a signal of a fault (SIGSEGV, SIGABRT, SIGBUS, …) or by SIGKILL") \
	R(exit_status, "exit-status", EXIT, NO, NUMBER, true, NULL, "exit-status != 0",                                \
	  "a recorded process has ended with that status; 128 + n: killed by signal n")                                \
	R(oom_killed, "oom-killed", EXIT, NO, EVENT, true, NULL, "oom-killed",                                         \
	  "a recorded process was killed because its control group was out of memory")                                 \
	R(ecc, "ecc", COUNTER, NO, EVENT, true, NULL, "ecc",                                                           \
	  "ECC could not correct a memory error of a GPU")                                                             \
	R(gpu_lost, "gpu-lost", COUNTER, NO, EVENT, true, "gpu-lost", "gpu-lost",                                      \
	  "the driver has lost a GPU: it does not answer any more")                                                    \
	R(cuda_error, "cuda-error", ERROR, NO, CODE, false, NULL, "cuda-error == 2",                                   \
	  "a CUDA call returned an error (2: out of memory)")                                                          \
	R(step_time, "step-time", RANGE, MAY, TIME, false, NULL, "step-time > 2x median",                              \
	  "a step took that long: an NVTX range or a scope called NAME, or named like a step")                         \
	R(range_time, "range-time", RANGE, MUST, TIME, false, NULL, "range-time request > 500ms",                      \
	  "an NVTX range or a scope called NAME took that long")                                                       \
	R(nvtx, "nvtx", NAME, NO, NAME, false, NULL, "nvtx == evaluation",                                             \
	  "an NVTX range or a scope of that name begins, or an NVTX mark is set")                                      \
	R(gpu_idle, "gpu-idle", IDLE, NO, TIME, false, NULL, "gpu-idle > 500ms",                                       \
	  "a process left a GPU that it uses without work for TIME")                                                   \
	R(gpu_busy, "gpu-busy", BUSY, NO, PERCENT, false, NULL, "gpu-busy < 20% for 10s",                              \
	  "the part of each second in which a process's work ran on a GPU; for < only after it was more")              \
	R(collective, "collective", COLLECTIVE, NO, TIME, true, NULL, "collective > 10s",                              \
	  "a collective of NCCL has not ended for TIME since all that was launched before it had")                     \
	R(straggler, "straggler", STRAGGLER, NO, PERCENT, false, NULL, "straggler > 20% for 30s",                      \
	  "for that part of TIME (or 10s) the ranks on this machine waited in NCCL's collectives for this one alone")  \
	R(launch_rate, "launch-rate", RATE, NO, RATE, false, NULL, "launch-rate < 100/s for 2s",                       \
	  "a process launched so many kernels and graphs in a second; for < only after it had launched more")          \
	R(memory, "memory", COUNTER, NO, PERCENT, false, NULL, "memory > 95%",                                         \
	  "so much of a GPU's memory is in use, by all processes")                                                     \
	R(memory_growth, "memory-growth", COUNTER, NO, SPEED, false, NULL, "memory-growth > 1G/min for 5m",            \
	  "over TIME (or 60s) the memory in use on a GPU, by all processes, has grown that fast")                      \
	R(throttle, "throttle", COUNTER, NO, PERCENT, false, NULL, "throttle > 50% for 30s",                           \
	  "for that part of TIME (or 10s) a limit of power or temperature held a GPU's clocks down")                   \
	R(counter, "counter", COUNTER, MUST, NUMBER, false, NULL, "counter gpu_power > 600 for 10s",                   \
	  "a counter of the program or the machine has that value; of one that only grows, the growth per second")     \
	R(every, "every", TIMER, MUST, EVENT, false, NULL, "every 1h",                                                 \
	  "TIME has passed since the recording began, or since the last time: a baseline to compare with")             \
	R(file, "file", OUTSIDE, MUST, EVENT, false, NULL, "file /tmp/dump-now touched",                               \
	  "a file was created or written")                                                                             \
	R(signal, "signal", OUTSIDE, MUST, EVENT, false, NULL, "signal USR2",                                          \
	  "`pitot record` received this signal, which is then not passed on to the command")
/* clang-format on */

/*
 *	A(id, "form", "example", "meaning")
 *
 * A rule without an action makes a dump of the usual length; with one, the action adds to that.
 */
/* clang-format off */
#define RULE_ACTIONS(A)                                                                                                \
	A(dump, "dump [pre=TIME] [post=TIME]", "hang > 1m: dump pre=5m post=0s",                                       \
	  "what the dump has from before the moment, and how long after it it is made")                                \
	A(deepen, "deepen ENGINE [TIME]", "step-time > 2x median: deepen pm-sampling 10s",                             \
	  "an engine measures for TIME (or 10s) from then on, and the dump is made when it has")
/* clang-format on */

enum rule_action_id {
#define A(id, ...) RULE_ACTION_##id,
	RULE_ACTIONS(A) RULE_ACTION_COUNT
#undef A
};

struct rule_action {
	const char *name; /* first word of the form */
	const char *form, *example, *meaning;
};
extern const struct rule_action rule_actions[RULE_ACTION_COUNT];

enum rule_metric_id {
#define R(id, ...) RULE_##id,
	RULE_METRICS(R) RULE_METRIC_COUNT
#undef R
};

enum rule_family {
	RULE_OF_HANG,
	RULE_OF_ERROR,
	RULE_OF_COUNTER,
	RULE_OF_EXIT,
	RULE_OF_RANGE,
	RULE_OF_NAME,
	RULE_OF_IDLE,
	RULE_OF_RATE,
	RULE_OF_BUSY,
	RULE_OF_COLLECTIVE,
	RULE_OF_STRAGGLER,
	RULE_OF_TIMER,
	RULE_OF_OUTSIDE, /* what no recording has */
};

enum rule_key { RULE_KEY_NO, RULE_KEY_MAY, RULE_KEY_MUST };

enum rule_value {
	RULE_VALUE_TIME,
	RULE_VALUE_RATE,
	RULE_VALUE_SPEED,
	RULE_VALUE_PERCENT,
	RULE_VALUE_NUMBER,
	RULE_VALUE_CODE,
	RULE_VALUE_EVENT,
	RULE_VALUE_NAME,
};

struct rule_metric {
	const char *name;
	enum rule_family family;
	enum rule_key key;
	enum rule_value value;
	bool is_fault;
	const char *usual; /* the default rule, or NULL */
	const char *example, *meaning;
};
extern const struct rule_metric rule_metrics[RULE_METRIC_COUNT];

enum rule_op {
	RULE_ALWAYS, /* there is no operator */
	RULE_GREATER,
	RULE_LESS,
	RULE_AT_LEAST,
	RULE_AT_MOST,
	RULE_EQUAL,
	RULE_UNEQUAL,
};

enum rule_base { RULE_ABSOLUTE, RULE_MEDIAN, RULE_P99 };

#define RULE_TEXT_MAX 256u /* bytes of a rule, with its end */
#define RULES_MAX 32u
#define RULE_PART_MAX_NS (UINT64_C(3600) * 1000000000) /* before and after the moment */
#define RULE_DEEPEN_NS UINT64_C(10000000000) /* unless the rule says for how long */

struct rule {
	enum rule_metric_id metric;
	enum rule_op op;
	enum rule_base base;
	double value; /* TIME and `every`: ns, or a multiple of `base`; SPEED: bytes a second */
	uint64_t for_ns;
	bool has_before, has_after; /* the next two are its own */
	uint64_t before_ns, after_ns; /* of the dump */
	int deepen; /* engine that measures for deepen_ns when it holds; 0: none */
	uint64_t deepen_ns;
	char key[RULE_TEXT_MAX]; /* "": none; also the value of NAME */
	char text[RULE_TEXT_MAX]; /* as it was given */
};

/* Returns 0, or E_USAGE; then *e says what is wrong, and what is right. */
int rule_parse(const char *text, struct rule *out, struct error *e) MUST_USE;
/* The number of a signal that a rule can name, with or without SIG; 0: it is none. */
int rule_signal(const char *name);
/* Whether `value OP limit`. NaN equals only NaN. */
bool rule_compares(const struct rule *rule, double value, double limit);

#endif
