/*
 * machine_links.h: the GPUs and network adapters of the recorded machines, and what lies between
 * them: tables topology_device and topology_link. Every `pitot record` of a machine has written
 * them; the first rows that have the NVLinks are valid.
 */
#ifndef PITOT_ANALYSIS_MACHINE_LINKS_H
#define PITOT_ANALYSIS_MACHINE_LINKS_H

#include "base/map.h"
#include "schema/schema.h"

struct error;
struct trace;
struct job_rank;
struct collectives;

/* Strings are items of machine_links.texts, not ids of the trace, which may be closed. */
struct machine_device {
	uint32_t boot_id, host; /* of the machine */
	struct row_topology_device row;
};

struct machine_link {
	uint32_t a, b; /* items of machine_links.devices */
	struct row_topology_link row;
};

struct machine_links {
	struct machine_device *devices;
	struct machine_link *links;
	size_t device_count, link_count;
	struct interner texts;
	/* machine and PCI address -> item of devices; two devices -> item of links */
	struct map device_index, link_index;
};

/* Loads and reads the tables. 0 or a negative code; *out is released with the report. */
int machine_links_load(struct trace *t, struct machine_links *out, struct error *e) MUST_USE;

/* What lies between the GPUs of two ranks; NULL: unknown. */
const struct machine_link *machine_links_of_ranks(const struct machine_links *m,
						  const struct collectives *c, uint32_t a,
						  uint32_t b);

#endif
