/*
 * ebpf_sideband.h: what processes map, start and call themselves, from perf events that count
 * nothing: one for each processor, for all processes. Records are PERF_RECORD_MMAP2, COMM, FORK and
 * LOST (perf_record.h).
 */
#ifndef PITOT_SAMPLER_EBPF_EBPF_SIDEBAND_H
#define PITOT_SAMPLER_EBPF_EBPF_SIDEBAND_H

#include "base/error.h"
#include "sampler/perf/perf_ring.h"

struct ebpf_sideband {
	int *files; /* one for each ring */
	struct perf_rings rings;
};

int ebpf_sideband_open(struct ebpf_sideband *s, struct error *e) MUST_USE;
void ebpf_sideband_close(struct ebpf_sideband *s);

#endif
