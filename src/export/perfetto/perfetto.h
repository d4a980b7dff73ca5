/* perfetto.h: a recording as a Perfetto trace (protobuf). docs/export.md says what becomes what. */
#ifndef PITOT_EXPORT_PERFETTO_PERFETTO_H
#define PITOT_EXPORT_PERFETTO_PERFETTO_H

#include "export/exporter.h"

/* Larger traces are several files: x.perfetto-trace, x-2.perfetto-trace … See struct exporter. */
int perfetto_write(struct trace *t, const struct export_options *options, const char *path,
		   struct export_result *result, struct error *e);

#endif
