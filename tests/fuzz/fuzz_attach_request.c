/* layer: format */
/*
 * What a client sends to a prepared process: a request with the settings and the launcher of its
 * recording. An input is the beginning of a request; if it has the magic number, the rest is zeros.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "format/attach_request.h"
#include "format/segment_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct attach_request *r = calloc(1, sizeof(*r));
	struct settings *s = malloc(sizeof(*s));
	struct folder_id id;

	if (!r || !s)
		abort();
	*s = (struct settings)SETTINGS_INIT;
	memcpy(r, bytes, MIN(size, sizeof(*r)));
	if (attach_request_is_valid(r, MAX(size, sizeof(*r)))) {
		settings_parse(s, r->options);
		settings_clear_sinks(s);
		(void)!launcher_folder(r->launcher, &id);
		if (!memchr(s->directory, '\0', sizeof(s->directory)))
			abort();
	}
	free(s);
	free(r);
	return 0;
}
