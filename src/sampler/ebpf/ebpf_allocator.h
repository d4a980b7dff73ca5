/*
 * ebpf_allocator.h: the static probes of PyTorch's caching allocator, which it has on x86-64 in
 * libc10_cuda.so: pytorch:malloc (address, device, bytes, stream) and pytorch:free (address).
 *
 * A process that maps the library gets a uprobe at each of its probes, from then until the recorder
 * ends, in whatever way: the probe's semaphore, which the operating system's kernel increments with
 * it, is 0 again then. The library is opened through the mapping, and stays open. What the library
 * says of its probes is checked (elf/usdt_notes.h), because a program may have any.
 */
#ifndef PITOT_SAMPLER_EBPF_EBPF_ALLOCATOR_H
#define PITOT_SAMPLER_EBPF_EBPF_ALLOCATOR_H

#include <sys/types.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "base/vec.h"
#include "sampler/ebpf/bpf/sampler_load.h"
#include "sampler/process_memory.h"

struct targets;

struct allocator_site {
	uint64_t offset, semaphore; /* in the file */
	uint32_t number; /* in the BPF map */
};

/* A library, with or without probes. */
struct allocator_file {
	uint64_t identity[4]; /* device, inode, size, time of the last change */
	int fd;
	VEC(struct allocator_site) sites;
};

struct allocator_probe {
	pid_t pid;
	uint32_t file; /* item of files */
	struct bpf_link *link;
};

/* A process that was forked with the library, and may execute another program at once. */
struct allocator_wait {
	pid_t pid;
	uint32_t file;
	uint64_t due_ns;
};

/* Initialize with zeros, `programs` and `targets`. */
struct ebpf_allocator {
	struct sampler_programs *programs; /* NULL: the allocator is not recorded */
	struct targets *targets;
	VEC(struct allocator_file) files;
	VEC(struct allocator_probe) probes;
	VEC(struct allocator_wait) waits;
	uint32_t site_count;
	bool was_set; /* a process had probes */
	struct error error; /* the first reason why a library is not recorded */
};

void ebpf_allocator_release(struct ebpf_allocator *a);

/* A process has mapped a file, which may be the library. */
void ebpf_allocator_map(struct ebpf_allocator *a, pid_t pid, const struct target_mapping *mapping);
/* Looks for the library in all mappings of a process, which are older, or were missed. */
void ebpf_allocator_find(struct ebpf_allocator *a, pid_t pid);
/*
 * A process has the mappings of its parent. It gets probes if it still has them a moment later,
 * when ebpf_allocator_poll() is called: setting four takes tens of milliseconds, and most such
 * processes execute another program.
 */
void ebpf_allocator_fork(struct ebpf_allocator *a, pid_t parent, pid_t child);
void ebpf_allocator_poll(struct ebpf_allocator *a, uint64_t now_ns);
/* The process runs another program, or (has_ended) none. */
void ebpf_allocator_forget(struct ebpf_allocator *a, pid_t pid, bool has_ended);
/* Whether a process was recorded. Appends why none was, or not all. */
bool ebpf_allocator_was_set(const struct ebpf_allocator *a, struct strbuf *reason);

#endif
