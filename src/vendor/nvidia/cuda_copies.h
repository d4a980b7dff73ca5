/*
 * cuda_copies.h: measures copies between the host and the GPUs of the CUDA driver, through dlopen.
 * Needs a context and 512 MiB on each GPU, so it is for the program `pitot` only.
 */
#ifndef PITOT_VENDOR_CUDA_COPIES_H
#define PITOT_VENDOR_CUDA_COPIES_H

#include <stdbool.h>

#include "base/error.h"
#include "base/vec.h"

#define COPY_HOST (-1) /* pinned memory of the host */

/* Copies of 256 MiB by a copy engine or, within a GPU, by its multiprocessors. */
struct cuda_copy {
	int from, to; /* CUDA ordinals, or COPY_HOST */
	bool direct; /* the GPUs access each other's memory; else the copy goes through the host */
	double gbs; /* 10^9 bytes per second, the fastest of several; 0: not measured, and why: */
	double latency_us; /* of 8 bytes, from the call to its end, the fastest of many */
	char why[128];
};

struct cuda_copies {
	VEC(struct cuda_copy) list;
	int gpus;
	char pci[64][32]; /* by ordinal */
};

/*
 * Measures host to GPU, back, within each GPU, and between each two. What cannot be measured is in
 * the list, too. 0 or an error: no GPU can be used.
 */
int cuda_copies_measure(struct cuda_copies *out, struct error *e) MUST_USE;

#endif
