/*
 * recording_sink.h: the sink that writes a recording on disk: rows become blocks, blocks become segments.
 *
 * A segment begins with an epoch of the writer, so that it can be read alone; a segment may hold several epochs. After an
 * error of the disk rows are lost and counted; once a second the sink wants a new epoch and tries again, and goes on in the
 * segment that it has. Only max_bytes ends a recording.
 */
#ifndef PITOT_FORMAT_RECORDING_SINK_H
#define PITOT_FORMAT_RECORDING_SINK_H

#include "format/writer.h"

/*
 * Creates the first segment (the first free number, with O_EXCL, so that several process images of one pid do not meet). 0
 * and *out, or a negative errno: the directory is missing, read-only or full.
 */
int recording_sink_new(const struct writer_options *options, struct sink **out,
		       struct error *e) MUST_USE;

#endif
