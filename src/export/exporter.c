#include "export/exporter.h"

#include <string.h>

#include "export/chrome_json.h"
#include "export/perfetto.h"

const struct exporter exporters[] = {
	{ "perfetto", ".perfetto-trace .pftrace .perfetto .perfetto-trace.gz .pftrace.gz",
	  "Perfetto protobuf, for ui.perfetto.dev and trace processor", perfetto_write },
	{ "json", ".json .json.gz",
	  "Chrome trace JSON as PyTorch's profiler writes it, for HTA, Perfetto, chrome://tracing",
	  chrome_json_write },
	{ .name = NULL },
};

const struct exporter *exporter_by_name(const char *name)
{
	for (const struct exporter *x = exporters; x->name; x++)
		if (!strcmp(x->name, name))
			return x;
	return NULL;
}

static bool ends_with(const char *path, const char *suffix, size_t suffix_length)
{
	size_t length = strlen(path);

	return length > suffix_length &&
	       !memcmp(path + length - suffix_length, suffix, suffix_length);
}

const struct exporter *exporter_by_path(const char *path)
{
	for (const struct exporter *x = exporters; x->name; x++) {
		const char *suffix = x->suffixes;

		while (*suffix) {
			size_t length = strcspn(suffix, " ");

			if (ends_with(path, suffix, length))
				return x;
			suffix += length;
			suffix += strspn(suffix, " ");
		}
	}
	return NULL;
}

uint64_t export_result_events(const struct export_result *result)
{
	uint64_t events = 0;

	for (size_t i = 0; i < TABLE_END; i++)
		events += result->written[i];
	return events;
}
