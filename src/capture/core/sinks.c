/* sinks.c: finds a kind of sink by its name. A new one is a file and a line in sink_names.h. */
#include "capture/core/sinks.h"

#include <string.h>

#include "schema/sink_names.h"

#define S(name, ...) extern const struct sink_kind name##_sink_kind;
SINKS(S)
#undef S

static const struct sink_kind *const kinds[] = {
#define S(name, ...) &name##_sink_kind,
	SINKS(S)
#undef S
};

struct sink *sink_open(const struct settings *settings, const char *name, const char *where,
		       struct error *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strcmp(kinds[i]->name, name) == 0)
			return kinds[i]->open(settings, where, e);
	setting_unknown_sink(name, e);
	return NULL;
}
