/*
 * tables.h: declares every table and column of a recording, once.
 *
 * The recorder's row structs, the file format, the loader, `pitot schema`, Arrow and the
 * documentation are generated from these lists. A column is one line:
 *
 *	C(T, name, TYPE, PRESENCE, extra, "unit", "meaning")
 *
 * TYPE      U8 U16 U32 U64 I32 I64   integers
 *           TIME                     u64, nanoseconds of CLOCK_MONOTONIC of the recorded machine
 *           STRING                   u32, id in table `string` of the same process
 *           ENUM                     u8, named values; extra is the name of a list below
 *           REF                      u32, column `id` of table `extra` of the same process
 *           BYTES                    bytes of any length (table `string` only)
 * PRESENCE  ALWAYS, or MAYBE: the value can be missing, which is different from 0
 * extra     for TIME: the column from which the difference is stored, or NONE
 *
 * A table's traits follow its columns. They state what can be done with its rows without code for
 * that table. A trait is X(T, TRAIT, arguments):
 *
 * SPAN             rows are events that last from column start_ns to column end_ns
 * MOMENT, column   rows are events that happen at that time
 * GPU_WORK         a SPAN of work on a GPU, with columns device, context and stream. Reports, flame
 *                  graphs and exports show the rows like any other GPU work
 * HAS, column      column device, context, stream, graph or graph_node means the same as in tables
 *                  of GPU work
 * LABEL, column    name of a row: a STRING, an ENUM, or a REF to a table with a LABEL
 * SHOWN, …         exports show these integers (one to three columns) with each row, by their names
 * LAUNCHED_BY, …   calls of these kinds (one or two of api_kind) cause the rows; column correlation
 *                  leads to the call
 *
 * Traits of tables whose rows define what other rows mean. The writer repeats such rows in later
 * segments, so that each segment can be read alone. Rows of a session that are equal in every
 * column are one row:
 *
 * INTERNED         the writer assigns the row's id, and writes the row before the first row of a
 *                  segment that refers to it
 * LAST_OF, …       the last row of each key (one or two columns) is repeated in every later segment
 * LAST             the last row is repeated; there is no key
 * LAST_USED, …     the last row of a key is repeated in the segments that refer to it with USES
 * USES, column, table   column is the key of a row of that table, whose key is one column. Implied
 *                  by HAS, graph_node
 *
 * Compatibility: table ids, the order of columns and enum values are part of the file format.
 * Append new ones; never remove, reorder or reuse any.
 */
#ifndef PITOT_SCHEMA_TABLES_H
#define PITOT_SCHEMA_TABLES_H

#include "schema/tables_causes.h"
#include "schema/tables_last_words.h"
#include "schema/tables_ranks.h"
#include "schema/tables_samples.h"
#include "schema/tables_topology.h"
#include "schema/tables_triggers.h"

/* clang-format off */
#define SCHEMA_TABLES(T)                                                                                               \
	T(string, 1, "strings that other tables refer to by id")                                                       \
	T(clock, 2, "readings of several clocks at one moment, to align machines and the GPUs' times")                 \
	T(process, 3, "one row per recorded process image")                                                            \
	T(thread, 4, "threads and their names; the last row of a thread is valid")                                     \
	T(module, 5, "files mapped executable in the process")                                                         \
	T(device, 6, "GPUs and their limits")                                                                          \
	T(context, 7, "contexts of GPUs")                                                                              \
	T(stream, 8, "streams of GPUs")                                                                                \
	T(kernel_config, 9, "distinct combinations of kernel, launch configuration and resources")                     \
	T(kernel, 10, "kernel executions on a GPU")                                                                    \
	T(memcpy, 11, "memory copies by a GPU")                                                                        \
	T(memset, 12, "memsets by a GPU")                                                                              \
	T(synchronization, 13, "synchronizations as the GPU's library reports them: what was waited for, and how long") \
	T(cuda_event, 14, "CUDA events recorded: cudaEventRecord and its variants")                                    \
	T(graph_launch, 15, "executions of whole CUDA graphs (--graphs launch)")                                       \
	T(allocation, 16, "allocations and releases of GPU-visible memory (--memory)")                                 \
	T(memory_pool, 17, "memory pools created, trimmed and destroyed (--memory)")                                   \
	T(api_function, 18, "CUDA functions that api_call refers to")                                                  \
	T(api_call, 19, "CUDA API calls: launches, copies and synchronizations; with --api all every call")            \
	T(nvtx, 20, "NVTX ranges and marks, and the program's scopes, in the order of each thread")                    \
	T(nvtx_domain, 21, "NVTX domains")                                                                             \
	T(nvtx_category, 22, "names of NVTX categories")                                                               \
	T(overhead, 23, "overhead of the GPU's profiling library, as it reports it")                                   \
	T(external_correlation, 24, "ids attached to CUDA calls, by a framework or by the program")                    \
	T(capability, 25, "what was requested, what is in effect, and why")                                            \
	T(loss, 26, "data known to be missing from the recording, and why")                                            \
	T(cost, 27, "Pitot's own overhead, as measured by Pitot")                                                      \
	T(counter, 28, "counters that counter_sample refers to")                                                       \
	T(counter_sample, 29, "counter readings over time")                                                            \
	T(graph_node, 30, "nodes of CUDA graphs, with the call stacks that created or cloned them")                    \
	T(stack_node, 31, "call stacks as a tree: each frame and its caller")                                          \
	T(stack, 32, "call stacks that other tables refer to by id")                                                   \
	T(symbol, 33, "names of addresses; written after the recording, into symbols.<n>.pit")                         \
	T(cpu_sample, 34, "CPU samples: what threads executed")                                                        \
	T(off_cpu, 35, "intervals in which threads were off the CPU, and where they waited")                           \
	T(cubin, 36, "device code of sampled and measured kernels (--engine pc-sampling, sass-metrics)")               \
	T(pc_reading, 37, "readings of the GPU's PC samplers: samples taken and lost since the reading before")        \
	T(pc_sample, 38, "PC samples: instructions at which warps were, and their stall reasons")                      \
	T(metric, 39, "metrics measured for kernels (--engine range-profiler, sass-metrics)")                          \
	T(metric_value, 40, "metric values of kernel launches")                                                        \
	T(sass_value, 41, "metric values of instructions in kernel launches (--engine sass-metrics)") \
	T(range_value, 42, "metric values of ranges of the program and of graph launches (--engine range-profiler)") \
	T(counter_addition, 43, "what threads added to the program's counters, by scope") \
	T(run_queue, 44, "how long processes were ready to run and had no processor") \
	T(cpu_span, 45, "who sampled a process's CPU time, and how much of it the operating system's kernel counted") \
	T(graph_edge, 46, "dependencies between nodes of CUDA graphs") \
	T(communicator, 47, "NCCL communicators") \
	T(collective, 48, "NCCL collectives, sends and receives, as they were enqueued") \
	T(unfinished, 49, "what had not ended when a process died or a dump was made, and what threads did") \
	T(trigger, 50, "moments at which rules held (--ring, --when), and what became of them") \
	T(topology_device, 51, "GPUs and network adapters of the machine") \
	T(topology_link, 52, "what lies between two of these devices") \
	T(calibration, 53, "what recording adds to calls on the machine") \
	T(gpu_core, 54, "where threads of kernels were when a core file of a GPU was written (--gpu-coredump)")

#define SCHEMA_string(C, T)                                                                                            \
	C(T, id, U32, ALWAYS, NONE, "", "id within the process")                                                       \
	C(T, text, BYTES, ALWAYS, NONE, "", "bytes of the string; not necessarily UTF-8")
#define TRAITS_string(X, T) X(T, INTERNED)

#define SCHEMA_clock(C, T)                                                                                             \
	C(T, monotonic_ns, TIME, ALWAYS, NONE, "ns", "CLOCK_MONOTONIC at the middle of the reading")                   \
	C(T, realtime_ns, U64, ALWAYS, NONE, "ns", "CLOCK_REALTIME, since the epoch")                                  \
	C(T, boottime_ns, U64, ALWAYS, NONE, "ns", "CLOCK_BOOTTIME")                                                   \
	C(T, gpu_ns, U64, MAYBE, NONE, "ns", "clock of the GPU's profiling library (CUPTI: cuptiGetTimestamp)")      \
	C(T, width_ns, U32, ALWAYS, NONE, "ns", "duration of the reading, which is the uncertainty of the row")        \
	C(T, unsynchronized, U8, MAYBE, NONE, "", "1: nobody synchronizes CLOCK_REALTIME (adjtimex: STA_UNSYNC); only pitot record reads it, as the columns below") \
	C(T, max_error_ns, U64, MAYBE, NONE, "ns", "bound of the error of CLOCK_REALTIME (adjtimex: maxerror)")       \
	C(T, estimated_error_ns, U64, MAYBE, NONE, "ns", "error of CLOCK_REALTIME (adjtimex: esterror); 0, or more than the bound: who synchronizes it states none") \
	C(T, offset_ns, I64, MAYBE, NONE, "ns", "by how much CLOCK_REALTIME is still being slewed (adjtimex: offset)") \
	C(T, tai_s, I32, MAYBE, NONE, "s", "TAI minus UTC, if it is set (adjtimex)")
#define TRAITS_clock(X, T) X(T, LAST)

#define SCHEMA_process(C, T)                                                                                           \
	C(T, pid, U32, ALWAYS, NONE, "", "process id in the process's own pid namespace")                              \
	C(T, parent_pid, U32, ALWAYS, NONE, "", "process id of the parent")                                            \
	C(T, start_ns, TIME, ALWAYS, NONE, "ns", "start of the recording of this process image")                       \
	C(T, end_ns, TIME, MAYBE, NONE, "ns", "orderly end of the recording; missing while the process runs and after a crash") \
	C(T, command, STRING, ALWAYS, NONE, "", "command line, with arguments separated by blanks")                    \
	C(T, executable, STRING, ALWAYS, NONE, "", "path of the executable")                                           \
	C(T, directory, STRING, ALWAYS, NONE, "", "working directory at start")                                        \
	C(T, host, STRING, ALWAYS, NONE, "", "host name")                                                              \
	C(T, boot_id, STRING, ALWAYS, NONE, "", "boot id of the operating system's kernel; equal ids share CLOCK_MONOTONIC") \
	C(T, uid, U32, ALWAYS, NONE, "", "user id")                                                                    \
	C(T, source, ENUM, ALWAYS, process_source, "", "writer of the row")                                            \
	C(T, exit_status, I32, MAYBE, NONE, "", "exit status as a shell shows it: 128+n after signal n")              \
	C(T, rank, U32, MAYBE, NONE, "", "rank in its job, by the variables of its launcher")                          \
	C(T, local_rank, U32, MAYBE, NONE, "", "rank among the job's processes on its machine")                        \
	C(T, world_size, U32, MAYBE, NONE, "", "number of ranks of the job")                                           \
	C(T, node_rank, U32, MAYBE, NONE, "", "number of the machine in the job")                                      \
	C(T, job, STRING, MAYBE, NONE, "", "id of the job")                                                            \
	C(T, launcher, ENUM, MAYBE, job_launcher, "", "whose variables these are")                                  \
	C(T, oom_killed, U8, MAYBE, NONE, "", "1: SIGKILL ended it when its control group was out of memory; else missing")
#define TRAITS_process(X, T) X(T, LAST_OF, pid, start_ns)

#define ENUM_process_source(V, E) V(E, inside, 0) V(E, record, 1) V(E, sampler, 2) V(E, import, 3)

#define SCHEMA_thread(C, T)                                                                                            \
	C(T, tid, U32, ALWAYS, NONE, "", "thread id (gettid)")                                                         \
	C(T, name, STRING, ALWAYS, NONE, "", "name at the end of the recording, or when the thread was last seen")     \
	C(T, time_ns, TIME, ALWAYS, NONE, "ns", "time when the name was read")
#define TRAITS_thread(X, T) X(T, LAST_OF, tid)

#define SCHEMA_module(C, T)                                                                                            \
	C(T, path, STRING, ALWAYS, NONE, "", "path of the file")                                                       \
	C(T, build_id, STRING, MAYBE, NONE, "", "GNU build id in hexadecimal")                                         \
	C(T, start_address, U64, ALWAYS, NONE, "", "first address mapped")                                             \
	C(T, end_address, U64, ALWAYS, NONE, "", "first address after the mapping")                                    \
	C(T, file_offset, U64, ALWAYS, NONE, "bytes", "file offset of the executable mapping")                         \
	C(T, load_bias, U64, ALWAYS, NONE, "", "run-time address minus ELF virtual address")                           \
	C(T, loaded_ns, TIME, ALWAYS, NONE, "ns", "time when the mapping was first seen")
#define TRAITS_module(X, T) X(T, LAST_OF, path, start_address)

#define SCHEMA_device(C, T)                                                                                            \
	C(T, id, U32, ALWAYS, NONE, "", "ordinal of the GPU in this process")                                          \
	C(T, name, STRING, ALWAYS, NONE, "", "marketing name")                                                         \
	C(T, uuid, STRING, ALWAYS, NONE, "", "GPU-… or MIG-…, as printed by nvidia-smi")                               \
	C(T, pci, STRING, ALWAYS, NONE, "", "PCI address domain:bus:device.function")                                  \
	C(T, compute_major, U32, ALWAYS, NONE, "", "compute capability, major part")                                   \
	C(T, compute_minor, U32, ALWAYS, NONE, "", "compute capability, minor part")                                   \
	C(T, multiprocessors, U32, MAYBE, NONE, "", "streaming multiprocessors")                                       \
	C(T, memory_bytes, U64, ALWAYS, NONE, "bytes", "size of the device memory")                                    \
	C(T, l2_bytes, U64, MAYBE, NONE, "bytes", "size of the L2 cache")                                              \
	C(T, clock_khz, U32, MAYBE, NONE, "kHz", "peak clock of the multiprocessors")                                  \
	C(T, memory_clock_khz, U32, MAYBE, NONE, "kHz", "peak memory clock")                                           \
	C(T, memory_bus_bits, U32, MAYBE, NONE, "bits", "width of the memory bus")                                     \
	C(T, warp_size, U32, MAYBE, NONE, "threads", "threads per warp")                                               \
	C(T, max_threads_per_block, U32, MAYBE, NONE, "threads", "largest block")                                      \
	C(T, max_threads_per_multiprocessor, U32, MAYBE, NONE, "threads", "most resident threads")                     \
	C(T, max_blocks_per_multiprocessor, U32, MAYBE, NONE, "blocks", "most resident blocks")                        \
	C(T, registers_per_block, U32, MAYBE, NONE, "registers", "most 32-bit registers of a block")                   \
	C(T, registers_per_multiprocessor, U32, MAYBE, NONE, "registers", "number of 32-bit registers")                \
	C(T, shared_per_block_bytes, U32, MAYBE, NONE, "bytes", "most shared memory of a block by default")            \
	C(T, shared_per_block_optin_bytes, U32, MAYBE, NONE, "bytes", "most shared memory of a block that opts in")    \
	C(T, shared_per_multiprocessor_bytes, U32, MAYBE, NONE, "bytes", "shared memory")                              \
	C(T, reserved_shared_per_block_bytes, U32, MAYBE, NONE, "bytes", "shared memory that the driver reserves per block") \
	C(T, driver_version, U32, ALWAYS, NONE, "", "CUDA version of the driver, 1000*major + 10*minor")               \
	C(T, vendor, ENUM, MAYBE, gpu_vendor, "", "maker of the GPU")
#define ENUM_gpu_vendor(V, E) V(E, unknown, 0) V(E, nvidia, 1) V(E, amd, 2) V(E, intel, 3)
#define TRAITS_device(X, T) X(T, LAST_OF, id)

#define SCHEMA_context(C, T)                                                                                           \
	C(T, id, U32, ALWAYS, NONE, "", "context id")                                                                  \
	C(T, device, U32, ALWAYS, NONE, "", "ordinal of the GPU")                                                      \
	C(T, time_ns, TIME, ALWAYS, NONE, "ns", "time when it was first seen")                                         \
	C(T, destroyed_ns, TIME, MAYBE, NONE, "ns", "time when its destruction began")                                 \
	C(T, null_stream, U32, MAYBE, NONE, "", "stream id of its default stream, for which other blocking streams wait")
#define TRAITS_context(X, T) X(T, LAST_OF, id)

#define SCHEMA_stream(C, T)                                                                                            \
	C(T, id, U32, ALWAYS, NONE, "", "stream id")                                                                   \
	C(T, context, U32, ALWAYS, NONE, "", "context id")                                                             \
	C(T, time_ns, TIME, ALWAYS, NONE, "ns", "time when it was first seen")                                         \
	C(T, priority, I32, MAYBE, NONE, "", "stream priority; lower numbers are more urgent")                         \
	C(T, non_blocking, U8, MAYBE, NONE, "", "1: does not synchronize with the default stream")
#define TRAITS_stream(X, T) X(T, LAST_OF, id, context)

#define SCHEMA_kernel_config(C, T)                                                                                     \
	C(T, id, U32, ALWAYS, NONE, "", "id within the process")                                                       \
	C(T, name, STRING, ALWAYS, NONE, "", "mangled name of the kernel")                                             \
	C(T, grid_x, U32, MAYBE, NONE, "blocks", "grid size")                                                          \
	C(T, grid_y, U32, MAYBE, NONE, "blocks", "grid size")                                                          \
	C(T, grid_z, U32, MAYBE, NONE, "blocks", "grid size")                                                          \
	C(T, block_x, U32, MAYBE, NONE, "threads", "block size")                                                       \
	C(T, block_y, U32, MAYBE, NONE, "threads", "block size")                                                       \
	C(T, block_z, U32, MAYBE, NONE, "threads", "block size")                                                       \
	C(T, cluster_x, U32, MAYBE, NONE, "blocks", "size of a thread block cluster")                                  \
	C(T, cluster_y, U32, MAYBE, NONE, "blocks", "size of a thread block cluster")                                  \
	C(T, cluster_z, U32, MAYBE, NONE, "blocks", "size of a thread block cluster")                                  \
	C(T, cluster_scheduling, ENUM, MAYBE, cluster_scheduling, "", "cluster scheduling policy")                     \
	C(T, registers, U32, MAYBE, NONE, "registers", "registers per thread")                                        \
	C(T, static_shared_bytes, U32, MAYBE, NONE, "bytes", "static shared memory per block")                        \
	C(T, dynamic_shared_bytes, U32, MAYBE, NONE, "bytes", "dynamic shared memory per block")                      \
	C(T, executed_shared_bytes, U32, MAYBE, NONE, "bytes", "shared memory per multiprocessor configured for the run") \
	C(T, local_bytes_per_thread, U32, MAYBE, NONE, "bytes", "local memory reserved per thread")                   \
	C(T, local_bytes_total, U64, MAYBE, NONE, "bytes", "local memory reserved for the kernel")                    \
	C(T, cache_config_requested, ENUM, ALWAYS, cache_config, "", "cache preference requested")                     \
	C(T, cache_config_executed, ENUM, ALWAYS, cache_config, "", "cache preference used")                           \
	C(T, carveout_percent, U32, MAYBE, NONE, "%", "shared memory carve-out requested")                             \
	C(T, launch_type, ENUM, ALWAYS, launch_type, "", "kind of launch")                                             \
	C(T, max_cluster_blocks, U32, MAYBE, NONE, "blocks", "largest cluster that fits")                              \
	C(T, max_active_clusters, U32, MAYBE, NONE, "clusters", "most clusters that can be resident at the same time") \
	C(T, priority, I32, MAYBE, NONE, "", "launch priority (CUPTI 13.1)")
#define TRAITS_kernel_config(X, T) X(T, INTERNED) X(T, LABEL, name)

#define ENUM_cluster_scheduling(V, E) V(E, default, 0) V(E, spread, 1) V(E, load_balancing, 2)
#define ENUM_cache_config(V, E) V(E, unknown, 0) V(E, none, 1) V(E, prefer_shared, 2) V(E, prefer_l1, 3) V(E, prefer_equal, 4)
#define ENUM_launch_type(V, E) V(E, regular, 0) V(E, cooperative, 1) V(E, cooperative_multi_device, 2) V(E, cluster, 3)

/* start_ns and end_ns are missing when CUPTI reports 0, which is counted in `loss`. */
#define SCHEMA_kernel(C, T)                                                                                            \
	C(T, start_ns, TIME, MAYBE, NONE, "ns", "start on the GPU")                                                    \
	C(T, end_ns, TIME, MAYBE, start_ns, "ns", "end on the GPU")                                                    \
	C(T, config, REF, ALWAYS, kernel_config, "", "kernel and launch configuration")                                \
	C(T, correlation, U64, ALWAYS, NONE, "", "correlation id of the launching call; all nodes of a graph launch share one") \
	C(T, device, U32, ALWAYS, NONE, "", "ordinal of the GPU")                                                      \
	C(T, context, U32, ALWAYS, NONE, "", "context id")                                                             \
	C(T, stream, U32, ALWAYS, NONE, "", "stream id")                                                               \
	C(T, channel, U32, MAYBE, NONE, "", "hardware channel")                                                        \
	C(T, channel_type, ENUM, MAYBE, channel_type, "", "kind of hardware channel")                                  \
	C(T, graph, U32, MAYBE, NONE, "", "CUDA graph of which this is a node")                                        \
	C(T, graph_node, U64, MAYBE, NONE, "", "node in that graph")                                                   \
	C(T, queued_ns, TIME, MAYBE, start_ns, "ns", "time when queued in the command buffer (latency timestamps)")    \
	C(T, submitted_ns, TIME, MAYBE, start_ns, "ns", "time when submitted to the GPU (latency timestamps)")         \
	C(T, device_launched, U8, MAYBE, NONE, "", "1: launched from the GPU by a device graph")
#define TRAITS_kernel(X, T)												\
	X(T, GPU_WORK) X(T, HAS, graph) X(T, HAS, graph_node) X(T, LABEL, config)					\
	X(T, LAUNCHED_BY, launch, graph_launch)

#define ENUM_channel_type(V, E) V(E, invalid, 0) V(E, compute, 1) V(E, async_memcpy, 2) V(E, decompression, 3)

#define SCHEMA_memcpy(C, T)                                                                                            \
	C(T, start_ns, TIME, MAYBE, NONE, "ns", "start on the GPU")                                                    \
	C(T, end_ns, TIME, MAYBE, start_ns, "ns", "end on the GPU")                                                    \
	C(T, bytes, U64, MAYBE, NONE, "bytes", "size of the copy")                                                    \
	C(T, kind, ENUM, ALWAYS, copy_kind, "", "direction of the copy")                                               \
	C(T, source_kind, ENUM, ALWAYS, memory_kind, "", "kind of the source memory")                                  \
	C(T, destination_kind, ENUM, ALWAYS, memory_kind, "", "kind of the destination memory")                        \
	C(T, async, U8, MAYBE, NONE, "", "1: asynchronous")                                                            \
	C(T, correlation, U64, ALWAYS, NONE, "", "correlation id of the call that requested it")                       \
	C(T, device, U32, ALWAYS, NONE, "", "ordinal of the GPU")                                                      \
	C(T, context, U32, ALWAYS, NONE, "", "context id")                                                             \
	C(T, stream, U32, ALWAYS, NONE, "", "stream id")                                                               \
	C(T, channel, U32, MAYBE, NONE, "", "hardware channel")                                                        \
	C(T, channel_type, ENUM, MAYBE, channel_type, "", "kind of hardware channel")                                  \
	C(T, graph, U32, MAYBE, NONE, "", "CUDA graph of which this is a node")                                        \
	C(T, graph_node, U64, MAYBE, NONE, "", "node in that graph")                                                   \
	C(T, copies, U64, MAYBE, NONE, "", "copies in a batched call")                                                 \
	C(T, source_device, U32, MAYBE, NONE, "", "peer copies: source device")                                        \
	C(T, source_context, U32, MAYBE, NONE, "", "peer copies: source context")                                      \
	C(T, destination_device, U32, MAYBE, NONE, "", "peer copies: destination device")                              \
	C(T, destination_context, U32, MAYBE, NONE, "", "peer copies: destination context")                            \
	C(T, device_launched, U8, MAYBE, NONE, "", "1: launched from the GPU by a device graph")
#define TRAITS_memcpy(X, T)												\
	X(T, GPU_WORK) X(T, HAS, graph) X(T, HAS, graph_node) X(T, LABEL, kind)						\
	X(T, LAUNCHED_BY, memcpy, graph_launch) X(T, SHOWN, bytes)

#define ENUM_copy_kind(V, E)                                                                                           \
	V(E, unknown, 0) V(E, HtoD, 1) V(E, DtoH, 2) V(E, HtoA, 3) V(E, AtoH, 4) V(E, AtoA, 5) V(E, AtoD, 6) V(E, DtoA, 7) V(E, DtoD, 8) \
	V(E, HtoH, 9) V(E, PtoP, 10)
#define ENUM_memory_kind(V, E)                                                                                         \
	V(E, unknown, 0) V(E, pageable, 1) V(E, pinned, 2) V(E, device, 3) V(E, array, 4) V(E, managed, 5) V(E, device_static, 6) \
	V(E, managed_static, 7) V(E, allocator_segment, 8) V(E, allocator_block, 9) \
	V(E, allocator_request, 10)

#define SCHEMA_memset(C, T)                                                                                            \
	C(T, start_ns, TIME, MAYBE, NONE, "ns", "start on the GPU")                                                    \
	C(T, end_ns, TIME, MAYBE, start_ns, "ns", "end on the GPU")                                                    \
	C(T, bytes, U64, MAYBE, NONE, "bytes", "size of the memory set")                                              \
	C(T, value, U32, MAYBE, NONE, "", "value written")                                                             \
	C(T, memory_kind, ENUM, ALWAYS, memory_kind, "", "kind of the memory")                                         \
	C(T, async, U8, MAYBE, NONE, "", "1: asynchronous")                                                            \
	C(T, correlation, U64, ALWAYS, NONE, "", "correlation id of the call that requested it")                       \
	C(T, device, U32, ALWAYS, NONE, "", "ordinal of the GPU")                                                      \
	C(T, context, U32, ALWAYS, NONE, "", "context id")                                                             \
	C(T, stream, U32, ALWAYS, NONE, "", "stream id")                                                               \
	C(T, channel, U32, MAYBE, NONE, "", "hardware channel")                                                        \
	C(T, channel_type, ENUM, MAYBE, channel_type, "", "kind of hardware channel")                                  \
	C(T, graph, U32, MAYBE, NONE, "", "CUDA graph of which this is a node")                                        \
	C(T, graph_node, U64, MAYBE, NONE, "", "node in that graph")                                                   \
	C(T, device_launched, U8, MAYBE, NONE, "", "1: launched from the GPU by a device graph")
#define TRAITS_memset(X, T)												\
	X(T, GPU_WORK) X(T, HAS, graph) X(T, HAS, graph_node) X(T, LABEL, memory_kind)					\
	X(T, LAUNCHED_BY, memset, graph_launch) X(T, SHOWN, bytes, value)

#define SCHEMA_synchronization(C, T)                                                                                   \
	C(T, start_ns, TIME, MAYBE, NONE, "ns", "start of the wait")                                                   \
	C(T, end_ns, TIME, MAYBE, start_ns, "ns", "end of the wait")                                                   \
	C(T, kind, ENUM, ALWAYS, synchronization_kind, "", "what was waited for")                                      \
	C(T, correlation, U64, ALWAYS, NONE, "", "correlation id of the call")                                         \
	C(T, context, U32, ALWAYS, NONE, "", "context id")                                                             \
	C(T, stream, U32, MAYBE, NONE, "", "stream id; missing when the whole context was waited for")                 \
	C(T, event, U32, MAYBE, NONE, "", "CUDA event id")                                                             \
	C(T, event_record, U64, MAYBE, NONE, "", "number of the record of that event that was waited for (CUPTI 12.8)") \
	C(T, result, I32, MAYBE, NONE, "", "CUresult of the call (CUPTI 12.8)")
#define TRAITS_synchronization(X, T)										\
	X(T, SPAN) X(T, HAS, context) X(T, HAS, stream) X(T, LAUNCHED_BY, synchronize)				\
	X(T, SHOWN, context, stream, event)

#define ENUM_synchronization_kind(V, E)                                                                                \
	V(E, unknown, 0) V(E, event, 1) V(E, stream_wait_event, 2) V(E, stream, 3) V(E, context, 4)

#define SCHEMA_cuda_event(C, T)                                                                                        \
	C(T, correlation, U64, ALWAYS, NONE, "", "correlation id of the call that recorded the event")                 \
	C(T, event, U32, ALWAYS, NONE, "", "CUDA event id")                                                            \
	C(T, context, U32, ALWAYS, NONE, "", "context id")                                                             \
	C(T, stream, U32, ALWAYS, NONE, "", "stream id")                                                               \
	C(T, device, U32, MAYBE, NONE, "", "ordinal of the GPU (CUPTI 12.8)")                                          \
	C(T, event_record, U64, MAYBE, NONE, "", "number of this record of the event (CUPTI 12.8)")                    \
	C(T, time_ns, TIME, MAYBE, NONE, "ns", "time when the GPU reached it, if that was requested")
#define TRAITS_cuda_event(X, T) X(T, MOMENT, time_ns) X(T, LAUNCHED_BY, event, graph_launch) X(T, SHOWN, event)

#define SCHEMA_graph_launch(C, T)                                                                                      \
	C(T, start_ns, TIME, MAYBE, NONE, "ns", "start of the first node")                                             \
	C(T, end_ns, TIME, MAYBE, start_ns, "ns", "end of the last node")                                              \
	C(T, graph, U32, ALWAYS, NONE, "", "CUDA graph")                                                               \
	C(T, correlation, U64, ALWAYS, NONE, "", "correlation id of the launch")                                       \
	C(T, device, U32, ALWAYS, NONE, "", "ordinal of the GPU of the first node")                                    \
	C(T, context, U32, ALWAYS, NONE, "", "context id of the first node")                                           \
	C(T, stream, U32, ALWAYS, NONE, "", "stream id")                                                               \
	C(T, end_device, U32, MAYBE, NONE, "", "ordinal of the GPU of the last node (CUPTI 12.3)")                     \
	C(T, end_context, U32, MAYBE, NONE, "", "context id of the last node (CUPTI 12.3)")
#define TRAITS_graph_launch(X, T) X(T, GPU_WORK) X(T, HAS, graph) X(T, LAUNCHED_BY, graph_launch)

#define SCHEMA_allocation(C, T)                                                                                            \
	C(T, time_ns, TIME, MAYBE, NONE, "ns", "time of the event")                                                    \
	C(T, operation, ENUM, ALWAYS, memory_operation, "", "what was done")                                           \
	C(T, kind, ENUM, ALWAYS, memory_kind, "", "kind of the memory")                                                \
	C(T, address, U64, ALWAYS, NONE, "", "address of the memory")                                                  \
	C(T, bytes, U64, MAYBE, NONE, "bytes", "size of the memory; 0 for a release of unknown size")                 \
	C(T, correlation, U64, ALWAYS, NONE, "", "correlation id of the call")                                         \
	C(T, device, U32, ALWAYS, NONE, "", "ordinal of the GPU")                                                      \
	C(T, context, U32, MAYBE, NONE, "", "context id")                                                              \
	C(T, stream, U32, MAYBE, NONE, "", "stream id of asynchronous operations")                                     \
	C(T, async, U8, MAYBE, NONE, "", "1: asynchronous")                                                            \
	C(T, pool_address, U64, MAYBE, NONE, "", "address of the memory pool that it belongs to")                      \
	C(T, pool_bytes, U64, MAYBE, NONE, "bytes", "size of that pool")                                               \
	C(T, pool_used_bytes, U64, MAYBE, NONE, "bytes", "bytes of that pool in use")                                  \
	C(T, name, STRING, MAYBE, NONE, "", "name of the variable of a static allocation")
#define TRAITS_allocation(X, T)											\
	X(T, MOMENT, time_ns) X(T, LAUNCHED_BY, allocate, release) X(T, SHOWN, bytes, address)

#define ENUM_memory_operation(V, E) V(E, unknown, 0) V(E, allocation, 1) V(E, release, 2)

#define SCHEMA_memory_pool(C, T)                                                                                       \
	C(T, time_ns, TIME, MAYBE, NONE, "ns", "time of the event")                                                    \
	C(T, operation, ENUM, ALWAYS, pool_operation, "", "what was done to the pool")                                 \
	C(T, kind, ENUM, ALWAYS, pool_kind, "", "kind of the pool")                                                    \
	C(T, address, U64, ALWAYS, NONE, "", "address of the pool")                                                    \
	C(T, bytes, U64, ALWAYS, NONE, "bytes", "size of the pool")                                                    \
	C(T, release_threshold_bytes, U64, ALWAYS, NONE, "bytes", "bytes kept when the pool trims itself")             \
	C(T, kept_bytes, U64, MAYBE, NONE, "bytes", "trimmed: bytes to keep at least")                                 \
	C(T, used_bytes, U64, MAYBE, NONE, "bytes", "bytes in use")                                                    \
	C(T, correlation, U64, ALWAYS, NONE, "", "correlation id of the call")                                         \
	C(T, device, U32, ALWAYS, NONE, "", "ordinal of the GPU")
#define TRAITS_memory_pool(X, T) X(T, MOMENT, time_ns) X(T, LAUNCHED_BY, allocate, release)

#define ENUM_pool_operation(V, E) V(E, unknown, 0) V(E, created, 1) V(E, destroyed, 2) V(E, trimmed, 3)
#define ENUM_pool_kind(V, E) V(E, unknown, 0) V(E, local, 1) V(E, imported, 2)

/*
 * The id is api << 16 | number of the function, and equal in all processes with one version of the
 * library. Kind untimed is not a call: it is the origin of GPU work whose call was not recorded.
 * Its api_call has the thread, the stack and a time inside the scope, and is excluded from all
 * counts and sums of calls.
 */
#define SCHEMA_api_function(C, T)                                                                                      \
	C(T, id, U32, ALWAYS, NONE, "", "api (1 driver, 2 runtime) << 16 | number of the function there")              \
	C(T, name, STRING, ALWAYS, NONE, "", "name, such as cudaLaunchKernel_v7000")                                   \
	C(T, kind, ENUM, ALWAYS, api_kind, "", "what the call does")                                                   \
	C(T, waits_for, ENUM, MAYBE, synchronization_kind, "", "what the call waits for, or makes a stream wait for")
#define TRAITS_api_function(X, T) X(T, LAST_OF, id)

#define ENUM_api_kind(V, E)                                                                                            \
	V(E, other, 0) V(E, launch, 1) V(E, graph_launch, 2) V(E, memcpy, 3) V(E, memset, 4) V(E, synchronize, 5) V(E, allocate, 6) \
	V(E, release, 7) V(E, event, 8) V(E, untimed, 9) V(E, host_function, 10) V(E, stream_memory, 11)                      \
	V(E, begin_capture, 12) V(E, end_capture, 13) V(E, query, 14)

#define SCHEMA_api_call(C, T)                                                                                          \
	C(T, start_ns, TIME, ALWAYS, NONE, "ns", "time of the call")                                                   \
	C(T, end_ns, TIME, ALWAYS, start_ns, "ns", "time of the return")                                               \
	C(T, function, REF, ALWAYS, api_function, "", "function called")                                               \
	C(T, thread, U32, ALWAYS, NONE, "", "thread id (gettid)")                                                      \
	C(T, correlation, U64, ALWAYS, NONE, "", "correlation id")                                                     \
	C(T, result, I32, MAYBE, NONE, "", "CUresult or cudaError_t; missing for success")                             \
	C(T, stack, U32, MAYBE, NONE, "", "call stack of the caller")                                                  \
	C(T, stream, U32, MAYBE, NONE, "", "stream id; of calls about events, host functions, memory operations, captures and synchronization") \
	C(T, event, U64, MAYBE, NONE, "", "handle of the CUDA event that the call records or waits for; handles are reused") \
	C(T, context, U32, MAYBE, NONE, "", "context of that stream, or that such a call synchronizes with")
#define TRAITS_api_call(X, T) X(T, SPAN)

#define SCHEMA_nvtx(C, T)                                                                                              \
	C(T, time_ns, TIME, ALWAYS, NONE, "ns", "time of the event")                                                   \
	C(T, kind, ENUM, ALWAYS, nvtx_kind, "", "push and pop nest on a thread; start and end have the same range; token names the innermost range open on the thread") \
	C(T, thread, U32, ALWAYS, NONE, "", "thread id (gettid)")                                                      \
	C(T, domain, U32, ALWAYS, NONE, "", "id in nvtx_domain; 0 is the default domain")                              \
	C(T, range, U64, MAYBE, NONE, "", "start, end, token: id of the range within the process; push: id of the scope that it continues") \
	C(T, message, STRING, MAYBE, NONE, "", "message of the range or mark")                                         \
	C(T, category, U32, MAYBE, NONE, "", "id in nvtx_category")                                                    \
	C(T, color, U32, MAYBE, NONE, "", "ARGB")                                                                      \
	C(T, payload_kind, ENUM, MAYBE, nvtx_payload, "", "type of payload; runs: repeats of a scope, with its warm-ups in the upper 32 bits") \
	C(T, payload, U64, MAYBE, NONE, "", "payload, as bits")                                                        \
	C(T, level, U8, MAYBE, NONE, "", "push, pop: number of enclosing ranges of this thread and domain, at most 30")
#define TRAITS_nvtx(X, T) X(T, MOMENT, time_ns)

#define ENUM_nvtx_kind(V, E) V(E, push, 0) V(E, pop, 1) V(E, start, 2) V(E, end, 3) V(E, mark, 4) V(E, token, 5)
#define ENUM_nvtx_payload(V, E) V(E, none, 0) V(E, u64, 1) V(E, i64, 2) V(E, f64, 3) V(E, u32, 4) V(E, i32, 5) V(E, f32, 6) \
	V(E, runs, 7)

#define SCHEMA_nvtx_domain(C, T)                                                                                       \
	C(T, id, U32, ALWAYS, NONE, "", "id within the process, from 1")                                               \
	C(T, name, STRING, ALWAYS, NONE, "", "name of the domain")
#define TRAITS_nvtx_domain(X, T) X(T, LAST_OF, id)

#define SCHEMA_nvtx_category(C, T)                                                                                     \
	C(T, domain, U32, ALWAYS, NONE, "", "domain id")                                                               \
	C(T, id, U32, ALWAYS, NONE, "", "category id within the domain")                                               \
	C(T, name, STRING, ALWAYS, NONE, "", "name of the category")
#define TRAITS_nvtx_category(X, T) X(T, LAST_OF, domain, id)

#define SCHEMA_overhead(C, T)                                                                                          \
	C(T, start_ns, TIME, MAYBE, NONE, "ns", "start")                                                               \
	C(T, end_ns, TIME, MAYBE, start_ns, "ns", "end")                                                               \
	C(T, kind, ENUM, ALWAYS, overhead_kind, "", "what the library spent the time on")                              \
	C(T, thread, U32, MAYBE, NONE, "", "thread id (gettid)")                                                       \
	C(T, correlation, U64, MAYBE, NONE, "", "correlation id of the delayed call")
#define TRAITS_overhead(X, T) X(T, SPAN) X(T, SHOWN, thread)

#define ENUM_overhead_kind(V, E)                                                                                       \
	V(E, unknown, 0) V(E, compiler, 1) V(E, buffer_flush, 2) V(E, instrumentation, 3) V(E, resource, 4) V(E, module_loading, 5) \
	V(E, lazy_function_loading, 6) V(E, command_buffer_full, 7) V(E, buffer_request, 8) V(E, uvm_init, 9)

#define SCHEMA_external_correlation(C, T)                                                                              \
	C(T, kind, U32, ALWAYS, NONE, "", "CUpti_ExternalCorrelationKind")                                             \
	C(T, id, U64, ALWAYS, NONE, "", "id from the framework or the program")                                        \
	C(T, correlation, U64, ALWAYS, NONE, "", "correlation id of the CUDA call")
#define TRAITS_external_correlation(X, T)

/*
 * Early versions wrote all names as text, into `other`; readers move those that they know to
 * `name`.
 */
#define SCHEMA_capability(C, T)                                                                                        \
	C(T, time_ns, TIME, ALWAYS, NONE, "ns", "time of the decision")                                                \
	C(T, other, STRING, MAYBE, NONE, "", "name of a feature that `name` does not list, of an imported log")        \
	C(T, state, ENUM, ALWAYS, capability_state, "", "state of the feature")                                        \
	C(T, requested, STRING, MAYBE, NONE, "", "what was requested")                                                 \
	C(T, actual, STRING, MAYBE, NONE, "", "what is in effect")                                                     \
	C(T, reason, STRING, MAYBE, NONE, "", "why it differs from the request")                                       \
	C(T, method, ENUM, MAYBE, sampling_method, "", "feature cpu: sampling method")                                 \
	C(T, name, ENUM, ALWAYS, feature, "", "feature, such as cupti or synchronization")
#define TRAITS_capability(X, T) X(T, LAST_OF, name, other)

#define ENUM_feature(V, E)                                                                                             \
	V(E, other, 0) V(E, cupti, 1) V(E, gpu, 2) V(E, cpu, 3) V(E, cpu_timer, 4) V(E, cpu_time, 5)                   \
	V(E, cpu_python, 6) V(E, off_cpu, 7) V(E, stacks, 8) V(E, python_stacks, 9) V(E, symbols, 10)                  \
	V(E, processes, 11) V(E, injection, 12) V(E, window, 13) V(E, engine_window, 14) V(E, app_name, 15)            \
	V(E, settings, 16) V(E, program_settings, 17) V(E, environment, 18) V(E, own_profiler, 19)                     \
	V(E, perfetto, 20) V(E, nvml, 21) V(E, host_counters, 22) V(E, counters, 23) V(E, clock, 24) V(E, cost, 25)    \
	V(E, engine, 26) V(E, metrics, 27) V(E, graph_metrics, 28) V(E, sampling_interval, 29)                         \
	V(E, replay_memory, 30) V(E, latency_timestamps, 31) V(E, api_call, 32) V(E, kernel, 33) V(E, memcpy, 34)      \
	V(E, memcpy_peer, 35) V(E, memset, 36) V(E, synchronization, 37) V(E, cuda_event, 38) V(E, allocation, 39)     \
	V(E, memory_pool, 40) V(E, graph_launch, 41) V(E, graph_node, 42) V(E, overhead, 43)                           \
	V(E, external_correlation, 44) V(E, context, 45) V(E, stream, 46) V(E, device, 47) V(E, import, 48)            \
	V(E, session, 49) V(E, collectives, 50) V(E, last_moments, 51) V(E, ring, 52) V(E, rocm, 53) \
	V(E, topology, 54) V(E, threads, 55) V(E, calibration, 56) V(E, allocator, 57) V(E, gpu_core, 58)
#define ENUM_sampling_method(V, E) V(E, ebpf, 0) V(E, perf_events, 1) V(E, timer, 2)
#define ENUM_capability_state(V, E) V(E, on, 0) V(E, off, 1) V(E, degraded, 2) V(E, unavailable, 3)

#define SCHEMA_loss(C, T)                                                                                              \
	C(T, reason, ENUM, ALWAYS, loss_reason, "", "why the data is missing")                                         \
	C(T, count, U64, ALWAYS, NONE, "", "items lost; 0: unknown")                                                   \
	C(T, start_ns, TIME, ALWAYS, NONE, "ns", "start of the interval in which it was lost")                         \
	C(T, end_ns, TIME, ALWAYS, start_ns, "ns", "end of that interval")                                             \
	C(T, detail, STRING, MAYBE, NONE, "", "details")
#define TRAITS_loss(X, T)

#define ENUM_loss_reason(V, E)                                                                                         \
	V(E, unknown, 0)                                                                                               \
	V(E, ring_full, 1)               /* a thread made events faster than the collector drained its ring */         \
	V(E, gpu_records_dropped, 2)     /* by the GPU's profiling library */                                          \
	V(E, no_buffer, 3)               /* the library requested a buffer while the pool was empty */                 \
	V(E, no_time, 4)                 /* the record is stored, but start or end was 0 */                            \
	V(E, reversed_time, 5)           /* the record is stored, but end was before start */                          \
	V(E, incomplete_record, 6)       /* still running when recording ended */                                      \
	V(E, disk_full, 7)                                                                                             \
	V(E, write_error, 8)                                                                                           \
	V(E, size_limit, 9)              /* --max-size */                                                              \
	V(E, no_memory, 10)                                                                                            \
	V(E, unknown_record, 11)         /* record of a kind or size that this version cannot read */                  \
	V(E, thread_limit, 12)           /* more threads than rings */                                                 \
	V(E, damaged_file, 13)           /* reader: bytes were skipped */                                              \
	V(E, truncated_file, 14)         /* reader: the segment was not closed in order */                             \
	V(E, missing_segment, 15)        /* reader: gap in a process's segment numbers */                              \
	V(E, clock_step, 16)             /* the library's clock jumped; times around the jump are less precise */      \
	V(E, missing_kernels, 17)        /* launches without any kernel record */                                      \
	V(E, string_limit, 18)           /* a name was truncated or dropped */                                         \
	V(E, late_start, 19)             /* the program used CUDA before recording began */                            \
	V(E, stack_limit, 20)            /* call stacks dropped: the recorder's tables were full */                    \
	V(E, samples_dropped, 21)        /* CPU samples dropped by the operating system's kernel */                    \
	V(E, throttled, 22)              /* times that the operating system's kernel throttled sampling */             \
	V(E, process_limit, 23)          /* processes not sampled: too many */                                         \
	V(E, unnamed_frames, 24)         /* Python frames whose code object was gone before its name was read */       \
	V(E, unreadable_buffer, 25)      /* record buffers that the library could not read completely */               \
	V(E, gpu_runtime_failed, 26)     /* times that the library failed: no GPU work is recorded after that */       \
	V(E, disk_slow, 27)              /* blocks were sealed faster than the disk wrote them */                      \
	V(E, gpu_hang, 28)               /* calls of the library or the driver that did not return: finished work is missing */ \
	V(E, unmeasured, 29)             /* launches without the hardware counters that were requested */              \
	V(E, own_profiler, 30)           /* GPU work while the program's own profiler used the library */              \
	V(E, refused_segment, 31)        /* segments that a process could not create: all that it did is missing */    \
	V(E, events_beyond_limit, 32)    /* events of the threads of thread_limit */                                   \
	V(E, end_limit, 33)              /* events that were not read yet when the end had taken too long */           \
	V(E, overwritten, 34)            /* reader: segments that a ring has dropped, as requested */                  \
	V(E, unread_event, 35)           /* of the last moments, of a kind that only the process itself can read */    \
	V(E, unread_collective, 36)      /* of the last moments: its communicator is not known */                      \
	V(E, allocations_dropped, 37)    /* of a framework's allocator, by the operating system's kernel */            \
	V(E, allocation_stacks, 38)      /* stacks that were not read, so that their allocations could be stored */    \
	V(E, unknown_release, 39)        /* to a framework's allocator: of what was not seen to be allocated */     \
	V(E, unread_records, 40)         /* of the last moments, behind one of unknown size: which launches they can \
					    be of is in unfinished */

#define SCHEMA_cost(C, T)                                                                                              \
	C(T, start_ns, TIME, ALWAYS, NONE, "ns", "start of the period measured")                                       \
	C(T, end_ns, TIME, ALWAYS, start_ns, "ns", "end of the period")                                                \
	C(T, kind, ENUM, ALWAYS, cost_kind, "", "where the time was spent")                                            \
	C(T, count, U64, ALWAYS, NONE, "", "number of times")                                                          \
	C(T, total_ns, U64, ALWAYS, NONE, "ns", "time spent in the period")                                            \
	C(T, bytes, U64, MAYBE, NONE, "bytes", "bytes written, for kinds that write")
#define TRAITS_cost(X, T)

/*
 * callback: time on the target's threads, estimated from every 64th call. collector: CPU time of
 * Pitot's own threads. write: wall time that the collector spent writing. sampler: CPU time of the
 * sampler outside. timer_sample: CPU samples by timers, on the target's threads. replay: wall time
 * of measured launches (range-profiler, sass-metrics).
 */
#define ENUM_cost_kind(V, E)                                                                                           \
	V(E, callback, 0) V(E, collector, 1) V(E, setup, 2) V(E, exit, 3) V(E, buffer_request, 4) V(E, write, 5) V(E, sampler, 6) \
	V(E, timer_sample, 7) V(E, replay, 8)

/* What `pitot calibrate` had measured on the machine when `pitot record` began. */
#define SCHEMA_calibration(C, T)                                                                                       \
	C(T, version, STRING, ALWAYS, NONE, "", "version of Pitot")                                                    \
	C(T, host, STRING, ALWAYS, NONE, "", "name of the host")                                                       \
	C(T, gpu, STRING, ALWAYS, NONE, "", "name of the GPU")                                                         \
	C(T, driver_version, U32, ALWAYS, NONE, "", "as device.driver_version")                                        \
	C(T, rounds, U32, ALWAYS, NONE, "", "how often it was measured")                                               \
	C(T, launch_ns, U64, ALWAYS, NONE, "ns", "what recording adds to a launching call")                            \
	C(T, launch_spread_ns, U64, ALWAYS, NONE, "ns", "+/- this")                                                    \
	C(T, synchronize_ns, U64, ALWAYS, NONE, "ns", "what it adds to a call that waits for the GPU")                 \
	C(T, synchronize_spread_ns, U64, ALWAYS, NONE, "ns", "+/- this")                                               \
	C(T, graph_launch_ns, U64, MAYBE, NONE, "ns", "what it adds to a launch of a graph of one kernel")             \
	C(T, graph_launch_spread_ns, U64, MAYBE, NONE, "ns", "+/- this")                                               \
	C(T, graph_launch_bare_ns, U64, MAYBE, NONE, "ns", "what such a launch takes without recording")               \
	C(T, node_call_ns, U64, MAYBE, NONE, "ns", "what recording adds to the launch for each further node")          \
	C(T, node_call_spread_ns, U64, MAYBE, NONE, "ns", "+/- this")                                                  \
	C(T, node_call_bare_ns, U64, MAYBE, NONE, "ns", "what a further node takes in the launch without recording")   \
	C(T, node_gap_ns, U64, MAYBE, NONE, "ns", "what recording adds between two nodes on the GPU")                  \
	C(T, node_gap_spread_ns, U64, MAYBE, NONE, "ns", "+/- this")                                                   \
	C(T, node_gap_bare_ns, U64, MAYBE, NONE, "ns", "time between two nodes by the GPU's timer without recording")  \
	C(T, node_latency_ns, U64, MAYBE, NONE, "ns", "time between two nodes as recorded, less what recording adds")  \
	C(T, node_latency_spread_ns, U64, MAYBE, NONE, "ns", "+/- this")                                               \
	C(T, eager_ns, U64, MAYBE, NONE, "ns", "what recording adds to a launch in a loop like an eager framework's")  \
	C(T, eager_spread_ns, U64, MAYBE, NONE, "ns", "+/- this")                                                      \
	C(T, eager_bare_ns, U64, MAYBE, NONE, "ns", "what a launch takes in that loop without recording")              \
	C(T, replay_floor_ns, U64, MAYBE, NONE, "ns", "time between two kernels by that timer: least of replays")      \
	C(T, timer_step_ns, U64, MAYBE, NONE, "ns", "step of the GPU's timer")
#define TRAITS_calibration(X, T)

#define SCHEMA_counter(C, T)                                                                                           \
	C(T, id, U32, ALWAYS, NONE, "", "id within the process")                                                       \
	C(T, name, STRING, ALWAYS, NONE, "", "name of the counter, such as gpu_power")                                 \
	C(T, unit, STRING, ALWAYS, NONE, "", "unit, such as W, %, MHz, bytes, C")                                      \
	C(T, decimals, U32, ALWAYS, NONE, "", "value / 10^decimals is the reading in that unit")                       \
	C(T, description, STRING, ALWAYS, NONE, "", "what the counter measures")                                       \
	C(T, reading, ENUM, MAYBE, counter_reading, "", "type of counter_sample.value; missing: integer")              \
	C(T, kind, ENUM, MAYBE, counter_kind, "", "kind of values; missing: level")
#define TRAITS_counter(X, T) X(T, LAST_OF, id)

#define ENUM_counter_reading(V, E) V(E, integer, 0) V(E, real, 1)

/*
 * level: valid until the next sample. sum: only grows; differences count. bits: a set of
 * conditions. event: a code of what happened.
 */
#define ENUM_counter_kind(V, E) V(E, level, 0) V(E, sum, 1) V(E, bits, 2) V(E, event, 3)

#define SCHEMA_counter_sample(C, T)                                                                                    \
	C(T, time_ns, TIME, ALWAYS, NONE, "ns", "time of the reading")                                                 \
	C(T, counter, REF, ALWAYS, counter, "", "counter that was read")                                               \
	C(T, device, U32, MAYBE, NONE, "", "ordinal of the GPU; missing for counters of the host")                     \
	C(T, value, I64, ALWAYS, NONE, "", "value read; real: the bits of a double")                                   \
	C(T, thread, U32, MAYBE, NONE, "", "the program's gauges: thread id (gettid) of the thread that set the value")
#define TRAITS_counter_sample(X, T) X(T, MOMENT, time_ns)

#define SCHEMA_graph_node(C, T)                                                                                        \
	C(T, time_ns, TIME, ALWAYS, NONE, "ns", "time when the node was created")                                      \
	C(T, node, U64, ALWAYS, NONE, "", "graph node id")                                                             \
	C(T, graph, U32, MAYBE, NONE, "", "graph id")                                                                  \
	C(T, kind, ENUM, ALWAYS, graph_node_kind, "", "what the node does")                                            \
	C(T, original, U64, MAYBE, NONE, "", "node from which it was cloned")                                          \
	C(T, thread, U32, ALWAYS, NONE, "", "thread id (gettid)")                                                      \
	C(T, correlation, U64, MAYBE, NONE, "", "correlation id of the creating call, if that is recorded")            \
	C(T, stack, U32, MAYBE, NONE, "", "call stack of its creation; clones: see the original")
#define TRAITS_graph_node(X, T) X(T, LAST_USED, node) X(T, USES, original, graph_node)

#define ENUM_graph_node_kind(V, E)                                                                                     \
	V(E, kernel, 0) V(E, memcpy, 1) V(E, memset, 2) V(E, host, 3) V(E, graph, 4) V(E, empty, 5) V(E, wait_event, 6)       \
	V(E, record_event, 7) V(E, signal_semaphore, 8) V(E, wait_semaphore, 9) V(E, allocate, 10) V(E, release, 11)          \
	V(E, memory_operations, 12) V(E, conditional, 13)

/*
 * Parents are written before their children. Python frames replace the interpreter's own frames.
 * `address` is the return address of native callers; the recorder's id of the code object for
 * Python frames; the address for frames of the operating system's kernel, for the innermost one the
 * next address, so that address - 1 is inside the function.
 */
#define SCHEMA_stack_node(C, T)                                                                                        \
	C(T, id, U32, ALWAYS, NONE, "", "id within the process, from 1")                                               \
	C(T, parent, U32, ALWAYS, NONE, "", "id of the caller's node; 0 for the outermost frame")                      \
	C(T, kind, ENUM, ALWAYS, frame_kind, "", "kind of code")                                                       \
	C(T, address, U64, ALWAYS, NONE, "", "return address; interrupted: address of the instruction; python: code object") \
	C(T, function, STRING, MAYBE, NONE, "", "Python: qualified name of the function")                              \
	C(T, file, STRING, MAYBE, NONE, "", "Python: source file")                                                     \
	C(T, line, U32, MAYBE, NONE, "", "Python: line being executed")
#define TRAITS_stack_node(X, T) X(T, INTERNED)

#define ENUM_frame_kind(V, E) V(E, native, 0) V(E, python, 1) V(E, kernel, 2) V(E, interrupted, 3)

#define SCHEMA_stack(C, T)                                                                                             \
	C(T, id, U32, ALWAYS, NONE, "", "id that api_call.stack and other columns refer to; 0: no stack")              \
	C(T, node, U32, ALWAYS, NONE, "", "id of the innermost frame's node")                                          \
	C(T, depth, U32, ALWAYS, NONE, "frames", "number of frames")                                                   \
	C(T, end, ENUM, ALWAYS, stack_end, "", "whether the stack is complete, and if not, why")
#define TRAITS_stack(X, T) X(T, INTERNED)

#define ENUM_stack_end(V, E)                                                                                           \
	V(E, complete, 0)                /* reached _start, clone or the thread's start function */                    \
	V(E, partial, 1)                 /* ends at code whose unwind information could not be read */                 \
	V(E, truncated, 2)               /* ends at code without unwind information */                                 \
	V(E, depth, 3)                   /* ends at the depth limit */                                                 \
	V(E, guessed, 4)                 /* complete, but through such code by frame pointers: a frame may be missing */

#define STACK_ENDS 5

/*
 * Limits of a stack, however it is recorded: of native frames, of Python frames, of both together.
 * A stack that exceeds one has its innermost frames and ends with stack_end_depth. Frames of the
 * operating system's kernel come in addition.
 */
#define STACK_NATIVE_MAX 16384u
#define STACK_PYTHON_MAX 16384u
#define STACK_FRAMES_MAX (STACK_NATIVE_MAX + STACK_PYTHON_MAX)
#define STACK_KERNEL_MAX 256u
#define STACK_DEPTH_MAX (STACK_FRAMES_MAX + STACK_KERNEL_MAX)

#define SCHEMA_symbol(C, T)                                                                                            \
	C(T, address, U64, ALWAYS, NONE, "", "address as in stack_node, in the process of the session")                \
	C(T, inline_depth, U32, ALWAYS, NONE, "", "0: the function itself; n: inlined into n-1")                       \
	C(T, function, STRING, MAYBE, NONE, "", "demangled name; missing when unknown")                                \
	C(T, module, STRING, MAYBE, NONE, "", "file that contains the code")                                           \
	C(T, file, STRING, MAYBE, NONE, "", "source file")                                                             \
	C(T, line, U32, MAYBE, NONE, "", "source line")                                                                \
	C(T, function_start, U64, MAYBE, NONE, "", "ELF address of the function's first instruction")                  \
	C(T, session, U64, ALWAYS, NONE, "", "session id (segment header) of the process that the address belongs to")
#define TRAITS_symbol(X, T)

/* All enums of these files. */
#define SCHEMA_ENUMS(E)                                                                                                \
	E(process_source) E(gpu_vendor) E(cluster_scheduling) E(cache_config) E(launch_type) E(channel_type)                         \
	E(copy_kind) E(memory_kind) E(synchronization_kind) E(memory_operation) E(pool_operation)                      \
	E(pool_kind) E(api_kind) E(nvtx_kind) E(nvtx_payload) E(counter_reading) E(counter_kind) E(overhead_kind) E(capability_state) \
	E(feature) E(sampling_method) E(loss_reason) E(cost_kind) E(frame_kind) E(stack_end) E(graph_node_kind) E(off_cpu_state) E(range_kind) \
	E(job_launcher) E(collective_function) E(nccl_datatype) E(collective_source) E(unfinished_kind) E(thread_state) E(trigger_outcome) \
	E(topology_kind) E(topology_way)
/* clang-format on */

#endif
