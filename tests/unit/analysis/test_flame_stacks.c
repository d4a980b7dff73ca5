/*
 * Flame graphs of stacks that are out of the ordinary: of graphs, interpreters, samples, damaged
 * ones.
 */
#include "flame_fixture.h"

/* Nodes of graphs below what captured them, themselves or what they were cloned from. */
static void graphs_below_their_capture(void **state)
{
	struct maker *m = begin(*state, 100);
	struct flame_options o = { .kinds = 1 << FLAME_GPU, .until_ns = UINT64_MAX };
	uint32_t k = maker_config(m, "add", 1, 32), node;
	struct trace *t;
	struct flame f;

	maker_module(m, "/usr/lib/libcudart.so.12", NULL, CUDART, CUDART + 0x10000, CUDART);
	node = maker_python(m, 0, "replay", "x.py", 9);
	m->stack = maker_stack(
		m, maker_native(m, maker_python(m, 0, "step", "x.py", 1), CUDART + 0x10), 2,
		stack_end_complete);
	maker_graph_node(m, 11, 1, 0, 10, 500);
	m->stack = 0;
	maker_graph_node(m, 21, 2, 11, 10, 600); /* instantiated */
	maker_graph_node(m, 22, 2, 12, 10, 600); /* of an unknown one */
	maker_graph_node(m, 31, 3, 32, 10, 700); /* damaged: a circle */
	maker_graph_node(m, 32, 3, 31, 10, 700);
	m->stack = maker_stack(m, node, 1, stack_end_complete);
	maker_call(m, MAKER_GRAPH_LAUNCH, 10, 1000, 1100, 1);
	maker_graph_kernel(m, k, 7, 1200, 1300, 1, 2, 21);
	maker_graph_kernel(m, k, 7, 1300, 1330, 1, 2, 22);
	maker_graph_kernel(m, k, 7, 1400, 1407, 1, 3, 31);
	maker_kernel(m, k, 7, 1500, 1501, 1);
	maker_close(m, 9000);
	t = open_trace(*state);
	build_in_order(&f, t, &o);
	assert_tree(&f, "[GPU] 0/138 x4\n"
			" replay (x.py:9) 0/138 x4\n"
			"  cuGraphLaunch 0/138 x4\n"
			"   add 138/138 x4\n");
	flame_release(&f);
	o.captures = true;
	build(&f, t, &o);
	assert_int_equal(f.sections[FLAME_GPU].uncaptured, 2);
	assert_int_equal(flame_finish(&f, false), 0);
	assert_sound(&f);
	assert_tree(&f, "[GPU] 0/138 x4\n"
			" step (x.py:1) 0/100 x1\n"
			"  [in graph 2] 0/100 x1\n"
			"   add 100/100 x1\n"
			" replay (x.py:9) 0/38 x3\n"
			"  cuGraphLaunch 0/38 x3\n"
			"   add 38/38 x3\n");
	release(&f, t);
}

/* What runs Python is only seen where it is innermost. */
static void interpreters_stand_back(void **state)
{
	struct maker *m = begin(*state, 100);
	struct flame_options o = { .kinds = 1 << FLAME_CPU, .until_ns = UINT64_MAX };
	uint32_t node, stacks[4];
	struct trace *t;
	struct flame f;

	maker_module(m, "/usr/bin/python3.12", NULL, APP, APP + 0x10000, 0);
	maker_module(m, "/opt/libtorch.so", NULL, CUDART, CUDART + 0x10000, CUDART);
	maker_symbol(m, APP + 0x10, 0, "_start", "/usr/bin/python3.12", NULL, 0, APP);
	maker_symbol(m, APP + 0x110, 0, "eval", "/usr/bin/python3.12", NULL, 0, APP + 0x100);
	maker_symbol(m, CUDART + 0x10, 0, "torch", "/opt/libtorch.so", NULL, 0, 0);
	node = maker_native(m, maker_native(m, 0, APP + 0x10), APP + 0x110);
	stacks[0] = maker_stack(m, node, 2, stack_end_complete);
	node = maker_native(m, maker_python(m, node, "f", "x.py", 1), APP + 0x110);
	stacks[1] = maker_stack(m, node, 4, stack_end_complete);
	node = maker_native(m, maker_native(m, node, CUDART + 0x10), APP + 0x110);
	stacks[2] = maker_stack(m, node, 6, stack_end_complete);
	node = maker_native(m, maker_python(m, node, "g", "x.py", 2), APP + 0x110);
	stacks[3] = maker_stack(m, node, 8, stack_end_complete);
	for (uint64_t i = 0; i < 8; i++) /* each after all others */
		maker_cpu_sample(m, 10, 1000 + i, 1, stacks[i < 4 ? i : 7 - i]);
	maker_close(m, 9000);
	t = open_trace(*state);
	build_in_order(&f, t, &o);
	assert_sound(&f);
	assert_tree(&f, "[CPU] 0/8 x8\n"
			" f (x.py:1) 0/6 x6\n"
			"  eval 2/4 x4\n"
			"   torch 0/2 x2\n"
			"    eval 2/2 x2\n"
			"  torch 0/2 x2\n"
			"   g (x.py:2) 0/2 x2\n"
			"    eval 2/2 x2\n"
			" _start 0/2 x2\n"
			"  eval 2/2 x2\n");
	flame_release(&f);
	o.interpreter = true;
	build_in_order(&f, t, &o);
	assert_tree(&f, "[CPU] 0/8 x8\n"
			" _start 0/8 x8\n"
			"  eval 2/8 x8\n"
			"   f (x.py:1) 0/6 x6\n"
			"    eval 2/6 x6\n"
			"     torch 0/4 x4\n"
			"      eval 2/4 x4\n"
			"       g (x.py:2) 0/2 x2\n"
			"        eval 2/2 x2\n");
	release(&f, t);
}

/* A recorder's own session of process 100, and a sampler's about it with stacks of its own. */
static void samples_by_hand(void **state)
{
	struct maker *m = begin(*state, 100);
	struct flame_options o = { .kinds = 1 << FLAME_CPU | 1 << FLAME_GPU | 1 << FLAME_OFF_CPU,
				   .levels = 1 << FLAME_BY_PROCESS | 1 << FLAME_BY_THREAD |
					     1 << FLAME_BY_DEVICE | 1 << FLAME_BY_SCOPE,
				   .until_ns = UINT64_MAX };
	uint32_t node, stack;
	struct trace *t;
	struct flame f;

	maker_thread(m, 10, "main", 0);
	maker_symbol(m, APP + 0x10, 0, "inside", "/usr/bin/app", NULL, 0, 0);
	maker_stack(m, maker_native(m, 0, APP + 0x10), 1, stack_end_complete);
	maker_nvtx(m, nvtx_kind_push, 10, "step", 1500);
	maker_cpu_sample(m, 10, 1000, 5, 1); /* the way by timer: in its own session */
	maker_close(m, 9000);
	m = maker_begin_sampler(*state, 100, 10, "./app");
	maker_symbol(m, APP + 0x10, 0, "main", "/usr/bin/app", NULL, 0, 0);
	node = maker_native(m, 0, APP + 0x10);
	stack = maker_stack(m,
			    maker_exact(m, node, frame_kind_kernel, UINT64_C(0xffffffff81000010)),
			    2, stack_end_complete);
	maker_cpu_sample(m, 10, 1499, 100, stack);
	maker_cpu_sample(m, 10, 1500, 200, stack);
	maker_cpu_sample(m, 11, 1501, 400, stack);
	maker_cpu_sample(m, 10, 1502, 800, 77); /* a stack that is not there */
	maker_off_cpu(m, 10, 2000, 2030, off_cpu_state_sleeping, stack);
	maker_off_cpu(m, 10, 2100, 2090, off_cpu_state_runnable, 0); /* damaged: it ends before */
	maker_close(m, 8000);
	t = open_trace(*state);
	assert_int_equal(flame_kinds_recorded(t), 1 << FLAME_CPU | 1 << FLAME_OFF_CPU);
	build(&f, t, &o);
	assert_int_equal(f.sections[FLAME_CPU].total_ns, 1505);
	assert_int_equal(f.sections[FLAME_CPU].stackless, 1);
	assert_int_equal(flame_finish(&f, false), 0);
	assert_sound(&f);
	assert_tree(&f, "[CPU] 0/1505 x5\n"
			" process 100 (./app) 0/1505 x5\n"
			"  main 10 0/1105 x4\n"
			"   step 0/1000 x2\n"
			"    [main] 800/800 x1\n"
			"    main 0/200 x1\n"
			"     [unknown kernel code] 200/200 x1\n"
			"   [no scope] 0/105 x2\n"
			"    main 0/100 x1\n"
			"     [unknown kernel code] 100/100 x1\n"
			"    inside 5/5 x1\n"
			"  thread 11 0/400 x1\n"
			"   [no scope] 0/400 x1\n"
			"    main 0/400 x1\n"
			"     [unknown kernel code] 400/400 x1\n"
			"[off-CPU] 0/30 x2\n"
			" process 100 (./app) 0/30 x2\n"
			"  main 10 0/30 x2\n"
			"   step 0/30 x2\n"
			"    main 0/30 x1\n"
			"     [unknown kernel code] 0/30 x1\n"
			"      [sleeping] 30/30 x1\n"
			"    [main] 0/0 x1\n"
			"     [waiting for a processor] 0/0 x1\n");
	release(&f, t);
}

static void incomplete_stacks_say_so(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t k = maker_config(m, "add", 1, 32), node;
	struct flame_options o = { .kinds = 1 << FLAME_GPU, .until_ns = UINT64_MAX };
	struct trace *t;
	struct flame f;

	node = maker_python(m, 0, "f", "/x/y.py", 3);
	m->stack = maker_stack(m, node, 1, stack_end_truncated);
	maker_call(m, MAKER_LAUNCH, 10, 1000, 1100, 1);
	m->stack = 777; /* not in the recording */
	maker_call(m, MAKER_LAUNCH, 10, 2000, 2100, 2);
	m->stack = maker_stack(m, 888, 1, stack_end_complete);
	maker_call(m, MAKER_LAUNCH, 10, 3000, 3100, 3);
	m->stack = maker_stack(m, maker_native(m, node, 0x99), 2, stack_end_depth);
	maker_call(m, MAKER_LAUNCH, 10, 4000, 4100, 4);
	m->stack = maker_stack(m, node, 1, stack_end_guessed);
	maker_call(m, MAKER_LAUNCH, 10, 5000, 5100, 5);
	for (uint64_t i = 1; i <= 5; i++)
		maker_kernel(m, k, 7, 1000 * i + 500, 1000 * i + 500 + i, i);
	maker_close(m, 9000);
	t = open_trace(*state);
	build_in_order(&f, t, &o);
	assert_tree(&f, "[GPU] 0/15 x5\n"
			" [guessed stack] 0/5 x1\n"
			"  f (y.py:3) 0/5 x1\n"
			"   cuLaunchKernel 0/5 x1\n"
			"    add 5/5 x1\n"
			" [thread] 0/5 x2\n"
			"  cuLaunchKernel 0/5 x2\n"
			"   add 5/5 x2\n"
			" [deeper frames] 0/4 x1\n"
			"  f (y.py:3) 0/4 x1\n"
			"   [unknown] 0/4 x1\n"
			"    cuLaunchKernel 0/4 x1\n"
			"     add 4/4 x1\n"
			" [truncated stack] 0/1 x1\n"
			"  f (y.py:3) 0/1 x1\n"
			"   cuLaunchKernel 0/1 x1\n"
			"    add 1/1 x1\n");
	assert_int_equal(f.calls, 5);
	assert_int_equal(f.calls_with_stack, 3);
	release(&f, t);
}

/*
 * So many calls of a function by itself. How many are shown, and whether the stack says that there
 * are more.
 */
static void recursion(void **state, unsigned depth, unsigned shown, bool is_cut)
{
	struct maker *m = begin(*state, 100);
	uint32_t k = maker_config(m, "add", 1, 32), node = 0;
	struct flame_options o = { .kinds = 1 << FLAME_GPU, .until_ns = UINT64_MAX };
	struct trace *t;
	struct flame f;

	for (unsigned i = 0; i < depth; i++)
		node = maker_python(m, node, "f", "x.py", 1);
	m->stack = maker_stack(m, node, depth, stack_end_complete);
	maker_call(m, MAKER_LAUNCH, 10, 1000, 1100, 1);
	maker_kernel(m, k, 7, 1500, 1600, 1);
	maker_close(m, 9000);
	t = open_trace(*state);
	for (unsigned inverted = 0; inverted < 2; inverted++) {
		build(&f, t, &o);
		assert_int_equal(flame_finish(&f, inverted), 0);
		assert_int_equal(f.tree.nodes.count, shown + 4 + is_cut);
		assert_int_equal(f.tree.nodes.data[shown + 3 + is_cut].depth, shown + 2 + is_cut);
		assert_int_equal(f.tree.nodes.data[shown + 3 + is_cut].self_ns, 100);
		flame_release(&f);
	}
	trace_free(t);
}

static void deep_recursion(void **state)
{
	recursion(state, STACK_DEPTH_MAX, STACK_DEPTH_MAX, false);
}

/* What no recorder writes: the time is there, and what is left out is said. */
static void too_deep_recursion(void **state)
{
	recursion(state, STACK_DEPTH_MAX + 1568, 1568, true);
}

/* A node that names itself or a later one as its caller ends there. */
static void circles_end(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t k = maker_config(m, "add", 1, 32), node;
	struct flame_options o = { .kinds = 1 << FLAME_GPU, .until_ns = UINT64_MAX };
	struct trace *t;
	struct flame f;

	maker_python(m, 2, "a", "x.py", 1);
	node = maker_python(m, 1, "b", "x.py", 2);
	m->stack = maker_stack(m, node, 2, stack_end_complete);
	maker_call(m, MAKER_LAUNCH, 10, 1000, 1100, 1);
	maker_kernel(m, k, 7, 1500, 1600, 1);
	maker_close(m, 9000);
	t = open_trace(*state);
	build_in_order(&f, t, &o);
	assert_tree(&f, "[GPU] 0/100 x1\n"
			" a (x.py:1) 0/100 x1\n"
			"  b (x.py:2) 0/100 x1\n"
			"   cuLaunchKernel 0/100 x1\n"
			"    add 100/100 x1\n");
	release(&f, t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(samples_by_hand),
		folder_test(graphs_below_their_capture),
		folder_test(interpreters_stand_back),
		folder_test(incomplete_stacks_say_so),
		folder_test(deep_recursion),
		folder_test(too_deep_recursion),
		folder_test(circles_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
