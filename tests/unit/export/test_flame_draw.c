/*
 * test_flame_draw.c: which boxes are drawn: the largest, as many as may be, and no time disappears.
 */
#include "export/flame/flame_picture.h"

#include "support/cmocka_tests.h"

/* A kind with leaves of these times, the largest first. */
static void make(struct flame *f, const uint64_t *ns, uint32_t count)
{
	struct flame_node root = { .parent = FLAME_NONE, .end = count + 1, .total_count = count };

	*f = (struct flame){ 0 };
	for (uint32_t i = 0; i < count; i++)
		root.total_ns += ns[i];
	assert_int_equal(vec_push(&f->tree.nodes, root), 0);
	for (uint32_t i = 0; i < count; i++) {
		struct flame_node leaf = {
			.depth = 1, .end = i + 2, .total_ns = ns[i], .total_count = 1
		};

		assert_int_equal(vec_push(&f->tree.nodes, leaf), 0);
	}
}

/* The number of leaves drawn; what is left out is in one box, and time and counts are whole. */
static uint32_t draw(const struct flame *f, size_t max, uint64_t fraction)
{
	const struct flame_node *nodes = f->tree.nodes.data;
	struct flame_drawing d;
	uint32_t drawn = 0;
	uint64_t ns = 0, count = 0, left_out = 0;

	assert_int_equal(flame_draw(f, FLAME_GPU, max, fraction, &d), 0);
	assert_int_equal(d.boxes.data[0].ns, nodes[0].total_ns);
	for (size_t i = 1; i < d.boxes.count; i++) {
		const struct flame_box *box = &d.boxes.data[i];

		assert_int_equal(box->depth, 1);
		assert_int_equal(box->start_ns, ns);
		assert_int_equal(box->node, box->left_out ? 0 : drawn + 1);
		drawn += !box->left_out;
		left_out += box->left_out;
		ns += box->ns;
		count += box->count;
	}
	assert_int_equal(ns, nodes[0].total_ns);
	assert_int_equal(count, nodes[0].total_count);
	assert_int_equal(drawn + left_out, nodes[0].total_count);
	assert_int_equal(d.levels, 2);
	flame_drawing_release(&d);
	return drawn;
}

/*
 * Powers of two from 16 ns to 2^61 (smaller ones share buckets): as many of the largest as there is
 * room for.
 */
static void test_as_many_as_may_be(void **state)
{
	enum { LEAVES = 58 };
	uint64_t ns[LEAVES];
	struct flame f;

	(void)state;
	for (int i = 0; i < LEAVES; i++)
		ns[i] = (uint64_t)1 << (61 - i);
	make(&f, ns, LEAVES);
	assert_int_equal(draw(&f, 1000, UINT64_MAX), LEAVES);
	/* One box is the kind itself, and each leaf has a bucket of its own. */
	for (size_t max = 2; max <= LEAVES; max++)
		assert_int_equal(draw(&f, max, UINT64_MAX), max - 1);
	vec_release(&f.tree.nodes);
}

static void test_none_below_a_fraction(void **state)
{
	const uint64_t ns[] = { 600, 300, 50, 30, 20 };
	struct flame f;

	(void)state;
	make(&f, ns, ARRAY_SIZE(ns));
	assert_int_equal(draw(&f, 1000, 1000), 5);
	assert_int_equal(draw(&f, 1000, 50), 5); /* exactly the fraction is drawn */
	assert_int_equal(draw(&f, 1000, 47), 4);
	assert_int_equal(draw(&f, 1000, 20), 3);
	assert_int_equal(draw(&f, 1000, 2), 1);
	vec_release(&f.tree.nodes);
}

/* 16 times of one power of two: the four bits below the highest tell them apart. */
static void test_steps_within_a_power_of_two(void **state)
{
	uint64_t ns[16];
	struct flame f;

	(void)state;
	for (unsigned i = 0; i < 16; i++)
		ns[i] = (31 - i) << 20;
	make(&f, ns, 16);
	for (size_t max = 2; max <= 16; max++)
		assert_int_equal(draw(&f, max, UINT64_MAX), max - 1);
	vec_release(&f.tree.nodes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_many_as_may_be),
		cmocka_unit_test(test_none_below_a_fraction),
		cmocka_unit_test(test_steps_within_a_power_of_two),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
