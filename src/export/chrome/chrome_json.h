/* chrome_json.h: a recording as Chrome trace JSON in Kineto's dialect. docs/export.md says what becomes what. */
#ifndef PITOT_EXPORT_CHROME_CHROME_JSON_H
#define PITOT_EXPORT_CHROME_CHROME_JSON_H

#include "export/exporter.h"

/* One file; gzip when the path ends in .gz. See struct exporter. */
int chrome_json_write(struct trace *t, const struct export_options *options, const char *path,
		      struct export_result *result, struct error *e);

#endif
