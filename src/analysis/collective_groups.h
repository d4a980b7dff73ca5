/*
 * collective_groups.h: collectives by communicator, function and size: how long they transferred,
 * how far apart their ranks arrived, and which rank was the last.
 *
 * Bandwidth is as nccl-tests defines it: algorithm bandwidth is the whole size by the transfer, bus
 * bandwidth is that times what a link has to carry for each byte. The transfer lasts from the last
 * arrival to the median end. Kernels that carry several collectives have no bandwidth.
 *
 * Two ranks use the link between their GPUs, and those of one NVLink switch all links to it. Which
 * links other ranks use is not known.
 */
#ifndef PITOT_ANALYSIS_COLLECTIVE_GROUPS_H
#define PITOT_ANALYSIS_COLLECTIVE_GROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct collective_group {
	uint64_t communicator; /* hash; a number if it is a guess */
	uint32_t name; /* string id of the communicator's name; 0: none */
	uint32_t ranks;
	uint8_t function; /* enum collective_function */
	bool inferred; /* the communicator is a guess by stream */
	/* collectives, and those that have the times of all ranks; none in a mix of runs */
	uint64_t count, compared;
	uint64_t bytes; /* sum of the sizes of the compared ones; 0: unknown */
	uint64_t bus_bytes; /* the same, as the bus carries them */
	uint64_t kernel_ns; /* sums over the compared ones: of the mean of the ranks' kernels, */
	uint64_t transfer_ns; /* of the transfers, */
	uint64_t skew_ns; /* of the time from the first to the last arrival */
	uint64_t max_skew_ns;
	/* Nominal, of two ranks or of the ranks of one switch; 0: unknown, or other ranks */
	uint64_t link_bytes_per_s;
	uint32_t last; /* rank that was the last most often: item of collectives.ranks */
	uint64_t last_count;
	uint32_t caller; /* line of its launch, or CALLER_NONE */
};

struct collective_groups {
	struct collective_group *items; /* by the sum of skew and transfer, descending */
	size_t count;
};

#endif
