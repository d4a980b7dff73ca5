/*
 * elf_file.h: an ELF file, mapped or read as far as it is asked for, its headers checked once.
 * 64-bit little-endian only.
 *
 * Every byte may be hostile: what a header says is believed only as far as it lies within the file.
 * Headers that do not are left out. Not safe for concurrent use, because sections are decompressed
 * at first use.
 */
#ifndef PITOT_ELF_ELF_FILE_H
#define PITOT_ELF_ELF_FILE_H

#include <elf.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/sparse_file.h"

#define BUILD_ID_MAX 64 /* bytes; GNU ld writes 20, others 8 or 16 */

struct elf_section {
	const char *name; /* never NULL */
	uint32_t type, link, info;
	uint64_t flags, address, offset, size, entry_size;
	uint8_t *plain; /* decompressed contents; NULL before their first use */
	uint64_t plain_size;
};

struct elf_segment {
	uint32_t type, flags;
	uint64_t offset, address, file_size, memory_size;
};

struct elf_file {
	const uint8_t *bytes;
	size_t size;
	/* that bytes are of, and are read by elf_need(); NULL: they are all there */
	struct sparse_file *source;
	bool owns_source;
	bool is_mapped; /* bytes are ours to unmap */
	uint8_t *owned; /* or to free; else NULL */
	uint16_t machine, type;
	uint64_t entry; /* address of its first instruction; 0: none */
	struct elf_section *sections;
	size_t section_count;
	struct elf_segment *segments;
	size_t segment_count;
	uint8_t build_id[BUILD_ID_MAX];
	unsigned build_id_size; /* 0: none */
};

/* A run of bytes; data is NULL when there are none. */
struct elf_bytes {
	const uint8_t *data;
	size_t size;
};

/*
 * Maps a regular file. 0; E_FORMAT for what is no ELF file, E_UNSUPPORTED for other classes;
 * -errno.
 */
int elf_file_open(const char *path, struct elf_file *out, struct error *e) MUST_USE;
/* The same for bytes that outlive the struct. */
int elf_file_open_bytes(const void *bytes, size_t size, struct elf_file *out,
			struct error *e) MUST_USE;
/* The same for bytes from malloc, which are the struct's from then on, also on failure. */
int elf_file_open_owned(uint8_t *bytes, size_t size, struct elf_file *out,
			struct error *e) MUST_USE;
/*
 * The same for a file of which only headers, names of sections and notes are read; it outlives the
 * struct.
 */
int elf_file_open_sparse(struct sparse_file *source, struct elf_file *out,
			 struct error *e) MUST_USE;
/* The same for a regular file; the descriptor stays the caller's. */
int elf_file_open_fd(int fd, struct elf_file *out, struct error *e) MUST_USE;
/* The vdso of this very process: the kernel gives all processes of one kind the same. */
int elf_file_open_vdso(struct elf_file *out, struct error *e) MUST_USE;
void elf_file_release(struct elf_file *f);

/* The first section with this name, or NULL. */
struct elf_section *elf_section(const struct elf_file *f, const char *name);
/* The first of a type, or NULL. */
struct elf_section *elf_section_of(const struct elf_file *f, uint32_t type);
/*
 * What a section holds, decompressed if need be. None: NOBITS, beyond the file, broken, or no
 * memory.
 */
struct elf_bytes elf_contents(const struct elf_file *f, struct elf_section *s);
struct elf_bytes elf_named_contents(const struct elf_file *f, const char *name);
/* What a section holds as it lies in the file, which elf_need() has to read. */
struct elf_bytes elf_raw_contents(const struct elf_file *f, const struct elf_section *s);
/*
 * Reads bytes of the file. false: there are none, they are not all there, or too many for memory.
 */
bool elf_need(const struct elf_file *f, struct elf_bytes bytes);
/* From an address to the end of what the file has of its segment, for elf_need() too. */
struct elf_bytes elf_at_address(const struct elf_file *f, uint64_t address);
/* Whether code can be there: in an executable segment, or section of a file without segments. */
bool elf_is_code(const struct elf_file *f, uint64_t address);
/*
 * The string at an offset of a string table, or NULL when it does not end within it, or is longer
 * than 32 KiB.
 */
const char *elf_string(struct elf_bytes strings, uint64_t offset);

struct elf_symbols {
	struct elf_bytes entries, names;
};

/*
 * Reads the symbols of the first section of a type, SHT_SYMTAB or SHT_DYNSYM. 0; -ENOENT: there is
 * none; E_FORMAT: it is broken, or too large to be read.
 */
int elf_symbols(const struct elf_file *f, uint32_t type, struct elf_symbols *out) MUST_USE;
/* Symbol i and its name, "" when that is broken. false: there are no more. */
bool elf_symbol(const struct elf_symbols *symbols, size_t i, Elf64_Sym *out, const char **name);

/* Whether the build id is this text of hexadecimal digits. */
bool elf_has_build_id(const struct elf_file *f, const char *hexadecimal);
/* Appends nothing beyond `room`; "" when there is none. */
void elf_build_id_text(const struct elf_file *f, char *out, size_t room);

/* .gnu_debuglink: the name of the file with the symbols, and its CRC-32. False: none. */
bool elf_debuglink(const struct elf_file *f, const char **name, uint32_t *crc);
/* .gnu_debugaltlink: the file that several debug files share, and its build id. False: none. */
bool elf_debugaltlink(const struct elf_file *f, const char **path, struct elf_bytes *build_id);

#endif
