/*
 * ebpf_parts.h: joins the records of one deep stack (BPF_RECORD_PART) to one record. The parts of a
 * processor come in order, the record of the sample last; those of several processors interleave.
 */
#ifndef PITOT_SAMPLER_EBPF_EBPF_PARTS_H
#define PITOT_SAMPLER_EBPF_EBPF_PARTS_H

#include "base/vec.h"
#include "sampler/ebpf/bpf/sampler.h"

struct ebpf_words {
	uint64_t *data;
	size_t count, capacity; /* as in a VEC */
};

/* The parts of a processor's record so far: words by kind, innermost frames first. */
struct ebpf_stack_parts {
	uint64_t time_ns;
	unsigned count;
	struct ebpf_words python, kernel, user;
};

/* Initialize with zeros. */
struct ebpf_parts {
	VEC(struct ebpf_stack_parts) processors;
	struct ebpf_words joined;
};

void ebpf_parts_release(struct ebpf_parts *p);

/* Adds a record BPF_RECORD_PART of `size` bytes, unless it is malformed or there is no memory. */
void ebpf_parts_add(struct ebpf_parts *p, const struct bpf_record *record, size_t size);
/*
 * Returns the record with the frames of its parts in front, valid until the next call, and its
 * size. If a part is missing, the record has no frames. NULL: no memory.
 */
const struct bpf_record *ebpf_parts_join(struct ebpf_parts *p, const struct bpf_record *record,
					 size_t *size);

#endif
