/*
 * sampled_processes.h: the sampled processes: their executable mappings, and the segments that
 * their samples are written to.
 *
 * A process image (from a fork or exec to the next exec or the exit) is a target. Its first sample
 * opens a writer (cpu-<pid>.<n>.pit, with its own session); modules, stacks and threads are rows of
 * that writer. Unwind rules belong to files and are shared by all targets; they are compiled on the
 * sampler's thread when a sample first needs them. Files are opened through /proc/PID/map_files and
 * /proc/PID/root, so that containers and deleted files work.
 *
 * To be used by one thread. Events must be passed in order of time. Samples that cannot be stored
 * are counted and become rows of `loss`.
 */
#ifndef PITOT_SAMPLER_SAMPLED_PROCESSES_H
#define PITOT_SAMPLER_SAMPLED_PROCESSES_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/folder.h"
#include "sampler/process_memory.h"
#include "schema/schema.h"
#include "stack/frame.h"
#include "stack/unwind/unwind_parts.h"

struct file_copies;
struct targets;
struct target;

struct targets_options {
	const char *directory; /* not copied */
	struct folder_id folder;
	uint64_t max_bytes; /* limit for all segments together; 0: none */
	uint64_t period_ns; /* between samples */
	uint32_t processes_max; /* maximum number of processes with segments; 0: 4096 */
	struct file_copies *file_copies; /* NULL: none */
};

int targets_new(const struct targets_options *options, struct targets **out,
		struct error *e) MUST_USE;
/* Closes all segments. Returns the first error of writing, or 0. */
int targets_free(struct targets *t, struct error *e);

/* The target with this process id, or NULL. Valid until the next event of its process. */
struct target *targets_find(struct targets *t, pid_t pid);

/* --- events --- */

/* Finds or adds a running process; reads mappings and threads from /proc. NULL: no room. */
struct target *targets_running(struct targets *t, pid_t pid, uint64_t time_ns);
/* Adds the process of a core file (CORE_PROCESS of process_memory.h). NULL: no room. */
struct target *targets_core(struct targets *t, pid_t pid, const char *name, const char *command,
			    uint64_t time_ns);
void targets_fork(struct targets *t, pid_t parent, pid_t child, uint64_t time_ns);
/* The process runs a new program: its mappings are forgotten, and a new session begins. */
void targets_exec(struct targets *t, pid_t pid, uint64_t time_ns);
void targets_exit(struct targets *t, pid_t pid, uint64_t time_ns);
void targets_thread_name(struct targets *t, pid_t pid, pid_t tid, const char *name,
			 uint64_t time_ns);

/* Reads the mappings from /proc again, after events were lost. */
void targets_maps_read(struct targets *t, pid_t pid, uint64_t time_ns);
/* Executable memory was mapped; older mappings are cut where it overlaps them. */
void targets_map(struct targets *t, pid_t pid, const struct target_mapping *mapping,
		 uint64_t time_ns);

/* --- address ranges --- */

struct target_range {
	uint64_t start, end;
	uint64_t bias; /* address minus ELF virtual address */
	/*
	 * Unwind rules, by ELF virtual address. NULL: there is no call frame information, or the
	 * file has not been looked up.
	 */
	struct unwind_parts *parts;
	uint32_t file; /* number of the file, the same in all targets; 0: no file */
};
/*
 * All executable ranges of a target, ascending. Valid until the next event. bias, parts and file
 * are set in the ranges for which target_range_at() was called, in this process or before its fork.
 */
const struct target_range *target_ranges(const struct target *p, size_t *count);
/* The range of an address, with its file looked up; NULL: nothing executable is there. */
const struct target_range *target_range_at(struct targets *t, struct target *p, uint64_t address);
/* Opens the file of a process's mapping. Returns a descriptor, or -1: it is gone. */
int targets_open_mapped(struct targets *t, pid_t pid, const struct target_mapping *mapping);
/* Whether there was no memory for the call frame information of the range's file. */
bool target_range_no_memory(const struct targets *t, const struct target_range *range);
/*
 * Whether an address is in the first instructions of its file, where a program starts. The stack
 * ends there, although the dynamic linker has no call frame information for its own.
 */
bool target_range_is_entry(const struct targets *t, const struct target_range *range,
			   uint64_t address);
/*
 * Copies code of the vdso from our own process, for a target that is gone. Returns false if the
 * range is another file's, or too short.
 */
bool target_range_own_code(const struct targets *t, const struct target_range *range,
			   uint64_t address, uint8_t *bytes, size_t size);
/*
 * The id by which its memory is read: that of another thread if the main thread has ended, and
 * CORE_PROCESS for a core file.
 */
pid_t target_pid(const struct target *p);

/* --- samples --- */

/*
 * User frames are encoded as in frame.h, innermost (the interrupted one) first. Kernel frames are
 * addresses, innermost first. Python frames (bit 63) are values returned by target_python_frame().
 */
struct target_stack {
	const uint64_t *kernel, *user;
	unsigned kernel_count, user_count;
	enum stack_end end; /* of the user frames */
};

#define TARGET_CPU_UNKNOWN UINT32_MAX

/* A stack without frames means that it is unknown. */
void targets_cpu_sample(struct targets *t, struct target *p, pid_t tid, uint64_t time_ns,
			uint64_t weight_ns, uint32_t cpu, const struct target_stack *stack);
/*
 * Adds the CPU time that a thread used after its last sample, when the thread or the recording has
 * ended. The stack of that sample stands for up to one period of it. A process that ends without
 * any sample, and has used little CPU time, gets no segments: its threads are added, with their
 * names, to the process that started it.
 */
void targets_cpu_remainder(struct targets *t, struct target *p, pid_t tid, uint64_t time_ns,
			   uint64_t cpu_ns);
/* Adds a row about a process with or without segments. Dropped if no process has any. */
void targets_cpu_span(struct targets *t, const struct row_cpu_span *span);
/* Sum of the weights of all samples that have a stack. */
uint64_t targets_sampled_ns(const struct targets *t);
void targets_off_cpu(struct targets *t, struct target *p, pid_t tid, uint64_t start_ns,
		     uint64_t end_ns, enum off_cpu_state state, const struct target_stack *stack);
/* What a framework's allocator has handed out or got back. */
struct target_allocation {
	uint64_t time_ns, address;
	uint64_t bytes; /* requested; of a release 0 */
	pid_t tid;
	uint32_t device;
	bool is_release;
};
/* Releases have no stack, and are counted as a loss if the allocation was not added. */
void targets_allocation(struct targets *t, struct target *p, const struct target_allocation *a,
			const struct target_stack *stack);
/* What a thread does at a moment. */
struct target_thread_state {
	uint64_t time_ns;
	pid_t tid;
	enum thread_state state;
	const char *system_call; /* in which it sleeps; NULL: none, or unknown */
	const char *reason; /* why it has no stack; NULL: it has one */
};
void targets_thread_state(struct targets *t, struct target *p, const struct target_thread_state *s,
			  const struct target_stack *stack);
/* Adds a loss of one process, or (NULL) of all, which goes to any process with segments. */
void targets_loss(struct targets *t, struct target *p, enum loss_reason reason, uint64_t count,
		  uint64_t start_ns, uint64_t end_ns);

/* Adds a row of `capability`; `reason` may be NULL. Dropped if there is no sample yet. */
void targets_capability(struct targets *t, enum feature name, enum capability_state state,
			const char *actual, const char *reason);

/*
 * A Python frame for stacks of this target (frame.h, bit 63). Function, file and line are copied;
 * equal ones give equal frames. 0: no room.
 */
uint64_t target_python_frame(struct target *p, const char *function, const char *file,
			     uint32_t line);

/* Flushes the rows of all processes; does nothing within 250 ms of the last flush, unless `now`. */
void targets_flush(struct targets *t, uint64_t now_ns, bool now);

#endif
