/* tables_ranks.h: the tables of jobs with several ranks; tables.h explains the macros. */
#ifndef PITOT_SCHEMA_TABLES_RANKS_H
#define PITOT_SCHEMA_TABLES_RANKS_H

/* clang-format off */
/*
 * Whose variables gave a process its rank: torchrun's (RANK beside TORCHELASTIC_RUN_ID), RANK and
 * WORLD_SIZE without it (DeepSpeed, Accelerate, a script), Open MPI's, the PMI's of MPICH, Intel
 * MPI and Cray, Slurm's, or those of an indexed job of Kubernetes.
 */
#define ENUM_job_launcher(V, E)                                                                                            \
	V(E, torchrun, 0) V(E, variables, 1) V(E, openmpi, 2) V(E, pmi, 3) V(E, slurm, 4) V(E, kubernetes, 5)

/*
 * The hash is the same on all ranks of a communicator and differs between communicators of one
 * run of a job. NCCL does not say which GPU a communicator uses: the kernels of its collectives do.
 */
#define SCHEMA_communicator(C, T)                                                                                      \
	C(T, id, U32, ALWAYS, NONE, "", "id within the process, from 1")                                               \
	C(T, hash, U64, ALWAYS, NONE, "", "NCCL's identity of the communicator, equal on all of its ranks")            \
	C(T, name, STRING, MAYBE, NONE, "", "name that the program gave it")                                           \
	C(T, ranks, U32, MAYBE, NONE, "", "number of its ranks")                                                       \
	C(T, nodes, U32, MAYBE, NONE, "", "number of machines that they are on")                                       \
	C(T, rank, U32, MAYBE, NONE, "", "this process's rank in it, from 0; not the rank in the job")
#define TRAITS_communicator(X, T) X(T, LAST_OF, id)

/*
 * Collectives and point-to-point operations as they were enqueued. When they ran is known from the
 * kernel with the same correlation. Rows with one correlation were fused into one kernel and share
 * its times. A captured one has run when its graph_node has: once in each replay.
 *
 * Ranks agree on (communicator.hash, function, sequence). NCCL counts the collectives by function;
 * Pitot counts sends and receives by peer, from the start of the recording on. Numbers of captured
 * collectives repeat.
 *
 * source nvtx: the program or the version of NCCL did not allow Pitot's profiler plug-in. Then
 * NCCL's NVTX ranges were counted from the start of the recording, and what they do not contain is
 * missing. source profiler: an imported trace of torch.profiler, whose process groups name them.
 */
#define SCHEMA_collective(C, T)                                                                                        \
	C(T, time_ns, TIME, ALWAYS, NONE, "ns", "time when it was enqueued")                                           \
	C(T, communicator, REF, MAYBE, communicator, "", "communicator")                                               \
	C(T, function, ENUM, ALWAYS, collective_function, "", "what it does")                                          \
	C(T, sequence, U64, MAYBE, NONE, "", "number by communicator and function, for send and recv also by peer")    \
	C(T, count, U64, MAYBE, NONE, "", "elements as the caller gave them: per rank for all_gather and reduce_scatter") \
	C(T, datatype, ENUM, MAYBE, nccl_datatype, "", "type of an element")                                           \
	C(T, bytes, U64, MAYBE, NONE, "bytes", "size of these elements")                                               \
	C(T, root, U32, MAYBE, NONE, "", "root, as a rank of the communicator; for functions that have one")           \
	C(T, peer, U32, MAYBE, NONE, "", "send, recv: the other side, as a rank of the communicator")                  \
	C(T, algorithm, STRING, MAYBE, NONE, "", "NCCL's algorithm, such as RING")                                     \
	C(T, protocol, STRING, MAYBE, NONE, "", "NCCL's protocol, such as LL128")                                      \
	C(T, channels, U32, MAYBE, NONE, "", "channels, of which each occupies a block of the kernel")                 \
	C(T, thread, U32, ALWAYS, NONE, "", "thread id (gettid)")                                                      \
	C(T, correlation, U64, MAYBE, NONE, "", "correlation id of the launch that carries it")                        \
	C(T, captured, U8, MAYBE, NONE, "", "1: captured into a CUDA graph; 0: not; missing: unknown")                 \
	C(T, graph_node, U64, MAYBE, NONE, "", "node into which it was captured; executable graphs have clones of it") \
	C(T, source, ENUM, ALWAYS, collective_source, "", "where the row is from")
#define TRAITS_collective(X, T) X(T, MOMENT, time_ns) X(T, LABEL, function)

#define ENUM_collective_function(V, E)                                                                                 \
	V(E, all_reduce, 0) V(E, all_gather, 1) V(E, reduce_scatter, 2) V(E, broadcast, 3) V(E, reduce, 4)             \
	V(E, all_to_all, 5) V(E, gather, 6) V(E, scatter, 7) V(E, send, 8) V(E, recv, 9) V(E, other, 10)
#define ENUM_nccl_datatype(V, E)                                                                                       \
	V(E, int8, 0) V(E, uint8, 1) V(E, int32, 2) V(E, uint32, 3) V(E, int64, 4) V(E, uint64, 5) V(E, float16, 6)    \
	V(E, float32, 7) V(E, float64, 8) V(E, bfloat16, 9) V(E, float8e4m3, 10) V(E, float8e5m2, 11)
#define ENUM_collective_source(V, E) V(E, plugin, 0) V(E, nvtx, 1) V(E, profiler, 2)
/* clang-format on */

#endif
