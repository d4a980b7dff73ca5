/*
 * pc_names.h: who frees the names of functions in samples. They are the client's to free, CUPTI's
 * header says, but also that records may share them. What a CUPTI does shows when it names a
 * function for the second time: with the pointer of before, then no name is ever freed (so does
 * CUPTI 13.0); with another one, then each is. Any thread.
 */
#ifndef PITOT_CAPTURE_ENGINES_PC_NAMES_H
#define PITOT_CAPTURE_ENGINES_PC_NAMES_H

#include <stddef.h>

#include <cupti_pcsampling.h>

/* The names of the first `count` records have been copied, and are of no use from here on. */
void pc_names_done(CUpti_PCSamplingData *d, size_t count);

/* A module is unloaded: its functions' names may be others when it comes again. */
void pc_names_changed(void);
void pc_names_after_fork(void);

#endif
