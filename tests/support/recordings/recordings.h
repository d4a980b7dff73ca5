/*
 * recordings.h: the kinds of recordings that make-recording writes, in addition to synthetic ones
 * (big_recording.h).
 */
#ifndef PITOT_TESTS_RECORDINGS_H
#define PITOT_TESTS_RECORDINGS_H

#define RECORDINGS(X)                                                                              \
	/* varied_recording.c */                                                                   \
	X(varied) /* one of everything that an exporter can meet */                                \
	X(payloads) /* NVTX marks with payloads of all types, up to their limits */                \
	X(shell) /* a process below a shell, with the image that it was before */                  \
	/* cpu_recording.c: a training loop in Python */                                           \
	X(cpu_all) /* sampled from outside, with times off the CPU */                              \
	X(cpu_cpu) /* without times off the CPU */                                                 \
	X(cpu_inside) /* the process samples itself */                                             \
	X(cpu_none) /* no samples, and why */                                                      \
	X(cpu_only) /* nothing but samples */                                                      \
	X(cpu_deep) /* another program: a search that calls itself */                              \
	X(cpu_commands) /* a build with --cpu-only */                                              \
	X(cpu_unsampled) /* --cpu-only and no samples */                                           \
	/* stack_recording.c: call stacks of make-recording itself */                              \
	X(stack_native) /* known functions, the kernel, and no file */                             \
	X(stack_python) /* a Python frame only */                                                  \
	X(stack_running) /* as native, of a process that goes on running */                        \
	/* scopes_recording.c */                                                                   \
	X(scopes) /* scopes of a program, carried on by a pool's thread, and NVTX ranges */        \
	/* training_recording.c */                                                                 \
	X(training) /* a training loop with readings and allocations, for pictures */              \
	/* memory_recording.c */                                                                   \
	X(memory) /* a training loop that allocates, with all that a report says of memory */      \
	/* replay_recording.c */                                                                   \
	X(replay) /* streams that wait for each other, a graph, copies of all kinds */             \
	/* stalls_recording.c */                                                                   \
	X(stalls) /* samples of kernels of two processes */                                        \
	X(sass) /* what instructions of such kernels did, in four launches */                      \
	/* page_recording.c */                                                                     \
	X(page) /* long slices beside tiny ones, work after a pause, all kinds of counters */      \
	X(page_cpu) /* CPU samples and a loss */                                                   \
	/* names_recording.c */                                                                    \
	X(names) /* names that want to be markup or code */                                        \
	/* counters_recording.c */                                                                 \
	X(counters) /* hardware counters of kernels of two processes */                            \
	X(roofline) /* and of kernels without times, with their work and the GPU's peaks */        \
	/* ranges_recording.c */                                                                   \
	X(ranges) /* hardware counters of ranges and graph launches */                             \
	/* job_recording.c: a training; the second host has been up for five days longer */        \
	X(job) /* four ranks on two hosts */                                                       \
	X(job_first) /* what the first host records of it: ranks 0 and 1 */                        \
	X(job_second) /* the second host: ranks 2 and 3 */                                         \
	X(job_third) /* the second host, with the process ids of the first */                      \
	X(job_vast) /* the job; each process says that it has four billion ranks */                \
	X(job_unset) /* the job; CLOCK_REALTIME of the second host is not set */                   \
	X(job_stated) /* broadcasts; adjtimex bounds the clocks of both hosts */                   \
	X(job_unstated) /* the same, but that of the second host is not synchronized */            \
	X(job_unbound) /* the same, and its ranks meet those of the first only twice */            \
	/* hostile_recording.c: right in every byte, from no recorder */                           \
	X(hostile_chain) /* a stack of 2^17 nodes, a sample at each */                             \
	X(hostile_pushes) /* 2^17 NVTX ranges that are never popped, with a launch in each */      \
	X(hostile_clock) /* readings of clocks as far apart as numbers can be */

#define RECORDING_WRITE(name) void recording_##name(const char *folder);
RECORDINGS(RECORDING_WRITE)
#undef RECORDING_WRITE

#endif
