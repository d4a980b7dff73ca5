/*
 * calls_inside.h: how many threads are in a call of the driver, by what CUPTI's callbacks say. A
 * call's end may never be seen, because callbacks were disabled meanwhile or its thread ended. So
 * the thread's next call and the thread's end end it as well, and calls_forget() all of them.
 */
#ifndef PITOT_CAPTURE_ENGINES_CALLS_INSIDE_H
#define PITOT_CAPTURE_ENGINES_CALLS_INSIDE_H

#include <stdbool.h>
#include <stdint.h>

enum calls {
	CALLS_GATED, /* of launch_barrier.h */
	CALLS_LOADING, /* load or unload code: pc_contexts.c */
	CALLS_KINDS
};

/* The calling thread begins a call. Returns false if it was in one: now it is in this one. */
bool calls_begin(enum calls kind, uint32_t correlation);
/* It ends that call. Returns false if it is not in this one. */
bool calls_end(enum calls kind, uint32_t correlation);
/* Number of the other threads that are in a call. */
unsigned calls_of_others(enum calls kind);
/* From now on nobody is in a call that began before. */
void calls_forget(enum calls kind);

#endif
