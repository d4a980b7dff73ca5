/* remote_image.h: what a process executes, as far as calls from outside depend on it. */
#ifndef PITOT_RECORD_INJECT_REMOTE_REMOTE_IMAGE_H
#define PITOT_RECORD_INJECT_REMOTE_REMOTE_IMAGE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/vec.h"
#include "sampler/process_memory.h"
#include "stack/frame.h"

enum code_owner {
	CODE_PROGRAM, /* and all libraries but those below */
	CODE_LIBC,
	CODE_LOADER,
	CODE_ALLOCATOR, /* one that replaces malloc() */
	CODE_ANONYMOUS, /* no file: made by a compiler at run time */
};

struct remote_code {
	uint64_t start, end;
	enum code_owner owner;
};

#define REMOTE_WAITS_MAX 8u

struct remote_image {
	VEC(struct remote_code) code; /* executable, ascending */
	/* of its C library; 0: it has none */
	uint64_t dlopen, errno_location, libc_inode;
	/* functions of it that wait for another thread, without a lock of the C library */
	struct code_range waits[REMOTE_WAITS_MAX];
	unsigned wait_count;
	char *recorder; /* the libpitot.so that it has loaded; NULL: none */
};

/* Returns 0 or a negative code; release *out in either case. */
int remote_image_read(pid_t pid, struct remote_image *out, struct error *e) MUST_USE;
void remote_image_release(struct remote_image *image);

enum code_owner remote_image_owner(const struct remote_image *image, uint64_t address);
bool remote_image_waits(const struct remote_image *image, uint64_t address);

/*
 * The address of what a file exports by that name, which the process sees at `path`: the ELF
 * virtual address, or if `at` is an executable mapping of the file, that in the process. Returns 0
 * or a negative code.
 */
int remote_symbol(pid_t pid, const char *path, const char *name, const struct target_mapping *at,
		  uint64_t *out, struct error *e) MUST_USE;

#endif
