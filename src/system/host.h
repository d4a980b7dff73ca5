/*
 * host.h: reads the machine and the own process from /proc, whose files stay open: a reading is a
 * system call for each. One thread at a time.
 */
#ifndef PITOT_SYSTEM_HOST_H
#define PITOT_SYSTEM_HOST_H

#include "system/pace.h"
#include "system/proc_text.h"

enum host_part { HOST_MACHINE = 1, HOST_PROCESS = 2 };

#define HOST_FILES_MAX 12
#define HOST_NAMES_BYTES 1024 /* further disks and network devices do not count */

struct host {
	unsigned parts; /* enum host_part that are read */
	int fds[HOST_FILES_MAX]; /* -1: there is none */
	struct pace paces[HOST_FILES_MAX];
	uint64_t seen; /* bit i: the metric with id METRIC_HOST_FIRST + i has come */
	uint64_t reported; /* the same: its absence was handed on */
	struct proc_units units;
	char disks[HOST_NAMES_BYTES], networks[HOST_NAMES_BYTES];
	char *text; /* room for a file */
};

/* Opens the files of these parts; what cannot be opened is absent. 0 or -ENOMEM. */
int host_open(struct host *h, unsigned parts, const struct metric_sink *sink) MUST_USE;
/* Reads what is due and hands it on. `now_ns` as of nvml_device_read. */
void host_read(struct host *h, uint64_t now_ns, const struct metric_sink *sink);
void host_close(struct host *h); /* also of one that is zero */
/*
 * In the child of a fork: closes the files, which are the parent's, and leaks the memory, which
 * another thread may have used.
 */
void host_after_fork(struct host *h);

#endif
