/* tables_last_words.h: what was under way at the end; tables.h explains the macros. */
#ifndef PITOT_SCHEMA_TABLES_LAST_WORDS_H
#define PITOT_SCHEMA_TABLES_LAST_WORDS_H

/* clang-format off */
/*
 * From the memory of a process that died or was dumped (recover/). Calls are those that wait for
 * the GPU: their api_call is written when they return. GPU work is what the GPU's library had
 * recorded as launched and not as ended; that work may have ended all the same, since the library
 * writes ends later. Its launch is the api_call with the same correlation.
 *
 * Threads are those of a process that was dumped while it lived, whatever they did: read by `pitot
 * record` or `pitot dump`, in segments cpu-<pid>.<n>.pit (see cpu_sample), one row each.
 */
#define SCHEMA_unfinished(C, T)                                                                                        \
	C(T, time_ns, TIME, ALWAYS, NONE, "ns", "time when this was read")                                             \
	C(T, kind, ENUM, ALWAYS, unfinished_kind, "", "a call, a thread, or a kind of GPU work")                       \
	C(T, start_ns, TIME, MAYBE, NONE, "ns", "time of the call; GPU work: start on the GPU, if it was recorded") \
	C(T, correlation, U64, ALWAYS, NONE, "", "correlation id of the call, or of the launch")                       \
	C(T, function, REF, MAYBE, api_function, "", "function called")                                                \
	C(T, thread, U32, MAYBE, NONE, "", "calls and threads: thread id (gettid)")                                    \
	C(T, stack, U32, MAYBE, NONE, "", "call stack of the call or the thread")                                      \
	C(T, config, REF, MAYBE, kernel_config, "", "kernels: the kernel and its launch configuration")                \
	C(T, device, U32, MAYBE, NONE, "", "GPU work: ordinal of the GPU")                                             \
	C(T, context, U32, MAYBE, NONE, "", "GPU work: context id")                                                    \
	C(T, stream, U32, MAYBE, NONE, "", "GPU work: stream id")                                                      \
	C(T, copy_kind, ENUM, MAYBE, copy_kind, "", "copies: direction")                                                   \
	C(T, state, ENUM, MAYBE, thread_state, "", "threads: what they did")                                           \
	C(T, system_call, STRING, MAYBE, NONE, "", "threads: system call in which they slept")                         \
	C(T, reason, STRING, MAYBE, NONE, "", "threads: why there is no call stack")
#define TRAITS_unfinished(X, T)

#define ENUM_unfinished_kind(V, E)                                                                                     \
	V(E, call, 0) V(E, kernel, 1) V(E, memcpy, 2) V(E, memset, 3) V(E, graph_launch, 4)     \
	V(E, thread, 5)
#define ENUM_thread_state(V, E)                                                                                        \
	V(E, unknown, 0) V(E, running, 1) V(E, sleeping, 2) V(E, uninterruptible, 3) V(E, stopped, 4) V(E, traced, 5)  \
	V(E, ended, 6) V(E, idle, 7)
/* clang-format on */

#endif
