/*
 * sampled_processes_state.h: private to the implementation of sampled_processes.h, which is
 * sampled_processes.c, target_maps.c and target_rows.c.
 */
#ifndef PITOT_SAMPLER_SAMPLED_PROCESSES_STATE_H
#define PITOT_SAMPLER_SAMPLED_PROCESSES_STATE_H

#include <stdbool.h>

#include "base/map.h"
#include "base/vec.h"
#include "sampler/target_files.h"
#include "sampler/sampled_processes.h"
#include "format/loss_tally.h"
#include "format/writer.h"
#include "stack/stack_tree.h"

#define TARGETS_MAX 65536u /* at a time */
#define TARGET_RANGES_MAX 65536u
#define TARGET_THREADS_MAX 65536u /* of a target, with their names */
#define TARGET_ALLOCATED_MAX (4u << 20) /* of a target, at a time: 128 MiB */
#define TARGET_NODES_MAX (4u << 20) /* frames in a target's stack tree: 100 MiB */

/* More about a range: struct target_range is what the unwinders need. */
struct range_origin {
	uint64_t file_offset, inode;
	uint64_t mapped_ns;
	uint32_t path; /* in targets.texts */
	uint32_t segment; /* segment with its row of `module`; 0: none yet */
	bool looked_up; /* target_range_look_up() has been called */
};

struct target_thread {
	uint32_t name; /* in targets.texts */
	uint32_t segment; /* segment with its row; 0: none */
	uint32_t stack; /* stack id of its last sample; 0: none */
	uint64_t named_ns;
};

/* CPU time of an ended thread after its last sample, stored while its process has no segments. */
struct cpu_remainder {
	pid_t tid;
	uint32_t name; /* in targets.texts */
	uint64_t time_ns, cpu_ns;
};

struct target {
	pid_t pid, parent_pid;
	/*
	 * Id by which its memory is read: pid; another thread's if the main thread has ended; or
	 * CORE_PROCESS: `pid` may be another process's now.
	 */
	pid_t memory_id;
	uint64_t start_ns, end_ns; /* end 0: it is running */
	uint32_t command, executable, directory; /* in targets.texts */
	uint32_t name; /* of the main thread */
	uint32_t uid;
	VEC(struct target_range) ranges;
	VEC(struct range_origin) origins; /* parallel to ranges */
	struct map threads_index; /* tid -> item of threads */
	VEC(struct target_thread) threads;
	VEC(struct cpu_remainder) remainders;

	struct writer *writer; /* NULL until its first sample */
	bool no_segments; /* opening its writer failed; do not try again */
	uint32_t segment; /* segment with the row of `process` */
	struct stack_tree tree;
	uint64_t stacks_refused; /* number that has been reported as loss */
	struct interner python; /* function NUL file */
	struct map allocated; /* address of a live allocation -> device */
	uint64_t correlation; /* of its last allocation */
	uint64_t unknown_releases, allocated_ns; /* not written yet; time of the last one */
};

struct targets {
	struct targets_options options;
	struct map index; /* pid -> item of all */
	VEC(struct target *) all; /* running targets, and `loss_owner` */
	struct target_files files;
	uint64_t frames[STACK_DEPTH_MAX]; /* of the stack being added */
	struct interner texts; /* paths, names, commands, shared by all processes */
	struct target *loss_owner; /* its segments get the rows of no particular process */
	struct loss_tally losses; /* not written yet */
	uint32_t segments_opened;
	uint64_t closed_bytes; /* bytes of closed segments */
	uint64_t bytes; /* bytes of all segments at the last flush */
	uint64_t sampled_ns; /* sum of the weights of all samples with a stack */
	bool full; /* max_bytes has been reached */
	uint64_t flushed_ns;
	int failure; /* errno of the first write error; 0: none */
	uint32_t host, boot_id; /* in texts */
};

/* Returns the id of a text in targets.texts; that of "" when there is no room. */
uint32_t targets_text(struct targets *t, const char *text, size_t length);
const char *targets_text_of(const struct targets *t, uint32_t id);

/*
 * Makes a running target with segments the `loss_owner`, if there is one. An owner that has ended
 * is kept until it can be replaced, then freed.
 */
void targets_choose_loss_owner(struct targets *t);
/* Finds or adds a thread, whose name is read if it is new. NULL: no room. */
struct target_thread *target_thread(struct targets *t, struct target *p, pid_t tid);

/* --- target_maps.c --- */

/* Returns the range with an address, or NULL, and its index. */
struct target_range *target_range_find(struct target *p, uint64_t address, size_t *index);
/* Adds a mapping; drops it if there is no room. */
void target_map(struct targets *t, struct target *p, const struct target_mapping *mapping,
		uint64_t time_ns);
/* Copies the ranges of a parent process. Returns 0 or -ENOMEM. */
int target_maps_copy(struct target *to, const struct target *from);
/* Adds the mappings in /proc/PID/maps. */
void target_maps_read(struct targets *t, struct target *p, uint64_t time_ns);
/* Looks up the file of a range, the first time that it is called for the range. */
void target_range_look_up(struct targets *t, struct target *p, size_t index);

/* --- target_rows.c --- */

/* Writes the rows in `losses`, if any process has segments. */
void targets_write_losses(struct targets *t);
/*
 * Passes the `remainders` of a process that ends to its parent. is_end: the recording ends, so no
 * process gets segments any more.
 */
void target_pass_remainders(struct targets *t, struct target *p, bool is_end);
/* Writes the last rows and closes the segments, if the target has any. */
void target_close(struct targets *t, struct target *p);

#endif
