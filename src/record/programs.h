/*
 * programs.h: the state of `pitot top`: the programs of this machine that use a GPU, or that have
 * the recorder. Single-threaded. Prints nothing.
 *
 * A program is found because NVML lists it, because it has the device of CUDA's memory open (in
 * containers NVML lists nothing), because it is prepared, or because it was named. What it does on
 * the GPU is known if it is being recorded, by whomever (live_tail.h).
 */
#ifndef PITOT_RECORD_PROGRAMS_H
#define PITOT_RECORD_PROGRAMS_H

#include "record/live_attach.h"
#include "record/monitor.h"
#include "record/program_work.h"

#define PROGRAMS_MAX 1024u
#define PROGRAMS_NAMED_MAX 64u

enum program_recorder {
	PROGRAM_PLAIN, /* it has no recorder, or is somebody else's */
	PROGRAM_PREPARED,
	PROGRAM_RECORDED,
};

struct program {
	pid_t pid;
	uint64_t start_ticks; /* of which process with that pid */
	char user[32];
	char *command; /* arbitrary bytes */
	char state; /* as in /proc/PID/stat */
	enum program_recorder recorder;
	uint64_t gpus; /* bits: the numbers of those that list it */
	uint64_t memory_bytes; /* on all GPUs; UINT64_MAX: unknown */
	int64_t gpu_percent; /* sum over its GPUs, as NVML says; -1: unknown */
	int64_t cpu_percent; /* sum over its threads; -1: unknown */
	struct live_tail tail; /* live.segment.path NULL: it is not being recorded */
	struct program_work work; /* of that */
	/* while reading: */
	bool is_named;
	uint64_t cpu_ticks, read_ns; /* at the last reading */
	struct pace pace;
};

struct programs {
	VEC(struct program) all;
	pid_t named[PROGRAMS_NAMED_MAX]; /* with their descendants, and nothing else; attached to */
	size_t named_count;
	size_t top; /* kernels and lines of each */
	struct live_attach attach;
	struct pace pace; /* of searching /proc */
	uint64_t read_realtime_ns;
};

#define PROGRAMS_INIT                                                                              \
	{                                                                                          \
		.attach = LIVE_ATTACH_INIT                                                         \
	}

/* Reads all programs. `m` has been read just before. Returns 0 or a negative code. */
int programs_read(struct programs *p, const struct monitor *m, struct error *e) MUST_USE;
/*
 * Makes the named programs record themselves if they are prepared and nobody records them yet.
 * Returns how many do; *e says why the first of the others do not.
 */
size_t programs_attach(struct programs *p, struct error *e);
void programs_release(struct programs *p);

#endif
