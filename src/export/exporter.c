#include "export/exporter.h"

#define EXPORTER_ROW(name, suffixes, splits, has_rank, has_samples, is_folder, write)              \
	{ { #name, suffixes }, splits, has_rank, has_samples, is_folder, write },
const struct exporter exporters[] = { EXPORTERS(EXPORTER_ROW){ .file = { .name = NULL } } };

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
