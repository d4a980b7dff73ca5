#include "export/exporter.h"

#include "export/chrome/chrome_json.h"
#include "export/perfetto/perfetto.h"

#define EXPORTER_ROW(name, suffixes, description, splits, has_rank, write)                         \
	{ { #name, suffixes, description }, splits, has_rank, write },
const struct exporter exporters[] = { EXPORTERS(EXPORTER_ROW){ .file = { .name = NULL } } };

const struct exporter *exporter_by_name(const char *name)
{
	return file_format_by_name(exporters, sizeof(*exporters), name);
}

const struct exporter *exporter_by_path(const char *path)
{
	return file_format_by_path(exporters, sizeof(*exporters), path);
}

uint64_t export_result_events(const struct export_result *result)
{
	uint64_t events = 0;

	for (size_t i = 0; i < TABLE_END; i++)
		events += result->written[i];
	return events;
}
