#include "system/metrics.h"

#include <stdio.h>
#include <string.h>

#define M(name, kind, subject, ...) { #name, METRIC_##kind, METRIC_##subject, __VA_ARGS__ },
static const struct metric gpu_metrics[] = { GPU_METRICS(M) };
static const struct metric host_metrics[] = { HOST_METRICS(M) };
#undef M
_Static_assert(METRIC_GPU_END <= METRIC_PM_FIRST && METRIC_HOST_END <= METRIC_CORE_FIRST,
	       "ids of one part of the list end before the next");
static const struct metric core_metric = {
	"host_core_busy", METRIC_SUM, METRIC_OTHER, "s", 2, "time in which the processor worked"
};

const struct metric *metric_find(uint32_t id)
{
	if (id >= METRIC_GPU_FIRST && id < METRIC_GPU_END)
		return &gpu_metrics[id - METRIC_GPU_FIRST];
	if (id >= METRIC_HOST_FIRST && id < METRIC_HOST_END)
		return &host_metrics[id - METRIC_HOST_FIRST];
	return id >= METRIC_CORE_FIRST && id < METRIC_END ? &core_metric : NULL;
}

uint32_t metric_by_name(const char *name)
{
	char room[METRIC_NAME_MAX];

	for (uint32_t id = METRIC_GPU_FIRST; id < METRIC_END; id++)
		if (metric_find(id) && !strcmp(metric_name(id, room), name))
			return id;
	return 0;
}

const char *metric_name(uint32_t id, char room[METRIC_NAME_MAX])
{
	const struct metric *m = metric_find(id);

	if (m != &core_metric)
		return m->name;
	snprintf(room, METRIC_NAME_MAX, "host_core_%u_busy", id - METRIC_CORE_FIRST);
	return room;
}

/* Returns the part of the text after the last "; ". */
static const char *last_clause(const char *text)
{
	const char *next;

	while ((next = strstr(text, "; ")))
		text = next + 2;
	return text;
}

void metric_add_absent(struct strbuf *out, const char *prefix, uint32_t id, const char *why)
{
	size_t tail = strlen(": ") + strlen(why);
	char room[METRIC_NAME_MAX];
	const char *clause = last_clause(strbuf_text(out));

	if (!strncmp(clause, prefix, strlen(prefix)) && strlen(clause) > tail &&
	    !strcmp(clause + strlen(clause) - strlen(why), why)) {
		out->length -= tail;
		strbuf_addf(out, ", %s: %s", metric_name(id, room), why);
		return;
	}
	strbuf_addf(out, "%s%s%s: %s", out->length ? "; " : "", prefix, metric_name(id, room), why);
}
