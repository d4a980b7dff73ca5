/* tables_last_words.h: what was under way at the end; tables.h explains the macros. */
#ifndef PITOT_SCHEMA_TABLES_LAST_WORDS_H
#define PITOT_SCHEMA_TABLES_LAST_WORDS_H

/* clang-format off */
/*
 * From the memory of a process that died or was dumped (recover/). Calls are those that wait for
 * the GPU: their api_call is written when they return. GPU work is what the GPU's library had
 * recorded as launched and not as ended; that work may have ended all the same, since the library
 * writes ends later. Its launch is the api_call with the same correlation.
 */
#define SCHEMA_unfinished(C, T)                                                                                        \
	C(T, time_ns, TIME, ALWAYS, NONE, "ns", "time when this was read")                                             \
	C(T, kind, ENUM, ALWAYS, unfinished_kind, "", "a call, or a kind of GPU work")                                 \
	C(T, start_ns, TIME, MAYBE, NONE, "ns", "time of the call; GPU work: start on the GPU, if it was recorded") \
	C(T, correlation, U64, ALWAYS, NONE, "", "correlation id of the call, or of the launch")                       \
	C(T, function, REF, MAYBE, api_function, "", "function called")                                                \
	C(T, thread, U32, MAYBE, NONE, "", "calls: thread id (gettid)")                                                \
	C(T, stack, U32, MAYBE, NONE, "", "call stack of the call")                                                    \
	C(T, config, REF, MAYBE, kernel_config, "", "kernels: the kernel and its launch configuration")                \
	C(T, device, U32, MAYBE, NONE, "", "GPU work: ordinal of the GPU")                                             \
	C(T, context, U32, MAYBE, NONE, "", "GPU work: context id")                                                    \
	C(T, stream, U32, MAYBE, NONE, "", "GPU work: stream id")                                                      \
	C(T, copy_kind, ENUM, MAYBE, copy_kind, "", "copies: direction")
#define TRAITS_unfinished(X, T)

#define ENUM_unfinished_kind(V, E)                                                                                     \
	V(E, call, 0) V(E, kernel, 1) V(E, memcpy, 2) V(E, memset, 3) V(E, graph_launch, 4)
/* clang-format on */

#endif
