/* Flame graphs of work, waits and launches: trees, levels, filters, comparisons. */
#include "flame_fixture.h"

/* main calls step, into which inner is inlined, and Python; both launch. */
static void write_stacks(struct maker *m, uint32_t *step, uint32_t *python)
{
	uint32_t start, entry, node;

	maker_module(m, "/usr/bin/app", "00ff", APP, APP + 0x10000, 0);
	maker_module(m, "/usr/lib/libcudart.so.12", NULL, CUDART, CUDART + 0x10000, CUDART);
	maker_symbol(m, APP + 0x10, 0, "_start", "/usr/bin/app", NULL, 0, APP);
	maker_symbol(m, APP + 0x110, 0, "main", "/usr/bin/app", "/src/main.c", 12, APP + 0x100);
	maker_symbol(m, APP + 0x210, 0, "app::step(int, float*)", "/usr/bin/app", "/src/step.cc",
		     34, APP + 0x200);
	maker_symbol(m, APP + 0x210, 1, "app::inner()", "/usr/bin/app", "/src/inner.h", 56, 0);
	maker_symbol(m, CUDART + 0x10, 0, "cudaLaunchKernel", "/usr/lib/libcudart.so.12", NULL, 0,
		     0);
	start = maker_native(m, 0, APP + 0x10);
	entry = maker_native(m, start, APP + 0x110);
	node = maker_native(m, entry, APP + 0x210);
	*step = maker_stack(m, maker_native(m, node, CUDART + 0x10), 4, stack_end_complete);
	node = maker_python(m, entry, "Model.forward", "/home/user/model.py", 78);
	node = maker_native(m, node, APP + 0x310);
	*python = maker_stack(m, maker_native(m, node, CUDART + 0x10), 5, stack_end_complete);
}

static void trees_by_hand(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t k = maker_config(m, "add", 1, 32), step, python;
	struct flame_options o = all_kinds();
	struct trace *t;
	struct flame f;

	write_stacks(m, &step, &python);
	m->stack = step;
	maker_call(m, MAKER_RUNTIME_LAUNCH, 10, 1000, 1100, 1);
	maker_call(m, MAKER_RUNTIME_LAUNCH, 10, 2000, 2050, 2);
	m->stack = python;
	maker_call(m, MAKER_GRAPH_LAUNCH, 10, 3000, 3300, 3);
	maker_call(m, MAKER_DEVICE_SYNCHRONIZE, 10, 4000, 8000, 4);
	maker_kernel(m, k, 7, 1500, 1600, 1);
	maker_memset(m, 64, 7, 1600, 1700, 99); /* nobody asked for it */
	maker_kernel(m, k, 7, 2500, 2507, 2);
	maker_graph_kernel(m, k, 7, 5000, 5400, 3, 1, 1);
	maker_memcpy(m, copy_kind_DtoD, 64, 7, 5400, 5500, 3);
	maker_close(m, 9000);
	t = open_trace(*state);
	build_in_order(&f, t, &o);
	assert_tree(&f, "[GPU] 0/707 x5\n"
			" _start 0/607 x4\n"
			"  main 0/607 x4\n"
			"   Model.forward (model.py:78) 0/500 x2\n"
			"    app+0x400310 0/500 x2\n"
			"     cuGraphLaunch 0/500 x2\n"
			"      add 400/400 x1\n"
			"      copy DtoD (device to device) 100/100 x1\n"
			"   app::step 0/107 x2\n"
			"    app::inner 0/107 x2\n"
			"     cudaLaunchKernel 0/107 x2\n"
			"      add 107/107 x2\n"
			" [no launch] 0/100 x1\n"
			"  set (device) 100/100 x1\n"
			"[wait] 0/4000 x1\n"
			" _start 0/4000 x1\n"
			"  main 0/4000 x1\n"
			"   Model.forward (model.py:78) 0/4000 x1\n"
			"    app+0x400310 0/4000 x1\n"
			"     cudaDeviceSynchronize 4000/4000 x1\n"
			"[launches] 0/450 x3\n"
			" _start 0/450 x3\n"
			"  main 0/450 x3\n"
			"   Model.forward (model.py:78) 0/300 x1\n"
			"    app+0x400310 0/300 x1\n"
			"     cuGraphLaunch 300/300 x1\n"
			"   app::step 0/150 x2\n"
			"    app::inner 0/150 x2\n"
			"     cudaLaunchKernel 150/150 x2\n");
	assert_sound(&f);
	assert_int_equal(f.sections[FLAME_GPU].total_ns, 707);
	assert_int_equal(f.sections[FLAME_GPU].unmatched, 1);
	assert_int_equal(f.sections[FLAME_GPU].unmatched_ns, 100);
	release(&f, t);
}

static void inverted_and_filtered(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t k = maker_config(m, "add", 1, 32), step, python;
	struct flame_options o = { .kinds = 1 << FLAME_GPU,
				   .levels = 1 << FLAME_BY_STREAM,
				   .until_ns = UINT64_MAX };
	struct error e = { 0 };
	struct trace *t;
	struct flame f;

	write_stacks(m, &step, &python);
	maker_call(m, MAKER_LAUNCH, 10, 1000, 1100, 1);
	m->stack = step;
	maker_call(m, MAKER_RUNTIME_LAUNCH, 10, 2000, 2050, 2);
	maker_kernel(m, k, 7, 1500, 1600, 1);
	maker_kernel(m, k, 13, 2500, 2507, 2);
	maker_close(m, 9000);
	t = open_trace(*state);
	build(&f, t, &o);
	assert_int_equal(flame_finish(&f, true), 0);
	assert_tree(&f, "[GPU] 0/107 x2\n"
			" stream 7 0/100 x1\n"
			"  add 0/100 x1\n"
			"   cuLaunchKernel 0/100 x1\n"
			"    [thread] 100/100 x1\n"
			" stream 13 0/7 x1\n"
			"  add 0/7 x1\n"
			"   cudaLaunchKernel 0/7 x1\n"
			"    app::inner 0/7 x1\n"
			"     app::step 0/7 x1\n"
			"      main 0/7 x1\n"
			"       _start 7/7 x1\n");
	assert_sound(&f);
	flame_release(&f);

	o.levels = 0;
	build(&f, t, &o);
	assert_int_equal(flame_filter(&f, "step\\(int|thread", "^ma?in$", &e), 0);
	assert_int_equal(flame_finish(&f, false), 0);
	assert_tree(&f, "[GPU] 0/100 x1\n"
			" [thread] 0/100 x1\n"
			"  cuLaunchKernel 0/100 x1\n"
			"   add 100/100 x1\n");
	assert_int_equal(f.sections[FLAME_GPU].total_ns, 107); /* of all */
	flame_release(&f);

	build(&f, t, &o);
	assert_int_equal(flame_filter(&f, "a(b", NULL, &e), E_USAGE);
	assert_non_null(strstr(e.text, "'a(b'"));
	release(&f, t);
}

static void levels(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t k = maker_config(m, "add", 1, 32);
	struct flame_options o = { .until_ns = UINT64_MAX };
	struct trace *t;
	struct flame f;

	maker_thread(m, 10, "worker", 0);
	maker_nvtx(m, nvtx_kind_push, 10, "epoch", 100);
	maker_nvtx(m, nvtx_kind_push, 10, "step", 200);
	maker_call(m, MAKER_LAUNCH, 10, 1000, 1100, 1);
	maker_nvtx(m, nvtx_kind_pop, 10, NULL, 1200);
	maker_nvtx(m, nvtx_kind_pop, 10, NULL, 1300);
	maker_call(m, MAKER_STREAM_SYNCHRONIZE, 10, 2000, 2050, 2);
	maker_kernel(m, k, 7, 1500, 1600, 1);
	maker_synchronization(m, synchronization_kind_stream, 7, 2001, 2049, 2);
	maker_close(m, 9000);
	t = open_trace(*state);
	o.kinds = 1 << FLAME_GPU;
	o.levels = 1 << FLAME_BY_SCOPE | 1 << FLAME_BY_THREAD | 1 << FLAME_BY_PROCESS |
		   1 << FLAME_BY_DEVICE;
	build_in_order(&f, t, &o);
	assert_tree(&f, "[GPU] 0/100 x1\n"
			" process 100 (./app) 0/100 x1\n"
			"  worker 10 0/100 x1\n"
			"   GPU 0 (NVIDIA H200) 0/100 x1\n"
			"    epoch 0/100 x1\n"
			"     step 0/100 x1\n"
			"      [worker] 0/100 x1\n"
			"       cuLaunchKernel 0/100 x1\n"
			"        add 100/100 x1\n");
	flame_release(&f);
	o.kinds = 1 << FLAME_WAIT;
	o.levels = 1 << FLAME_BY_STREAM | 1 << FLAME_BY_SCOPE;
	build_in_order(&f, t, &o);
	assert_tree(&f, "[wait] 0/50 x1\n"
			" stream 7 0/50 x1\n"
			"  [no scope] 0/50 x1\n"
			"   [worker] 0/50 x1\n"
			"    cudaStreamSynchronize 50/50 x1\n");
	release(&f, t);
}

/* A driver function inside a runtime function is the same time; copies wait unless asynchronous. */
static void waits_count_once(void **state)
{
	struct maker *m = begin(*state, 100);
	struct flame_options o = { .kinds = 1 << FLAME_WAIT, .until_ns = UINT64_MAX };
	struct row_api_function copy = { .id = 2 << 16 | 31, .kind = api_kind_memcpy };
	struct row_api_call row = { .start_ns = 5000,
				    .end_ns = 5600,
				    .function = copy.id,
				    .thread = 10,
				    .correlation = 5 };
	struct trace *t;
	struct flame f;

	copy.name = maker_string(m, "cudaMemcpy_v3020");
	writer_api_function(m->writer, copy.id, &copy);
	ROW_MISSING(&row, api_call, result);
	ROW_MISSING(&row, api_call, stack);
	maker_call(m, MAKER_DEVICE_SYNCHRONIZE, 10, 1000, 2000, 1);
	maker_call(m, MAKER_STREAM_SYNCHRONIZE, 10, 1100, 1900, 1); /* inside */
	maker_call(m, MAKER_STREAM_SYNCHRONIZE, 11, 1100, 1900, 2); /* another thread */
	maker_call(m, MAKER_MEMCPY, 10, 3000, 4000, 3);
	maker_call(m, MAKER_LAUNCH, 10, 4000, 4500, 4);
	writer_append(m->writer, TABLE_api_call, &row);
	maker_close(m, 9000);
	t = open_trace(*state);
	build_in_order(&f, t, &o);
	assert_tree(&f, "[wait] 0/2400 x3\n"
			" [thread] 0/2400 x3\n"
			"  cudaDeviceSynchronize 1000/1000 x1\n"
			"  cudaStreamSynchronize 800/800 x1\n"
			"  cudaMemcpy 600/600 x1\n");
	release(&f, t);
}

static void windows_and_missing_times(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t k = maker_config(m, "add", 1, 32);
	struct flame_options o = { .kinds = 1 << FLAME_GPU, .until_ns = UINT64_MAX };
	struct row_kernel row = { .config = k, .context = 1, .stream = 7, .correlation = 1 };
	struct trace *t;
	struct flame f;

	maker_call(m, MAKER_LAUNCH, 10, 1000, 1100, 1);
	maker_kernel(m, k, 7, 1500, 1600, 1);
	maker_kernel(m, k, 7, 2000, 2007, 1);
	ROW_MISSING(&row, kernel, start_ns);
	ROW_MISSING(&row, kernel, end_ns);
	writer_append(m->writer, TABLE_kernel, &row);
	maker_close(m, 9000);
	t = open_trace(*state);
	build(&f, t, &o);
	assert_int_equal(f.sections[FLAME_GPU].untimed, 1);
	assert_int_equal(f.sections[FLAME_GPU].total_ns, 107);
	flame_release(&f);
	o.since_ns = 1600;
	build(&f, t, &o);
	assert_int_equal(f.sections[FLAME_GPU].untimed, 0);
	assert_int_equal(f.sections[FLAME_GPU].total_ns, 7);
	flame_release(&f);
	o.since_ns = 3000;
	build_in_order(&f, t, &o);
	assert_tree(&f, "");
	assert_int_equal(f.sections[FLAME_GPU].node, FLAME_NONE);
	release(&f, t);
}

static void write_pair(const char *folder, uint32_t pid, uint64_t add_ns, uint64_t mul_ns)
{
	struct maker *m = begin(folder, pid);
	uint32_t add = maker_config(m, "add", 1, 32), mul = maker_config(m, "mul", 1, 32);

	maker_call(m, MAKER_LAUNCH, 10, 1000, 1100, 1);
	if (add_ns)
		maker_kernel(m, add, 7, 1500, 1500 + add_ns, 1);
	if (mul_ns)
		maker_kernel(m, mul, 7, 3000, 3000 + mul_ns, 1);
	maker_close(m, 9000);
}

static void comparisons(void **state)
{
	struct flame_options o = { .kinds = 1 << FLAME_GPU, .until_ns = UINT64_MAX };
	struct trace *now, *then;
	struct flame f, before;
	char folder[4096];

	snprintf(folder, sizeof(folder), "%s/then", (const char *)*state);
	write_pair(folder, 200, 300, 0);
	then = open_trace(folder);
	snprintf(folder, sizeof(folder), "%s/now", (const char *)*state);
	write_pair(folder, 100, 0, 50);
	now = open_trace(folder);
	build(&f, now, &o);
	build(&before, then, &o);
	assert_int_equal(flame_compare(&f, &before), 0);
	flame_release(&before);
	trace_free(then);
	assert_int_equal(flame_finish(&f, false), 0);
	assert_tree(&f, "[GPU] 0/50 was 300 x1\n"
			" [thread] 0/50 was 300 x1\n"
			"  cuLaunchKernel 0/50 was 300 x1\n"
			"   mul 50/50 was 0 x1\n"
			"   add 0/0 was 300 x0\n");
	assert_int_equal(f.sections[FLAME_GPU].before_total_ns, 300);
	flame_release(&f);
	trace_free(now);
}

static bool odd_rows(void *user, enum table_id table, uint64_t row)
{
	unsigned *calls = user;

	++*calls;
	return table == TABLE_kernel && row % 2;
}

static void rows_can_be_left_out(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t k = maker_config(m, "add", 1, 32);
	unsigned calls = 0;
	struct flame_options o = {
		.kinds = 1 << FLAME_GPU, .until_ns = UINT64_MAX, .select = odd_rows, .user = &calls
	};
	struct trace *t;
	struct flame f;

	for (uint64_t i = 0; i < 10; i++)
		maker_kernel(m, k, 7, 1000 + 100 * i, 1000 + 100 * i + i, 1);
	maker_memset(m, 64, 7, 4000, 4010, 1);
	maker_close(m, 9000);
	t = open_trace(*state);
	build(&f, t, &o);
	assert_int_equal(f.sections[FLAME_GPU].total_ns, 1 + 3 + 5 + 7 + 9);
	assert_int_equal(calls, 11);
	release(&f, t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(trees_by_hand),
		folder_test(inverted_and_filtered),
		folder_test(levels),
		folder_test(waits_count_once),
		folder_test(windows_and_missing_times),
		folder_test(comparisons),
		folder_test(rows_can_be_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
