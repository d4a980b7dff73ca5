#include "compare/renamed.h"

#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "compare/comparison.h"
#include "unit/compare/made_runs.h"

/* A run whose step launches kernels "NAME:SHAPE NAME:SHAPE …", also "NAME:SHAPE@SCOPE". */
static void make_order(struct measured_run *run, const char *text)
{
	*run = (struct measured_run){ .path = "x.pitot",
				      .command = "",
				      .no_steps = "",
				      .loss = "",
				      .step_count = 1,
				      .facts = { "", "", "", "", "", "" } };
	while (*text) {
		size_t length = strcspn(text, ":");
		char *name = strndup(text, length), *end;
		struct kernel_launch launch = { .shape = strtoul(text + length + 1, &end, 10) };

		assert_non_null(name);
		if (*end == '@')
			launch.scope = strtoul(end + 1, &end, 10);
		put(run, QUANTITY_kernel, name, 0, 5000);
		launch.quantity = (uint32_t)(measured_run_find(run, QUANTITY_kernel, name) -
					     run->quantities.data);
		assert_int_equal(vec_push(&run->order, launch), 0);
		free(name);
		text = end + strspn(end, " ");
	}
	assert_int_equal(measured_run_finish(run), 0);
}

static void check(const char *a, const char *b, const char *expected)
{
	struct strbuf found = STRBUF_INIT;
	struct renamed_kernels r;
	struct measured_run runs[2];

	make_order(&runs[0], a);
	make_order(&runs[1], b);
	assert_int_equal(
		renamed_init(&r, (struct run_side){ runs, 1 }, (struct run_side){ runs + 1, 1 }),
		0);
	for (size_t i = 0; i < r.items.count; i++)
		strbuf_addf(&found, "%s%s>%s", i ? " " : "", r.items.data[i].was,
			    r.items.data[i].name);
	if (strcmp(strbuf_text(&found), expected) != 0)
		fail_msg("%s | %s: %s, not %s", a, b, strbuf_text(&found), expected);
	renamed_release(&r);
	measured_run_release(&runs[0]);
	measured_run_release(&runs[1]);
	strbuf_release(&found);
}

/* Where places differ: the only kernel of its scope that the other side lacks, on both sides. */
static void test_scopes(void **state)
{
	static const struct {
		const char *a, *b, *expected;
	} cases[] = {
		{ "a:1@7 old:2@8", "new:4@8 a:1@7", "old>new" },
		{ "old:2@8 a:1@8 z:3@7", "z:3@7 a:1@8 x:1@9 new:4@8 new:4@8 x:1@9", "old>new" },
		/* all of the step in one scope */
		{ "old:2@8 a:1@8", "a:1@8 x:1@9 new:4@8 x:1@9", "" },
		{ "old:2@8 a:1@9", "a:1@8 new:4@8", "" },
		{ "old:2@8 a:1@7 old:2@9", "a:1@7 new:4@9 new:4@8", "old>new" },
		/* no scope, or another one */
		{ "old:2 a:1", "a:1 new:4", "" },
		{ "old:2@8 a:1", "a:1 new:4@9", "" },
		{ "old:2@8 a:1", "a:1 new:4", "" },
		/* also elsewhere, where the other one is not */
		{ "old:2@8 a:1 old:2@9", "a:1 new:4@8", "" },
		{ "old:2@9 a:1 old:2@8", "a:1 new:4@8", "" },
		{ "old:2@8 a:1", "a:1 new:4@9 new:4@8", "" },
		{ "old:2@8 a:1", "a:1 new:4@8 new:4@9", "" },
		{ "old:2@8 a:1 old:2", "a:1 new:4@8", "" },
		/* two of one side */
		{ "old:2@8 a:1", "a:1 new:4@8 more:5@8", "" },
		{ "old:2@8 a:1 p:3@8", "a:1 new:4@8", "" },
		{ "old:2@8 a:1 old:2@9", "a:1 new:4@8 other:5@9", "" },
		/* what has a partner by its place does not count */
		{ "old:2@8 a:1 p:3@8", "new:2@8 a:1 q:4@8", "old>new p>q" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check(cases[i].a, cases[i].b, cases[i].expected);
}

static void test_pairs(void **state)
{
	static const struct {
		const char *a, *b, *expected;
	} cases[] = {
		{ "a:1 b:2 c:3", "a:1 b:2 c:3", "" },
		{ "a:1 old:2 c:3", "a:1 new:2 c:3", "old>new" },
		{ "old:2 c:3", "new:2 c:3", "old>new" },
		{ "a:1 old:2", "a:1 new:2", "old>new" },
		{ "old:2", "new:2", "old>new" },
		/* another shape, or none that is known */
		{ "a:1 old:2 c:3", "a:1 new:4 c:3", "" },
		{ "a:1 old:0 c:3", "a:1 new:0 c:3", "" },
		/* shapes of kernels that both have do not matter */
		{ "a:1 old:2 c:3", "a:9 new:2 c:8", "old>new" },
		/* something was added or removed elsewhere */
		{ "a:1 old:2 c:3 d:1", "x:7 a:1 new:2 c:3 d:1", "old>new" },
		{ "a:1 old:2 c:3 d:1", "a:1 new:2 c:3 x:7 y:7 d:1", "old>new" },
		{ "a:1 b:1 old:2 c:3 d:1", "b:1 new:2 c:3 d:1", "old>new" },
		/* and there, where nothing is certain */
		{ "a:1 old:2 c:3", "a:1 new:2 more:2 c:3", "" },
		{ "a:1 old:2 gone:2 c:3", "a:1 new:2 c:3", "" },
		{ "a:1 k1:2 k2:2 k3:2 c:3", "a:1 j1:2 j3:2 c:3", "" },
		{ "a:1 old:2 c:3", "a:1 x:5 new:2 c:3", "" },
		/* several */
		{ "a:1 o1:2 o2:3 c:3", "a:1 n1:2 n2:3 c:3", "o1>n1 o2>n2" },
		{ "a:1 o1:2 o2:2 c:3", "a:1 n1:2 n2:2 c:3", "o1>n1 o2>n2" },
		{ "a:1 old:2 b:1 old:4 c:3", "a:1 new:2 b:1 new:4 c:3", "old>new" },
		/* one name for two, or two for one */
		{ "a:1 old:2 b:1 old:2 c:3", "a:1 n1:2 b:1 n2:2 c:3", "" },
		{ "a:1 o1:2 b:1 o2:2 c:3", "a:1 new:2 b:1 new:2 c:3", "" },
		{ "a:1 old:2 b:1 old:5 c:3", "a:1 new:2 b:1 c:3", "" },
		{ "a:1 old:2 b:1 c:3", "a:1 new:2 b:1 new:6 c:3", "" },
		{ "a:1 old:2 b:1 old:5 c:3", "a:1 new:2 b:1 new:6 c:3", "" },
		{ "", "new:2", "" },
		{ "old:2", "", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check(cases[i].a, cases[i].b, cases[i].expected);
}

/* A name that another run of the side has is no new one. */
static void test_several_runs(void **state)
{
	struct renamed_kernels r;
	struct measured_run runs[3];

	(void)state;
	make_order(&runs[0], "a:1 old:2");
	make_order(&runs[1], "a:1 new:2");
	make_order(&runs[2], "a:1 old:2");
	assert_int_equal(
		renamed_init(&r, (struct run_side){ runs, 1 }, (struct run_side){ runs + 1, 2 }),
		0);
	assert_int_equal(r.items.count, 0);
	renamed_release(&r);
	for (size_t i = 0; i < 3; i++)
		measured_run_release(&runs[i]);
}

/* What is too long to be aligned is not matched, and takes no time. */
static void test_long_steps(void **state)
{
	struct renamed_kernels r;
	struct measured_run runs[2];

	(void)state;
	for (unsigned side = 0; side < 2; side++) {
		make_order(&runs[side], side ? "new:2 a:1 b:1" : "old:2 a:1 b:1");
		for (unsigned i = 0; i < 6000; i++)
			assert_int_equal(
				vec_push(&runs[side].order,
					 ((struct kernel_launch){
						 .shape = 1, .quantity = 1 + (i + side) % 2 })),
				0);
	}
	assert_int_equal(
		renamed_init(&r, (struct run_side){ runs, 1 }, (struct run_side){ runs + 1, 1 }),
		0);
	assert_int_equal(r.items.count, 1); /* the start is equal */
	renamed_release(&r);
	runs[0].order.data[0].quantity = 1; /* now nothing is */
	runs[0].order.data[6002].quantity = 0;
	assert_int_equal(
		renamed_init(&r, (struct run_side){ runs, 1 }, (struct run_side){ runs + 1, 1 }),
		0);
	assert_int_equal(r.items.count, 0);
	renamed_release(&r);
	measured_run_release(&runs[0]);
	measured_run_release(&runs[1]);
}

/* A comparison has one row for both names, whose values are those of each side. */
static void test_rows(void **state)
{
	struct measured_run runs[2];
	struct comparison c;
	size_t found = 0;

	(void)state;
	make_order(&runs[0], "a:1 old:2 c:3");
	make_order(&runs[1], "a:1 new:2 new:2 c:3");
	runs[1].order.count = 0;
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(vec_push(&runs[1].order, ((struct kernel_launch){
								  .shape = i + 1, .quantity = i })),
				 0);
	assert_int_equal(comparison_init(&c, (struct run_side){ runs, 1 },
					 (struct run_side){ runs + 1, 1 }, NULL),
			 0);
	for (size_t i = 0; i < c.rows.count; i++) {
		const struct comparison_row *row = &c.rows.data[i];

		assert_string_not_equal(row->name, "old");
		assert_int_equal(row->was != NULL, !strcmp(row->name, "new"));
		if (!row->was)
			continue;
		found++;
		assert_string_equal(row->was, "old");
		assert_true(row->in_a && row->in_b);
		assert_true(row->difference.a > 4999 && row->difference.a < 5001);
		assert_true(row->difference.b > 9999 && row->difference.b < 10001);
	}
	assert_int_equal(found, 1);
	assert_int_equal(c.rows.count, 3);
	assert_non_null(strstr(c.notes.data[0], "1 kernel has another name in B"));
	comparison_release(&c);
	measured_run_release(&runs[0]);
	measured_run_release(&runs[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pairs),        cmocka_unit_test(test_scopes),
		cmocka_unit_test(test_several_runs), cmocka_unit_test(test_long_steps),
		cmocka_unit_test(test_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
