/*
 * sampled_processes.h: the processes that are sampled: their executable mappings, and the segments
 * that their samples go to.
 *
 * A process image (from a fork or exec to the next exec or the exit) is a target. It gets a writer
 * (cpu-<pid>.<n>.pit, a session of its own) with its first sample, and modules, stacks and threads
 * are rows of that writer. Unwind rules belong to files and are shared by all targets; they are
 * compiled where a first sample needs them, on the sampler's thread. Files are opened through
 * /proc/PID/map_files and /proc/PID/root, so that containers and deleted files work.
 *
 * For one thread. Events come in order of time. Samples that cannot be kept are counted and become
 * rows of `loss`.
 */
#ifndef PITOT_SAMPLER_SAMPLED_PROCESSES_H
#define PITOT_SAMPLER_SAMPLED_PROCESSES_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "schema/schema.h"
#include "stack/frame.h"
#include "stack/unwind/unwind_parts.h"

#define TARGET_FRAMES_MAX 512u

struct file_copies;
struct targets;
struct target;

struct targets_options {
	const char *directory; /* must stay */
	uint64_t max_bytes; /* of all segments; 0: no limit */
	uint64_t period_ns; /* between samples */
	uint32_t processes_max; /* that get segments; 0: 4096 */
	struct file_copies *kept; /* NULL: none */
};

int targets_new(const struct targets_options *options, struct targets **out,
		struct error *e) MUST_USE;
/* Closes all segments; the first error of writing, or 0. */
int targets_free(struct targets *t, struct error *e);

/*
 * The target with this process id; NULL: there is none. Valid until the next event of its process.
 */
struct target *targets_find(struct targets *t, pid_t pid);

/* --- events --- */

/* A process that runs already: mappings and threads are read from /proc. */
struct target *targets_running(struct targets *t, pid_t pid, uint64_t time_ns);
void targets_fork(struct targets *t, pid_t parent, pid_t child, uint64_t time_ns);
/* A new program: mappings are forgotten, a new session begins. */
void targets_exec(struct targets *t, pid_t pid, uint64_t time_ns);
void targets_exit(struct targets *t, pid_t pid, uint64_t time_ns);
void targets_thread_name(struct targets *t, pid_t pid, pid_t tid, const char *name,
			 uint64_t time_ns);

struct target_mapping {
	uint64_t start, end, file_offset;
	uint64_t inode; /* 0: unknown, or no file */
	const char *path; /* "[vdso]", "//anon", a file */
};
/* Reads the mappings from /proc once more, because events are missing. */
void targets_maps_read(struct targets *t, pid_t pid, uint64_t time_ns);
/* Executable memory was mapped; older mappings that it covers are cut. */
void targets_map(struct targets *t, pid_t pid, const struct target_mapping *mapping,
		 uint64_t time_ns);

/* --- where code is --- */

struct target_range {
	uint64_t start, end;
	uint64_t bias; /* address minus ELF virtual address */
	/*
	 * NULL: no call frame information, or not wanted yet; addresses in it are ELF virtual
	 * addresses.
	 */
	struct unwind_parts *parts;
	uint32_t file; /* number of the file, for all targets; 0: no file */
};
/*
 * All executable ranges of a target, ascending. Valid until the next event. bias, parts and file
 * are known of those that target_range_at() was asked about, in this process or before its fork.
 */
const struct target_range *target_ranges(const struct target *p, size_t *count);
/* The range with this address, its file looked up; NULL: nothing is mapped there. */
const struct target_range *target_range_at(struct targets *t, struct target *p, uint64_t address);
/* Whether the range's file has call frame information for which there was no memory. */
bool target_range_refused(const struct targets *t, const struct target_range *range);
/*
 * Whether an address is where its program begins: in the first instructions of the file. They need
 * no call frame information; those of the dynamic linker have none.
 */
bool target_range_is_entry(const struct targets *t, const struct target_range *range,
			   uint64_t address);
pid_t target_pid(const struct target *p);

/* --- samples --- */

/*
 * User frames as in frame.h: innermost first, the first one interrupted. Kernel frames: addresses,
 * innermost first. Python frames (bit 63) are what target_python_frame() returned.
 */
struct target_stack {
	const uint64_t *kernel, *user;
	unsigned kernel_count, user_count;
	enum stack_end end; /* of the user part */
};

#define TARGET_CPU_UNKNOWN UINT32_MAX

/* A stack without frames is unknown. */
void targets_cpu_sample(struct targets *t, struct target *p, pid_t tid, uint64_t time_ns,
			uint64_t weight_ns, uint32_t cpu, const struct target_stack *stack);
/*
 * CPU time that a thread had after its last sample, when it has ended or the recording does. That
 * sample's stack stands for up to a period of it. A process that ends without any sample gets no
 * segments: its threads become threads, of the same names, of the process that started it.
 */
void targets_cpu_rest(struct targets *t, struct target *p, pid_t tid, uint64_t time_ns,
		      uint64_t cpu_ns);
/* Sum of the weights of all samples with a stack. */
uint64_t targets_sampled_ns(const struct targets *t);
void targets_off_cpu(struct targets *t, struct target *p, pid_t tid, uint64_t start_ns,
		     uint64_t end_ns, enum off_cpu_state state, const struct target_stack *stack);
/* Loss that belongs to one process, or (NULL) to all: it goes to the first that has segments. */
void targets_loss(struct targets *t, struct target *p, enum loss_reason reason, uint64_t count,
		  uint64_t start_ns, uint64_t end_ns);

/* A row of table capability; `reason` may be NULL. Not kept before there is a sample. */
void targets_capability(struct targets *t, const char *name, enum capability_state state,
			const char *got, const char *reason);

/*
 * A Python frame for stacks of this target: function, file and line are copied. Equal ones get
 * equal frames (frame.h, bit 63). 0 when there is no room.
 */
uint64_t target_python_frame(struct target *p, const char *function, const char *file,
			     uint32_t line);

/* Flushes the rows of all processes, at most four times a second unless `now`. */
void targets_flush(struct targets *t, uint64_t now_ns, bool now);

/* Called for each mapping, ascending, until it returns something else than 0. */
typedef int proc_map_take(void *context, const struct target_mapping *mapping);

/* What `take` returned last; 0 also when the process is gone. */
int proc_maps_read(pid_t pid, proc_map_take *take, void *context);

#endif
