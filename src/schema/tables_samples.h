/* tables_samples.h: the tables of samples and of measured values; tables.h explains the macros. */
#ifndef PITOT_SCHEMA_TABLES_SAMPLES_H
#define PITOT_SCHEMA_TABLES_SAMPLES_H

/* clang-format off */
/*
 * Written by a sampler outside of the process (segments cpu-<pid>.<n>.pit, a separate session whose
 * process row has source sampler) or by the recorder inside it. The weights of a thread's samples
 * add up to its CPU time. Of a process that both sample, some rows do not count: see cpu_span.
 */
#define SCHEMA_cpu_sample(C, T)                                                                                        \
	C(T, time_ns, TIME, ALWAYS, NONE, "ns", "time of the event")                                                   \
	C(T, thread, U32, ALWAYS, NONE, "", "thread id (gettid)")                                                      \
	C(T, weight_ns, U64, ALWAYS, NONE, "ns", "CPU time that the sample represents")                                \
	C(T, cpu, U32, MAYBE, NONE, "", "processor number; missing: CPU time without a sample of its own")             \
	C(T, stack, U32, MAYBE, NONE, "", "call stack")
#define TRAITS_cpu_sample(X, T) X(T, MOMENT, time_ns)

#define SCHEMA_off_cpu(C, T)                                                                                           \
	C(T, start_ns, TIME, ALWAYS, NONE, "ns", "time when the thread left its processor")                            \
	C(T, end_ns, TIME, ALWAYS, start_ns, "ns", "time when it ran again, or the recording ended")                   \
	C(T, thread, U32, ALWAYS, NONE, "", "thread id (gettid)")                                                      \
	C(T, state, ENUM, ALWAYS, off_cpu_state, "", "state of the thread")                                            \
	C(T, stack, U32, MAYBE, NONE, "", "call stack at start_ns")
#define TRAITS_off_cpu(X, T) X(T, SPAN)

/*
 * sleeping: waits for an event. uninterruptible: mostly disk I/O. runnable: another thread had the
 * processor.
 */
#define ENUM_off_cpu_state(V, E)                                                                                       \
	V(E, unknown, 0) V(E, sleeping, 1) V(E, uninterruptible, 2) V(E, runnable, 3) V(E, stopped, 4)

/*
 * PC sampling: each multiprocessor samples one of its warps every period_cycles cycles. A reading
 * covers the time since the previous one in that context (start_ns). The samples of its pc_sample
 * rows plus `other` plus `dropped` are `total`. Each sample is counted in one row: with the suffix
 * _not_issued on its reason if the scheduler issued no instruction in that cycle, else without it.
 */
#define SCHEMA_cubin(C, T)                                                                                             \
	C(T, crc, U64, ALWAYS, NONE, "", "checksum by the GPU's library")                                              \
	C(T, file, STRING, MAYBE, NONE, "", "file in the recording's folder; missing if it could not be stored")       \
	C(T, size_bytes, U64, MAYBE, NONE, "bytes", "size of the cubin")
#define TRAITS_cubin(X, T) X(T, LAST_OF, crc)

#define SCHEMA_pc_reading(C, T)                                                                                        \
	C(T, id, U64, ALWAYS, NONE, "", "id within the process, ascending")                                            \
	C(T, start_ns, TIME, ALWAYS, NONE, "ns", "time of the previous reading, or start of sampling")                 \
	C(T, end_ns, TIME, ALWAYS, start_ns, "ns", "time of the reading")                                              \
	C(T, device, U32, ALWAYS, NONE, "", "ordinal of the GPU")                                                      \
	C(T, context, U32, ALWAYS, NONE, "", "context id")                                                             \
	C(T, period_cycles, U64, ALWAYS, NONE, "cycles", "cycles between two samples of a multiprocessor")             \
	C(T, total, U64, ALWAYS, NONE, "samples", "samples taken by the hardware")                                     \
	C(T, dropped, U64, ALWAYS, NONE, "samples", "samples lost by the hardware")                                    \
	C(T, other, U64, ALWAYS, NONE, "samples", "samples outside of the program's kernels, or at unknown places")
#define TRAITS_pc_reading(X, T) X(T, SPAN) X(T, HAS, device)

#define SCHEMA_pc_sample(C, T)                                                                                         \
	C(T, reading, U64, ALWAYS, NONE, "", "id of its pc_reading")                                                   \
	C(T, crc, U64, ALWAYS, NONE, "", "checksum by the GPU's library")                                              \
	C(T, function, STRING, ALWAYS, NONE, "", "mangled name of the kernel or device function")                      \
	C(T, offset, U64, ALWAYS, NONE, "bytes", "offset of the instruction in the function")                          \
	C(T, reason, STRING, ALWAYS, NONE, "", "stall reason, by the library's name")                                  \
	C(T, samples, U64, ALWAYS, NONE, "samples", "number of samples")
#define TRAITS_pc_sample(X, T)

/*
 * Hardware counters. A value belongs to the kernel with the same correlation; launches of graphs
 * are not measured. A measured kernel is replayed once per pass, so its duration in table kernel is
 * what the library reports, and metrics such as gpu__time_duration.sum have their own.
 */
#define SCHEMA_metric(C, T)                                                                                            \
	C(T, id, U32, ALWAYS, NONE, "", "id within the process")                                                       \
	C(T, name, STRING, ALWAYS, NONE, "", "name in the library, such as dram__bytes_read.sum")                      \
	C(T, unit, STRING, ALWAYS, NONE, "", "unit, by the library's name, such as byte/second; empty: none")          \
	C(T, description, STRING, ALWAYS, NONE, "", "the library's description")
#define TRAITS_metric(X, T) X(T, LAST_OF, id)

#define SCHEMA_metric_value(C, T)                                                                                      \
	C(T, correlation, U64, ALWAYS, NONE, "", "correlation id of the launch, as in kernel and api_call")            \
	C(T, metric, REF, ALWAYS, metric, "", "metric that was measured")                                              \
	C(T, value, I64, MAYBE, NONE, "", "value, the bits of a double; missing if there was no number")
#define TRAITS_metric_value(X, T)

/*
 * Counts of instructions, from a launch with patched code. Its kernel has no end_ns, because
 * patched code takes longer. Rows with one correlation belong to one launch. The values of several
 * rows with the same instruction and metric add up.
 */
#define SCHEMA_sass_value(C, T)                                                                                        \
	C(T, time_ns, TIME, ALWAYS, NONE, "ns", "time when the measurement was complete")                              \
	C(T, correlation, U64, MAYBE, NONE, "", "correlation id of the launch, as in kernel and api_call; missing if unknown") \
	C(T, device, U32, ALWAYS, NONE, "", "ordinal of the GPU")                                                      \
	C(T, crc, U64, ALWAYS, NONE, "", "checksum by the GPU's library")                                              \
	C(T, function, STRING, ALWAYS, NONE, "", "mangled name of the kernel or device function")                      \
	C(T, offset, U64, ALWAYS, NONE, "bytes", "offset of the instruction in the function")                          \
	C(T, metric, REF, ALWAYS, metric, "", "metric that was measured")                                              \
	C(T, value, U64, ALWAYS, NONE, "", "sum over all warps of the GPU")
#define TRAITS_sass_value(X, T) X(T, HAS, device)

/*
 * Hardware counters of everything that the GPU did in one context from the begin to the end of a
 * range. The metrics of a measurement need one occurrence of the range for each of their passes:
 * start_ns and end_ns are those of the last one. Rows with one end_ns on one thread are of one
 * measurement.
 */
#define SCHEMA_range_value(C, T)                                                                                       \
	C(T, start_ns, TIME, ALWAYS, NONE, "ns", "begin of the last occurrence")                                       \
	C(T, end_ns, TIME, ALWAYS, start_ns, "ns", "its end on the CPU")                                               \
	C(T, thread, U32, ALWAYS, NONE, "", "operating system's id of the thread that it is on")                       \
	C(T, kind, ENUM, ALWAYS, range_kind, "", "what the range is")                                                  \
	C(T, name, STRING, ALWAYS, NONE, "", "its name; of a graph: graph and the number of its executable")           \
	C(T, correlation, U64, MAYBE, NONE, "", "correlation id of the launch of the graph, as in api_call")           \
	C(T, passes, U32, ALWAYS, NONE, "", "occurrences that were measured for it")                                   \
	C(T, metric, REF, ALWAYS, metric, "", "what was measured")                                                     \
	C(T, value, I64, MAYBE, NONE, "", "the bits of a double; missing: there was no number")                        \
	C(T, device, U32, MAYBE, NONE, "", "ordinal of the GPU that was measured")                                     \
	C(T, domain, U32, MAYBE, NONE, "", "of a range of the program: id in nvtx_domain, as in nvtx")                 \
	C(T, level, U8, MAYBE, NONE, "", "of a range of the program: its level, as in nvtx")
#define TRAITS_range_value(X, T) X(T, SPAN) X(T, HAS, device) X(T, LABEL, name) X(T, LAUNCHED_BY, graph_launch)

#define ENUM_range_kind(V, E) V(E, nvtx, 0) V(E, scope, 1) V(E, graph, 2)

/* The sums of all threads together are in counter_sample, at the collector's ticks. */
#define SCHEMA_counter_addition(C, T)                                                                                  \
	C(T, time_ns, TIME, ALWAYS, NONE, "ns", "a time within the innermost range around the additions")              \
	C(T, counter, REF, ALWAYS, counter, "", "the program's counter")                                               \
	C(T, thread, U32, MAYBE, NONE, "", "thread id (gettid); missing if the thread or the range is unknown")        \
	C(T, value, I64, ALWAYS, NONE, "", "what the thread added since its last row of this counter")                 \
	C(T, count, U64, ALWAYS, NONE, "", "number of additions")
#define TRAITS_counter_addition(X, T) X(T, MOMENT, time_ns)

/*
 * Readings of /proc by `pitot record`, a few times a second at most. pid 0: the whole machine,
 * whose wait_ns is the time for which its hypervisor ran something else.
 */
#define SCHEMA_run_queue(C, T)                                                                                         \
	C(T, start_ns, TIME, ALWAYS, NONE, "ns", "time of the previous reading")                                       \
	C(T, end_ns, TIME, ALWAYS, start_ns, "ns", "time of the reading")                                              \
	C(T, pid, U32, ALWAYS, NONE, "", "process id, as `pitot record` sees it; 0: the machine")                      \
	C(T, wait_ns, U64, ALWAYS, NONE, "ns", "time in which threads were ready to run and had no processor, over all threads but the recorder's") \
	C(T, throttled_ns, U64, MAYBE, NONE, "ns", "time in which the CPU quota of its control group was used up")
#define TRAITS_run_queue(X, T)

/*
 * method timer: timers inside the process sampled all of it. While they do, samples from outside do
 * not count. method perf_events, when the process has ended: cpu_ns is all of its CPU time, also of
 * earlier images. What neither samples from outside nor timers stand for is one sample without a
 * stack. trace/cpu_samples.c applies these rules.
 */
#define SCHEMA_cpu_span(C, T)                                                                                          \
	C(T, start_ns, TIME, ALWAYS, NONE, "ns", "when the sampling of the process began")                             \
	C(T, end_ns, TIME, MAYBE, start_ns, "ns", "when it ended; missing while it lasts, and after a crash")          \
	C(T, pid, U32, ALWAYS, NONE, "", "process id")                                                                 \
	C(T, method, ENUM, ALWAYS, sampling_method, "", "who sampled it")                                              \
	C(T, cpu_ns, U64, MAYBE, NONE, "ns", "CPU time of its threads from start to end, by the kernel's count")
#define TRAITS_cpu_span(X, T) X(T, LAST_OF, pid, start_ns)
/* clang-format on */

#endif
