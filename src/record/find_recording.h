/* find_recording.h: the newest recording of a folder. */
#ifndef PITOT_RECORD_FIND_RECORDING_H
#define PITOT_RECORD_FIND_RECORDING_H

#include "base/error.h"

/* Name of the newest *.pitot in the current folder that has something to read, to be freed; NULL: none, or an error. */
char *find_newest_recording(struct error *e) MUST_USE;

#endif
