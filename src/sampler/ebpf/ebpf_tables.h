/*
 * ebpf_tables.h: gives the BPF programs what they walk stacks with: rows of unwind rules, the
 * rules, and which code is where in each process image.
 *
 * A file's table in the kernel is a directory of parts (unwind_parts.h), each of which is uploaded
 * once it has been compiled, 8 bytes a row. Directories and rows lie in blocks of 1 MiB, which
 * never change once they are written but for cells of directories, which are written last and at
 * once. Rules of all files are one array, numbered as in the store. The ranges of process images
 * lie in one array of two halves, of which one is filled: when it is full, all images are forgotten
 * and the other half is filled, so that a program that just reads ranges is not disturbed.
 *
 * The programs remember the rules of addresses for as long as the image has the same generation:
 * each upload gives another.
 */
#ifndef PITOT_SAMPLER_EBPF_EBPF_TABLES_H
#define PITOT_SAMPLER_EBPF_EBPF_TABLES_H

#include "base/map.h"
#include "base/vec.h"
#include "sampler/ebpf/bpf/sampler_load.h"
#include "sampler/sampled_processes.h"

#define EBPF_TABLE_BYTES_MAX ((uint64_t)256 << 20) /* of the kernel's memory */

/* A block, as it lies in memory. */
struct ebpf_block {
	struct bpf_cell *cells;
	uint32_t count, used;
};

struct ebpf_table {
	uint32_t number; /* of the kernel's; BPF_TABLE_WANTED: there was no room */
	size_t uploaded; /* of the parts that have been compiled */
	struct bpf_cell *directory;
};

struct ebpf_tables {
	struct sampler_programs *programs;
	uint32_t rule_count; /* uploaded */
	struct map numbers; /* struct unwind_parts * -> number, place in tables */
	VEC(struct ebpf_table) tables;
	VEC(struct ebpf_block) blocks;
	struct map images; /* those whose ranges are in this half */
	uint64_t bytes, switched_ns;
	uint32_t half, used; /* ranges used of this half */
	uint32_t generation; /* of the image that was uploaded last */
};

/* 0 or a negative code. */
int ebpf_tables_init(struct ebpf_tables *t, struct sampler_programs *programs) MUST_USE;
void ebpf_tables_release(struct ebpf_tables *t);

/*
 * Uploads what has been compiled since the last call. Number of the table; BPF_TABLE_WANTED when
 * there is no room.
 */
uint32_t ebpf_tables_number(struct ebpf_tables *t, const struct unwind_parts *parts);

/*
 * Where the code of an image is, from now on. Tables of ranges whose file has not been looked up
 * are asked for when a stack leads there. 0, or a negative code: the image keeps what it had, or
 * has nothing.
 */
int ebpf_tables_image(struct ebpf_tables *t, uint64_t image, const struct target_range *ranges,
		      size_t count, const struct bpf_python *python) MUST_USE;
void ebpf_tables_forget(struct ebpf_tables *t, uint64_t image);
/* Whether the ranges of the image are there: not after the halves have changed. */
bool ebpf_tables_has(const struct ebpf_tables *t, uint64_t image);

#endif
