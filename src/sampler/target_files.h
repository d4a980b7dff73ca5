/*
 * target_files.h: the files that targets execute: build ids, segments and unwind rules, shared by
 * all processes that map them.
 *
 * A file is opened through a process that maps it (sampled_processes.h) and identified by device,
 * inode, size and modification time. Its contents are read, not mapped, because a mapped file that
 * shrinks would kill us. Call frame information is read whole if it is small, else on demand, for
 * which the file stays open.
 */
#ifndef PITOT_SAMPLER_TARGET_FILES_H
#define PITOT_SAMPLER_TARGET_FILES_H

#include <sys/stat.h>

#include "base/map.h"
#include "base/sparse_file.h"
#include "base/vec.h"
#include "elf/elf_file.h"
#include "stack/unwind/unwind_parts.h"
#include "symbol/file_copies.h"

#define TARGET_TABLES_BYTES_MAX ((size_t)512 << 20) /* limit for all unwind rules, in memory */
#define TARGET_SEGMENTS_MAX 8u /* executable segments stored of a file */

struct target_segment {
	uint64_t offset, address, size; /* file offset; ELF virtual address; bytes */
};

struct target_file {
	uint64_t device, inode, size;
	int64_t changed_ns;
	uint32_t number; /* from 1 */
	struct target_segment segments[TARGET_SEGMENTS_MAX];
	unsigned segment_count;
	uint64_t entry; /* ELF virtual address of its first instruction; 0: none */
	char build_id[2 * BUILD_ID_MAX + 1]; /* hexadecimal; "": none */
	struct unwind_parts *parts; /* NULL: no unwind rules */
	bool no_memory; /* there was no memory for the unwind rules */
	bool is_vdso; /* the same code in every process */
	struct target_files *files;
	/* The bytes that `parts` is compiled from are in one of these. */
	struct sparse_file source;
	uint8_t *copy;
};

struct target_files {
	VEC(struct target_file *) files; /* [number - 1] */
	struct map index; /* hash of what identifies a file -> its number */
	struct unwind_store store;
	struct file_copies *file_copies; /* NULL: none */
	uint32_t open; /* number of files kept open */
	bool no_map_files; /* we may not read /proc/PID/map_files */
};

/* A mapping of a file, as the operating system's kernel reports it. */
struct target_mapped {
	pid_t pid;
	uint64_t start, end, file_offset, inode; /* inode 0: unknown */
	const char *path;
};

/* Returns 0 or -ENOMEM. */
int target_files_init(struct target_files *files) MUST_USE;
void target_files_release(struct target_files *files);

/*
 * Returns the file of a mapping, with its unwind rules if it has call frame information. NULL: it
 * cannot be opened, has been replaced, or is no ELF file.
 */
const struct target_file *target_file_open(struct target_files *files,
					   const struct target_mapped *mapped);
/* Opens the file of a mapping, if it is still there, and sets *st. Returns a descriptor, or -1. */
int target_file_open_mapped(struct target_files *files, const struct target_mapped *mapped,
			    struct stat *st);
const struct target_file *target_file_at(const struct target_files *files, uint32_t number);

/* Whether the path of a mapping is that of a file. */
bool target_is_file(const char *path);
/*
 * Computes address minus ELF virtual address for a mapping of the file. Returns false if the
 * mapping is not in an executable segment.
 */
bool target_file_bias(const struct target_file *file, uint64_t start, uint64_t file_offset,
		      uint64_t *bias);

#endif
