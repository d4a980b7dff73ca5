#include "analysis/gpus.h"

#include "analysis/hotspots.h"
#include "report_fixture.h"

static const struct occupancy_device h200 = {
	.compute_major = 9,
	.warp_size = 32,
	.max_threads = 2048,
	.max_blocks = 32,
	.registers = 65536,
	.shared_bytes = 233472,
	.reserved_shared_bytes = 1024,
	.multiprocessors = 132,
};

/* Expected figures are those of NVIDIA's occupancy calculator for compute capability 9.0. */
static void known_kernels(void **state)
{
	static const struct {
		struct occupancy_kernel kernel;
		uint32_t blocks, warps;
		enum occupancy_limiter limiter;
	} cases[] = {
		{ { .block_threads = 256, .registers = 32 }, 8, 64, OCCUPANCY_WARPS },
		{ { .block_threads = 1024, .registers = 32 }, 2, 64, OCCUPANCY_WARPS },
		{ { .block_threads = 32, .registers = 16 }, 32, 32, OCCUPANCY_BLOCKS },
		{ { .block_threads = 128, .registers = 255 }, 2, 8, OCCUPANCY_REGISTERS },
		{ { .block_threads = 256, .registers = 40 }, 6, 48, OCCUPANCY_REGISTERS },
		{ { .block_threads = 384, .registers = 168, .shared_bytes = 232448 },
		  1,
		  12,
		  OCCUPANCY_REGISTERS },
		{ { .block_threads = 128, .registers = 64, .shared_bytes = 100 * 1024 },
		  2,
		  8,
		  OCCUPANCY_SHARED },
		{ { .block_threads = 100, .registers = 0 }, 16, 64, OCCUPANCY_WARPS },
		{ { .block_threads = 1024, .registers = 128 }, 0, 0, OCCUPANCY_REGISTERS },
		/* The driver had set the multiprocessor to 32 KiB of shared memory. */
		{ { .block_threads = 64,
		    .registers = 16,
		    .shared_bytes = 3072,
		    .configured_shared_bytes = 32768 },
		  8,
		  16,
		  OCCUPANCY_SHARED },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct occupancy o;

		assert_int_equal(occupancy_compute(&h200, &cases[i].kernel, &o), 0);
		assert_int_equal(o.blocks, cases[i].blocks);
		assert_int_equal(o.warps, cases[i].warps);
		assert_int_equal(o.max_warps, 64);
		assert_int_equal(o.limiter, cases[i].limiter);
	}
}

static void waves_are_blocks_over_places(void **state)
{
	struct occupancy_kernel k = { .block_threads = 256,
				      .registers = 32,
				      .grid_blocks = 8 * 132 + 528 };
	struct occupancy o;

	(void)state;
	assert_int_equal(occupancy_compute(&h200, &k, &o), 0);
	assert_int_equal(o.waves_milli, 1500);
}

static void unknown_limits_are_refused(void **state)
{
	struct occupancy_kernel k = { .block_threads = 256, .registers = 32 };
	struct occupancy_device d = h200;
	struct occupancy o;

	(void)state;
	d.warp_size = 0;
	assert_int_equal(occupancy_compute(&d, &k, &o), E_UNSUPPORTED);
	d = h200;
	d.compute_major = 0;
	assert_int_equal(occupancy_compute(&d, &k, &o), E_UNSUPPORTED);
	k.block_threads = 0;
	assert_int_equal(occupancy_compute(&h200, &k, &o), E_UNSUPPORTED);
}

static void hostile_figures_do_no_harm(void **state)
{
	uint64_t seed = 5;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		uint64_t r[8];
		struct occupancy_device d;
		struct occupancy_kernel k;
		struct occupancy o;

		for (size_t n = 0; n < ARRAY_SIZE(r); n++)
			r[n] = random_u64(&seed) >> random_u64(&seed) % 64;
		d = (struct occupancy_device){ (uint32_t)r[0], 0,
					       (uint32_t)r[1], (uint32_t)r[2],
					       (uint32_t)r[3], (uint32_t)r[4],
					       (uint32_t)r[5], (uint32_t)r[6],
					       (uint32_t)r[7] };
		k = (struct occupancy_kernel){ r[7], (uint32_t)r[6], r[5], (uint32_t)r[4], r[3] };
		if (occupancy_compute(&d, &k, &o) == 0)
			assert_true(o.warps <= o.max_warps);
	}
}

static void rows_are_read(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t config = maker_config(m, "k", 264, 256);
	struct occupancy o;
	struct analyzed a;

	maker_kernel(m, config, 7, 1000, 2000, 1);
	maker_close(m, 9000);
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(occupancy_of_rows(a.trace, a.report.gpus.items[0].row,
					   a.report.hotspots->items[0].config, &o),
			 0);
	assert_int_equal(o.blocks, 8);
	assert_int_equal(o.waves_milli, 250);
	assert_int_equal(occupancy_of_rows(a.trace, TRACE_NO_ROW, 0, &o), E_UNSUPPORTED);
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_kernels),
		cmocka_unit_test(waves_are_blocks_over_places),
		cmocka_unit_test(unknown_limits_are_refused),
		cmocka_unit_test(hostile_figures_do_no_harm),
		folder_test(rows_are_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
