#include "export/event_names.h"

#include <errno.h>
#include <string.h>

#include "trace/columns.h"

bool nvtx_payload_value(const struct trace *t, uint64_t row, struct nvtx_payload_value *value)
{
	const struct nvtx_columns *n = nvtx_columns(t);
	uint32_t low;
	float real;

	if (!column_has(n->valid.payload_kind, row) || !column_has(n->valid.payload, row))
		return false;
	*value = (struct nvtx_payload_value){ .natural = n->payload[row] };
	low = (uint32_t)n->payload[row];
	switch (n->payload_kind[row]) {
	case nvtx_payload_f64:
		value->type = PAYLOAD_REAL;
		memcpy(&value->real, &n->payload[row], sizeof(value->real));
		return true;
	case nvtx_payload_f32:
		value->type = PAYLOAD_REAL;
		memcpy(&real, &low, sizeof(real));
		value->real = real;
		return true;
	case nvtx_payload_i32:
		value->integer = (int32_t)low;
		return true;
	case nvtx_payload_u32:
		value->type = PAYLOAD_UNSIGNED;
		value->natural = low;
		return true;
	case nvtx_payload_u64:
		value->type = PAYLOAD_UNSIGNED;
		return true;
	case nvtx_payload_i64:
		return true;
	default:
		return false;
	}
}

static uint64_t domain_key(uint64_t process, uint32_t domain)
{
	return process << 32 | domain;
}

int nvtx_names_init(struct nvtx_names *n, const struct trace *t)
{
	const struct nvtx_domain_columns *domains = nvtx_domain_columns(t);
	const struct nvtx_category_columns *categories = nvtx_category_columns(t);
	uint64_t number;

	*n = (struct nvtx_names){ .trace = t };
	for (uint64_t row = 0; row < trace_rows(t, TABLE_nvtx_domain); row++) {
		uint64_t process = trace_row_process(t, TABLE_nvtx_domain, row);

		number = map_number(&n->domains, domain_key(process, domains->id[row]));
		if (!number || map_put(&n->texts, number, domains->name[row]) < 0)
			return -ENOMEM;
	}
	for (uint64_t row = 0; row < trace_rows(t, TABLE_nvtx_category); row++) {
		uint64_t process = trace_row_process(t, TABLE_nvtx_category, row);

		number = map_number(&n->domains, domain_key(process, categories->domain[row]));
		if (!number || map_put(&n->texts, number << 32 | categories->id[row],
				       categories->name[row]) < 0)
			return -ENOMEM;
	}
	return 0;
}

void nvtx_names_release(struct nvtx_names *n)
{
	map_release(&n->domains);
	map_release(&n->texts);
}

static const char *text_at(const struct nvtx_names *n, uint64_t key, size_t *length)
{
	uint64_t id = 0;

	map_get(&n->texts, key, &id);
	*length = trace_string_length(n->trace, (uint32_t)id);
	return trace_string(n->trace, (uint32_t)id);
}

const char *nvtx_domain_name(const struct nvtx_names *n, uint32_t process, uint32_t domain,
			     size_t *length)
{
	uint64_t number = 0;

	map_get(&n->domains, domain_key(process, domain), &number);
	return text_at(n, number, length);
}

const char *nvtx_category_name(const struct nvtx_names *n, uint32_t process, uint64_t row,
			       size_t *length)
{
	const struct nvtx_columns *c = nvtx_columns(n->trace);
	uint64_t number;

	*length = 0;
	if (!column_has(c->valid.category, row) || !c->category[row] ||
	    !map_get(&n->domains, domain_key(process, c->domain[row]), &number))
		return "";
	return text_at(n, number << 32 | c->category[row], length);
}
