/* tables_triggers.h: when rules held, and what became of it; tables.h explains the macros. */
#ifndef PITOT_SCHEMA_TABLES_TRIGGERS_H
#define PITOT_SCHEMA_TABLES_TRIGGERS_H

/* clang-format off */
/* Written by `pitot record`, about its processes. A dump has the rows until it was made. */
#define SCHEMA_trigger(C, T)                                                                                           \
	C(T, time_ns, TIME, ALWAYS, NONE, "ns", "time from which on the rule held")                                    \
	C(T, rule, STRING, ALWAYS, NONE, "", "the rule, as it was given")                                              \
	C(T, outcome, ENUM, ALWAYS, trigger_outcome, "", "whether it made a dump")                                     \
	C(T, dump, U32, MAYBE, NONE, "", "number of the dump in this recording, from 1, that it made or belongs to")  \
	C(T, pid, U32, MAYBE, NONE, "", "process id of the process that it is about, as that process sees it")        \
	C(T, evidence, STRING, ALWAYS, NONE, "", "what was the case")
#define TRAITS_trigger(X, T) X(T, MOMENT, time_ns) X(T, LABEL, rule)

/*
 * joined: of a dump that was to be made already. follows: from an earlier fault of the process.
 * cooldown: the rule has made a dump a moment ago. limit: there were too many in an hour.
 * recording: the command ended before, so that the recording has what the dump would have.
 */
#define ENUM_trigger_outcome(V, E)                                                                                     \
	V(E, dump, 0) V(E, joined, 1) V(E, follows, 2) V(E, cooldown, 3) V(E, limit, 4) V(E, recording, 5) V(E, failed, 6)
/* clang-format on */

#endif
