/* sinks.c: the list of kinds of sinks. A new one is a file and a line here. */
#include "capture/core/sinks.h"

#include <string.h>

#define SINKS(S)                                                                                   \
	S(recording)                                                                               \
	S(gpufl)

#define S(name) extern const struct sink_kind name##_sink_kind;
SINKS(S)
#undef S

static const struct sink_kind *const kinds[] = {
#define S(name) &name##_sink_kind,
	SINKS(S)
#undef S
};

struct sink *sink_open(const struct settings *settings, const char *name, const char *where,
		       struct error *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strcmp(kinds[i]->name, name) == 0)
			return kinds[i]->open(settings, where, e);
#define S(name) " " #name
	error_set(e, E_USAGE, "there is no sink '%s'; the sinks are" SINKS(S), name);
#undef S
	return NULL;
}
