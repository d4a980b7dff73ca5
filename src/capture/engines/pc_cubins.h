/*
 * pc_cubins.h: the device code of sampled kernels. Each module is copied when it is loaded, up to
 * PC_CUBINS_BYTES in total, and the copy lives as long as the process: any module may be sampled
 * later, and later recordings may need it again. The vendor thread computes CUPTI's checksum of it,
 * because a callback must not call that function. Modules whose checksum appears in samples are
 * written into the recording.
 */
#ifndef PITOT_CAPTURE_ENGINES_PC_CUBINS_H
#define PITOT_CAPTURE_ENGINES_PC_CUBINS_H

#include <stdbool.h>

#include <cupti_pcsampling.h>

#include "capture/cuda/vendor.h"
#include "format/recording_dir.h"
#include "schema/settings.h"

#define PC_CUBINS_BYTES ((size_t)256 << 20)

/* Copies a module that was loaded. Any thread, in CUPTI's callback. */
void pc_cubins_add(const void *bytes, size_t size);
/* Computes the checksums of new modules. Vendor thread. */
void pc_cubins_identify(const struct cupti *cupti);

/* Begins a recording, which needs no module yet. Collector's thread, like the next two. */
void pc_cubins_begin(void);
/* Rows contain this checksum, or the lower half of one: the recording needs its module. */
void pc_cubins_need(uint64_t crc);

struct pc_cubin {
	uint64_t crc;
	size_t size;
	bool has_file;
};
/* Returns each needed module once: its file is written, or its code is unavailable; false: none. */
bool pc_cubins_take(struct pc_cubin *cubin);

/* Sets the recording's folder, and its launcher. Any thread. */
void pc_cubins_use(const struct settings *s);
/* Writes the needed modules. Vendor thread, or the collector's after the vendor's last round. */
void pc_cubins_store(void);
/* Relative to the recording's folder. */
#define PC_CUBIN_FILE RECORDING_CUBINS "/" RECORDING_CUBIN_NAME

/* Number of modules without a copy, for lack of memory or of a checksum. */
uint64_t pc_cubins_lost(void);

/* Forgets all modules, in the child of a fork. */
void pc_cubins_after_fork(void);

#endif
