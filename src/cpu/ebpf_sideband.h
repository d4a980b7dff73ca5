/*
 * ebpf_sideband.h: what processes map, start and call themselves, from perf events that count nothing: one for each
 * processor, for all processes. Records are PERF_RECORD_MMAP2, COMM, FORK and LOST, with their time (CLOCK_MONOTONIC).
 */
#ifndef PITOT_CPU_EBPF_SIDEBAND_H
#define PITOT_CPU_EBPF_SIDEBAND_H

#include <sys/types.h>

#include "base/error.h"
#include "cpu/ebpf_queue.h"

struct ebpf_sideband;

int ebpf_sideband_open(struct ebpf_sideband **out, struct error *e) MUST_USE;
void ebpf_sideband_free(struct ebpf_sideband *s);

/* Puts the records that are there into the queue, as source `source`: whole perf records. */
void ebpf_sideband_collect(struct ebpf_sideband *s, struct ebpf_queue *q, uint32_t source);

enum sideband_kind {
	SIDEBAND_OTHER,
	SIDEBAND_MAP,
	SIDEBAND_NAME,
	SIDEBAND_EXEC,
	SIDEBAND_FORK,
	SIDEBAND_LOST
};

struct sideband_record {
	enum sideband_kind kind;
	uint32_t pid, tid; /* FORK: of the new thread */
	uint32_t parent; /* FORK: process */
	uint64_t start, length, file_offset, device, inode; /* MAP: executable memory */
	const char *text; /* MAP: path; NAME, EXEC: name of the thread */
	uint64_t count; /* LOST */
};

/* Reads a record; kind is SIDEBAND_OTHER for what is of no interest or broken. */
void sideband_decode(const void *bytes, size_t size, struct sideband_record *out);

#endif
