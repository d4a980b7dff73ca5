/*
 * pc_names.h: frees the function names in CUPTI's PC records, if the client owns them. CUPTI's
 * header says that the client frees them, but also that records may share them. When CUPTI
 * names a function in a second reading, the pointer decides: if it is the earlier one, CUPTI owns
 * all names and none is ever freed (so with CUPTI 13.0); if it differs several times, each is
 * freed from then on. Any thread.
 */
#ifndef PITOT_CAPTURE_ENGINES_PC_NAMES_H
#define PITOT_CAPTURE_ENGINES_PC_NAMES_H

#include <stddef.h>

#include <cupti_pcsampling.h>

/* Releases the names of the first `count` records; the caller must have copied them. */
void pc_names_done(CUpti_PCSamplingData *d, size_t count);

/* A module is unloaded: if it is loaded again, its functions may have other name pointers. */
void pc_names_changed(void);
void pc_names_after_fork(void);

#endif
