/*
 * find_cupti.c: tells `pitot doctor`, which opens this library, which CUPTI a recording would use.
 */
#include <stdio.h>
#include <stdlib.h>

#include "capture/cuda/vendor.h"

/*
 * Returns 1 with CUPTI's path in text and its version; 0 with the reason in text. Not part of the
 * public API: only for the program `pitot` of the same version.
 */
EXPORT int pitot_find_cupti(char *text, size_t size, unsigned *version);
EXPORT int pitot_find_cupti(char *text, size_t size, unsigned *version)
{
	struct cupti cupti = { 0 };
	struct error e = { 0 };
	int r = cupti_load(&cupti, secure_getenv("PITOT_CUPTI"), &e);

	snprintf(text, size, "%s", r < 0 ? e.text : cupti.path);
	*version = r < 0 ? 0 : cupti.version;
	return r >= 0;
}
