/* work_kinds.h: GPU work by its kind. */
#ifndef PITOT_ANALYSIS_WORK_KINDS_H
#define PITOT_ANALYSIS_WORK_KINDS_H

#include <stddef.h>
#include <stdint.h>

struct work_kind {
	const char *name; /* of the table */
	uint64_t count, total_ns; /* of the work that has times */
};

struct work_kinds {
	struct work_kind *items;
	size_t count;
	uint64_t total_ns;
};

#endif
