/* Samples of kernels in flame graphs: below which stacks, and that none is lost or added. */
#include "flame_fixture.h"
#include "stall_rows.h"

static struct flame_options stalls_only(void)
{
	struct flame_options o = FLAME_OPTIONS_INIT;

	o.kinds = 1 << FLAME_STALLS;
	return o;
}

static uint32_t stack_of(struct maker *m, const char *function)
{
	return maker_stack(m, maker_python(m, 0, function, "t.py", 1), 1, stack_end_complete);
}

static void launch_kernel(struct maker *m, uint32_t config, uint32_t stack, uint64_t start_ns,
			  uint64_t ns, uint64_t correlation)
{
	m->stack = stack;
	maker_call(m, MAKER_LAUNCH, 100, start_ns - 10, start_ns - 5, correlation);
	maker_kernel(m, config, 7, start_ns, start_ns + ns, correlation);
}

static uint64_t total_of(const struct flame *f)
{
	uint32_t node = f->sections[FLAME_STALLS].node;

	return node == FLAME_NONE ? 0 : f->tree.nodes.data[node].total_ns;
}

/*
 * Three quarters of the time are a's: so are the samples of every line, as near as whole samples
 * come.
 */
static void shared_by_gpu_time(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t smooth = maker_config(m, SMOOTH, 1, 32), scale = maker_config(m, SCALE, 1, 32);
	struct flame_options o = stalls_only();
	struct trace *t;
	struct flame f;

	put_cubin(*state, "5.cubin", "lineinfo");
	add_cubin(m, 5, "cubins/5.cubin");
	launch_kernel(m, smooth, stack_of(m, "a"), 1000, 100, 1);
	launch_kernel(m, smooth, stack_of(m, "b"), 2000, 100, 2);
	launch_kernel(m, smooth, stack_of(m, "a"), 3000, 200, 3);
	launch_kernel(m, scale, stack_of(m, "b"), 4000, 1, 4);
	launch_kernel(m, maker_config(m, "unsampled", 1, 32), stack_of(m, "c"), 5000, 1000, 5);
	add_reading(m, 1, 500, 400, 0, 0);
	add_sample(m, 1, 5, SMOOTH, 0xe0, REASON("wait"), 300);
	add_sample(m, 1, 5, SMOOTH, 0xd0, MEMORY, 31);
	add_sample(m, 1, 5, SMOOTH, 0xd0, MEMORY "_not_issued", 9);
	add_sample(m, 1, 5, GATHER, 0x40, MEMORY, 4);
	add_sample(m, 1, 5, SCALE, 0x100, REASON("selected"), 56);
	maker_close(m, 9000);
	t = open_trace(*state);
	build_in_order(&f, t, &o);
	assert_sound(&f);
	assert_tree(&f, "[stalls] 0/400 x400\n"
			" a (t.py:1) 0/258 x258\n"
			"  cuLaunchKernel 0/258 x258\n"
			"   smooth 0/258 x258\n"
			"    kernel.cu:16 0/255 x255\n"
			"     polynomial (math.h:8) 0/225 x225\n"
			"      twice (math.h:3) 0/225 x225\n"
			"       waiting out a fixed latency 225/225 x225\n"
			"     waiting for global or local memory 30/30 x30\n"
			"    gather (kernel.cu:7) 0/3 x3\n"
			"     waiting for global or local memory 3/3 x3\n"
			" b (t.py:1) 0/142 x142\n"
			"  cuLaunchKernel 0/142 x142\n"
			"   smooth 0/86 x86\n"
			"    kernel.cu:16 0/85 x85\n"
			"     polynomial (math.h:8) 0/75 x75\n"
			"      twice (math.h:3) 0/75 x75\n"
			"       waiting out a fixed latency 75/75 x75\n"
			"     waiting for global or local memory 10/10 x10\n"
			"    gather (kernel.cu:7) 0/1 x1\n"
			"     waiting for global or local memory 1/1 x1\n"
			"   scale<float> 0/56 x56\n"
			"    kernel.cu:22 0/56 x56\n"
			"     issuing an instruction 56/56 x56\n");
	release(&f, t);
}

/* One sample at a time goes to each by turns, not always to the same one. */
static void single_samples(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t k = maker_config(m, "k", 1, 32);
	struct flame_options o = stalls_only();
	struct trace *t;
	struct flame f;

	for (uint64_t i = 0; i < 4; i++) {
		const char name[2] = { (char)('a' + i), 0 };

		launch_kernel(m, k, stack_of(m, name), 1000 + 1000 * i, 100, i + 1);
	}
	add_reading(m, 1, 500, 1000, 0, 0);
	for (uint64_t i = 0; i < 1000; i++)
		add_sample(m, 1, 5, "k", 16 * i, MEMORY, 1);
	maker_close(m, 9000);
	t = open_trace(*state);
	build_in_order(&f, t, &o);
	assert_int_equal(total_of(&f), 1000);
	for (uint32_t i = 1, last = 0; i < f.tree.nodes.count; i++) {
		const struct flame_node *n = &f.tree.nodes.data[i];

		if (n->depth != 1)
			continue;
		assert_in_range(n->total_ns, 245, 255);
		assert_int_equal(++last <= 4, true);
	}
	release(&f, t);
}

static bool wants_stream_8(void *user, enum table_id table, uint64_t row)
{
	const struct trace *t = user;

	return table != TABLE_kernel || kernel_columns(t)->stream[row] == 8;
}

/*
 * Other processes, devices and times have their own samples; what a filter leaves out takes its
 * part along.
 */
static void whose_samples(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t k = maker_config(m, "k", 1, 32);
	struct flame_options o = stalls_only();
	struct trace *t;
	struct flame f;

	maker_nvtx(m, nvtx_kind_push, 100, "step", 900);
	launch_kernel(m, k, stack_of(m, "a"), 1000, 100, 1);
	maker_nvtx(m, nvtx_kind_pop, 100, NULL, 1500);
	m->stack = 0;
	maker_call(m, MAKER_LAUNCH, 100, 1990, 1995, 2);
	maker_kernel(m, k, 8, 2000, 2300, 2);
	add_reading(m, 1, 500, 40, 0, 0);
	add_sample(m, 1, 5, "k", 16, MEMORY, 40);
	add_reading(m, 2, 8000, 40, 0, 0);
	add_sample(m, 2, 5, "k", 16, MEMORY, 4);
	m->device = 1; /* where k was not launched */
	add_reading(m, 3, 500, 7, 0, 0);
	add_sample(m, 3, 5, "k", 16, MEMORY, 7);
	add_sample(m, 99, 5, "k", 16, MEMORY, 2); /* its reading is lost */
	maker_close(m, 9000);
	m = begin(*state, 200);
	k = maker_config(m, "k", 1, 32);
	launch_kernel(m, k, stack_of(m, "z"), 1000, 100000, 1);
	add_reading(m, 1, 500, 1, 0, 0);
	add_sample(m, 1, 5, "k", 16, MEMORY, 1);
	maker_close(m, 200000);
	t = open_trace(*state);
	o.levels = 1 << FLAME_BY_DEVICE;
	build_in_order(&f, t, &o);
	assert_int_equal(total_of(&f), 54);
	assert_int_equal(f.sections[FLAME_STALLS].total_ns, 54);
	assert_int_equal(f.sections[FLAME_STALLS].unmatched, 9);
	assert_sound(&f);
	assert_int_equal(f.kinds, flame_kinds_recorded(t) & 1 << FLAME_STALLS);
	flame_release(&f);
	o.levels = 0;
	o.until_ns = 7000;
	build_in_order(&f, t, &o);
	assert_int_equal(total_of(&f), 48);
	flame_release(&f);
	o.until_ns = UINT64_MAX;
	o.select = wants_stream_8;
	o.user = t;
	build_in_order(&f, t, &o);
	assert_int_equal(total_of(&f), 33); /* three quarters */
	assert_int_equal(f.sections[FLAME_STALLS].unmatched, 0);
	flame_release(&f);
	o.select = NULL;
	o.scope = "step";
	build_in_order(&f, t, &o);
	assert_int_equal(total_of(&f), 11); /* the other one */
	release(&f, t);
}

/*
 * Two kernels with a name, in two cubins; one without lines, one that is broken, one that was not
 * kept.
 */
static void any_rows(void **state)
{
	static const char *const names[] = { SMOOTH, SCALE, GATHER, "k", "" };
	struct maker *m = begin(*state, 100);
	uint64_t seed = 5, total = 0;
	struct trace *t;

	put_cubin(*state, "5.cubin", "lineinfo");
	put_cubin(*state, "6.cubin", "plain");
	put_cubin(*state, "7.cubin", "../dwarf/clang-dwarf3");
	for (uint64_t crc = 5; crc < 8; crc++) {
		char file[32];

		snprintf(file, sizeof(file), "cubins/%u.cubin", (unsigned)crc);
		add_cubin(m, crc, file);
	}
	for (uint64_t i = 1; i <= 300; i++) {
		char stack[8];

		snprintf(stack, sizeof(stack), "f%u", (unsigned)(random_u64(&seed) % 9));
		launch_kernel(m, maker_config(m, names[random_u64(&seed) % 5], 1, 32),
			      random_u64(&seed) % 8 ? stack_of(m, stack) : 0, 1000 * i,
			      random_u64(&seed) % 900, random_u64(&seed) % 4 ? i : 10000 + i);
	}
	for (uint64_t i = 0; i < 2000; i++) {
		uint64_t r = random_u64(&seed), samples = random_u64(&seed) % 50;

		add_sample(m, 1, 5 + r % 4, names[r / 8 % 5], r / 64 % 64 * 16,
			   r % 3 ? MEMORY : REASON("wait"), samples);
		total += samples;
	}
	add_reading(m, 1, 500, total, 0, 0);
	maker_close(m, 900000);
	t = open_trace(*state);
	for (unsigned round = 0; round < 12; round++) {
		struct flame_options o = stalls_only();
		struct flame f;

		o.levels = round / 6 ? (1 << FLAME_LEVELS) - 1 : 0;
		o.detail = (enum stack_detail)(round / 2 % 3);
		build(&f, t, &o);
		assert_int_equal(flame_finish(&f, round & 1), 0);
		assert_sound(&f);
		assert_int_equal(total_of(&f), total);
		assert_int_equal(f.sections[FLAME_STALLS].count, total);
		flame_release(&f);
	}
	trace_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(shared_by_gpu_time),
		folder_test(single_samples),
		folder_test(whose_samples),
		folder_test(any_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
