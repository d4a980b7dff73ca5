/*
 * pitot.h: the public C API of libpitot.so, Pitot's recorder.
 *
 * A program need not be linked with Pitot: `pitot record` injects the library. Linking with it lets a program start
 * and stop a recording by itself. All functions may be called from any thread; none of them prints, exits or blocks
 * for longer than its comment says.
 */
#ifndef PITOT_PITOT_H
#define PITOT_PITOT_H

#ifdef __cplusplus
extern "C" {
#endif

#define PITOT_API __attribute__((visibility("default")))

/* "major.minor.patch" of the library. Static storage. */
PITOT_API const char *pitot_version(void);

/*
 * Starts recording this process into the directory that the environment variable PITOT_RECORDING names (an absolute
 * path of an existing directory), as PITOT_OPTIONS says. Does nothing when a recording is already running. Call it
 * before the first CUDA call. Returns 1 when a recording is running, else 0.
 */
PITOT_API int pitot_init(void);

/*
 * Ends the recording in order: everything seen so far is on disk when it returns. Takes milliseconds, at most two
 * seconds. It is called by itself when the process exits. A recording that was ended cannot be started again.
 */
PITOT_API void pitot_stop(void);

#ifdef __cplusplus
}
#endif

#include "scope.h"

#endif
