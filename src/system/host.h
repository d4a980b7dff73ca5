/*
 * host.h: reads metrics of the machine and the own process from /proc. The files stay open: a
 * reading is two system calls per file. The program may close them and reuse their numbers. To be
 * used by one thread at a time.
 */
#ifndef PITOT_SYSTEM_HOST_H
#define PITOT_SYSTEM_HOST_H

#include <sys/stat.h>

#include "system/pace.h"
#include "system/proc_text.h"

enum host_part { HOST_MACHINE = 1, HOST_PROCESS = 2 };

#define HOST_FILES_MAX 12
#define HOST_NAMES_BYTES 1024 /* disks and network devices beyond that are not counted */

struct host {
	unsigned parts; /* mask of enum host_part */
	int fds[HOST_FILES_MAX]; /* negative: not open */
	struct stat opened[HOST_FILES_MAX]; /* what they were opened for */
	struct pace paces[HOST_FILES_MAX];
	uint64_t seen; /* bit i: metric METRIC_HOST_FIRST + i has had a value */
	uint64_t reported; /* likewise: its absence has been reported */
	struct proc_units units;
	char disks[HOST_NAMES_BYTES], networks[HOST_NAMES_BYTES];
	char *text; /* buffer for a file */
};

/* Opens the files of these parts, reports absent metrics. Returns 0 or -ENOMEM. */
int host_open(struct host *h, unsigned parts, const struct metric_sink *sink) MUST_USE;
/* Reads the files that are due, passes values to `sink`. `now_ns` as in nvml_device_read(). */
void host_read(struct host *h, uint64_t now_ns, const struct metric_sink *sink);
void host_close(struct host *h); /* may be all zeros */
/*
 * To be called in the child of a fork: closes the parent's files, and leaks the memory, which
 * another thread may have been using.
 */
void host_after_fork(struct host *h);

#endif
