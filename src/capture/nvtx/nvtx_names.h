/*
 * nvtx_names.h: what a program named through NVTX: domains, categories, threads, registered
 * strings.
 *
 * A list that only grows: an item never moves or changes once it is published, so that handles
 * (pointers to items) stay good for ever, events can refer to an item by its number, and the
 * collector reads without a lock. Adding takes a lock; it is rare, and the same name twice is one
 * item. The memory is reserved at the first use and has a ceiling.
 */
#ifndef PITOT_CAPTURE_NVTX_NVTX_NAMES_H
#define PITOT_CAPTURE_NVTX_NVTX_NAMES_H

#include <stdbool.h>

#include "base/compiler.h"

#define NVTX_NAMES_MAX 65536u
#define NVTX_NAME_BYTES_MAX (16u << 20)

#define NVTX_DOMAIN_SCOPES 1u /* the domain "pitot"; those of NVTX come after it */

enum nvtx_named { NVTX_NAMED_DOMAIN, NVTX_NAMED_CATEGORY, NVTX_NAMED_THREAD, NVTX_NAMED_STRING };

struct nvtx_name {
	uint16_t what; /* enum nvtx_named */
	uint16_t cut; /* 1: text is only the beginning of what the program gave */
	uint32_t domain; /* of a category; of a domain: its own id, from 1; of a thread: internal */
	uint32_t id; /* of a category or a thread */
	uint32_t length; /* of text; NUL-terminated all the same */
	const char *text;
	uint64_t time_ns; /* when it was named */
};
_Static_assert(sizeof(struct nvtx_name) == 32, "handles are checked by their alignment");

/*
 * Notes a name down. For NVTX_NAMED_DOMAIN, `domain` is ignored. NULL when there is no room
 * (counted). Any thread.
 */
const struct nvtx_name *nvtx_names_add(enum nvtx_named what, uint32_t domain, uint32_t id,
				       const char *text, size_t length, bool cut);

/* A string that was added, or NULL. Any thread; takes no lock. */
const struct nvtx_name *nvtx_names_string(const char *text, size_t length);

/* The item that a handle from outside stands for, or NULL if it is none of ours. Any thread. */
const struct nvtx_name *nvtx_names_check(const void *handle, enum nvtx_named what);

/* Items 0 to count - 1 are there. Any thread. */
uint32_t nvtx_names_count(void);
const struct nvtx_name *nvtx_names_at(uint32_t i);
uint32_t nvtx_names_number(const struct nvtx_name *name);

/* The last name given to a thread, or NULL. */
const struct nvtx_name *nvtx_names_of_thread(uint32_t tid);

/* Names that found no room so far. */
uint64_t nvtx_names_refused(void);

/* In the child of a fork: the lock may be held by a thread that is not here. */
void nvtx_names_after_fork(void);

#endif
