/* Flame graphs of random recordings: no time is lost and none is added. */
#include "flame_fixture.h"

/* A recording of anything: the sum of all durations. */
static uint64_t write_random(const char *folder, uint32_t pid, uint64_t seed)
{
	struct maker *m = begin(folder, pid);
	uint32_t k[3] = { maker_config(m, "a", 1, 32), maker_config(m, "b", 1, 32),
			  maker_config(m, "c", 1, 32) };
	uint32_t stacks[20] = { 0 }, nodes[40] = { 0 };
	uint64_t total_ns = 0;

	for (size_t i = 1; i < ARRAY_SIZE(nodes); i++) {
		uint32_t parent = nodes[random_u64(&seed) % i];

		if (random_u64(&seed) % 2)
			nodes[i] = maker_native(m, parent, random_u64(&seed) % 8);
		else
			nodes[i] = maker_python(m, parent, "f", "x.py",
						(uint32_t)(random_u64(&seed) % 4));
	}
	for (size_t i = 1; i < ARRAY_SIZE(stacks); i++)
		stacks[i] = maker_stack(m, nodes[1 + random_u64(&seed) % (ARRAY_SIZE(nodes) - 1)],
					1, (enum stack_end)(random_u64(&seed) % 4));
	for (uint64_t i = 1; i <= 300; i++) {
		uint64_t start = 1000 * i, ns = random_u64(&seed) % 900;
		uint64_t launch = 1 + random_u64(&seed) % 400; /* some are not recorded */
		uint32_t stream = 7 + (uint32_t)(random_u64(&seed) % 3);

		m->stack = stacks[random_u64(&seed) % ARRAY_SIZE(stacks)];
		maker_call(m, random_u64(&seed) % 4 ? MAKER_LAUNCH : MAKER_MEMCPY,
			   10 + (uint32_t)(random_u64(&seed) % 3), start, start + 100, i);
		switch (random_u64(&seed) % 3) {
		case 0:
			maker_memcpy(m, copy_kind_HtoD, 8, stream, start, start + ns, launch);
			break;
		case 1:
			maker_memset(m, 8, stream, start, start + ns, launch);
			break;
		default:
			maker_kernel(m, k[random_u64(&seed) % 3], stream, start, start + ns,
				     launch);
		}
		total_ns += ns;
	}
	maker_close(m, 400000);
	return total_ns;
}

static void gpu_time_is_conserved(void **state)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		char folder[4096];
		uint64_t total_ns;
		struct trace *t;

		snprintf(folder, sizeof(folder), "%s/%u", (const char *)*state, (unsigned)seed);
		total_ns = write_random(folder, 100, seed);
		total_ns += write_random(folder, 200, seed + 100);
		t = open_trace(folder);
		for (unsigned round = 0; round < 2 << FLAME_LEVELS; round++) {
			struct flame_options o = all_kinds();
			struct flame f;

			o.levels = round >> 1;
			o.detail = (enum stack_detail)(round % 3);
			build(&f, t, &o);
			assert_int_equal(flame_finish(&f, round & 1), 0);
			assert_sound(&f);
			assert_int_equal(f.sections[FLAME_GPU].total_ns, total_ns);
			assert_int_equal(f.sections[FLAME_GPU].count, 600);
			assert_int_equal(f.tree.nodes.data[f.sections[FLAME_GPU].node].total_ns,
					 total_ns);
			flame_release(&f);
		}
		trace_free(t);
	}
}

/* What focus keeps and what ignore keeps is everything, together. */
static void filters_part_the_whole(void **state)
{
	uint64_t total_ns = write_random(*state, 100, 42), sum_ns = 0;
	struct trace *t = open_trace(*state);
	struct flame_options o = { .kinds = 1 << FLAME_GPU, .until_ns = UINT64_MAX };

	for (unsigned round = 0; round < 2; round++) {
		struct error e = { 0 };
		struct flame f;

		build(&f, t, &o);
		assert_int_equal(
			flame_filter(&f, round ? "x.py:2" : NULL, round ? NULL : "x.py:2", &e), 0);
		assert_int_equal(flame_finish(&f, false), 0);
		assert_true(f.tree.nodes.data[0].total_ns > 0);
		sum_ns += f.tree.nodes.data[0].total_ns;
		flame_release(&f);
	}
	assert_int_equal(sum_ns, total_ns);
	trace_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(gpu_time_is_conserved),
		folder_test(filters_part_the_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
