/*
 * nvtx_names.h: the names that a program gave through NVTX: of domains, categories, threads and
 * registered strings.
 *
 * The list is append-only: a published item never moves or changes. Therefore handles (pointers to
 * items) stay valid forever, events can refer to an item by its number, and the collector reads
 * without a lock. Adding takes a lock; it is rare, and adding a name again returns the same item.
 * The memory is reserved at the first use and bounded.
 */
#ifndef PITOT_CAPTURE_NVTX_NVTX_NAMES_H
#define PITOT_CAPTURE_NVTX_NVTX_NAMES_H

#include <stdbool.h>

#include "base/compiler.h"

#define NVTX_NAMES_MAX 65536u
#define NVTX_NAME_BYTES_MAX (16u << 20)

#define NVTX_DOMAIN_SCOPES 1u /* the domain "pitot"; NVTX's own domains follow it */

enum nvtx_named { NVTX_NAMED_DOMAIN, NVTX_NAMED_CATEGORY, NVTX_NAMED_THREAD, NVTX_NAMED_STRING };

struct nvtx_name {
	uint16_t what; /* enum nvtx_named */
	uint16_t cut; /* 1: the program's text was truncated */
	uint32_t domain; /* of a category; for a domain its own id, from 1; for a thread internal */
	uint32_t id; /* of a category or a thread */
	uint32_t length; /* of text, which is NUL-terminated as well */
	const char *text;
	uint64_t time_ns; /* when it was named */
};
_Static_assert(sizeof(struct nvtx_name) == 32, "handles are checked by their alignment");

/*
 * Adds a name. For NVTX_NAMED_DOMAIN, `domain` is ignored. NULL: there is no room, which is
 * counted. Any thread.
 */
const struct nvtx_name *nvtx_names_add(enum nvtx_named what, uint32_t domain, uint32_t id,
				       const char *text, size_t length, bool cut);

/* Returns a string that was added, or NULL. Any thread; takes no lock. */
const struct nvtx_name *nvtx_names_string(const char *text, size_t length);

/* Returns the item of a handle that the program passes, or NULL if it is not ours. Any thread. */
const struct nvtx_name *nvtx_names_check(const void *handle, enum nvtx_named what);

/* Items 0 to count - 1 are published. Any thread. */
uint32_t nvtx_names_count(void);
const struct nvtx_name *nvtx_names_at(uint32_t i);
uint32_t nvtx_names_number(const struct nvtx_name *name);

/* Returns the last name given to a thread, or NULL. */
const struct nvtx_name *nvtx_names_of_thread(uint32_t tid);

/* Number of names for which there was no room. */
uint64_t nvtx_names_refused(void);

/* A recording has begun: copies the names to its area (shared_area.h). */
void nvtx_names_share(void);

/* Called in the child of a fork, where the lock's owner may not exist. */
void nvtx_names_after_fork(void);

#endif
