/*
 * test_launch_loop.c: loops in sequences of launches, written as texts: each letter is a launch,
 * capital letters have marks; digits repeat what is in the brackets behind them.
 */
#include "causes/launch_loop.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "support/cmocka_tests.h"

static const char *expand(const char *text, struct strbuf *out)
{
	while (*text && *text != ']') {
		char *end;
		unsigned long times = strtoul(text, &end, 10);

		if (end == text) {
			strbuf_addc(out, *text++);
			continue;
		}
		assert_int_equal(*end, '[');
		for (unsigned long i = 0; i < times; i++)
			text = expand(end + 1, out);
		assert_int_equal(*text++, ']');
	}
	return text;
}

struct found {
	struct strbuf text;
	struct launch_loop loop;
};

static void find(struct found *f, const char *text)
{
	struct launch_item *items;

	*f = (struct found){ .text = STRBUF_INIT };
	expand(text, &f->text);
	items = calloc(f->text.length + 1, sizeof(*items));
	assert_non_null(items);
	for (uint32_t i = 0; i < f->text.length; i++)
		items[i] = (struct launch_item){ i * 1000u, (uint32_t)f->text.data[i],
						 isupper(f->text.data[i]) };
	assert_int_equal(launch_loop_find(&f->loop, items, (uint32_t)f->text.length), 0);
	free(items);
}

static void found_release(struct found *f)
{
	launch_loop_release(&f->loop);
	strbuf_release(&f->text);
}

/* Of launches that are as regular. */
static void a_pass_begins_after_the_longest_wait(void **state)
{
	struct strbuf text = STRBUF_INIT;
	struct launch_item items[180];
	struct launch_loop loop;
	uint64_t at_ns = 1000000000;

	(void)state;
	expand("20[Habcdefgh]", &text);
	assert_int_equal(text.length, ARRAY_SIZE(items));
	for (uint32_t i = 0; i < ARRAY_SIZE(items); i++) {
		at_ns += text.data[i] == 'd' ? 50000 : 1000;
		items[i] =
			(struct launch_item){ at_ns, (uint32_t)text.data[i], text.data[i] == 'H' };
	}
	assert_int_equal(launch_loop_find(&loop, items, ARRAY_SIZE(items)), 0);
	assert_true(loop.passes.count >= 18);
	for (size_t p = 0; p < loop.passes.count; p++)
		assert_int_equal(items[loop.passes.data[p].first].what, 'd');
	launch_loop_release(&loop);
	strbuf_release(&text);
}

static const struct {
	const char *what, *text;
	enum loop_result result;
	size_t passes, breaks;
	uint32_t length;
} cases[] = {
	{ "steps", "20[Habcdefgh]", LOOP_FOUND, 20, 0, 9 },
	{ "steps of two launches", "9[aB]", LOOP_FOUND, 8, 0, 2 },
	{ "a step has everything twice", "12[HHaabb]", LOOP_FOUND, 11, 0, 6 },
	{ "behind a warm-up", "xyxxzwvuHabxcdyefzgh12[Habcdefgh]", LOOP_FOUND, 12, 0, 9 },
	{ "few steps", "5[Habcdefgh]", LOOP_FOUND, 5, 0, 9 },
	{ "too few", "4[Habcdefgh]", LOOP_IRREGULAR, 0, 0, 0 },
	{ "layers in steps", "10[H12[abcde]fgh]", LOOP_FOUND, 10, 0, 64 },
	{ "many layers, forward only", "6[H96[abcdefgh]ijk]", LOOP_FOUND, 6, 0, 772 },
	{ "forward and backward", "8[H24[abcd]24[efghij]40[kl]]", LOOP_FOUND, 8, 0, 321 },
	{ "layers of one step", "H96[abcdefgh]ijk", LOOP_UNMARKED, 0, 0, 0 },
	{ "layers of two steps", "2[H96[abcdefgh]ijk]", LOOP_UNMARKED, 0, 0, 0 },
	{ "no marks", "50[habcdefgh]", LOOP_UNMARKED, 0, 0, 0 },
	{ "one launch", "100[a]", LOOP_UNMARKED, 0, 0, 0 },
	{ "a line of a log after ten", "6[9[Habcdefgh]HabcdefghL]", LOOP_FOUND, 60, 0, 9 },
	{ "one validation", "20[Habcdefgh]30[Vab]20[Habcdefgh]", LOOP_FOUND, 39, 1, 9 },
	{ "epochs with validations", "4[40[Habcdefgh]30[Vab]]", LOOP_FOUND, 157, 3, 9 },
	{ "accumulated gradients", "8[4[Habcdefgh]6[op]]", LOOP_FOUND, 8, 0, 48 },
	{ "a few steps between validations: which is the step?", "8[8[Habcdefgh]20[Vab]]",
	  LOOP_NESTED, 0, 0, 0 },
	{ "two validations", "3[25[Habcdefgh]30[Vab]]", LOOP_FOUND, 73, 2, 9 },
	{ "layers that wait, forward and backward", "6[H24[aSbc]24[efgh]40[kl]]", LOOP_NESTED, 0, 0,
	  0 },
	{ "two accumulated gradients", "10[2[Habcdefgh]40[op]]", LOOP_FOUND, 10, 0, 98 },
	{ "nothing", "", LOOP_SHORT, 0, 0, 0 },
	{ "another loop follows, for longer", "5[Habcdefgh]40[Vxyzw]", LOOP_FOUND, 40, 0, 5 },
};

static void loops(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct found f;

		find(&f, cases[i].text);
		if (f.loop.result != cases[i].result || f.loop.breaks != cases[i].breaks ||
		    f.loop.passes.count + 1 < cases[i].passes ||
		    f.loop.passes.count > cases[i].passes)
			fail_msg("%s: result %u, %zu passes, %zu breaks", cases[i].what,
				 f.loop.result, f.loop.passes.count, f.loop.breaks);
		for (size_t p = 0; p < f.loop.passes.count; p++) {
			struct loop_pass pass = f.loop.passes.data[p];

			if (pass.end - pass.first != cases[i].length &&
			    pass.end - pass.first != cases[i].length + 1)
				fail_msg("%s: pass of %u", cases[i].what, pass.end - pass.first);
			assert_true(!p || pass.first >= f.loop.passes.data[p - 1].end);
		}
		found_release(&f);
	}
}

/* splitmix64 */
static uint32_t pick(uint64_t *random, uint32_t below)
{
	uint64_t z = *random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)((z ^ z >> 31) % below);
}

/* Random launches are no loop, however few kernels there are. */
static void random_launches(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 3000; seed++) {
		uint64_t random = seed;
		uint32_t kinds = 1 + pick(&random, 12), count = 20 + pick(&random, 400);
		struct launch_item items[420];
		struct launch_loop l;

		for (uint32_t i = 0; i < count; i++)
			items[i] = (struct launch_item){ i, pick(&random, kinds + 1),
							 !pick(&random, 3) };
		assert_int_equal(launch_loop_find(&l, items, count), 0);
		if (l.result == LOOP_FOUND)
			fail_msg("seed %u: %u of %u kinds: %zu passes of %u", (unsigned)seed, count,
				 kinds + 1, l.passes.count,
				 l.passes.data[0].end - l.passes.data[0].first);
		launch_loop_release(&l);
	}
}

/* Steps with launches that are missing or additional here and there: found, or not, but right. */
static void disturbed_steps(void **state)
{
	unsigned missed = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 500; seed++) {
		uint64_t random = seed;
		uint32_t length = 30 + pick(&random, 200), count = 0;
		struct launch_item *items = calloc(20 * 260, sizeof(*items));
		struct launch_loop l;

		assert_non_null(items);
		for (uint32_t step = 0; step < 20; step++)
			for (uint32_t i = 0; i < length; i++) {
				if (!pick(&random, 200) && i)
					continue;
				items[count] = (struct launch_item){ count, i % 25 + i / 60, !i };
				count++;
				if (pick(&random, 200))
					continue;
				items[count] = (struct launch_item){ count, 99, false };
				count++;
			}
		assert_int_equal(launch_loop_find(&l, items, count), 0);
		missed += l.result != LOOP_FOUND;
		for (size_t p = 0; p < l.passes.count; p++) {
			uint32_t found = l.passes.data[p].end - l.passes.data[p].first;

			if (found < length * 2 / 3 || found > length * 4 / 3)
				fail_msg("seed %u: pass of %u in steps of %u", (unsigned)seed,
					 found, length);
		}
		if (l.result == LOOP_FOUND && (l.passes.count < 12 || l.passes.count > 20))
			fail_msg("seed %u: %zu passes", (unsigned)seed, l.passes.count);
		launch_loop_release(&l);
		free(items);
	}
	assert_true(missed < 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loops),
		cmocka_unit_test(a_pass_begins_after_the_longest_wait),
		cmocka_unit_test(random_launches),
		cmocka_unit_test(disturbed_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
