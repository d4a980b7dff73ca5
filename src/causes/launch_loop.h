/*
 * launch_loop.h: finds the loop that a sequence of launches repeats, such as the steps of a
 * training, or finds that there is none: no loop is better than a wrong one.
 *
 * A pass begins at an anchor: a place of the sequence that is known by the last few items, and
 * occurs once in each pass. A pass has what another one has, most of it in the same order, and
 * little else. Of the anchors at regular distances the one with the shortest distance is chosen of
 * which nearly all stretches are passes, and each has a mark. Marks tell steps from loops inside of
 * them, which repeat as regularly: a layer of a model copies nothing from or to the host, and waits
 * for nothing.
 *
 * Stretches between passes that are unlike them (a validation) are breaks. If breaks recur at equal
 * distances, the loop is inside of a larger one, and the lengths decide which of the two is meant:
 * short breaks after few passes are the end of a step (accumulated gradients), long ones after many
 * passes are breaks. Where lengths say neither, there is no loop.
 */
#ifndef PITOT_CAUSES_LAUNCH_LOOP_H
#define PITOT_CAUSES_LAUNCH_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/vec.h"

struct launch_item {
	uint64_t at_ns; /* ascending */
	uint32_t what; /* equal for equal launches */
	bool is_marked;
};

struct loop_pass {
	uint32_t first, end; /* items */
};

enum loop_result {
	LOOP_FOUND,
	LOOP_SHORT, /* too few items */
	LOOP_IRREGULAR, /* nothing recurs at regular distances, or passes are not alike */
	LOOP_UNMARKED, /* something does, but without marks */
	LOOP_NESTED, /* loops inside of each other, any of which may be meant */
};

struct launch_loop {
	enum loop_result result;
	VEC(struct loop_pass) passes; /* in order; without breaks between them they are adjacent */
	size_t breaks;
};

#define LOOP_PASSES_MIN 4u

/* Returns 0 or -ENOMEM. launch_loop_release in either case. */
int launch_loop_find(struct launch_loop *l, const struct launch_item *items,
		     uint32_t count) MUST_USE;
void launch_loop_release(struct launch_loop *l);

#endif
