/* event_names.h: names of events in exports, in the words of PyTorch's profiler (Kineto). */
#ifndef PITOT_EXPORT_EVENT_NAMES_H
#define PITOT_EXPORT_EVENT_NAMES_H

#include "base/map.h"
#include "schema/event_words.h"
#include "trace/trace.h"

#define NO_MESSAGE "(no message)" /* name of a range that has no text */

/* Decodes the payload of a row of table nvtx. Returns false if the row has none. */
struct nvtx_payload_value {
	enum { PAYLOAD_SIGNED, PAYLOAD_UNSIGNED, PAYLOAD_REAL } type;
	union {
		int64_t integer;
		uint64_t natural;
		double real;
	};
};
bool nvtx_payload_value(const struct trace *t, uint64_t row, struct nvtx_payload_value *value);

/* Maps ids of NVTX domains and categories to their names. */
struct nvtx_names {
	const struct trace *trace;
	struct map domains; /* process << 32 | domain -> sequence number, from 1 */
	struct map texts; /* number -> domain's string id; number << 32 | category -> category's */
};

/* The trace's tables must be loaded. Returns 0 or -ENOMEM. */
int nvtx_names_init(struct nvtx_names *n, const struct trace *t) MUST_USE;
void nvtx_names_release(struct nvtx_names *n);
/* Return the name of a domain, and of the category of a row of table nvtx; "" if there is none. */
const char *nvtx_domain_name(const struct nvtx_names *n, uint32_t process, uint32_t domain,
			     size_t *length);
const char *nvtx_category_name(const struct nvtx_names *n, uint32_t process, uint64_t row,
			       size_t *length);

#endif
