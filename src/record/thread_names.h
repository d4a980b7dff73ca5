/*
 * thread_names.h: names of the command's own threads, for a command that the recorder does not get into (no CUDA, no
 * NVTX). Where it does, it knows them better, and nothing of this is written.
 */
#ifndef PITOT_RECORD_THREAD_NAMES_H
#define PITOT_RECORD_THREAD_NAMES_H

#include <sys/types.h>

#include "base/map.h"
#include "base/vec.h"
#include "format/writer.h"

#define THREAD_NAME_MAX 64

struct named_thread {
	uint32_t tid;
	uint64_t time_ns;	/* when the name was read */
	char name[THREAD_NAME_MAX];
};

struct thread_names {
	pid_t pid;
	VEC(struct named_thread) threads;
	struct map by_tid;	/* index in threads */
};

void thread_names_release(struct thread_names *t);

/* Reads the names of the threads that are there now. */
void thread_names_read(struct thread_names *t);

/* Writes rows of table `thread`, unless the command has segments of its own in the recording. */
void thread_names_write(const struct thread_names *t, const char *directory, struct writer *w);

#endif
