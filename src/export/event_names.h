/* event_names.h: how exporters call events, in the words that PyTorch's profiler (Kineto) uses. */
#ifndef PITOT_EXPORT_EVENT_NAMES_H
#define PITOT_EXPORT_EVENT_NAMES_H

#include "base/map.h"
#include "schema/event_words.h"
#include "trace/trace.h"

#define NO_MESSAGE "(no message)" /* a range without a text */

struct export_event;
/*
 * Appends what work of a GPU is called that is no known kernel: a copy by its kinds, other tables'
 * work by its label.
 */
void event_name(struct strbuf *out, const struct trace *t, const struct export_event *event);

/* A row's payload; false when it has none. */
struct nvtx_payload_value {
	bool is_double;
	double real;
	int64_t integer;
};
bool nvtx_payload_value(const struct trace *t, uint64_t row, struct nvtx_payload_value *value);

/* Names of NVTX domains and categories. */
struct nvtx_names {
	const struct trace *trace;
	struct map domains; /* process << 32 | domain -> a number for it, from 1 */
	struct map texts; /* number -> string id; number << 32 | category -> string id */
};

int nvtx_names_init(struct nvtx_names *n,
		    const struct trace *t) MUST_USE; /* tables are loaded; 0 or -ENOMEM */
void nvtx_names_release(struct nvtx_names *n);
/* Of a domain, and of the category of a row; "" when it has none. */
const char *nvtx_domain_name(const struct nvtx_names *n, uint32_t process, uint32_t domain,
			     size_t *length);
const char *nvtx_category_name(const struct nvtx_names *n, uint32_t process, uint64_t row,
			       size_t *length);

#endif
