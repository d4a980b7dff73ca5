/*
 * pc_cubins.h: the device code of sampled kernels. A copy of each module is kept from when it is
 * loaded, up to PC_CUBINS_BYTES in all and for the life of the process: which of them will be
 * sampled is not known, and a later recording may want it again. CUPTI's checksum of it, which may
 * not be asked for in a callback, is found on the vendor thread. Those whose checksum shows up in
 * samples are written into the recording.
 */
#ifndef PITOT_CAPTURE_ENGINES_PC_CUBINS_H
#define PITOT_CAPTURE_ENGINES_PC_CUBINS_H

#include <stdbool.h>

#include <cupti_pcsampling.h>

#include "capture/cuda/vendor.h"
#include "format/recording_dir.h"

#define PC_CUBINS_BYTES ((size_t)256 << 20)

/* A module was loaded. Any thread, in CUPTI's callback. */
void pc_cubins_add(const void *bytes, size_t size);
/* Finds the checksums of new ones. Vendor thread. */
void pc_cubins_identify(const struct cupti *cupti);

/* A new recording: none is in it. Collector's thread, as the next two. */
void pc_cubins_begin(void);
/* Rows have this checksum, or this lower half of one: so it is named in the recording. */
void pc_cubins_need(uint64_t crc);

struct pc_cubin {
	uint64_t crc;
	size_t size;
	bool has_file;
};
/* One whose file has been written, or that there is no code of; each once. false: none. */
bool pc_cubins_take(struct pc_cubin *cubin);

/* The recording's folder, from here on. Any thread. */
void pc_cubins_use(const char *directory);
/* Writes what is needed into it. Vendor thread; the collector's when that has ended. */
void pc_cubins_store(void);
/* In the recording's folder. */
#define PC_CUBIN_FILE RECORDING_CUBINS "/%016llx" RECORDING_CUBIN_SUFFIX

/* Modules of which there was no room for a copy. */
uint64_t pc_cubins_lost(void);

/* In the child of a fork: there are none. */
void pc_cubins_after_fork(void);

#endif
