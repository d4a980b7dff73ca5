/*
 * core_file.h: core files of processes: their threads with registers, their mappings, and their
 * memory as far as the file has it.
 *
 * Input is untrusted: what points outside of the file is missing, and nothing is mapped. A file
 * that was cut has what is in front of the cut.
 */
#ifndef PITOT_ELF_CORE_FILE_H
#define PITOT_ELF_CORE_FILE_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/user.h>

#include "base/error.h"
#include "base/vec.h"

struct core_load {
	uint64_t start, end; /* addresses */
	uint64_t offset, file_size; /* of the bytes in the file that are there */
	uint64_t whole_size; /* what file_size would be if the file were whole */
	bool is_executable, is_writable;
};

/* Part of a file that was mapped. */
struct core_mapping {
	uint64_t start, end, file_offset;
	const char *path; /* belongs to the core_file */
};

struct core_thread {
	pid_t tid;
	int signal; /* that it was about to get; 0: none */
	struct user_regs_struct registers;
};

struct core_file {
	int fd; /* the caller's */
	uint64_t size, expected; /* bytes of the file; that it would have if it were whole */
	uint8_t *notes; /* has the paths */
	pid_t pid; /* 0: unknown */
	char name[17], command[81]; /* "" if unknown */
	VEC(struct core_thread) threads; /* as the system wrote them: the one that ended it first */
	VEC(struct core_load) loads; /* ascending, apart from each other */
	VEC(struct core_mapping) mappings;
};

/*
 * Reads headers and notes. Returns 0; E_FORMAT: it is no core file; E_UNSUPPORTED: of another
 * processor; or another negative code. Release *out in either case.
 */
int core_file_open(int fd, struct core_file *out, struct error *e) MUST_USE;
void core_file_release(struct core_file *c);
/* Reads memory. Returns the number of bytes in front of the first that is missing. */
size_t core_file_read(const struct core_file *c, uint64_t address, void *out, size_t size);
/*
 * The mapping of an address that was left out because the mapped file has the same bytes; NULL:
 * it was not, or no file was mapped there.
 */
const struct core_mapping *core_file_omitted(const struct core_file *c, uint64_t address);
/* The mapping of an address, or NULL. */
const struct core_mapping *core_file_mapping(const struct core_file *c, uint64_t address);

#endif
