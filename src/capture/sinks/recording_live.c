/* recording_live.c: writes a recording while a program runs. */
#include "capture/core/sinks.h"
#include "format/writer.h"

static struct sink *open(const struct settings *settings, const char *where, struct error *e)
{
	struct sink *sink;
	struct writer_options options = { .directory = where,
					  .folder = settings->folder,
					  .launcher = settings->launcher,
					  .max_bytes = settings->max_bytes,
					  .segment_bytes = settings->segment_bytes,
					  .background = true };

	return recording_sink_new(&options, &sink, e) == 0 ? sink : NULL;
}

const struct sink_kind recording_sink_kind = { .name = "recording", .open = open };
