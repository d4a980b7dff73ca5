/* A section as text and as JSON, from a declaration that touches nothing else. */
#include "report/section.h"

#include "support/cmocka_tests.h"

struct toy_row {
	const char *name;
	uint64_t count, total_ns, bytes;
};

struct toys {
	struct toy_row *items;
	size_t count;
	uint64_t total_ns;
};

#define TOY(member) MEMBER(struct toy_row, member)

static const struct field toy_fields[] = {
	FIELD("name", "toy", TEXT, TOY(name), FLEXIBLE_COLUMN),
	FIELD("count", "count", COUNT, TOY(count)),
	FIELD(NULL, "share", SHARE, TOY(total_ns), WHOLE(struct toys, total_ns)),
	FIELD("total_ns", "time", NS, TOY(total_ns), COUNTED(struct toy_row, count)),
	FIELD(NULL, "mean", NS, TOY(total_ns), PER(struct toy_row, count),
	      COUNTED(struct toy_row, count)),
	FIELD(NULL, "achieved", RATE, TOY(bytes), PER(struct toy_row, total_ns)),
	FIELD("bytes", NULL, BYTES, TOY(bytes)),
};

static const struct field fields[] = {
	FIELD("total_ns", NULL, NS, MEMBER(struct toys, total_ns)),
	LIST("items", ITEMS(struct toys, items, count), toy_fields),
};

/* The only result that this report has is the toy's. */
static const struct section section_toys = {
	.key = "toys", .title = "toys", RESULT(copies), FIELDS(fields)
};

static struct toy_row rows[] = {
	{ "red", 1000, 3000000, 3000000 },
	{ "blue\033", 0, 1000000, 0 },
	{ "not shown", 1, 0, 0 },
};
static struct toys toys = { rows, 3, 4000000 };

static struct report report;

static struct report_view view_of(struct strbuf *out)
{
	report.copies = (struct copies *)(void *)&toys;
	return (struct report_view){ .report = &report, .width = 100, .top = 2, .out = out };
}

static void text_has_what_has_a_head(void **state)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct report_view v = view_of(&out);

	(void)state;
	section_print_text(&section_toys, &v);
	assert_string_equal(strbuf_text(&out),
			    "\ntoys\n"
			    "  toy       count  share     time     mean  achieved\n"
			    "  red       1,000  75.0%  3.00 ms  3.00 us  1.0 GB/s\n"
			    "  blue\\x1b      0  25.0%        -        -     0 B/s\n");
}

static void json_has_what_has_a_key(void **state)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct report_view v = view_of(&out);

	(void)state;
	v.json = (struct json)JSON_INIT(&out);
	json_object(&v.json);
	section_print_json(&section_toys, &v);
	json_end(&v.json);
	assert_string_equal(strbuf_text(&out),
			    "{\"toys\": {\"total_ns\": 4000000, \"items\": ["
			    "{\"name\": \"red\", \"count\": 1000, \"total_ns\": 3000000, "
			    "\"bytes\": 3000000}, "
			    "{\"name\": \"blue\\u001b\", \"count\": 0, \"total_ns\": 1000000, "
			    "\"bytes\": 0}]}}");
}

static void nothing_is_printed_without_rows(void **state)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct report_view v = view_of(&out);
	struct toys none = { 0 };

	(void)state;
	report.copies = (struct copies *)(void *)&none;
	section_print_text(&section_toys, &v);
	assert_int_equal(out.length, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_has_what_has_a_head),
		cmocka_unit_test(json_has_what_has_a_key),
		cmocka_unit_test(nothing_is_printed_without_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
