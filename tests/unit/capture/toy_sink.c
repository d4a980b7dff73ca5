/* toy_sink.c: a sink that counts rows. Beside this file it is a line in sink_names.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/core/sinks.h"
#include "unit/capture/counting_sink.h"
#include "unit/capture/toy_source.h"

struct counting_sink *toy_sink;
atomic_bool toy_sink_hangs;

static struct sink *open(const struct settings *settings, const char *where, struct error *e)
{
	struct counting_sink *sink = strcmp(where, "none") ? calloc(1, sizeof(*sink)) : NULL;

	(void)settings;
	while (!strcmp(where, "hangs") && atomic_load(&toy_sink_hangs))
		usleep(1000);
	if (!sink) {
		error_set(e, -ENOENT, "there is none");
		return NULL;
	}
	counting_sink_init(sink);
	toy_sink = sink;
	return &sink->sink;
}

const struct sink_kind toy_sink_kind = { .name = "toy", .open = open };
