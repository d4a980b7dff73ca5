/*
 * nsys_nvtx.c: NVTX. The export has a row per range, with both its times, in no order since 2025.6;
 * the recording has the events of each thread in their order.
 */
#include <errno.h>
#include <string.h>

#include "import/nested_ranges.h"
#include "import/nsys/nsys.h"

/* ENUM_NSYS_EVENT_TYPE; NVTXT is what programs write as text. */
enum {
	TYPE_CATEGORY = 33,
	TYPE_MARK,
	TYPE_PUSH,
	TYPE_POP,
	TYPE_START,
	TYPE_END,
	TYPE_THREAD,
	TYPE_PUSH_POP = 59,
	TYPE_START_END,
	TYPE_TEXT_MARK = 65,
	TYPE_TEXT_PUSH_POP = 70,
	TYPE_TEXT_START_END,
	TYPE_DOMAIN = 75,
	TYPE_DOMAIN_END,
	TYPE_DEVICE_NAME = 97,
	TYPE_STREAM_NAME = 99,
};

enum {
	START,
	END,
	TYPE,
	RANGE,
	CATEGORY,
	COLOR,
	TEXT,
	THREAD,
	END_THREAD,
	TEXT_ID,
	DOMAIN,
	PAYLOAD, /* six columns, in the order of `payloads` */
};
static const char *const columns[] = { "start",        "end",         "eventType",   "rangeId",
				       "category",     "color",       "text",        "globalTid",
				       "endGlobalTid", "textId",      "domainId",    "uint64Value",
				       "int64Value",   "doubleValue", "uint32Value", "int32Value",
				       "floatValue" };
static const uint8_t payloads[] = { nvtx_payload_u64, nvtx_payload_i64, nvtx_payload_f64,
				    nvtx_payload_u32, nvtx_payload_i32, nvtx_payload_f32 };

/* ---- rows ---- */

static void read_text(struct nested_ranges *r, struct database_process *p, const struct query *q,
		      struct row_nvtx *row)
{
	size_t length;
	const char *text = query_text(q, TEXT, &length);
	int64_t number;

	if (text) {
		row->message = writer_string(p->writer, text, length);
		p->text_bytes += length / 2;
	} else if (query_value(q, TEXT_ID, &number) == QUERY_INTEGER) {
		row->message = database_string(r->import, p, (uint64_t)number);
	} else {
		return;
	}
	row->missing &= ~(UINT64_C(1) << COLUMN_nvtx_message);
}

static void read_payload(const struct query *q, struct row_nvtx *row)
{
	for (int i = 0; i < (int)ARRAY_SIZE(payloads); i++) {
		int64_t value;
		enum query_type type = query_value(q, PAYLOAD + i, &value);
		double real;
		float single;

		if (type != QUERY_INTEGER && type != QUERY_REAL)
			continue;
		memcpy(&real, &value, sizeof(real));
		real = type == QUERY_REAL ? real : (double)value;
		single = (float)real;
		row->payload = (uint64_t)value;
		if (payloads[i] == nvtx_payload_f64)
			memcpy(&row->payload, &real, sizeof(real));
		else if (payloads[i] == nvtx_payload_f32)
			row->payload = 0, memcpy(&row->payload, &single, sizeof(single));
		else if (payloads[i] == nvtx_payload_u32 || payloads[i] == nvtx_payload_i32)
			row->payload &= UINT32_MAX;
		row->payload_kind = payloads[i];
		row->missing &= ~(UINT64_C(1) << COLUMN_nvtx_payload_kind |
				  UINT64_C(1) << COLUMN_nvtx_payload);
		return;
	}
}

static void read_attributes(struct nested_ranges *r, struct database_process *p,
			    const struct query *q, struct row_nvtx *row)
{
	int64_t v;

	read_text(r, p, q, row);
	read_payload(q, row);
	if (query_value(q, CATEGORY, &v) == QUERY_INTEGER && v > 0 && v <= UINT32_MAX) {
		row->category = (uint32_t)v;
		row->missing &= ~(UINT64_C(1) << COLUMN_nvtx_category);
	}
	if (query_value(q, COLOR, &v) == QUERY_INTEGER) {
		row->color = (uint32_t)v;
		row->missing &= ~(UINT64_C(1) << COLUMN_nvtx_color);
	}
}

static int read_start_end(struct nested_ranges *r, struct nested_thread *t, const struct query *q,
			  struct row_nvtx *row, uint64_t end_ns)
{
	struct row_nvtx end;
	int64_t v = query_number(q, RANGE, 0);
	int rc;

	nested_set_range(row, v ? (uint64_t)v : ++r->next_range);
	rc = nested_append(r, t->process, row);
	if (rc < 0 || end_ns == RANGE_OPEN)
		return rc;
	v = query_number(q, END_THREAD, -1);
	end = nested_row(nvtx_kind_end, end_ns, v == -1 ? row->thread : nsys_tid((uint64_t)v),
			 row->domain);
	nested_set_range(&end, row->range);
	return nested_append(r, t->process, &end);
}

/* Names of domains, categories and threads. */
static void read_name(struct nested_ranges *r, struct nested_thread *t, const struct query *q,
		      int64_t type, const struct row_nvtx *row)
{
	struct row_nvtx_domain domain = { .id = row->domain };
	struct row_nvtx_category category = { .domain = row->domain };
	struct row_thread thread = { .tid = t->tid, .time_ns = row->time_ns };
	struct row_nvtx named = *row;

	read_attributes(r, t->process, q, &named);
	domain.name = category.name = thread.name = named.message;
	category.id = named.category;
	writer_append(t->process->writer,
		      type == TYPE_DOMAIN     ? TABLE_nvtx_domain
		      : type == TYPE_CATEGORY ? TABLE_nvtx_category
					      : TABLE_thread,
		      type == TYPE_DOMAIN     ? (const void *)&domain
		      : type == TYPE_CATEGORY ? (const void *)&category
					      : (const void *)&thread);
}

static int read_event(struct nested_ranges *r, struct nested_thread *t, const struct query *q,
		      struct row_nvtx *row, uint64_t end_ns)
{
	int64_t type = query_number(q, TYPE, 0);

	switch (type) {
	case TYPE_DOMAIN:
	case TYPE_CATEGORY:
	case TYPE_THREAD:
		read_name(r, t, q, type, row);
		return 0;
	case TYPE_POP:
		return nested_pop(r, t, row->time_ns);
	case TYPE_END:
		row->kind = nvtx_kind_end;
		nested_set_range(row, (uint64_t)query_number(q, RANGE, 0));
		return nested_append(r, t->process, row);
	case TYPE_DOMAIN_END:
		return 0;
	default:
		break;
	}
	read_attributes(r, t->process, q, row);
	switch (type) {
	case TYPE_PUSH:
	case TYPE_PUSH_POP:
	case TYPE_TEXT_PUSH_POP:
		return nested_push(r, t, row, end_ns);
	case TYPE_START:
	case TYPE_START_END:
	case TYPE_TEXT_START_END:
		row->kind = nvtx_kind_start;
		return read_start_end(r, t, q, row, end_ns);
	case TYPE_MARK:
	case TYPE_TEXT_MARK:
		row->kind = nvtx_kind_mark;
		return nested_append(r, t->process, row);
	default:
		database_loss(r->import, loss_reason_unknown_record, 1,
			      type >= TYPE_DEVICE_NAME && type <= TYPE_STREAM_NAME
				      ? "NVTX names of devices, contexts and streams"
				      : "NVTX events of unknown types");
		return 0;
	}
}

static int read_row(struct nested_ranges *r, const struct query *q)
{
	struct database_import *m = r->import;
	uint64_t key = (uint64_t)query_number(q, THREAD, (int64_t)m->default_key);
	struct database_process *p = database_process(m, key & NSYS_PROCESS_MASK, r->e);
	struct nested_thread *t = p ? nested_thread(r, p, key, nsys_tid(key)) : NULL;
	int64_t v, domain = query_number(q, DOMAIN, 0);
	uint64_t start_ns, end_ns = RANGE_OPEN;
	struct row_nvtx row;

	m->result->records++;
	if (!t)
		return r->e->code ? r->e->code : p ? -ENOMEM : 0;
	if (query_value(q, START, &v) != QUERY_INTEGER || !database_time(m, v, &start_ns) ||
	    (query_value(q, END, &v) == QUERY_INTEGER &&
	     (!database_time(m, v, &end_ns) || end_ns < start_ns)) ||
	    domain < 0 || domain > UINT32_MAX) {
		database_loss(m, loss_reason_no_time, 1, "nvtx");
		return 0;
	}
	row = nested_row(nvtx_kind_push, start_ns, nsys_tid(key), (uint32_t)domain);
	return read_event(r, t, q, &row, end_ns);
}

/* Whether the rows are in the order of their starts, and of those that start at once, by ends. */
static int is_sorted(struct database_import *m, bool *sorted, struct error *e)
{
	int64_t start = INT64_MIN, end = INT64_MAX;
	struct query q;
	int rc = query_open(&q, &m->db, "NVTX_EVENTS", columns, 2, NULL, e);

	if (rc >= 0)
		query_read_ahead(&q);
	*sorted = true;
	while (rc >= 0 && *sorted && (rc = query_next(&q)) > 0) {
		int64_t s = query_number(&q, 0, INT64_MIN), n = query_number(&q, 1, INT64_MAX);

		*sorted = s > start || (s == start && n <= end);
		start = s;
		end = n;
	}
	query_close(&q);
	return rc;
}

int nsys_convert_nvtx(struct nsys *n, struct error *e)
{
	struct nested_ranges r = { .import = &n->import, .e = e, .next_range = UINT64_C(1) << 63 };
	bool sorted;
	struct query q = { 0 };
	int rc = is_sorted(&n->import, &sorted, e);

	if (rc >= 0)
		rc = query_open(&q, &n->import.db, "NVTX_EVENTS", columns, ARRAY_SIZE(columns),
				sorted ? NULL : "ORDER BY start, \"end\" DESC", e);
	if (rc >= 0)
		query_read_ahead(&q);
	while (rc >= 0 && (rc = query_next(&q)) > 0)
		rc = read_row(&r, &q);
	database_query_end(&n->import, &q, "NVTX_EVENTS");
	rc = nested_end(&r, rc);
	return rc < 0 && !e->code ? error_set(e, rc, "%s", error_code_text(rc)) : rc;
}
