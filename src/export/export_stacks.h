/*
 * export_stacks.h: call stacks as lists of frames, outermost first, as exporters write them.
 */
#ifndef PITOT_EXPORT_EXPORT_STACKS_H
#define PITOT_EXPORT_EXPORT_STACKS_H

#include "analysis/cpu_moments.h"
#include "analysis/stacks.h"

/* Pseudo frames that explain what a stack lacks. */
enum stack_note {
	STACK_NOTE_PARTIAL, /* in the order of enum stack_end; precede the outermost frame */
	STACK_NOTE_TRUNCATED,
	STACK_NOTE_DEPTH,
	STACK_NOTE_GUESSED,
	STACK_NOTE_NONE,
	STACK_NOTE_STATES, /* plus off_cpu_state_*; follow the innermost frame */
	STACK_NOTES_END = STACK_NOTE_STATES + OFF_CPU_STATES,
};

struct export_stacks {
	struct stacks stacks; /* at level STACK_ADDRESSES */
	uint32_t notes[STACK_NOTES_END]; /* frame of each note */
	VEC(uint32_t) nodes; /* of the current stack, innermost first */
	VEC(uint32_t) frames; /* of the stack last found, outermost first */
};

/* Loads the tables of stacks. Returns 0 or a negative code. */
int export_stacks_init(struct export_stacks *x, struct trace *t, struct error *e) MUST_USE;
void export_stacks_release(struct export_stacks *x);

/*
 * Sets x->frames to the frames of a stack; to none if the recording does not contain the stack.
 * With of_call, leaves out the frames of CUDA's libraries and of Pitot below the program's own
 * call. Returns 0 or -ENOMEM.
 */
int export_stacks_find(struct export_stacks *x, size_t process, uint32_t id, bool of_call) MUST_USE;
/* Appends a note after the innermost frame. */
int export_stacks_note(struct export_stacks *x, enum stack_note note) MUST_USE;

/* Returns the name of a frame in formats that do not show source lines separately. */
const char *export_frame_name(const struct export_stacks *x, uint32_t frame, size_t line);

#endif
