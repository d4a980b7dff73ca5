/*
 * target_files.h: the files that targets execute: their build ids, where their segments lie, and
 * their unwind rules, for all processes that map them.
 *
 * A file is opened through the process that maps it (sampled_processes.h) and is told from others
 * by device, inode, size and time of change. What is needed of it is read, not mapped: a file that
 * shrinks meanwhile must not end us. Small ones are read at once, of large ones what is asked for:
 * a file stays open for that.
 */
#ifndef PITOT_SAMPLER_TARGET_FILES_H
#define PITOT_SAMPLER_TARGET_FILES_H

#include "base/map.h"
#include "base/sparse_file.h"
#include "base/vec.h"
#include "elf/elf_file.h"
#include "stack/unwind/unwind_parts.h"
#include "symbol/file_copies.h"

#define TARGET_TABLES_BYTES_MAX ((size_t)512 << 20) /* of memory, for all unwind rules */
#define TARGET_SEGMENTS_MAX 8u /* executable ones of a file that are known */

struct target_segment {
	uint64_t offset, address, size; /* in the file; ELF virtual address; bytes */
};

struct target_file {
	uint64_t device, inode, size;
	int64_t changed_ns;
	uint32_t number; /* from 1 */
	struct target_segment segments[TARGET_SEGMENTS_MAX];
	unsigned segment_count;
	uint64_t entry; /* ELF virtual address of its first instruction; 0: none */
	char build_id[2 * BUILD_ID_MAX + 1]; /* hexadecimal; "" if it has none */
	struct unwind_parts *parts; /* NULL: there are none to be had */
	bool refused; /* for want of memory */
	struct target_files *files;
	/* What they are made from: one of the two. */
	struct sparse_file source;
	uint8_t *copy;
};

struct target_files {
	VEC(struct target_file *) files; /* [number - 1] */
	struct map index; /* hash of what identifies a file -> its number */
	struct unwind_store store;
	struct file_copies *kept; /* NULL: none */
	uint32_t open; /* files that stay so */
	bool no_map_files; /* /proc/PID/map_files is not for us */
};

/* Where a file is mapped, as the kernel says. */
struct target_mapped {
	pid_t pid;
	uint64_t start, end, file_offset, inode; /* inode 0: unknown */
	const char *path;
};

/* 0 or -ENOMEM. */
int target_files_init(struct target_files *files) MUST_USE;
void target_files_release(struct target_files *files);

/*
 * The file behind a mapping, with its unwind rules if there is call frame information; NULL: it
 * cannot be opened, is another one by now, or is no ELF file.
 */
const struct target_file *target_file_open(struct target_files *files,
					   const struct target_mapped *mapped);
const struct target_file *target_file_at(const struct target_files *files, uint32_t number);

/*
 * Address minus ELF virtual address in a mapping of the file. false: it is no executable part of
 * it.
 */
bool target_file_bias(const struct target_file *file, uint64_t start, uint64_t file_offset,
		      uint64_t *bias);

#endif
