/*
 * elf_file.h: 64-bit little-endian ELF files, read on demand. They are not mapped, because whoever
 * truncates a mapped file ends the process that reads it.
 *
 * Input is untrusted: headers that point outside of the file are ignored. Not thread-safe, because
 * sections are decompressed on first use.
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
	/* source of `bytes`, which elf_load() reads; NULL: all bytes are there */
	struct sparse_file *source;
	bool owns_source;
	size_t load_max; /* bytes of one elf_load(), and of all before the last one */
	uint8_t *owned; /* bytes to free, or NULL */
	uint16_t machine, type;
	uint64_t entry; /* address of the first instruction; 0: none */
	struct elf_section *sections;
	size_t section_count;
	struct elf_segment *segments;
	size_t segment_count;
	uint8_t build_id[BUILD_ID_MAX];
	unsigned build_id_size; /* 0: none */
};

/* A range of bytes; data is NULL when it is empty. */
struct elf_bytes {
	const uint8_t *data;
	size_t size;
};

/*
 * Opens a regular file. Returns 0, E_FORMAT when it is not an ELF file, E_UNSUPPORTED for other
 * classes, or -errno.
 */
int elf_file_open(const char *path, struct elf_file *out, struct error *e) MUST_USE;
/* Same for bytes, which must outlive the struct. */
int elf_file_open_bytes(const void *bytes, size_t size, struct elf_file *out,
			struct error *e) MUST_USE;
/* Same for bytes from malloc, whose ownership passes to the struct, also on failure. */
int elf_file_open_owned(uint8_t *bytes, size_t size, struct elf_file *out,
			struct error *e) MUST_USE;
/*
 * Same for a file that the caller has opened, and of which little is needed; it must outlive the
 * struct.
 */
int elf_file_open_sparse(struct sparse_file *source, struct elf_file *out,
			 struct error *e) MUST_USE;
/* Same for a regular file's descriptor, which the caller keeps. */
int elf_file_open_fd(int fd, struct elf_file *out, struct error *e) MUST_USE;
/* Opens this process's vdso, which is equal in all processes of the same kind. */
int elf_file_open_vdso(struct elf_file *out, struct error *e) MUST_USE;
void elf_file_release(struct elf_file *f);
/* Closes the file; what elf_load() and elf_contents() have read remains. */
void elf_file_detach(struct elf_file *f);

/* Returns the first section with this name, or NULL. */
struct elf_section *elf_section(const struct elf_file *f, const char *name);
/* Returns the first section of a type, or NULL. */
struct elf_section *elf_section_by_type(const struct elf_file *f, uint32_t type);
/*
 * Returns the contents of a section, decompressed if necessary. Empty: NOBITS, outside of the file,
 * invalid, or no memory.
 */
struct elf_bytes elf_contents(const struct elf_file *f, struct elf_section *s);
struct elf_bytes elf_named_contents(const struct elf_file *f, const char *name);
/* Returns the contents of a section as stored in the file, to be read with elf_load(). */
struct elf_bytes elf_raw_contents(const struct elf_file *f, const struct elf_section *s);
/*
 * Reads a range of the file. Returns false when it is empty, incomplete, or too large for memory.
 */
bool elf_load(const struct elf_file *f, struct elf_bytes bytes);
/* Returns the bytes from an address to the end of its segment in the file, for elf_load(). */
struct elf_bytes elf_at_address(const struct elf_file *f, uint64_t address);
/* Whether the address is in an executable segment, or section of a file without segments. */
bool elf_is_code(const struct elf_file *f, uint64_t address);
/*
 * Returns the string at an offset of a string table, or NULL when it has no end there or is longer
 * than 32 KiB.
 */
const char *elf_string(struct elf_bytes strings, uint64_t offset);

struct elf_symbols {
	struct elf_bytes entries, names;
};

/*
 * Reads the symbols of the first section of a type, SHT_SYMTAB or SHT_DYNSYM. Returns 0, -ENOENT
 * when there is none, or E_FORMAT when it is invalid or too large.
 */
int elf_symbols(const struct elf_file *f, uint32_t type, struct elf_symbols *out) MUST_USE;
/* Reads symbol i and its name, "" if that is invalid. Returns false after the last symbol. */
bool elf_symbol(const struct elf_symbols *symbols, size_t i, Elf64_Sym *out, const char **name);
/* Same without names, for where few of them are needed: these are read one by one. */
int elf_symbol_entries(const struct elf_file *f, uint32_t type, struct elf_symbols *out) MUST_USE;
bool elf_symbol_entry(const struct elf_symbols *symbols, size_t i, Elf64_Sym *out);
const char *elf_symbol_name(const struct elf_file *f, const struct elf_symbols *symbols,
			    const Elf64_Sym *symbol);

/* Whether this text of hexadecimal digits is the build id. */
bool elf_has_build_id(const struct elf_file *f, const char *hexadecimal);
/* Writes the build id as text into `room` bytes; "" when there is none. */
void elf_build_id_text(const struct elf_file *f, char *out, size_t room);

/* Reads .gnu_debuglink: name and CRC-32 of the file with the symbols. Returns false without one. */
bool elf_debuglink(const struct elf_file *f, const char **name, uint32_t *crc);
/* Reads .gnu_debugaltlink: path and build id of the file shared by several debug files. */
bool elf_debugaltlink(const struct elf_file *f, const char **path, struct elf_bytes *build_id);

#endif
