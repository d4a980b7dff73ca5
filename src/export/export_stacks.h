/*
 * export_stacks.h: call stacks as exporters write them: lists of frames, the outermost first.
 */
#ifndef PITOT_EXPORT_EXPORT_STACKS_H
#define PITOT_EXPORT_EXPORT_STACKS_H

#include "analysis/stacks.h"

/* What is said in place of frames. */
enum stack_note {
	STACK_NOTE_PARTIAL, /* as enum stack_end; stands before the outermost frame */
	STACK_NOTE_TRUNCATED,
	STACK_NOTE_DEPTH,
	STACK_NOTE_GUESSED,
	STACK_NOTE_NONE,
	STACK_NOTE_STATES, /* of off_cpu, by state; stands after the innermost frame */
	STACK_NOTES_END = STACK_NOTE_STATES + 5,
};

struct export_stacks {
	struct stacks stacks; /* STACK_ADDRESSES */
	uint32_t notes[STACK_NOTES_END]; /* their frames */
	VEC(uint32_t) nodes; /* of the stack at hand, the innermost first */
	VEC(uint32_t) frames; /* of the stack that was found last, the outermost first */
};

/* Loads the tables of stacks. 0 or a negative code. */
int export_stacks_init(struct export_stacks *x, struct trace *t, struct error *e) MUST_USE;
void export_stacks_release(struct export_stacks *x);

/*
 * Puts the frames of a stack into x->frames; none when it is not in the recording. of_call leaves
 * out the frames of CUDA's libraries and of Pitot behind the program's own call. 0 or -ENOMEM.
 */
int export_stacks_find(struct export_stacks *x, size_t process, uint32_t id, bool of_call) MUST_USE;
/* Adds a note after the innermost frame. */
int export_stacks_note(struct export_stacks *x, enum stack_note note) MUST_USE;

/* What a frame is called where its lines are not shown by themselves. */
const char *export_frame_name(const struct export_stacks *x, uint32_t frame, size_t line);

#endif
