/* recording_live.c: writes a recording while a program runs. */
#include "capture/core/shared_area.h"
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
					  .ring_bytes = settings->ring_bytes,
					  .background = true };

	if (*settings->launcher) {
		shared_area_open();
		options.journal = shared_area_journal(&options.journal_bytes);
	}
	if (recording_sink_new(&options, &sink, e) < 0)
		return NULL;
	if (options.journal)
		shared_area_send(settings->launcher);
	return sink;
}

const struct sink_kind recording_sink_kind = { .name = "recording", .open = open };
