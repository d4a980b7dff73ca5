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
 * Launches are the last ones of each thread, whatever became of them: the GPU's library may have no
 * record of a kernel that has not ended. A record of an unread launch may be among those that could
 * not be read (loss unread_records).
 *
 * Threads are those of a process that was dumped while it lived, whatever they did: read by `pitot
 * record` or `pitot dump`, in segments cpu-<pid>.<n>.pit (see cpu_sample), one row each.
 */
#define SCHEMA_unfinished(C, T)                                                                                        \
	C(T, time_ns, TIME, ALWAYS, NONE, "ns", "time when this was read")                                             \
	C(T, kind, ENUM, ALWAYS, unfinished_kind, "", "a call, a thread, a launch, or a kind of GPU work")                     \
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
	C(T, reason, STRING, MAYBE, NONE, "", "threads: why there is no call stack")                                   \
	C(T, name, STRING, MAYBE, NONE, "", "launches: mangled name of the kernel")
#define TRAITS_unfinished(X, T)

/*
 * Written by `pitot record`, from core files that the GPU's driver writes: threads of a kernel at
 * one instruction with one exception are a row, those of most threads first. A file is written
 * because of an exception, or because a rule about a hang held; it has rows with the exception
 * only, if there is one. A file that cannot be read has one row, with the reason.
 */
#define SCHEMA_gpu_core(C, T)                                                                                          \
	C(T, time_ns, TIME, ALWAYS, NONE, "ns", "time when the file was written")                                      \
	C(T, pid, U32, MAYBE, NONE, "", "process id of the process, as that process sees it")                          \
	C(T, file, STRING, ALWAYS, NONE, "", "name of the file in the recording's folder gpu-cores")                   \
	C(T, exception, STRING, MAYBE, NONE, "", "what the threads had done; missing: nothing, they ran")              \
	C(T, code, U32, MAYBE, NONE, "", "number of the exception in NVIDIA's debugger interface")                     \
	C(T, device, U32, MAYBE, NONE, "", "CUDA ordinal of the GPU")                                                  \
	C(T, kernel, STRING, MAYBE, NONE, "", "mangled name of the kernel")                                            \
	C(T, grid_x, U32, MAYBE, NONE, "blocks", "grid size")                                                          \
	C(T, grid_y, U32, MAYBE, NONE, "blocks", "grid size")                                                          \
	C(T, grid_z, U32, MAYBE, NONE, "blocks", "grid size")                                                          \
	C(T, block_x, U32, MAYBE, NONE, "threads", "block size")                                                       \
	C(T, block_y, U32, MAYBE, NONE, "threads", "block size")                                                       \
	C(T, block_z, U32, MAYBE, NONE, "threads", "block size")                                                       \
	C(T, launch_thread, U32, MAYBE, NONE, "", "thread id (gettid) of the thread that launched the kernel")         \
	C(T, threads, U64, ALWAYS, NONE, "", "threads there; 0: they had ended, and only the multiprocessor says it")  \
	C(T, block_index_x, U32, MAYBE, NONE, "", "block of the first of these threads")                               \
	C(T, block_index_y, U32, MAYBE, NONE, "", "block of the first of these threads")                               \
	C(T, block_index_z, U32, MAYBE, NONE, "", "block of the first of these threads")                               \
	C(T, thread_index_x, U32, MAYBE, NONE, "", "first of these threads in its block")                              \
	C(T, thread_index_y, U32, MAYBE, NONE, "", "first of these threads in its block")                              \
	C(T, thread_index_z, U32, MAYBE, NONE, "", "first of these threads in its block")                              \
	C(T, multiprocessor, U32, MAYBE, NONE, "", "multiprocessor of the first of these threads")                     \
	C(T, warp, U32, MAYBE, NONE, "", "its warp in the multiprocessor")                                             \
	C(T, lane, U32, MAYBE, NONE, "", "its lane in the warp")                                                       \
	C(T, function, STRING, MAYBE, NONE, "", "mangled name of the function of the instruction")                     \
	C(T, offset, U64, MAYBE, NONE, "bytes", "the instruction, from the start of the function")                     \
	C(T, source_file, STRING, MAYBE, NONE, "", "source file of the instruction")                                   \
	C(T, line, U32, MAYBE, NONE, "", "its line")                                                                   \
	C(T, reason, STRING, MAYBE, NONE, "", "why the file could not be read, or not all of it")
#define TRAITS_gpu_core(X, T) X(T, MOMENT, time_ns) X(T, LABEL, exception)

#define ENUM_unfinished_kind(V, E)                                                                                     \
	V(E, call, 0) V(E, kernel, 1) V(E, memcpy, 2) V(E, memset, 3) V(E, graph_launch, 4)     \
	V(E, thread, 5) V(E, launch, 6) V(E, unread_launch, 7)
#define ENUM_thread_state(V, E)                                                                                        \
	V(E, unknown, 0) V(E, running, 1) V(E, sleeping, 2) V(E, uninterruptible, 3) V(E, stopped, 4) V(E, traced, 5)  \
	V(E, ended, 6) V(E, idle, 7)
/* clang-format on */

#endif
