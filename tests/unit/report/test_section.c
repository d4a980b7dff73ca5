/* A section as text and as JSON, from a declaration that touches nothing else. */
#include "report/section.h"

#include <string.h>

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

static void say_more(const struct report_view *v, const void *row, struct text_table *t)
{
	(void)v;
	text_table_note(t, 1, ((const struct toy_row *)row)->count ? "a <note>" : "last");
}

static void say_remark(const struct report_view *v, struct strbuf *out)
{
	(void)v;
	strbuf_adds(out, "1 & 2");
}

static void say_after(const struct report_view *v, struct strbuf *out)
{
	strbuf_adds(out, "first line\n\nsecond line\n");
	report_labelled(v, STYLE_RED, "<label>", "what it says");
	report_verdict(v, STYLE_GREEN, "good", "; and so on");
	report_gap(v);
}

static const struct field noted[] = {
	LIST("items", ITEMS(struct toys, items, count), toy_fields, .notes = say_more),
};

/*
 * The same declaration, and what sections print by themselves; numbers to the right, texts to the
 * left.
 */
static void html_has_the_same(void **state)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct section section = { .title = "<toys>",
				   RESULT(copies),
				   FIELDS(noted),
				   .remark = say_remark,
				   .after = say_after };
	struct report_view v = view_of(&out);

	(void)state;
	v.html = true;
	section_print_text(&section, &v);
	assert_string_equal(
		strbuf_text(&out),
		"<h2 class=\"\">&lt;toys&gt; <small>1 &amp; 2</small></h2>\n"
		"<div class=\"table\"><table>\n"
		"<tr><th class=\"text\">toy</th><th>count</th><th>share</th><th>time</th>"
		"<th>mean</th><th>achieved</th></tr>\n"
		"<tr><td class=\"text\">red</td><td>1,000</td>"
		"<td class=\"share\" style=\"--part:75.0%\">75.0%</td><td>3.00 ms</td>"
		"<td>3.00 us</td><td>1.0 GB/s</td></tr>\n"
		"<tr class=\"note\"><td class=\"text\" colspan=\"6\">a &lt;note&gt;</td></tr>\n"
		"<tr><td class=\"text\">blue\\x1b</td><td>0</td>"
		"<td class=\"share\" style=\"--part:25.0%\">25.0%</td><td>-</td>"
		"<td>-</td><td>0 B/s</td></tr>\n"
		"<tr class=\"note\"><td class=\"text\" colspan=\"6\">last</td></tr>\n"
		"</table></div>\n"
		"<p class=\"labelled red\"><b>&lt;label&gt;</b> <span>what it says</span></p>\n"
		"<h2 class=\"green\">verdict: good; and so on</h2>\n"
		"<p>first line</p>\n<p>second line</p>\n");
}

static void add_after(const struct report_view *v, struct strbuf *out)
{
	(void)v;
	strbuf_adds(out, "what is beside the table");
}

static void print_own(const struct report_view *v)
{
	strbuf_adds(v->out, "its own text\n");
}

/* Notes stand below the table, indented like it; a section with a text of its own has no table. */
static void text_after_and_instead_of_a_table(void **state)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct section section = {
		.title = "toys", RESULT(copies), FIELDS(fields), .after = add_after
	};
	struct report_view v = view_of(&out);

	(void)state;
	section_print_text(&section, &v);
	assert_string_equal(strstr(strbuf_text(&out), "0 B/s"),
			    "0 B/s\n  what is beside the table\n");
	strbuf_clear(&out);
	section.text = print_own;
	section_print_text(&section, &v);
	assert_string_equal(strbuf_text(&out), "its own text\n");
}

/* A bar is a part of its cell, however few characters wide it is in text. */
static void html_has_bars(void **state)
{
	static const struct text_column columns[] = { LEFT("name"), LEFT("") };
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct text_table t = TEXT_TABLE_INIT(columns);
	struct report_view v = view_of(&out);

	(void)state;
	v.html = true;
	for (uint64_t part = 0; part <= 6; part += 3) {
		text_table_add(&t, "x");
		report_bar(&t, &v, part, 4, 25);
	}
	report_table(&v, &t);
	assert_non_null(strstr(strbuf_text(&out), "<i style=\"width:0%\">"));
	assert_non_null(strstr(strbuf_text(&out), "<i style=\"width:75%\">"));
	assert_non_null(strstr(strbuf_text(&out), "<i style=\"width:100%\">"));
	text_table_release(&t);
}

static const struct field halves[] = {
	LIST("items", ITEMS(struct toys, items, count), toy_fields, .half = true),
};

/* Half of three rows are two. */
static void lists_of_half_length_round_up(void **state)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct section section = { .title = "toys", RESULT(copies), FIELDS(halves) };
	struct report_view v = view_of(&out);

	(void)state;
	v.top = 3;
	section_print_text(&section, &v);
	assert_non_null(strstr(strbuf_text(&out), "blue"));
	assert_null(strstr(strbuf_text(&out), "not shown"));
}

static void json_has_what_has_a_key(void **state)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct report_view v = view_of(&out);
	struct json j = JSON_INIT(&out);

	(void)state;
	json_object(&j);
	section_print_json(&section_toys, &v, &j);
	json_end(&j);
	assert_string_equal(strbuf_text(&out),
			    "{\"toys\": {\"total_ns\": 4000000, \"items\": ["
			    "{\"name\": \"red\", \"count\": 1000, \"total_ns\": 3000000, "
			    "\"bytes\": 3000000}, "
			    "{\"name\": \"blue\\u001b\", \"count\": 0, \"total_ns\": 1000000, "
			    "\"bytes\": 0}]}}");
}

/* What a row is made of, in units that count nothing. */
struct odd_row {
	uint32_t id;
	bool broken;
	uint64_t waves, gaps[3];
};

struct odds {
	struct odd_row rows[2];
	uint64_t by_name[2];
};

static bool is_whole(const struct report_view *v, const void *row)
{
	(void)v;
	return !((const struct odd_row *)row)->broken;
}

static const char *color_name(unsigned color)
{
	static const char *const names[] = { "red", "blue" };

	return names[color];
}

static const void *doubled(const struct report_view *v, const void *row, void *room)
{
	const struct odd_row *odd = row;

	(void)v;
	if (odd->broken)
		return NULL;
	*(struct odd_row *)room = (struct odd_row){ .id = 2 * odd->id };
	return room;
}

#define ODD(member) MEMBER(struct odd_row, member)

static const struct field doubled_fields[] = { FIELD("id", NULL, ID, ODD(id)) };
static const struct field number_fields[] = { FIELD(NULL, NULL, NS, .size = sizeof(uint64_t)) };
static const struct field odd_fields[] = {
	FIELD("id", "id", ID, ODD(id)),
	FIELD("broken", "broken", FLAG, ODD(broken)),
	FIELD("color", "color", CHOICE, ODD(broken), .names = color_name),
	FIELD("waves", NULL, MILLI, ODD(waves), .when = is_whole),
	FIELD("null", NULL, COUNT, ODD(waves), .when = is_whole, .null = true),
	FIELD("gaps", NULL, NUMBERS, NUMBERS(struct odd_row, gaps), .trim = true),
	FIELD("all", NULL, NUMBERS, NUMBERS(struct odd_row, gaps)),
	OBJECT("double", doubled_fields, .of = doubled),
	OBJECT("maybe", doubled_fields, .of = doubled, .null = true),
};
static const struct field odds_fields[] = {
	LIST("rows", ARRAY(struct odds, rows), odd_fields),
	LIST("by_name", ARRAY(struct odds, by_name), number_fields, .names = color_name),
};
static const struct section section_odds = { .title = "odd", RESULT(copies), FIELDS(odds_fields) };
static struct odds odds = { { { 1234567, false, 1250, { 7, 0, 8 } }, { 8, true, 5, { 0 } } },
			    { 3, 4 } };

static void fields_of_other_units(void **state)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT, out = STRBUF_INIT;
	struct report_view v = view_of(&text);
	struct json j = JSON_INIT(&out);

	(void)state;
	report.copies = (struct copies *)(void *)&odds;
	section_print_text(&section_odds, &v);
	assert_string_equal(strbuf_text(&text), "\nodd\n"
						"       id  broken  color\n"
						"  1234567      no    red\n"
						"        8     yes   blue\n");
	json_object(&j);
	section_print_json(&section_odds, &v, &j);
	json_end(&j);
	assert_string_equal(
		strbuf_text(&out),
		"{\"rows\": [{\"id\": 1234567, \"broken\": false, \"color\": \"red\", "
		"\"waves\": 1.250, \"null\": 1250, \"gaps\": [7, 0, 8], \"all\": [7, 0, 8], "
		"\"double\": {\"id\": 2469134}, \"maybe\": {\"id\": 2469134}}, "
		"{\"id\": 8, \"broken\": true, \"color\": \"blue\", \"null\": null, "
		"\"gaps\": [0], \"all\": [0, 0, 0], \"maybe\": null}], "
		"\"by_name\": {\"red\": 3, \"blue\": 4}}");
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
		cmocka_unit_test(text_after_and_instead_of_a_table),
		cmocka_unit_test(html_has_the_same),
		cmocka_unit_test(html_has_bars),
		cmocka_unit_test(lists_of_half_length_round_up),
		cmocka_unit_test(json_has_what_has_a_key),
		cmocka_unit_test(fields_of_other_units),
		cmocka_unit_test(nothing_is_printed_without_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
