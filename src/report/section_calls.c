/* section_calls.c: calls that synchronize and copy, and what CUPTI says was waited for. */
#include "report/section.h"

#include "analysis/sync_calls.h"

#define CALL(member) MEMBER(struct call_group, member)

static const struct field call_fields[] = {
	FIELD("function", "call", FUNCTION, CALL(function), FLEXIBLE_COLUMN),
	FIELD("kind", NULL, NAME, CALL(kind), ENUM(api_function, kind)),
	FIELD("thread", "thread", THREAD, CALL(process), LEFT_COLUMN),
	FIELD("count", "count", COUNT, CALL(count)),
	FIELD("total_ns", "time", NS, CALL(total_ns)),
	FIELD(NULL, "share", SHARE, CALL(total_ns)),
	FIELD(NULL, "mean", NS, CALL(total_ns), PER(struct call_group, count), OPTIONAL_COLUMN),
	FIELD("max_ns", "longest", NS, CALL(max_ns)),
};

static void write_kinds(struct report_view *v, const void *row)
{
	const struct syncs *s = row;
	const struct column_schema *kind =
		&schema_table(TABLE_synchronization)->columns[COLUMN_synchronization_kind];

	report_json_list(v, "synchronizations");
	for (unsigned i = 0; i < SYNC_KINDS; i++) {
		const char *name = schema_value_name(kind, i);

		if (!s->kinds[i].count)
			continue;
		json_object(&v->json);
		json_key_string(&v->json, "kind", name ? name : "?");
		json_key_u64(&v->json, "count", s->kinds[i].count);
		json_key_u64(&v->json, "timed", s->kinds[i].timed);
		json_key_u64(&v->json, "total_ns", s->kinds[i].total_ns);
		json_end(&v->json);
	}
	json_end(&v->json);
}

static const struct field fields[] = {
	LIST("calls", ITEMS(struct syncs, items, count), call_fields),
	{ .json = write_kinds },
};

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	(void)v;
	strbuf_adds(out, "time that threads spent in them");
}

const struct section section_calls = {
	.title = "synchronizing and copying calls",
	RESULT(syncs),
	FIELDS(fields),
	.remark = add_remark,
};
