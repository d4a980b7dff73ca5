/*
 * test_what_if.c: predictions for programs whose truth is known. The simulator has only the
 * recording; the times expected are those of the program with the change.
 */
#include "analysis/what_if.h"

#include <string.h>
#include <sys/stat.h>

#include "unit/analysis/report_fixture.h"

#define US UINT64_C(1000)
#define STEPS 12u

/* What a step of a program does. The GPU works in order; the host may be ahead of it. */
struct plan {
	uint64_t host_ns, launch_ns; /* before each launch, and of its call */
	uint64_t kernel_ns;
	unsigned kernels; /* in a step */
	uint64_t copy_ns; /* of a blocking copy at the beginning of a step; 0: none */
	uint64_t malloc_ns; /* of an allocation there; 0: none */
	bool waits; /* at the end of the step */
	bool hides; /* kernels "beside", on another stream, of half of kernel_ns */
	/* The second half of the launches is made by thread 2 of 2; 0: one launches a graph. */
	uint32_t threads;
};

#define LATENCY (5 * US) /* from the call to the kernel */
#define RETURN_NS (4 * US)
#define NODE_LATENCY 100u

struct player {
	struct maker *m;
	const struct plan *plan;
	uint32_t kernel, beside;
	uint64_t now_ns, gpu_ns, beside_ns, correlation;
};

static void play_launch(struct player *p, uint32_t thread)
{
	uint64_t start;

	p->now_ns += p->plan->host_ns;
	p->correlation++;
	maker_call(p->m, MAKER_LAUNCH, thread, p->now_ns, p->now_ns + p->plan->launch_ns,
		   p->correlation);
	start = MAX(p->now_ns + LATENCY, p->gpu_ns + US);
	p->gpu_ns = start + p->plan->kernel_ns;
	maker_kernel(p->m, p->kernel, 7, start, p->gpu_ns, p->correlation);
	p->now_ns += p->plan->launch_ns;
	if (!p->plan->hides)
		return;
	p->correlation++;
	maker_call(p->m, MAKER_LAUNCH, thread, p->now_ns, p->now_ns + p->plan->launch_ns,
		   p->correlation);
	start = MAX(p->now_ns + LATENCY, p->beside_ns + US);
	p->beside_ns = start + p->plan->kernel_ns / 2;
	maker_kernel(p->m, p->beside, 8, start, p->beside_ns, p->correlation);
	p->now_ns += p->plan->launch_ns;
}

/* From a device to pinned memory; its call waits for it. */
static void play_copy(struct player *p)
{
	uint64_t begun = p->now_ns + US, start = MAX(begun + LATENCY, p->gpu_ns + US);
	struct row_memcpy row = { .start_ns = start,
				  .end_ns = start + p->plan->copy_ns,
				  .kind = copy_kind_DtoH,
				  .source_kind = memory_kind_device,
				  .destination_kind = memory_kind_pinned,
				  .correlation = ++p->correlation,
				  .context = 1,
				  .stream = 7,
				  .missing = schema_missing(TABLE_memcpy) &
					     ~(UINT64_C(1) << COLUMN_memcpy_start_ns |
					       UINT64_C(1) << COLUMN_memcpy_end_ns |
					       UINT64_C(1) << COLUMN_memcpy_async) };

	p->gpu_ns = row.end_ns;
	p->now_ns = p->gpu_ns + RETURN_NS;
	maker_call(p->m, MAKER_MEMCPY_BLOCKING, 1, begun, p->now_ns, p->correlation);
	writer_append(p->m->writer, TABLE_memcpy, &row);
}

static void play_graph(struct player *p)
{
	const struct plan *plan = p->plan;

	p->now_ns += plan->host_ns;
	maker_call(p->m, MAKER_GRAPH_LAUNCH, 1, p->now_ns, p->now_ns + plan->launch_ns,
		   ++p->correlation);
	p->gpu_ns = MAX(p->now_ns + plan->launch_ns + LATENCY, p->gpu_ns + US);
	for (unsigned i = 0; i < plan->kernels; i++) {
		maker_graph_kernel(p->m, p->kernel, 7, p->gpu_ns, p->gpu_ns + plan->kernel_ns,
				   p->correlation, 3, i + 1);
		p->gpu_ns += plan->kernel_ns + NODE_LATENCY;
	}
	p->gpu_ns -= NODE_LATENCY;
	p->now_ns += plan->launch_ns;
}

static void play_step(struct player *p)
{
	const struct plan *plan = p->plan;
	uint64_t begun;

	maker_scope(p->m, nvtx_kind_push, 1, "step", 0, p->now_ns);
	if (plan->malloc_ns) {
		maker_call(p->m, MAKER_MALLOC, 1, p->now_ns + US, p->now_ns + US + plan->malloc_ns,
			   ++p->correlation);
		p->now_ns += US + plan->malloc_ns;
	}
	if (plan->copy_ns)
		play_copy(p);
	if (!plan->threads)
		play_graph(p);
	for (unsigned i = 0; i < plan->kernels && plan->threads; i++)
		play_launch(p, plan->threads > 1 && i >= plan->kernels / 2 ? 2 : 1);
	if (plan->waits) {
		begun = p->now_ns + US;
		p->now_ns = MAX(begun + US, p->gpu_ns + RETURN_NS);
		maker_stream_call(p->m, MAKER_STREAM_SYNCHRONIZE, 1, begun, p->now_ns, 7, 0);
	}
	maker_scope(p->m, nvtx_kind_pop, 1, NULL, 0, p->now_ns);
}

/* Plays the plan. */
static void play(const char *folder, const struct plan *plan)
{
	struct player p = { .m = begin(folder, 100), .plan = plan, .now_ns = 100 * US };

	p.kernel = maker_config(p.m, "gemm", 1, 32);
	p.beside = maker_config(p.m, "beside", 1, 32);
	maker_stream(p.m, 8, 0);
	for (unsigned i = 0; i < STEPS; i++)
		play_step(&p);
	maker_close(p.m, MAX(p.now_ns, p.gpu_ns) + 1000 * US);
}

struct guess {
	struct analyzed a;
	struct what_if w;
	struct what_if_rule rules[2];
	unsigned count;
};

static void open_corrected(struct guess *g, const char *folder, const uint64_t *call_ns,
			   const struct calibration *c)
{
	struct report_options options = { .filter = FILTER_ALL, .steps = true };
	struct error e = { 0 };

	*g = (struct guess){ 0 };
	analyze(&g->a, folder, options);
	if (what_if_init(&g->w, &g->a.report, call_ns, c, &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(g->w.identity_ns, 0);
}

static void open_calibrated(struct guess *g, const char *folder, const struct calibration *c)
{
	const uint64_t no_cost = 0;

	open_corrected(g, folder, &no_cost, c);
	assert_int_equal(g->w.corrected.step_ns, g->w.recorded.step_ns);
}

static void open_guess(struct guess *g, const char *folder)
{
	open_calibrated(g, folder, NULL);
}

static int add_rule(struct guess *g, const char *text, struct error *e)
{
	struct what_if_rule *rule = &g->rules[g->count++];
	int code = what_if_parse(rule, text, e);

	return code < 0 ? code : what_if_match(&g->w, rule, e);
}

static void guess_release(struct guess *g)
{
	for (unsigned i = 0; i < g->count; i++)
		what_if_rule_release(&g->rules[i]);
	what_if_release(&g->w);
	analyzed_release(&g->a);
}

/* The step of a plan, as recorded. */
static uint64_t step_of(const char *folder, const struct plan *plan)
{
	uint64_t ns;
	struct guess g;

	play(folder, plan);
	open_guess(&g, folder);
	ns = g.w.recorded.step_ns;
	guess_release(&g);
	return ns;
}

#define GPU_BOUND                                                                                  \
	{                                                                                          \
		.host_ns = 2 * US, .launch_ns = 4 * US, .kernel_ns = 50 * US, .kernels = 20,       \
		.waits = true, .threads = 1                                                        \
	}
#define LAUNCH_BOUND                                                                               \
	{                                                                                          \
		.host_ns = 10 * US, .launch_ns = 10 * US, .kernel_ns = 4 * US, .kernels = 20,      \
		.waits = true, .threads = 1                                                        \
	}

static const struct {
	const char *change, *and;
	struct plan before, after;
} cases[] = {
	{ "kernel:gemm x0.5",
	  NULL,
	  GPU_BOUND,
	  { 2 * US, 4 * US, 25 * US, 20, 0, 0, true, false, 1 } },
	{ "kernel:g*m x2",
	  NULL,
	  GPU_BOUND,
	  { 2 * US, 4 * US, 100 * US, 20, 0, 0, true, false, 1 } },
	{ "gpu =10us", NULL, GPU_BOUND, { 2 * US, 4 * US, 10 * US, 20, 0, 0, true, false, 1 } },
	{ "kernel:gemm x0.5",
	  NULL,
	  LAUNCH_BOUND,
	  { 10 * US, 10 * US, 2 * US, 20, 0, 0, true, false, 1 } },
	{ "launch -6us",
	  NULL,
	  LAUNCH_BOUND,
	  { 10 * US, 4 * US, 4 * US, 20, 0, 0, true, false, 1 } },
	{ "launch -6us",
	  "host x0.5",
	  LAUNCH_BOUND,
	  { 5 * US, 4 * US, 4 * US, 20, 0, 0, true, false, 1 } },
	{ "call:cuLaunchKernel =20us",
	  NULL,
	  LAUNCH_BOUND,
	  { 10 * US, 20 * US, 4 * US, 20, 0, 0, true, false, 1 } },
	{ "cpu x0.5", NULL, LAUNCH_BOUND, { 5 * US, 5 * US, 4 * US, 20, 0, 0, true, false, 1 } },
	{ "launch -6us", NULL, GPU_BOUND, { 2 * US, 0, 50 * US, 20, 0, 0, true, false, 1 } },
	/* The host and the GPU take turns: both count. */
	{ "sync remove",
	  NULL,
	  { 20 * US, 4 * US, 25 * US, 8, 0, 0, true, false, 1 },
	  { 20 * US, 4 * US, 25 * US, 8, 0, 0, false, false, 1 } },
	{ "copy:DtoH x0.1",
	  NULL,
	  { 2 * US, 4 * US, 5 * US, 20, 400 * US, 0, true, false, 1 },
	  { 2 * US, 4 * US, 5 * US, 20, 40 * US, 0, true, false, 1 } },
	{ "call:cudaMalloc x0.25",
	  NULL,
	  { 2 * US, 4 * US, 5 * US, 20, 0, 800 * US, true, false, 1 },
	  { 2 * US, 4 * US, 5 * US, 20, 0, 200 * US, true, false, 1 } },
	/* Hidden work costs nothing. */
	{ "kernel:beside x0.5",
	  NULL,
	  { 2 * US, 4 * US, 50 * US, 20, 0, 0, true, true, 1 },
	  { 2 * US, 4 * US, 50 * US, 20, 0, 0, true, true, 1 } },
	/* No waiting at all: the host is ahead of the GPU. */
	{ "kernel:gemm x0.5",
	  NULL,
	  { 2 * US, 4 * US, 50 * US, 20, 0, 0, false, false, 1 },
	  { 2 * US, 4 * US, 25 * US, 20, 0, 0, false, false, 1 } },
	/* Two threads take turns; the first one's next step waits for the second one. */
	{ "launch -6us",
	  NULL,
	  { 10 * US, 10 * US, 4 * US, 40, 0, 0, true, false, 2 },
	  { 10 * US, 4 * US, 4 * US, 40, 0, 0, true, false, 2 } },
};

/* Within 2 %, or 10 us: latencies at the ends of a step differ between the two programs. */
static void predictions(void **state)
{
	const char *folder = *state;
	char before[256], after[256];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error e = { 0 };
		uint64_t truth, found;
		struct guess g;

		snprintf(before, sizeof(before), "%s/%zu-a", folder, i);
		snprintf(after, sizeof(after), "%s/%zu-b", folder, i);
		assert_int_equal(mkdir(before, 0700) | mkdir(after, 0700), 0);
		truth = step_of(after, &cases[i].after);
		play(before, &cases[i].before);
		open_guess(&g, before);
		if (add_rule(&g, cases[i].change, &e) < 0 ||
		    (cases[i].and &&add_rule(&g, cases[i].and, &e) < 0))
			fail_msg("%s", e.text);
		assert_int_equal(what_if_predict(&g.w, g.rules, g.count), 0);
		found = g.w.predicted.step_ns;
		if (MAX(found, truth) - MIN(found, truth) > MAX(truth / 50, 10 * US))
			fail_msg("case %zu: %s: recorded %u, predicted %u, true %u us", i,
				 cases[i].change, (unsigned)(g.w.recorded.step_ns / US),
				 (unsigned)(found / US), (unsigned)(truth / US));
		guess_release(&g);
	}
}

/* Changes of nothing give the corrected time, to the nanosecond. */
static void no_change(void **state)
{
	static const struct plan plan = LAUNCH_BOUND;
	static const char *const none[] = { "gpu x1.0", "launch -0us", "cpu x1" };
	struct error e = { 0 };

	play(*state, &plan);
	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		struct guess g;

		open_guess(&g, *state);
		if (add_rule(&g, none[i], &e) < 0)
			fail_msg("%s", e.text);
		assert_int_equal(what_if_predict(&g.w, g.rules, 1), 0);
		assert_int_equal(g.w.predicted.step_ns, g.w.recorded.step_ns);
		assert_memory_equal(g.w.predicted.class_ns, g.w.recorded.class_ns,
				    sizeof(g.w.predicted.class_ns));
		guess_release(&g);
	}
}

/* Without the launches' host time, but with one launch of 10 us, the GPU bounds the step. */
static void a_graph(void **state)
{
	static const struct plan plan = LAUNCH_BOUND;
	struct error e = { 0 };
	struct guess g;

	play(*state, &plan);
	open_guess(&g, *state);
	if (add_rule(&g, "graph step launch=10us", &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(what_if_predict(&g.w, g.rules, 1), 0);
	assert_int_equal(g.rules[0].matched, 20 * STEPS);
	assert_in_range(g.w.recorded.step_ns, 400 * US, 420 * US);
	/* The first one's host time, and 20 kernels of 4 us, 1 us apart. */
	assert_in_range(g.w.predicted.step_ns, 100 * US, 130 * US);
	assert_true(g.w.predicted.class_ns[PATH_KERNEL] > g.w.recorded.class_ns[PATH_KERNEL]);
	guess_release(&g);
}

static struct calibration calibration_of_machine(void)
{
	struct calibration c;

	calibration_init(&c);
	snprintf(c.version, sizeof(c.version), "%s", PITOT_VERSION);
	snprintf(c.host, sizeof(c.host), "testhost");
	snprintf(c.gpu, sizeof(c.gpu), "NVIDIA H200");
	c.driver_version = 13000;
	return c;
}

/* As calibrated: 6 us and 100 ns for each of 19 further nodes, which follow each other at once. */
static void a_calibrated_graph(void **state)
{
	static const struct plan plan = LAUNCH_BOUND;
	struct calibration c;
	struct error e = { 0 };
	uint64_t assumed_ns;
	struct guess g;

	play(*state, &plan);
	open_guess(&g, *state);
	if (add_rule(&g, "graph step launch=7900ns", &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(what_if_predict(&g.w, g.rules, 1), 0);
	assert_int_equal(g.rules[0].graph_source, GRAPH_COST_option);
	assert_int_equal(g.rules[0].latency_ns, US / 4);
	assert_false(g.rules[0].latency_measured);
	assumed_ns = g.w.predicted.step_ns;
	guess_release(&g);

	c = calibration_of_machine();
	c.graph_launch_bare_ns = 6 * US;
	open_calibrated(&g, *state, &c);
	/* Half of it is not enough. */
	assert_int_equal(add_rule(&g, "graph step", &e), E_USAGE);
	guess_release(&g);
	c.node_call_bare_ns = 100;
	c.node_latency_ns = 50;
	open_calibrated(&g, *state, &c);
	if (add_rule(&g, "graph step", &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(what_if_predict(&g.w, g.rules, 1), 0);
	assert_int_equal(g.rules[0].graph_source, GRAPH_COST_calibration);
	assert_int_equal(g.rules[0].ns, 6 * US + 19 * 100);
	assert_int_equal(g.rules[0].latency_ns, 50);
	assert_true(g.rules[0].latency_measured);
	/* The launch bounds the first two kernels; 18 latencies of a step are 200 ns shorter. */
	assert_int_equal(assumed_ns - g.w.predicted.step_ns, 18 * (US / 4 - 50));
	guess_release(&g);
	/* That of another machine is not. */
	c.driver_version = 12000;
	open_calibrated(&g, *state, &c);
	assert_int_equal(add_rule(&g, "graph step", &e), E_USAGE);
	guess_release(&g);
}

/* What recording adds to the launches of a graph, and to its nodes, is known as that of calls. */
static void recorded_graphs(void **state)
{
	enum { NODES = 20, CALL = 1000, LAUNCH = 3000, NODE = 700, GAP = 280 };
	static const struct plan bare[] = {
		{ 2 * US, 5 * US, 20 * US, NODES, 0, 0, true, false, 0 },
		{ 60 * US, 90 * US, US, NODES, 0, 0, true, false, 0 },
		{ 60 * US, 90 * US, US, NODES, 0, 0, false, false, 0 },
	};
	char folder[256];

	for (size_t i = 0; i < 2 * ARRAY_SIZE(bare); i++) {
		struct calibration c = calibration_of_machine();
		bool is_known = i % 2;
		struct plan plan = bare[i / 2];
		uint64_t bare_ns, more_ns = LAUNCH + (NODES - 1) * NODE;
		struct guess g;

		c.launch_ns = CALL;
		if (is_known) {
			c.graph_launch_ns = LAUNCH;
			c.node_call_ns = NODE;
			c.graph_launch_bare_ns = plan.launch_ns;
			c.node_call_bare_ns = 0;
			c.node_gap_ns = GAP * 4 / 3 + 1; /* three quarters of it count */
		} else {
			more_ns = CALL;
		}
		snprintf(folder, sizeof(folder), "%s/%zu-bare", (const char *)*state, i);
		assert_int_equal(mkdir(folder, 0700), 0);
		bare_ns = step_of(folder, &plan);
		plan.launch_ns += more_ns;
		plan.kernel_ns += is_known ? GAP : 0;
		snprintf(folder, sizeof(folder), "%s/%zu", (const char *)*state, i);
		assert_int_equal(mkdir(folder, 0700), 0);
		play(folder, &plan);
		open_corrected(&g, folder, NULL, &c);
		assert_int_equal(g.w.call_source, CALL_COST_calibration);
		/* The first node of a launch is as long as recorded. */
		assert_true(g.w.recorded.step_ns > bare_ns);
		assert_in_range(g.w.corrected.step_ns, bare_ns, bare_ns + GAP);
		assert_int_equal(what_if_predict(&g.w, NULL, 0), 0);
		/* On the GPU, which bounds each step, between nothing and seven thirds of it. */
		assert_true(g.w.call_bar_ns >= (is_known ? (NODES - 1) * GAP : 0));
		guess_release(&g);
	}
}

/* Of a launch that is slower than recording explains, half of the rest is taken for recording. */
static void slow_launches_of_graphs(void **state)
{
	static const struct plan bare = { 2 * US, 2 * US, 1500, 20, 0, 0, false, false, 0 };
	struct calibration c = calibration_of_machine();
	struct plan plan = bare;
	struct error e = { 0 };
	char folder[256];
	struct guess g;
	uint64_t bare_ns;

	c.launch_ns = 1000;
	c.graph_launch_ns = 3000;
	c.node_call_ns = 700;
	c.graph_launch_bare_ns = 2 * US;
	c.node_call_bare_ns = 0;
	snprintf(folder, sizeof(folder), "%s/bare", (const char *)*state);
	assert_int_equal(mkdir(folder, 0700), 0);
	bare_ns = step_of(folder, &plan);
	plan.launch_ns = 60 * US;
	snprintf(folder, sizeof(folder), "%s/slow", (const char *)*state);
	assert_int_equal(mkdir(folder, 0700), 0);
	play(folder, &plan);
	open_corrected(&g, folder, NULL, &c);
	assert_in_range(g.w.recorded.step_ns, 60 * US, 70 * US);
	assert_int_equal(g.w.corrected.step_ns, bare_ns);
	guess_release(&g);
	/* What is not measured is assumed. */
	c.graph_launch_bare_ns = CALIBRATION_UNKNOWN;
	open_corrected(&g, folder, NULL, &c);
	assert_int_equal(g.w.corrected.step_ns, bare_ns);
	guess_release(&g);
	open_corrected(&g, folder, NULL, NULL);
	assert_int_equal(g.w.call_source, CALL_COST_assumption);
	assert_in_range(g.w.corrected.step_ns, bare_ns - 19 * WHAT_IF_NODE_GAP_NS, bare_ns);
	guess_release(&g);
	/* The first node begins as much sooner as the launch is shorter. */
	open_guess(&g, folder);
	if (add_rule(&g, "launch x0.8", &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(what_if_predict(&g.w, g.rules, 1), 0);
	assert_in_range(g.w.recorded.step_ns - g.w.predicted.step_ns, 12 * US - 10, 12 * US + 10);
	guess_release(&g);
}

/* What halving brings: the most for what bounds the step. */
static void candidates(void **state)
{
	static const struct plan plan = GPU_BOUND;
	struct guess g;

	play(*state, &plan);
	open_guess(&g, *state);
	assert_int_equal(what_if_candidates(&g.w), 0);
	assert_int_equal(g.w.candidates[0].place.class, PATH_KERNEL);
	assert_in_range(g.w.candidates[0].gain_ns, 490 * US, 510 * US);
	assert_int_equal(g.w.candidates[0].cost_ns, STEPS * 20 * 50 * US);
	for (size_t i = 1; i < g.w.candidate_count; i++)
		assert_true(g.w.candidates[i].gain_ns < (int64_t)(20 * US));
	guess_release(&g);
}

static const struct {
	const char *text, *error;
} wrong[] = {
	{ "kernl:gemm x0.5", "unknown transform 'kernl:gemm x0.5', did you mean 'kernel'?" },
	{ "kernel:gemm",
	  "'kernel:gemm' does not say how it changes: x0.5, =2us, -2us, +2us or remove" },
	{ "kernel:gemm x-1",
	  "'kernel:gemm x-1' does not say how it changes: x0.5, =2us, -2us, +2us or remove" },
	{ "kernel:gemm x",
	  "'kernel:gemm x' does not say how it changes: x0.5, =2us, -2us, +2us or remove" },
	{ "kernel:gemn x2",
	  "'kernel:gemn x2' changes nothing of what is simulated, did you mean 'gemm'?" },
	{ "gpu:gemm x2", "'gpu:gemm x2': gpu takes no name" },
	{ "sync x2", "'sync x2': waiting can only be removed: 'sync remove'" },
	{ "memset x2", "'memset x2' changes nothing of what is simulated" },
	{ "graph step",
	  "'graph step': nothing of what is simulated launches a graph, so its cost is unknown: "
	  "say it, as in 'graph step launch=10us', or measure it on the recorded machine with "
	  "`pitot calibrate`" },
	{ "graph stpe launch=1us",
	  "'graph stpe launch=1us' changes nothing of what is simulated, did you mean 'step'?" },
	{ "launch -2",
	  "'launch -2' does not say how it changes: x0.5, =2us, -2us, +2us or remove" },
	{ "gpu =1.5", "'gpu =1.5' does not say how it changes: x0.5, =2us, -2us, +2us or remove" },
	{ "no stragler", "unknown transform 'no stragler', did you mean 'no straggler'?" },
	{ "graph step launch=x",
	  "'graph step launch=x': launch= takes a duration, such as launch=10us" },
	{ "graph", "'graph' needs a scope, or 'step': 'graph step'" },
	{ "graph other launch=1us",
	  "'graph other launch=1us' changes nothing of what is simulated" },
	{ "", "unknown transform ''" },
};

static void errors(void **state)
{
	static const struct plan plan = GPU_BOUND;

	play(*state, &plan);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct error e = { 0 };
		struct guess g;

		open_guess(&g, *state);
		assert_int_equal(add_rule(&g, wrong[i].text, &e), E_USAGE);
		if (strncmp(e.text, wrong[i].error, strlen(wrong[i].error)) != 0)
			fail_msg("%s", e.text);
		guess_release(&g);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(predictions),
		folder_test(no_change),
		folder_test(a_graph),
		folder_test(a_calibrated_graph),
		folder_test(recorded_graphs),
		folder_test(candidates),
		folder_test(slow_launches_of_graphs),
		folder_test(errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
