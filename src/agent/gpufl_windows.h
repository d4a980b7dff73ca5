/*
 * gpufl_windows.h: sends windows to gpufl's backend: exported as gpufl's logs, and uploaded as
 * `pitot upload` does. The logs of a window are the same bytes each time, so the backend knows what
 * it has.
 */
#ifndef PITOT_AGENT_GPUFL_WINDOWS_H
#define PITOT_AGENT_GPUFL_WINDOWS_H

#include "base/error.h"

struct gpufl_options {
	const char *url; /* of the backend; NULL: there is none */
	const char *key_file; /* NULL: the environment has the key */
	const char *ca_file; /* NULL: the machine's authorities */
	void (*warn)(void *user, const char *text);
	void *user;
};

/* Sends nothing. Returns 0 or a negative code. */
int gpufl_windows_check(const struct gpufl_options *options, struct error *e) MUST_USE;
/*
 * Sends the window in a folder of the spool, in ten seconds at most. What the backend refuses is a
 * warning. Returns 0 or a negative code: it has to be sent again.
 */
int gpufl_windows_put(const struct gpufl_options *options, int spool, const char *window,
		      struct error *e) MUST_USE;
/* Removes what is left of one that was killed. */
void gpufl_windows_clean(int spool);

#endif
