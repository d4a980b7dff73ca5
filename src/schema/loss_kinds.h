/*
 * loss_kinds.h: what each reason of a loss is called, what was lost, and what that does to the
 * figures of a report.
 */
#ifndef PITOT_SCHEMA_LOSS_KINDS_H
#define PITOT_SCHEMA_LOSS_KINDS_H

#include <stdint.h>

enum loss_effect {
	LOSS_CHANGES_NOTHING, /* no figure differs visibly */
	LOSS_CHANGES_SOME, /* some figures are slightly too small, or details are missing */
	LOSS_UNSAFE, /* figures and verdict cover only a part */
};

/* What is lost decides the effect: for countable items it depends on their share. */
enum loss_items {
	LOST_EVENTS, /* of all kinds */
	LOST_GPU_RECORDS, /* records of the GPU's profiling library, such as CUPTI */
	LOST_GPU_TIMES, /* the records are there, without usable times */
	LOST_NAMES, /* of sampled code, whose time is counted */
	LOST_TAIL, /* the last moments of a process, if it recorded anything */
	LOST_DETAILS, /* which no sum contains */
	LOST_PART, /* an unknown number of events */
	LOST_BY_REQUEST, /* what is before the recording */
};

/* L(reason, items, text that follows the count 1, text that follows any other) */
/* clang-format off */
#define LOSS_KINDS(L)                                                                              \
	L(unknown, LOST_EVENTS, "event lost for an unknown reason",                                \
	  "events lost for an unknown reason")                                                     \
	L(ring_full, LOST_EVENTS, "event lost: the ring of a thread was full",                     \
	  "events lost: the ring of a thread was full")                                            \
	L(gpu_records_dropped, LOST_GPU_RECORDS, "record dropped by the GPU's library",            \
	  "records dropped by the GPU's library")                                                  \
	L(no_buffer, LOST_DETAILS, "time the GPU's library found no free buffer",                  \
	  "times the GPU's library found no free buffer")                                          \
	L(no_time, LOST_GPU_TIMES, "record without times (kept)", "records without times (kept)")  \
	L(reversed_time, LOST_GPU_TIMES, "record with an end before the start (kept)",             \
	  "records with an end before the start (kept)")                                           \
	L(incomplete_record, LOST_DETAILS, "operation still running at the end",                   \
	  "operations still running at the end")                                                   \
	L(disk_full, LOST_EVENTS, "row lost: the disk was full", "rows lost: the disk was full")   \
	L(write_error, LOST_EVENTS, "row lost: writing failed", "rows lost: writing failed")       \
	L(size_limit, LOST_EVENTS, "row dropped: --max-size was reached",                          \
	  "rows dropped: --max-size was reached")                                                  \
	L(no_memory, LOST_EVENTS, "row lost: out of memory", "rows lost: out of memory")           \
	L(unknown_record, LOST_GPU_RECORDS, "record of an unknown kind or size",                   \
	  "records of an unknown kind or size")                                                    \
	L(thread_limit, LOST_DETAILS, "thread not recorded: too many at the same time",            \
	  "threads not recorded: too many at the same time")                                       \
	L(events_beyond_limit, LOST_EVENTS, "event not recorded: too many threads",                \
	  "events not recorded: too many threads")                                                 \
	L(end_limit, LOST_EVENTS, "event lost: there were more than the end could wait for",       \
	  "events lost: there were more than the end could wait for")                              \
	L(damaged_file, LOST_PART, "damaged piece of the recording, skipped",                      \
	  "damaged pieces of the recording, skipped")                                              \
	L(truncated_file, LOST_TAIL,                                                               \
	  "segment without an end (_exit, a signal, a crash, or still running): the last rows may " \
	  "be missing",                                                                            \
	  "segments without an end (_exit, signals, crashes, or still running): the last rows may " \
	  "be missing")                                                                            \
	L(missing_segment, LOST_PART, "segment missing", "segments missing")                       \
	L(overwritten, LOST_BY_REQUEST, "segment overwritten by the ring, as requested",           \
	  "segments overwritten by the ring, as requested")                                        \
	L(unread_event, LOST_EVENTS, "event of the last moments of a kind that is not read there", \
	  "events of the last moments of kinds that are not read there")                           \
	L(unread_collective, LOST_EVENTS, "collective of the last moments that could not be read", \
	  "collectives of the last moments that could not be read")                                \
	L(allocations_dropped, LOST_EVENTS,                                                        \
	  "allocation or release dropped by the operating system's kernel",                        \
	  "allocations and releases dropped by the operating system's kernel")                     \
	L(allocation_stacks, LOST_DETAILS, "allocation whose stack was not read, for want of time", \
	  "allocations whose stacks were not read, for want of time")                              \
	L(unknown_release, LOST_DETAILS, "release of memory that was not seen to be allocated",    \
	  "releases of memory that was not seen to be allocated")                                  \
	L(unread_records, LOST_GPU_RECORDS,                                                        \
	  "buffer of the last moments that could not be read from a record of unknown size on",    \
	  "buffers of the last moments that could not be read from a record of unknown size on")   \
	L(clock_step, LOST_DETAILS, "step of the GPU's clock, nearby times are less certain",      \
	  "steps of the GPU's clock, nearby times are less certain")                               \
	L(missing_kernels, LOST_GPU_RECORDS, "launch without a record of its kernel",              \
	  "launches without a record of their kernel")                                             \
	L(string_limit, LOST_DETAILS, "text cut or dropped", "texts cut or dropped")               \
	L(late_start, LOST_DETAILS, "time recording began after CUDA was in use",                  \
	  "times recording began after CUDA was in use")                                           \
	L(stack_limit, LOST_DETAILS, "call stack dropped: too many distinct ones",                 \
	  "call stacks dropped: too many distinct ones")                                           \
	L(samples_dropped, LOST_EVENTS, "CPU sample dropped by the operating system's kernel",     \
	  "CPU samples dropped by the operating system's kernel")                                  \
	L(throttled, LOST_DETAILS, "time the operating system's kernel paused CPU sampling",       \
	  "times the operating system's kernel paused CPU sampling")                               \
	L(process_limit, LOST_DETAILS, "process over the limit, not sampled",                      \
	  "processes over the limit, not sampled")                                                 \
	L(unnamed_frames, LOST_NAMES, "Python frame freed before it was named",                    \
	  "Python frames freed before they were named")                                            \
	L(unreadable_buffer, LOST_PART,                                                            \
	  "buffer of records that the GPU's library could not read completely",                    \
	  "buffers of records that the GPU's library could not read completely")                   \
	L(refused_segment, LOST_PART, "process could not begin a segment",                         \
	  "processes could not begin a segment")                                                   \
	L(gpu_runtime_failed, LOST_PART,                                                           \
	  "time the GPU's library failed: later GPU work is missing",                              \
	  "times the GPU's library failed: later GPU work is missing")                             \
	L(disk_slow, LOST_EVENTS, "row lost: the disk was too slow",                               \
	  "rows lost: the disk was too slow")                                                      \
	L(gpu_hang, LOST_PART, "call of the GPU's library or driver did not return: finished work is " \
	  "missing",                                                                               \
	  "calls of the GPU's library or driver did not return: finished work is missing")         \
	L(unmeasured, LOST_DETAILS, "launch without its hardware counters",                        \
	  "launches without their hardware counters")                                              \
	L(own_profiler, LOST_GPU_RECORDS,                                                          \
	  "launch while the program's own profiler had the GPU's library",                         \
	  "launches while the program's own profiler had the GPU's library")
/* clang-format on */

/* "records dropped by the GPU's library": follows the count; 0: unknown, "some". */
const char *loss_text(unsigned reason, uint64_t count);
enum loss_items loss_items(unsigned reason);
/*
 * Effect of losing so many items (0: an unknown number) where so many were recorded. Up to a
 * thousandth changes nothing, a twentieth and more is unsafe.
 */
enum loss_effect loss_effect(enum loss_items items, uint64_t lost, uint64_t recorded);
/* "none", "some", "unsafe": stable, for JSON. */
const char *loss_effect_name(unsigned effect);

#endif
