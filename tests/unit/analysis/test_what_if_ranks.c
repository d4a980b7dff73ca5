/*
 * Changes of jobs of several ranks, whose truth is the same job with the change: all of the time of
 * a rank, from its first call to its last work.
 */
#include "analysis/what_if.h"

#include <sys/stat.h>

#include "job_script.h"

#define STEPS 40

struct ranks_plan {
	uint32_t ranks;
	uint64_t kernel_ns, late_kernel_ns, late_host_ns, transfer_ns; /* each step */
	bool in_turn; /* another rank is late in each step; else the last one */
	bool broadcast; /* … from rank 0 */
	bool crossed; /* two communicators, used in different orders by the ranks */
	bool pipeline; /* each rank sends to the next one, and the last one back to the first */
	bool ahead; /* hosts wait for their GPUs only at the end */
};

static uint32_t late_rank(const struct ranks_plan *p, uint32_t step)
{
	return p->in_turn ? step % p->ranks : p->ranks - 1;
}

/* Ranks 0 and 1 launch their collectives of two communicators in different orders. */
static void cross(struct script *s, const struct ranks_plan *p)
{
	uint64_t starts[2][2];

	for (uint32_t rank = 0; rank < 2; rank++)
		for (uint32_t k = 0; k < 2; k++) {
			struct script_rank *r = &s->ranks[rank];
			uint32_t c = rank ? 1 - k : k;

			script_call(r, MAKER_LAUNCH);
			starts[rank][c] = MAX(r->host_ns + 3 * US, r->gpu_ns);
			script_row(r, 1 + c, collective_function_all_reduce, r->sequence[c]++,
				   NO_PEER, NO_PEER);
			r->peers[c][0] = r->correlation;
		}
	for (uint32_t rank = 0; rank < 2; rank++)
		for (uint32_t c = 0; c < 2; c++) {
			struct script_rank *r = &s->ranks[rank];

			r->comm_ns[c] = MAX(starts[0][c], starts[1][c]) + p->transfer_ns;
			maker_kernel(r->m, r->nccl, 20 + c, starts[rank][c], r->comm_ns[c],
				     r->peers[c][0]);
		}
}

/* Micro-batches: each rank computes what the one before has sent. */
static void pipeline(struct script *s, const struct ranks_plan *p)
{
	for (int batch = 0; batch < 4; batch++)
		for (uint32_t i = 0; i < p->ranks; i++) {
			script_kernel(&s->ranks[i],
				      p->kernel_ns + (i + 1 == p->ranks ? p->late_kernel_ns : 0));
			if (i + 1 < p->ranks)
				script_send(s, 1, i, i + 1, false);
		}
	script_send(s, 1, p->ranks - 1, 0, false);
}

static void play(const char *folder, const struct ranks_plan *p)
{
	struct script s;

	assert_int_equal(mkdir(folder, 0755), 0);
	script_begin(&s, folder, p->ranks);
	script_join_all(&s, 1, 7);
	script_join_all(&s, 2, 8);
	for (uint32_t step = 0; step < STEPS; step++) {
		if (p->pipeline)
			pipeline(&s, p);
		for (uint32_t i = 0; i < p->ranks && !p->pipeline; i++) {
			/* What is before the first collective is not compared. */
			bool late = step && i == late_rank(p, step);

			script_host(&s.ranks[i], 30 * US + (late ? p->late_host_ns : 0));
			for (int k = 0; k < 4; k++)
				script_kernel(&s.ranks[i],
					      p->kernel_ns + (late ? p->late_kernel_ns : 0));
		}
		if (p->crossed)
			cross(&s, p);
		else if (!p->pipeline)
			script_meet_all(
				&s,
				(struct script_collective){
					.communicator = 1,
					.function = p->broadcast ? collective_function_broadcast
								 : collective_function_all_reduce,
					.root = p->broadcast ? 0 : NO_PEER,
					.transfer_ns = p->transfer_ns });
		for (uint32_t i = 0; i < p->ranks && !p->ahead; i++)
			script_wait(&s.ranks[i]);
	}
	for (uint32_t i = 0; i < p->ranks; i++)
		script_wait(&s.ranks[i]);
	script_close(&s);
}

struct guess {
	struct analyzed a;
	struct what_if w;
	struct error error;
};

static void open_guess(struct guess *g, const char *folder)
{
	uint64_t call_ns = 0;

	*g = (struct guess){ 0 };
	analyze(&g->a, folder,
		(struct report_options){ .filter = FILTER_ALL, .steps = true, .paces = true });
	/* Steps would leave out the first and the last of them. */
	for (size_t i = 0; i < g->a.report.steps->loop_count; i++)
		g->a.report.steps->loops[i].count = 0;
	assert_int_equal(what_if_init(&g->w, &g->a.report, &call_ns, NULL, &g->error), 0);
}

static void guess_release(struct guess *g)
{
	what_if_release(&g->w);
	analyzed_release(&g->a);
}

static uint64_t predict(struct guess *g, const char *text)
{
	struct what_if_rule rule;

	assert_int_equal(what_if_parse(&rule, text, &g->error), 0);
	if (what_if_match(&g->w, &rule, &g->error) < 0)
		fail_msg("%s", g->error.text);
	assert_int_equal(what_if_predict(&g->w, &rule, 1), 0);
	what_if_rule_release(&rule);
	return g->w.predicted.step_ns;
}

static bool is_near(uint64_t value, uint64_t truth, unsigned percent)
{
	return value >= truth / 100 * (100 - percent) && value <= truth / 100 * (100 + percent);
}

static const struct {
	const char *name, *change;
	struct ranks_plan before, after;
	unsigned percent;
} cases[] = {
	{ "late host",
	  "no straggler",
	  { 4, 200 * US, .late_host_ns = 2 * MS, .transfer_ns = 50 * US },
	  { 4, 200 * US, .transfer_ns = 50 * US },
	  5 },
	{ "late host of two",
	  "no straggler",
	  { 2, 200 * US, .late_host_ns = 2 * MS, .transfer_ns = 50 * US },
	  { 2, 200 * US, .transfer_ns = 50 * US },
	  5 },
	{ "slow GPU",
	  "no straggler",
	  { 8, 200 * US, .late_kernel_ns = 300 * US, .transfer_ns = 50 * US },
	  { 8, 200 * US, .transfer_ns = 50 * US },
	  5 },
	{ "slow GPU, hosts ahead",
	  "no straggler",
	  { 8, 200 * US, .late_kernel_ns = 300 * US, .transfer_ns = 50 * US, .ahead = true },
	  { 8, 200 * US, .transfer_ns = 50 * US, .ahead = true },
	  5 },
	{ "in turn",
	  "no straggler",
	  { 4, 200 * US, .late_host_ns = 2 * MS, .transfer_ns = 50 * US, .in_turn = true },
	  { 4, 200 * US, .transfer_ns = 50 * US },
	  5 },
	{ "transfers",
	  "comm x0.5",
	  { 4, 200 * US, .transfer_ns = 800 * US },
	  { 4, 200 * US, .transfer_ns = 400 * US },
	  1 },
	{ "no transfers",
	  "comm remove",
	  { 4, 200 * US, .transfer_ns = 800 * US },
	  { 4, 200 * US, .transfer_ns = 0 },
	  1 },
	{ "longer transfers",
	  "comm +1ms",
	  { 4, 200 * US, .late_host_ns = MS, .transfer_ns = 100 * US },
	  { 4, 200 * US, .late_host_ns = MS, .transfer_ns = 1100 * US },
	  1 },
	{ "transfers of a broadcast",
	  "comm x0.25",
	  { 4, 200 * US, .transfer_ns = 800 * US, .broadcast = true },
	  { 4, 200 * US, .transfer_ns = 200 * US, .broadcast = true },
	  1 },
	/* All ranks compute less, but the last one is late for its host: hardly any gain. */
	{ "kernels of all ranks",
	  "kernel:gemm x0.5",
	  { 4, 200 * US, .late_host_ns = 2 * MS, .transfer_ns = 50 * US },
	  { 4, 100 * US, .late_host_ns = 2 * MS, .transfer_ns = 50 * US },
	  1 },
	/* The rank that is late binds all by its kernels. */
	{ "kernels of the late rank",
	  "kernel:gemm x0.5",
	  { 4, 200 * US, .late_kernel_ns = 400 * US, .transfer_ns = 50 * US },
	  { 4, 100 * US, .late_kernel_ns = 200 * US, .transfer_ns = 50 * US },
	  1 },
	/* Sends and receives need each other: the last stage binds the others. */
	{ "kernels of a pipeline",
	  "kernel:gemm x0.5",
	  { 3, 200 * US, .late_kernel_ns = 300 * US, .pipeline = true },
	  { 3, 100 * US, .late_kernel_ns = 150 * US, .pipeline = true },
	  1 },
};

static void predictions_are_true(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t truth, predicted;
		struct guess g, after;
		char folder[512];

		snprintf(folder, sizeof(folder), "%s/%zu", (const char *)*state, i);
		play(folder, &cases[i].before);
		open_guess(&g, folder);
		snprintf(folder, sizeof(folder), "%s/%zu-after", (const char *)*state, i);
		play(folder, &cases[i].after);
		open_guess(&after, folder);
		truth = after.w.recorded.step_ns;
		if (g.w.identity_ns || g.w.ranks.unresolved)
			fail_msg("%s: identity %d ns, %d unresolved", cases[i].name,
				 (int)g.w.identity_ns, (int)g.w.ranks.unresolved);
		predicted = predict(&g, cases[i].change);
		if (!is_near(predicted, truth, cases[i].percent))
			fail_msg("%s: %d us of %d us, not %d us", cases[i].name,
				 (int)(predicted / US), (int)(g.w.recorded.step_ns / US),
				 (int)(truth / US));
		guess_release(&g);
		guess_release(&after);
	}
}

/* Each rank's order is a cycle: what cannot be known is as recorded, and counted. */
static void collectives_in_different_orders(void **state)
{
	struct ranks_plan plan = { 2, 200 * US, .transfer_ns = 100 * US, .crossed = true };
	char folder[512];
	struct guess g;

	snprintf(folder, sizeof(folder), "%s/crossed", (const char *)*state);
	play(folder, &plan);
	open_guess(&g, folder);
	assert_int_equal(g.w.identity_ns, 0);
	assert_int_equal(g.w.ranks.unresolved, STEPS);
	assert_true(predict(&g, "kernel:gemm x0.5") <= g.w.recorded.step_ns);
	assert_int_equal(g.w.ranks.unresolved, STEPS);
	guess_release(&g);
}

static void refuse(struct guess *g, const char *text, const char *why)
{
	struct what_if_rule rule;

	g->error = (struct error){ 0 };
	assert_int_equal(what_if_parse(&rule, text, &g->error), 0);
	assert_int_equal(what_if_match(&g->w, &rule, &g->error), E_USAGE);
	assert_non_null(strstr(g->error.text, why));
	what_if_rule_release(&rule);
}

/* How many times, and by how much, ranks are slower than the median one. */
static void how_much_slower(void **state)
{
	struct ranks_plan plan = { 4, 200 * US, .late_host_ns = MS, .transfer_ns = 50 * US };
	struct what_if_rule rule;
	char folder[512];
	struct guess g;

	snprintf(folder, sizeof(folder), "%s/slower", (const char *)*state);
	play(folder, &plan);
	open_guess(&g, folder);
	assert_int_equal(g.w.ranks.ranges.count, 4);
	assert_int_equal(what_if_parse(&rule, "no straggler", &g.error), 0);
	assert_int_equal(what_if_match(&g.w, &rule, &g.error), 0);
	assert_int_equal(rule.matched, STEPS - 1);
	assert_true(is_near(rule.cost_ns, (STEPS - 1) * MS, 2));
	what_if_rule_release(&rule);
	guess_release(&g);
}

static const struct what_if_candidate *candidate(const struct what_if *w,
						 enum what_if_target target, enum path_class class)
{
	for (size_t i = 0; i < w->candidate_count; i++)
		if (w->candidates[i].target == target &&
		    (target != WHAT_IF_TARGET_COUNT || w->candidates[i].place.class == class))
			return &w->candidates[i];
	fail_msg("no candidate %d", (int)target);
	return NULL;
}

/* What is worth working on is on any rank, and is what all of them share. */
static void candidates_of_all_ranks(void **state)
{
	struct ranks_plan plan = { 4, 200 * US, .late_host_ns = 2 * MS, .transfer_ns = 400 * US };
	static const struct {
		enum what_if_target target;
		const char *half;
	} of_ranks[] = {
		{ WHAT_IF_comm, "comm x0.5" },
		{ WHAT_IF_wait, "wait x0.5" },
	};
	const struct what_if_candidate *c;
	char folder[512];
	uint64_t whole_ns;
	struct guess g;

	snprintf(folder, sizeof(folder), "%s/candidates", (const char *)*state);
	play(folder, &plan);
	open_guess(&g, folder);
	assert_int_equal(what_if_candidates(&g.w), 0);
	for (size_t i = 0; i < ARRAY_SIZE(of_ranks); i++) {
		c = candidate(&g.w, of_ranks[i].target, PATH_UNKNOWN);
		assert_int_equal(g.w.corrected.step_ns - predict(&g, of_ranks[i].half), c->gain_ns);
	}
	c = candidate(&g.w, WHAT_IF_comm, PATH_UNKNOWN);
	assert_true(is_near(c->cost_ns, STEPS * 400 * US, 2));
	/* Half of what the late rank needs longer than the others. */
	c = candidate(&g.w, WHAT_IF_straggler, PATH_UNKNOWN);
	whole_ns = g.w.corrected.step_ns - predict(&g, "no straggler");
	assert_true(is_near((uint64_t)c->gain_ns, whole_ns / 2, 3));
	assert_true(is_near(c->cost_ns, (STEPS - 1) * 2 * MS, 2));
	/* Only one rank is late: alone it brings all of it. */
	assert_int_equal(g.w.slow_rank_count, 1);
	assert_int_equal(g.w.slow_ranks[0].rank, 3);
	assert_int_equal(g.w.corrected.step_ns - g.w.slow_ranks[0].step_ns, whole_ns);
	assert_int_equal(g.w.slow_ranks[0].slower_ns, c->cost_ns);
	assert_int_equal(predict(&g, "no straggler 3"), g.w.slow_ranks[0].step_ns);
	refuse(&g, "no straggler 2", "the rank does not need longer than the median rank");
	refuse(&g, "no straggler 4", "rank 4 is none of those that are simulated");
	/* The process that is simulated is another one. */
	c = candidate(&g.w, WHAT_IF_TARGET_COUNT, PATH_HOST);
	assert_int_equal(trace_process(g.a.report.trace, c->process)->rank, 3);
	assert_true(c->process != g.w.process);
	assert_true(is_near((uint64_t)c->gain_ns, STEPS * MS, 5));
	assert_true(c->cost_ns > (STEPS - 1) * 2 * MS);
	/* gemm and the collective, without its waiting */
	c = NULL;
	for (size_t i = 0; i < g.w.candidate_count; i++)
		if (g.w.candidates[i].is_class && g.w.candidates[i].place.class == PATH_KERNEL)
			c = &g.w.candidates[i];
	assert_non_null(c);
	assert_true(is_near(c->cost_ns, STEPS * (4 * 200 + 400) * US, 2));
	guess_release(&g);
}

static void what_cannot_be_changed(void **state)
{
	struct ranks_plan alike = { 2, 200 * US, .transfer_ns = 50 * US },
			  lone = { 1, 200 * US, .transfer_ns = 50 * US };
	char folder[512];
	struct guess g;

	snprintf(folder, sizeof(folder), "%s/alike", (const char *)*state);
	play(folder, &alike);
	open_guess(&g, folder);
	refuse(&g, "no straggler", "no rank needs longer than the median rank");
	assert_int_equal(predict(&g, "comm x1"), g.w.recorded.step_ns);
	guess_release(&g);
	snprintf(folder, sizeof(folder), "%s/lone", (const char *)*state);
	play(folder, &lone);
	open_guess(&g, folder);
	assert_int_equal(g.w.ranks.ranges.count, 0);
	refuse(&g, "no straggler", "needs all ranks of a job");
	refuse(&g, "comm x0.5", "needs all ranks of a job");
	guess_release(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(predictions_are_true),   folder_test(collectives_in_different_orders),
		folder_test(how_much_slower),        folder_test(candidates_of_all_ranks),
		folder_test(what_cannot_be_changed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
