/*
 * own_fd.h: a descriptor inside the target process. The program may close descriptors that it did
 * not open, and reuse their numbers: ours are never used or closed when they are another file.
 */
#ifndef PITOT_BASE_OWN_FD_H
#define PITOT_BASE_OWN_FD_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/compiler.h"

/* all zeros: none */
struct own_fd {
	int fd; /* above stderr */
	dev_t device;
	ino_t inode;
};

/*
 * Takes what open(2) or socket(2) has just returned, also a failure: makes it close-on-exec, and
 * moves it above stderr. Returns 0 or -errno; then nothing is open, and *own is none.
 */
int own_fd_set(struct own_fd *own, int fd);
bool own_fd_valid(const struct own_fd *own);
void own_fd_close(struct own_fd *own);

#endif
