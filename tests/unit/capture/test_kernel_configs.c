/* Which row of kernel_config a kernel's record gets. */
#include "capture/cuda/kernel_configs.h"

#include "unit/capture/captured_rows.h"

#define GENERATION 16384 /* configurations that the writer keeps at least */

static struct record_kernel record_of(const char *name, int grid)
{
	return (struct record_kernel){ .kind = RECORD_CONCURRENT_KERNEL,
				       .start = (uint64_t)grid, /* not of the configuration */
				       .name = name,
				       .grid_x = grid,
				       .grid_y = 1,
				       .grid_z = 1,
				       .block_x = 256,
				       .block_y = 1,
				       .block_z = 1,
				       .registers = 32 };
}

static int setup(void **state)
{
	kernel_configs_forget();
	*state = captured_begin();
	return 0;
}

static int teardown(void **state)
{
	captured_free(*state);
	return 0;
}

static void test_equal_and_different(void **state)
{
	struct captured *c = *state;
	struct record_kernel first = record_of("a", 1), again = first, other;
	uint32_t id = kernel_config_of(c->writer, &first);

	again.start = 77;
	again.correlation = 78;
	again.stream = 79;
	again.graph_node = 80;
	again.device_launched = 1;
	assert_int_equal(kernel_config_of(c->writer, &again), id);
#define DIFFERS(member)                                                                            \
	other = first;                                                                             \
	other.member ^= 1;                                                                         \
	assert_int_not_equal(kernel_config_of(c->writer, &other), id);                             \
	assert_int_equal(kernel_config_of(c->writer, &first), id)
	DIFFERS(cache_config);
	DIFFERS(registers);
	DIFFERS(grid_x);
	DIFFERS(grid_z);
	DIFFERS(block_y);
	DIFFERS(static_shared);
	DIFFERS(dynamic_shared);
	DIFFERS(local_per_thread);
	DIFFERS(launch_type);
	DIFFERS(executed_shared);
	DIFFERS(cluster_x);
	DIFFERS(local_total);
	other = record_of("b", 1);
	assert_int_not_equal(kernel_config_of(c->writer, &other), id);
}

/* Rows come with names; a name's memory is another's after its module was unloaded. */
static void test_a_name_that_changes(void **state)
{
	struct captured *c = *state;
	char name[] = "before";
	struct record_kernel record = record_of(name, 1);
	struct row_kernel row = { .config = kernel_config_of(c->writer, &record) };
	struct row_kernel_config *rows;
	size_t count;

	writer_append(c->writer, TABLE_kernel, &row);
	strcpy(name, "after!");
	assert_int_equal(kernel_config_of(c->writer, &record), row.config);
	kernel_configs_forget();
	row.config = kernel_config_of(c->writer, &record);
	writer_append(c->writer, TABLE_kernel, &row);
	captured_close(c);
	rows = captured_rows(c, TABLE_kernel_config, &count);
	assert_int_equal(count, 2);
	assert_string_equal(captured_text(c, rows[0].name), "before");
	assert_string_equal(captured_text(c, rows[1].name), "after!");
	free(rows);
}

/*
 * The writer forgets configurations that were not asked for in a long time, but none that is in
 * use.
 */
static void test_more_than_the_writer_keeps(void **state)
{
	struct captured *c = *state;
	struct record_kernel record = record_of("a", 1);
	struct row_kernel row = { 0 };
	size_t rows = 0, count;
	struct row_kernel_config *configs;
	struct row_kernel *kernels;
	uint8_t *written = calloc(4 * GENERATION, 1);

	for (int i = 0; i < 3 * GENERATION; i++, rows += 2) {
		struct record_kernel other = record_of("b", 2 + i);

		row.config = kernel_config_of(c->writer, &record);
		writer_append(c->writer, TABLE_kernel, &row);
		row.config = kernel_config_of(c->writer, &other);
		writer_append(c->writer, TABLE_kernel, &row);
	}
	captured_close(c);
	configs = captured_rows(c, TABLE_kernel_config, &count);
	for (size_t i = 0; i < count; i++)
		written[configs[i].id] = 1;
	kernels = captured_rows(c, TABLE_kernel, &count);
	assert_int_equal(count, rows);
	for (size_t i = 0; i < count; i++)
		assert_true(kernels[i].config < 4 * GENERATION && written[kernels[i].config]);
	free(configs);
	free(kernels);
	free(written);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(test_equal_and_different),
		CASE(test_a_name_that_changes),
		CASE(test_more_than_the_writer_keeps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
