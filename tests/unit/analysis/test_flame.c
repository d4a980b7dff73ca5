#include "analysis/flame.h"

#include <string.h>

#include "report_fixture.h"

#define APP UINT64_C(0x400000)
#define CUDART UINT64_C(0x700000)

static struct trace *open_trace(const char *folder)
{
	struct trace_options options = { .threads = 1 };
	struct error e = { 0 };
	struct trace *t;

	if (trace_open(folder, &options, &t, &e) < 0)
		fail_msg("%s", e.text);
	return t;
}

static struct flame_options all_kinds(void)
{
	struct flame_options o = FLAME_OPTIONS_INIT;

	o.kinds |= 1 << FLAME_LAUNCHES;
	return o;
}

static void release(struct flame *f, struct trace *t)
{
	flame_release(f);
	trace_free(t);
}

static void build(struct flame *f, struct trace *t, const struct flame_options *o)
{
	struct error e = { 0 };

	if (flame_init(f, t, o, &e) < 0)
		fail_msg("%s", e.text);
}

static void build_in_order(struct flame *f, struct trace *t, const struct flame_options *o)
{
	build(f, t, o);
	assert_int_equal(flame_finish(f, false), 0);
}

/* Every node as a line: one blank a level, name, self and total time, events. */
static void dump(const struct flame *f, struct strbuf *out)
{
	strbuf_clear(out);
	for (uint32_t i = 1; i < f->tree.nodes.count; i++) {
		const struct flame_node *n = &f->tree.nodes.data[i];

		strbuf_addf(out, "%*s%s %llu/%llu", (int)n->depth, "", flame_name(f, i),
			    (unsigned long long)n->self_ns, (unsigned long long)n->total_ns);
		if (f->diff)
			strbuf_addf(out, " was %llu", (unsigned long long)n->before_total_ns);
		strbuf_addf(out, " x%llu\n", (unsigned long long)n->total_count);
	}
}

static void assert_tree(const struct flame *f, const char *expected)
{
	struct strbuf text = STRBUF_INIT;

	dump(f, &text);
	assert_string_equal(strbuf_text(&text), expected);
	strbuf_release(&text);
}

/* What holds for all finished trees. */
static void assert_sound(const struct flame *f)
{
	const struct flame_node *nodes = f->tree.nodes.data;
	size_t count = f->tree.nodes.count;
	uint64_t *sums = calloc(count, sizeof(*sums)), *last = malloc(count * sizeof(*last));

	memset(last, 0xff, count * sizeof(*last));
	for (size_t i = 1; i < count; i++) {
		const struct flame_node *n = &nodes[i], *parent = &nodes[n->parent];

		assert_true(n->parent < i && i < parent->end);
		assert_true(n->end > i && n->end <= parent->end);
		if (n->parent == FLAME_ROOT)
			assert_int_equal(n->depth, 0);
		else
			assert_int_equal(n->depth, parent->depth + 1);
		assert_true(n->parent == FLAME_ROOT || n->total_ns <= last[n->parent]);
		last[n->parent] = n->total_ns;
		sums[n->parent] += n->total_ns;
	}
	for (size_t i = 0; i < count; i++)
		assert_int_equal(sums[i] + nodes[i].self_ns, nodes[i].total_ns);
	free(sums);
	free(last);
}

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
					     1 << FLAME_BY_DEVICE | 1 << FLAME_BY_NVTX,
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
			"   [no range] 0/105 x2\n"
			"    main 0/100 x1\n"
			"     [unknown kernel code] 100/100 x1\n"
			"    inside 5/5 x1\n"
			"  thread 11 0/400 x1\n"
			"   [no range] 0/400 x1\n"
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
	o.levels = 1 << FLAME_BY_NVTX | 1 << FLAME_BY_THREAD | 1 << FLAME_BY_PROCESS |
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
	o.levels = 1 << FLAME_BY_STREAM | 1 << FLAME_BY_NVTX;
	build_in_order(&f, t, &o);
	assert_tree(&f, "[wait] 0/50 x1\n"
			" stream 7 0/50 x1\n"
			"  [no range] 0/50 x1\n"
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
	ROW_MISSING(&row, api_call, scope);
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
	for (uint64_t i = 1; i <= 4; i++)
		maker_kernel(m, k, 7, 1000 * i + 500, 1000 * i + 500 + i, i);
	maker_close(m, 9000);
	t = open_trace(*state);
	build_in_order(&f, t, &o);
	assert_tree(&f, "[GPU] 0/10 x4\n"
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
	assert_int_equal(f.calls, 4);
	assert_int_equal(f.calls_with_stack, 2);
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

/* 20,000 calls of a function by itself. */
static void deep_recursion(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t k = maker_config(m, "add", 1, 32), node = 0;
	struct flame_options o = { .kinds = 1 << FLAME_GPU, .until_ns = UINT64_MAX };
	struct trace *t;
	struct flame f;

	for (unsigned i = 0; i < 20000; i++)
		node = maker_python(m, node, "f", "x.py", 1);
	m->stack = maker_stack(m, node, 20000, stack_end_complete);
	maker_call(m, MAKER_LAUNCH, 10, 1000, 1100, 1);
	maker_kernel(m, k, 7, 1500, 1600, 1);
	maker_close(m, 9000);
	t = open_trace(*state);
	for (unsigned inverted = 0; inverted < 2; inverted++) {
		build(&f, t, &o);
		assert_int_equal(flame_finish(&f, inverted), 0);
		assert_int_equal(f.tree.nodes.count, 20004);
		assert_int_equal(f.tree.nodes.data[20003].depth, 20002);
		assert_int_equal(f.tree.nodes.data[20003].self_ns, 100);
		flame_release(&f);
	}
	trace_free(t);
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
		.kinds = 1 << FLAME_GPU, .until_ns = UINT64_MAX, .wanted = odd_rows, .user = &calls
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
		folder_test(samples_by_hand),
		folder_test(graphs_below_their_capture),
		folder_test(interpreters_stand_back),
		folder_test(inverted_and_filtered),
		folder_test(levels),
		folder_test(waits_count_once),
		folder_test(incomplete_stacks_say_so),
		folder_test(windows_and_missing_times),
		folder_test(comparisons),
		folder_test(gpu_time_is_conserved),
		folder_test(filters_part_the_whole),
		folder_test(deep_recursion),
		folder_test(circles_end),
		folder_test(rows_can_be_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
