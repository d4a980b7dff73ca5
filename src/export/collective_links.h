/*
 * collective_links.h: which kernels are members of one collective, for how long each waited for the
 * last rank, and for which kernel.
 */
#ifndef PITOT_EXPORT_COLLECTIVE_LINKS_H
#define PITOT_EXPORT_COLLECTIVE_LINKS_H

#include "base/map.h"
#include "base/vec.h"
#include "trace/trace.h"

struct collective_link {
	uint32_t collective; /* number that the members share, from 0 */
	uint32_t last; /* row of table kernel: the member that came last */
	/*
	 * From the start of the kernel until the last one's; 0: it is the last one itself, or the
	 * clocks leave the difference uncertain
	 */
	uint64_t wait_ns;
};

struct collective_links {
	VEC(struct collective_link) items;
	struct map of_kernel; /* row of table kernel -> item */
	uint32_t collectives;
};

/*
 * Finds the links of a trace of several ranks; there are none in others. Loads what it needs; more
 * can be loaded afterwards. 0 or a negative code; release *l in either case.
 */
int collective_links_init(struct collective_links *l, struct trace *t, struct error *e) MUST_USE;
void collective_links_release(struct collective_links *l);

/* The link of a kernel; NULL: none. */
const struct collective_link *collective_link_of(const struct collective_links *l, uint64_t kernel);

#endif
