/*
 * target_state.h: shared by the parts of sampled_processes.h: sampled_processes.c, target_maps.c,
 * target_rows.c.
 */
#ifndef PITOT_SAMPLER_TARGET_STATE_H
#define PITOT_SAMPLER_TARGET_STATE_H

#include <stdbool.h>

#include "base/map.h"
#include "base/vec.h"
#include "sampler/target_files.h"
#include "sampler/sampled_processes.h"
#include "format/loss_tally.h"
#include "format/writer.h"
#include "stack/stack_tree.h"

#define TARGETS_MAX 65536u /* that are known at a time */
#define TARGET_RANGES_MAX 65536u
#define TARGET_THREADS_MAX 65536u /* whose names are kept */
#define TARGET_NODES_MAX (4u << 20) /* frames of a target's tree of stacks: 100 MiB */
#define TARGET_KERNEL_FRAMES_MAX 256u

/* What a range is, beside struct target_range. */
struct range_origin {
	uint64_t file_offset, inode;
	uint64_t mapped_ns;
	uint32_t path; /* in targets.texts */
	uint32_t segment; /* that has its row of `module`; 0: none yet */
	bool looked_up; /* its file has been looked for */
};

struct target_thread {
	uint32_t name; /* in targets.texts */
	uint32_t segment; /* that has its row; 0: none */
	uint32_t stack; /* id, of its last sample; 0: none */
	uint64_t named_ns;
};

/* CPU time of a thread that has ended, in a process that has no segments yet. */
struct target_rest {
	pid_t tid;
	uint32_t name; /* in targets.texts */
	uint64_t time_ns, cpu_ns;
};

struct target {
	pid_t pid, parent_pid;
	uint64_t start_ns, end_ns; /* end 0: it runs */
	uint32_t command, executable, directory; /* in targets.texts */
	uint32_t name; /* of its first thread */
	uint32_t uid;
	VEC(struct target_range) ranges;
	VEC(struct range_origin) origins; /* one for each range */
	struct map threads_index; /* tid -> item of threads */
	VEC(struct target_thread) threads;
	VEC(struct target_rest) rests;

	struct writer *writer; /* NULL until its first sample */
	bool refused; /* it gets no segments */
	uint32_t segment; /* that has the rows of the process */
	struct stack_tree tree;
	uint64_t stacks_refused; /* that are in rows of loss */
	struct interner python; /* function NUL file */
};

struct targets {
	struct targets_options options;
	struct map index; /* pid -> item of all */
	VEC(struct target *) all; /* that have not ended, and `loss_owner` */
	struct target_files files;
	struct interner texts; /* paths, names, commands: what many processes share */
	struct target *loss_owner; /* gets what belongs to no process */
	struct loss_tally losses; /* not in a row yet */
	uint32_t segments_opened;
	uint64_t closed_bytes; /* of segments that are closed */
	uint64_t bytes; /* of all, at the last flush */
	uint64_t sampled_ns; /* weight of all samples with a stack */
	bool full; /* max_bytes is reached */
	uint64_t flushed_ns;
	int failure; /* errno of the first failure of writing, 0: none */
	uint32_t host, boot_id; /* in texts */
};

/* Id of a text in targets.texts; of "" when there is no room. */
uint32_t targets_text(struct targets *t, const char *text, size_t length);
const char *targets_text_of(const struct targets *t, uint32_t id);

/*
 * Makes a target that runs and has segments the `loss_owner`, if there is one. An owner that has
 * ended is kept until then, and freed.
 */
void targets_choose_loss_owner(struct targets *t);
/* What is known of a thread, whose name is read now if it is new; NULL: no room. */
struct target_thread *target_thread(struct targets *t, struct target *p, pid_t tid);

/* --- target_maps.c --- */

/* The range with an address, or NULL; its place in *index. */
struct target_range *target_range_find(struct target *p, uint64_t address, size_t *index);
/* 0 or -ENOMEM, E_LIMIT. */
int target_map(struct targets *t, struct target *p, const struct target_mapping *mapping,
	       uint64_t time_ns);
/* Copies those of a parent. 0 or -ENOMEM. */
int target_maps_copy(struct target *to, const struct target *from);
/* Reads /proc/PID/maps. */
void target_maps_read(struct targets *t, struct target *p, uint64_t time_ns);
/* Looks its file up, if that has not been done. */
void target_range_look_up(struct targets *t, struct target *p, size_t index);

/* --- target_rows.c --- */

/* Writes what waits in `losses`, if there is anybody to write it. */
void targets_write_losses(struct targets *t);
/*
 * Hands what waits in `rests` of a process that ends to the one that started it; is_end: nobody
 * gets segments any more.
 */
void target_hand_rests(struct targets *t, struct target *p, bool is_end);
/* Writes the last rows and closes the segments, if there are any. */
void target_close(struct targets *t, struct target *p);

#endif
