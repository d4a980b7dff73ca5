/*
 * ebpf_tables.h: uploads the data that the BPF programs unwind stacks with: rows of unwind rules,
 * the rules, and the address ranges of each process image.
 *
 * The table of a file is a directory of parts (unwind_parts.h), each of which is uploaded once it
 * has been compiled, 8 bytes per row. Directories and rows are stored in blocks of 1 MiB. Once
 * written they do not change, except that cells of directories are written last, atomically. The
 * rules of all files are one array, numbered as in the unwind store. The ranges of process images
 * are one array of two halves, only one of which is being filled: when it is full, all images are
 * deleted and the other half is filled, so that a program that is reading ranges is not disturbed.
 *
 * The programs cache the rules of addresses as long as the generation of the image does not change:
 * each upload gives it a new one.
 */
#ifndef PITOT_SAMPLER_EBPF_EBPF_TABLES_H
#define PITOT_SAMPLER_EBPF_EBPF_TABLES_H

#include "base/map.h"
#include "base/vec.h"
#include "sampler/ebpf/bpf/sampler_load.h"
#include "sampler/sampled_processes.h"

#define EBPF_TABLE_BYTES_MAX ((uint64_t)256 << 20) /* memory of the operating system */

/* A block, mapped into our memory. */
struct ebpf_block {
	struct bpf_cell *cells;
	uint32_t count, used;
};

struct ebpf_table {
	uint32_t number; /* of the table in the BPF map; BPF_TABLE_MISSING: there was no room */
	size_t uploaded; /* number of uploaded parts, in the order of their compilation */
	struct bpf_cell *directory;
};

struct ebpf_tables {
	struct sampler_programs *programs;
	uint32_t rule_count; /* number of uploaded rules */
	struct map numbers; /* struct unwind_parts * -> item of tables */
	VEC(struct ebpf_table) tables;
	VEC(struct ebpf_block) blocks;
	struct map images; /* images whose ranges are in the current half */
	uint64_t bytes, switched_ns;
	uint32_t half, used; /* number of ranges used in this half */
	uint32_t generation; /* of the last uploaded image */
};

/* Returns 0 or a negative code. */
int ebpf_tables_init(struct ebpf_tables *t, struct sampler_programs *programs) MUST_USE;
void ebpf_tables_release(struct ebpf_tables *t);

/*
 * Uploads the parts that were compiled since the last call. Returns the number of the table;
 * BPF_TABLE_MISSING when there is no room.
 */
uint32_t ebpf_tables_upload(struct ebpf_tables *t, const struct unwind_parts *parts);

/*
 * Uploads the ranges of an image. For ranges whose file has not been looked up, the programs ask
 * for a table when a stack leads there. Returns 0, or a negative code: then the image keeps its
 * previous ranges, if any.
 */
int ebpf_tables_upload_image(struct ebpf_tables *t, uint64_t image,
			     const struct target_range *ranges, size_t count,
			     const struct bpf_python *python) MUST_USE;
void ebpf_tables_forget(struct ebpf_tables *t, uint64_t image);
/* Whether the ranges of the image are uploaded; false after the halves were switched. */
bool ebpf_tables_has(const struct ebpf_tables *t, uint64_t image);

#endif
