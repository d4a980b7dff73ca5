/*
 * nsys.h: converts the SQLite exports of Nsight Systems (`nsys export --type sqlite`), schemas 3.5
 * to 3.25. Tables are created only if there is something in them, and columns come and go with the
 * version: whatever is missing is missing in the recording. Numbers of enumerations differ from
 * CUPTI's; the export's own tables ENUM_… say what they mean.
 */
#ifndef PITOT_IMPORT_NSYS_NSYS_H
#define PITOT_IMPORT_NSYS_NSYS_H

#include "import/database_rows.h"

/* Ids of threads: hardware (8 bits), machine (8), process (24), thread (24). */
#define NSYS_PROCESS_MASK UINT64_C(0xffffffffff000000)
static inline uint32_t nsys_tid(uint64_t global)
{
	return global & 0xffffff;
}

/* Values of the recording's enums, by the export's numbers. */
enum {
	NSYS_COPY_KIND,
	NSYS_MEMORY_KIND,
	NSYS_LAUNCH_TYPE,
	NSYS_SYNC_KIND,
	NSYS_OVERHEAD,
	NSYS_ENUMS
};
extern uint8_t nsys_enums[NSYS_ENUMS][ENUM_ENTRIES];
/* Reads them, or assumes those of 3.25. Returns 0 or a negative code. */
int nsys_enums_read(struct database_import *m, struct error *e) MUST_USE;

/* Stacks of a table of frames, each with a number. */
struct nsys_chains {
	struct map chains; /* number -> first item of frames << 16 | count */
	VEC(uint64_t) frames; /* function << 32 | module; innermost first */
};

struct nsys {
	struct database_import import;
	struct nsys_chains calls, samples; /* of CUDA's calls, of CPU samples */
	struct map pids; /* of processes */
	uint64_t sample_ns; /* CPU time that a sample represents */
	bool has_calls, has_devices, has_clock;
	char tool[96], host[64];
};

int nsys_convert_work(struct nsys *n, struct error *e) MUST_USE;
int nsys_convert_calls(struct nsys *n, struct error *e) MUST_USE;
int nsys_convert_nvtx(struct nsys *n, struct error *e) MUST_USE;
int nsys_convert_samples(struct nsys *n, struct error *e) MUST_USE;
int nsys_convert_metrics(struct nsys *n, struct error *e) MUST_USE;

#endif
