/*
 * collectives.h: the ranks of a job, and their collectives, matched across ranks and on one clock.
 *
 * A rank is a GPU of a process on which kernels of NCCL or RCCL ran. Where NCCL's numbers were not
 * recorded, collectives are matched by names and order: the n-th kernel of a function on the n-th
 * stream that a rank uses for collectives. Matches that the clocks contradict are rejected.
 */
#ifndef PITOT_ANALYSIS_COLLECTIVES_H
#define PITOT_ANALYSIS_COLLECTIVES_H

#include "analysis/job_source.h"
#include "base/map.h"
#include "ranks/collective_match.h"
#include "ranks/host_clock.h"
#include "trace/trace.h"

/* The error of a GPU's clock, after its conversion to the host's, is 1 to 2 us; of two GPUs: */
#define GPU_CLOCKS_NS 5000

struct job_rank {
	uint32_t source; /* report of the job_source that has it, and in that report: */
	uint32_t process, device; /* device: CUDA ordinal */
	uint32_t gpu; /* item of struct gpus */
	uint32_t gpu_number; /* in the job: as in a report of all of it */
	uint32_t pid, host;
	uint32_t number; /* rank in the job, else an index */
	bool named; /* the number is the job's */
	uint64_t end_ns; /* of its recording, by the clock of parts */
	uint32_t pci; /* item of collectives.texts: address of the GPU; NO_PCI: unknown */
	uint32_t world; /* number of ranks of its job; 0: unknown */
	uint32_t job; /* item of collectives.texts, without a restart's number; NO_JOB: unknown */
};
#define NO_JOB UINT32_MAX
#define NO_PCI UINT32_MAX

struct job_host {
	uint32_t boot_id, name; /* items of collectives.texts */
	int64_t ahead_ns; /* of the first host's clock, by CLOCK_REALTIME; 0 if one is unknown */
	bool has_realtime; /* its CLOCK_REALTIME is known */
	struct realtime_error realtime;
	struct host_clock clock; /* what collectives add; the first host's is empty */
};

struct collectives {
	struct job_rank *ranks; /* by number */
	size_t rank_count;
	uint32_t world; /* number of ranks of the job; 0: unknown */
	size_t repeated; /* item of a rank that the item before it is, too; 0: none is */
	bool mixed; /* the ranks are, or may be, of several runs */
	struct job_host *hosts;
	size_t host_count;
	struct interner texts;
	/* ordered by match and rank, with times of the first host's clock */
	VEC(struct collective_part) parts;
	struct collective_matches matches;
	/* of differences between ranks; UINT64_MAX: the hosts' clocks cannot be compared */
	uint64_t uncertainty_ns;
	uint64_t whole; /* number of matches whose times can be compared */
	bool inferred; /* some are matched by names and order */
};

/* Reads the ranks and collectives of a job. 0 or a negative code; release *out in either case. */
int collectives_find(const struct job_source *source, struct collectives *out) MUST_USE;
void collectives_free(void *collectives);

/* A source that is one report. */
struct job_source job_source_of(struct report *r);

#endif
