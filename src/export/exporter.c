#include "export/exporter.h"

#include <string.h>

#include "base/output.h"
#include "export/chrome/chrome_json.h"
#include "export/perfetto/perfetto.h"

const struct exporter exporters[] = {
	{ "perfetto", ".perfetto-trace .pftrace .perfetto .perfetto-trace.gz .pftrace.gz",
	  "Perfetto protobuf, for ui.perfetto.dev and trace processor", true, false,
	  perfetto_write },
	{ "json", ".json .json.gz",
	  "Chrome trace JSON as PyTorch's profiler writes it, for HTA, Perfetto, chrome://tracing",
	  false, true, chrome_json_write },
	{ .name = NULL },
};

const struct exporter *exporter_by_name(const char *name)
{
	for (const struct exporter *x = exporters; x->name; x++)
		if (!strcmp(x->name, name))
			return x;
	return NULL;
}

const struct exporter *exporter_by_path(const char *path)
{
	for (const struct exporter *x = exporters; x->name; x++)
		if (output_path_ends(path, x->suffixes))
			return x;
	return NULL;
}

uint64_t export_result_events(const struct export_result *result)
{
	uint64_t events = 0;

	for (size_t i = 0; i < TABLE_END; i++)
		events += result->written[i];
	return events;
}
