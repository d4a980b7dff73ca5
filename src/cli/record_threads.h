/*
 * record_threads.h: names of the command's own threads, for a command that the recorder does not get into (no CUDA, no
 * NVTX). Where it does, it knows them better, and nothing of this is written.
 */
#ifndef PITOT_CLI_RECORD_THREADS_H
#define PITOT_CLI_RECORD_THREADS_H

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

struct record_threads {
	pid_t pid;
	VEC(struct named_thread) threads;
	struct map by_tid;	/* index in threads */
};

void record_threads_release(struct record_threads *t);

/* Reads the names of the threads that are there now. */
void record_threads_look(struct record_threads *t);

/* Writes rows of table `thread`, unless the command has segments of its own in the recording. */
void record_threads_write(const struct record_threads *t, const char *directory, struct writer *w);

#endif
