/*
 * test_cause_path.c: the critical path of random graphs against an oracle, which looks at all edges
 * of the graph for each of its steps; tiling; slack.
 */
#include "causes/cause_path.h"
#include "causes/simulate.h"

#include "support/cmocka_tests.h"
#include "unit/causes/causes_fixture.h"

#define GRAPHS 10000
#define TASKS 60u

static uint64_t random_state;

/* splitmix64 */
static uint32_t pick(uint32_t below)
{
	uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)((z ^ z >> 31) % below);
}

/* Every edge once, as the oracle sees them. */
struct flat_edge {
	uint32_t from, to;
	uint8_t kind;
	bool from_start, to_end;
};

struct graph {
	struct causes c;
	VEC(struct flat_edge) flat;
	uint32_t tails[5]; /* threads 0 and 1, streams 2 to 4 */
	uint64_t now_ns[2];
	uint64_t start_ns, end_ns;
};

#define PUSH(v, ...) assert_int_equal(vec_push(v, ((typeof(*(v)->data))__VA_ARGS__)), 0)

static void add_flat(struct graph *g, uint32_t from, uint32_t to, unsigned kind, bool from_start,
		     bool to_end)
{
	if (from != TASK_NONE)
		PUSH(&g->flat, { from, to, (uint8_t)kind, from_start, to_end });
}

static uint32_t add_task(struct graph *g, uint32_t lane, uint8_t kind, uint8_t order)
{
	uint32_t index = (uint32_t)g->c.tasks.count;

	PUSH(&g->c.tasks, { .lane = lane,
			    .previous = g->tails[lane],
			    .launch = TASK_NONE,
			    .edges = (uint32_t)g->c.edges.count,
			    .kind = kind,
			    .order = order });
	add_flat(g, g->tails[lane], index, order, false, false);
	g->tails[lane] = index;
	return index;
}

/* From tasks before the call `before`. */
static void add_edges(struct graph *g, uint32_t to, uint32_t before, bool to_end)
{
	for (uint32_t n = pick(4); n-- > 0 && before;) {
		uint32_t from = pick(before);
		uint8_t kind = to_end ? EDGE_sync_stream : EDGE_event;

		PUSH(&g->c.edges, { from, kind });
		add_flat(g, from, to, kind, false, to_end);
	}
}

/* Mostly after all of its edges; sometimes before, as clocks and losses make it. */
static uint64_t latest(const struct graph *g, uint32_t to, bool to_end)
{
	uint64_t ns = 0;

	for (size_t i = 0; i < g->flat.count; i++) {
		const struct flat_edge *e = &g->flat.data[i];
		const struct task *from = &g->c.tasks.data[e->from];

		if (e->to == to && e->to_end == to_end)
			ns = MAX(ns, e->from_start ? from->start_ns : from->end_ns);
	}
	return ns > 3000 && !pick(12) ? ns - pick(3000) : ns + pick(5000);
}

static void add_call(struct graph *g)
{
	uint64_t ready_ns;
	uint32_t thread = pick(2), call = add_task(g, thread, TASK_CALL, EDGE_program), work;
	struct task *task = &g->c.tasks.data[call];
	bool waits = !pick(3), blocks = !waits && !pick(6);

	ready_ns = latest(g, call, false);
	task->start_ns = MAX(g->now_ns[thread], ready_ns) + pick(4000);
	task->end_ns = task->start_ns + 1 + pick(3000);
	if (waits) {
		task->flags |= TASK_SYNC_CALL;
		add_edges(g, call, call, true);
		ready_ns = latest(g, call, true);
		task->end_ns = MAX(task->end_ns, ready_ns);
	} else if (pick(5)) {
		task->flags |= TASK_LAUNCH_CALL | (blocks ? TASK_SYNC_CALL : 0);
		work = add_task(g, 2 + pick(3), pick(8) ? GPU_WORK_kernel : TASK_JOIN, EDGE_stream);
		add_edges(g, work, call, false);
		if (pick(10)) {
			g->c.tasks.data[work].launch = call;
			add_flat(g, call, work, EDGE_launch, true, false);
		}
		task = &g->c.tasks.data[work];
		task->start_ns = latest(g, work, false);
		task->end_ns = task->start_ns + (task->kind == TASK_JOIN ? 0 : pick(9000));
		if (blocks && task->launch != TASK_NONE) {
			task->flags |= TASK_BLOCKS;
			add_flat(g, work, call, EDGE_copy, false, true);
			ready_ns = task->end_ns + pick(2000);
			g->c.tasks.data[call].end_ns = MAX(g->c.tasks.data[call].end_ns, ready_ns);
		}
	}
	g->now_ns[thread] = g->c.tasks.data[call].end_ns;
}

static void make_graph(struct graph *g)
{
	*g = (struct graph){ .tails = { TASK_NONE, TASK_NONE, TASK_NONE, TASK_NONE, TASK_NONE } };
	for (uint32_t lane = 0; lane < 5; lane++)
		PUSH(&g->c.lanes, { .id = lane, .is_thread = lane < 2 });
	for (uint32_t n = 1 + pick(TASKS); g->c.tasks.count < n;)
		add_call(g);
	for (size_t i = 0; i < g->c.tasks.count; i++)
		g->end_ns = MAX(g->end_ns, g->c.tasks.data[i].end_ns);
	g->start_ns = pick(2) ? 0 : pick((uint32_t)g->end_ns);
	if (!pick(3))
		g->end_ns = g->start_ns + 1 + pick((uint32_t)(g->end_ns - g->start_ns));
	PUSH(&g->c.tasks, { .kind = TASK_JOIN, .edges = (uint32_t)g->c.edges.count });
	assert_int_equal(causes_measure(&g->c), 0);
}

static void graph_release(struct graph *g)
{
	causes_release(&g->c);
	vec_release(&g->flat);
}

/* --- the oracle --- */

/* Of edges at the same time: the launch is no reason if there is another. */
static unsigned rank(const struct flat_edge *e)
{
	return e->kind == EDGE_launch                              ? 0
	       : e->kind == EDGE_stream || e->kind == EDGE_program ? 1
								   : 2;
}

static const struct flat_edge *last_edge(const struct graph *g, uint32_t to, bool to_end,
					 uint64_t *ns)
{
	const struct task *task = &g->c.tasks.data[to];
	uint64_t limit = to_end ? task->end_ns : task->start_ns, last = 0;
	const struct flat_edge *best = NULL;

	*ns = 0;
	for (size_t i = 0; i < g->flat.count; i++) {
		const struct flat_edge *e = &g->flat.data[i];
		const struct task *from = &g->c.tasks.data[e->from];
		uint64_t at = e->from_start ? from->start_ns : from->end_ns;
		uint64_t effect = at + g->c.typical_ns[e->kind];

		if (e->to == to && e->to_end == to_end && at <= limit + CAUSES_CLOCK_NS &&
		    (!best || effect > last || (effect == last && rank(e) >= rank(best)))) {
			best = e;
			*ns = at;
			last = effect;
		}
	}
	*ns = MIN(*ns, limit);
	return to_end && *ns <= task->start_ns ? NULL : best;
}

struct told {
	uint64_t work_ns, call_ns, host_ns, latency_ns[EDGE_KINDS], unknown_ns;
};

static uint64_t part(uint64_t from_ns, uint64_t *now_ns, uint64_t floor_ns)
{
	uint64_t begun = *now_ns, to = MAX(from_ns, floor_ns);

	*now_ns = MIN(begun, to);
	return begun - *now_ns;
}

static uint32_t ended_before(const struct graph *g, uint32_t task, uint64_t now_ns)
{
	uint32_t best = TASK_NONE;

	for (uint32_t i = task; i-- > 0;)
		if (g->c.tasks.data[i].end_ns <= now_ns &&
		    (best == TASK_NONE || g->c.tasks.data[i].end_ns > g->c.tasks.data[best].end_ns))
			best = i;
	return best;
}

static bool waited(const struct graph *g, uint32_t task)
{
	uint64_t at;

	return g->c.tasks.data[task].kind == TASK_CALL && last_edge(g, task, true, &at);
}

/* A call of the other thread that launched or waited between since_ns and the call's start. */
static uint32_t turn_of(const struct graph *g, uint32_t call, uint64_t since_ns)
{
	const struct task *of = &g->c.tasks.data[call];

	for (uint32_t i = call; i-- > 0;) {
		const struct task *t = &g->c.tasks.data[i];

		if (t->kind == TASK_CALL && t->start_ns < since_ns)
			break;
		if (t->kind == TASK_CALL && t->lane != of->lane && t->end_ns <= of->start_ns &&
		    ((t->flags & TASK_LAUNCH_CALL) || waited(g, i)))
			return i;
	}
	return TASK_NONE;
}

/* `can_end`: of those that are work, or calls that waited. */
static uint32_t last_of(const struct graph *g, bool can_end)
{
	uint32_t last = TASK_NONE;

	for (uint32_t i = 0; i + 1 < g->c.tasks.count; i++) {
		const struct task *t = &g->c.tasks.data[i];

		if (t->start_ns < g->end_ns && t->end_ns > g->start_ns &&
		    (last == TASK_NONE || t->end_ns >= g->c.tasks.data[last].end_ns) &&
		    (!can_end || t->kind < GPU_WORK_KINDS || waited(g, i)))
			last = i;
	}
	return last;
}

static void tell(const struct graph *g, struct told *told)
{
	uint64_t now = g->end_ns, at, floor_ns = g->start_ns;
	uint32_t task = last_of(g, true), turn;
	bool at_start = false;

	if (task == TASK_NONE)
		task = last_of(g, false);
	told->unknown_ns +=
		part(task == TASK_NONE ? 0 : g->c.tasks.data[task].end_ns, &now, floor_ns);
	while (task != TASK_NONE && now > floor_ns) {
		const struct task *t = &g->c.tasks.data[task];
		const struct flat_edge *e = last_edge(g, task, !at_start, &at);

		if (!at_start && !(t->kind == TASK_CALL && e)) {
			*(t->kind == TASK_CALL ? &told->call_ns : &told->work_ns) +=
				part(t->start_ns, &now, floor_ns);
			at_start = true;
		} else if (t->kind == TASK_CALL &&
			   (turn = turn_of(g, task, e ? at : floor_ns)) != TASK_NONE) {
			task = turn;
			told->host_ns += part(g->c.tasks.data[task].end_ns, &now, floor_ns);
			at_start = false;
		} else if (e && e->kind == EDGE_program) {
			told->host_ns += part(at, &now, floor_ns);
			task = e->from;
			at_start = false;
		} else if (e) {
			told->latency_ns[e->kind] += part(at, &now, floor_ns);
			task = e->from;
			at_start = e->from_start;
		} else if (t->kind == TASK_CALL) {
			told->host_ns += part(0, &now, floor_ns);
		} else {
			task = ended_before(g, task, now);
			told->unknown_ns +=
				part(task == TASK_NONE ? 0 : g->c.tasks.data[task].end_ns, &now,
				     floor_ns);
			at_start = false;
		}
	}
}

/* --- tests --- */

static void sum_pieces(const struct graph *g, const struct path *p, struct told *sums)
{
	uint64_t now = g->end_ns;

	for (size_t i = 0; i < p->pieces.count; i++) {
		const struct path_piece *piece = &p->pieces.data[i];
		uint64_t ns = piece->end_ns - piece->start_ns;

		assert_true(piece->start_ns < piece->end_ns);
		assert_int_equal(piece->end_ns, now);
		now = piece->start_ns;
		*(piece->kind == PIECE_WORK      ? &sums->work_ns
		  : piece->kind == PIECE_CALL    ? &sums->call_ns
		  : piece->kind == PIECE_HOST    ? &sums->host_ns
		  : piece->kind == PIECE_UNKNOWN ? &sums->unknown_ns
						 : &sums->latency_ns[piece->edge]) += ns;
	}
	assert_int_equal(now, g->start_ns);
}

static void paths_of_random_graphs(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < GRAPHS; n++) {
		struct told expected = { 0 }, sums = { 0 };
		struct graph g;
		struct path p;

		random_state = n;
		make_graph(&g);
		assert_int_equal(path_find(&p, &g.c, NULL, g.start_ns, g.end_ns), 0);
		sum_pieces(&g, &p, &sums);
		tell(&g, &expected);
		if (memcmp(&sums, &expected, sizeof(sums)))
			fail_msg("graph %u", (unsigned)n);
		path_release(&p);
		graph_release(&g);
	}
}

/* Multiplies the costs of tasks whose bit is set by a half. */
static uint64_t half_of(void *user, enum cost_of what, uint32_t task, enum edge_kind edge,
			uint64_t recorded_ns)
{
	uint64_t bits = *(const uint64_t *)user;

	(void)edge;
	return bits >> (task + (unsigned)what) % 64 & 1 ? recorded_ns / 2 : recorded_ns;
}

/* Without a change the recorded times come back; cheaper costs never end later. */
static void simulations_of_random_graphs(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < GRAPHS; n++) {
		uint64_t bits = 0, last_ns = 0, halved_ns, all_ns;
		struct simulation s = { .cost = half_of, .user = &bits };
		struct graph g;

		random_state = n;
		make_graph(&g);
		s.causes = &g.c;
		for (uint32_t i = 0; i + 1 < g.c.tasks.count; i++)
			last_ns = MAX(last_ns, g.c.tasks.data[i].end_ns);
		assert_int_equal(simulate(s, 0, UINT64_MAX), last_ns);
		bits = (uint64_t)pick(UINT32_MAX) << 32 | pick(UINT32_MAX);
		halved_ns = simulate(s, 0, UINT64_MAX);
		assert_true(halved_ns <= last_ns);
		bits = UINT64_MAX;
		all_ns = simulate(s, 0, UINT64_MAX);
		assert_true(all_ns <= halved_ns);
		graph_release(&g);
	}
}

/* By trying: of a task, whatever follows it directly. Exact for the last tasks, a bound for all. */
static void slack_is_within_what_follows(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < GRAPHS / 10; n++) {
		struct graph g;
		uint32_t *slack;

		random_state = n;
		make_graph(&g);
		slack = causes_slack(&g.c, g.end_ns);
		assert_non_null(slack);
		for (size_t i = 0; i < g.flat.count; i++) {
			const struct flat_edge *e = &g.flat.data[i];
			const struct task *from = &g.c.tasks.data[e->from],
					  *to = &g.c.tasks.data[e->to];
			uint64_t at = e->to_end ? to->end_ns : to->start_ns;
			int64_t room = (int64_t)(at - from->end_ns);

			if (e->to_end && !e->from_start)
				assert_true(slack[e->from] <= MAX(room, 0) + (int64_t)slack[e->to]);
		}
		for (uint32_t i = 0; i + 1 < g.c.tasks.count; i++)
			assert_true(slack[i] <= (g.end_ns > g.c.tasks.data[i].end_ns
							 ? g.end_ns - g.c.tasks.data[i].end_ns
							 : 0));
		free(slack);
		graph_release(&g);
	}
}

/* Calls of 1 us every 10 us, of the threads that the digits name, and with + of 20 us. */
static void make_calls(struct causes *c, const char *threads)
{
	uint32_t last[10];

	memset(last, 0xff, sizeof(last));
	for (uint32_t lane = 0; lane < 10; lane++)
		PUSH(&c->lanes, { .id = lane, .is_thread = true });
	for (; *threads; threads++) {
		uint32_t lane = (uint32_t)(*threads - '0'), index = (uint32_t)c->tasks.count;
		uint64_t start_ns = (index + 1) * UINT64_C(10000);

		PUSH(&c->tasks, { .lane = lane,
				  .start_ns = start_ns,
				  .end_ns = start_ns + (threads[1] == '+' ? 20000 : 1000),
				  .previous = last[lane],
				  .launch = TASK_NONE,
				  .kind = TASK_CALL,
				  .order = EDGE_program });
		last[lane] = index;
		threads += threads[1] == '+';
	}
	PUSH(&c->tasks, { .kind = TASK_JOIN });
}

static void turns_of_threads(void **state)
{
	static const struct {
		const char *threads;
		uint8_t beside;
		uint32_t first, second; /* tasks with which turns begin; TASK_NONE: no turn */
	} cases[] = {
		{ "0000000000000000000000000", 0, TASK_NONE, TASK_NONE },
		{ "00000000000011111111111100000000000", 0, 12, 24 },
		{ "000000000000111111111111222222222222", 0, 12, 24 },
		{ "0101010101010101", 1, TASK_NONE, TASK_NONE },
		/* The first one is in a call when the second one begins: there is no turn. */
		{ "000000000000+111111111111"
		  "0000000000000000000000000000000000",
		  0, TASK_NONE, TASK_NONE },
		{ "000000000000+111111111111+00000000000", 1, TASK_NONE, TASK_NONE },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct causes c = { 0 };
		uint8_t beside = 0;
		uint32_t *turns;

		make_calls(&c, cases[i].threads);
		turns = causes_turns(&c, &beside);
		assert_non_null(turns);
		if (beside != cases[i].beside)
			fail_msg("%s: side by side: %u", cases[i].threads, beside);
		for (uint32_t k = 0; k + 1 < c.tasks.count; k++) {
			bool begins = k == cases[i].first || k == cases[i].second;

			if (turns[k] != (begins ? k - 1 : TASK_NONE))
				fail_msg("%s: call %u after %u", cases[i].threads, k, turns[k]);
		}
		free(turns);
		causes_release(&c);
	}
}

/*
 * Two streams: work 1 of 400 us, and beside it work 2 of 100 us, for both of which work 3 waits;
 * then the host waits for that.
 */
static void a_recording(void **state)
{
	struct maker *m = maker_begin(*state, 100, 0, "./app");
	static const struct path_piece expected[] = {
		{ 620000, 630000, 0, PIECE_LATENCY, EDGE_sync_stream },
		{ 420000, 620000, 0, PIECE_WORK, EDGE_none },
		{ 416000, 420000, 0, PIECE_LATENCY, EDGE_stream },
		{ 16000, 416000, 0, PIECE_WORK, EDGE_none },
		{ 10000, 16000, 0, PIECE_LATENCY, EDGE_launch },
		{ 5000, 10000, 0, PIECE_HOST, EDGE_none },
	};
	uint32_t kernel, *slack;
	struct built b;
	struct path p;

	maker_device(m, 0, 0);
	kernel = maker_config(m, "k", 1, 32);
	maker_call(m, MAKER_LAUNCH, 1, 10000, 12000, 1);
	maker_kernel(m, kernel, 20, 16000, 416000, 1);
	maker_call(m, MAKER_LAUNCH, 1, 13000, 15000, 2);
	maker_kernel(m, kernel, 21, 19000, 119000, 2);
	maker_stream_call(m, MAKER_EVENT_RECORD, 1, 20000, 21000, 21, 0xe);
	maker_stream_call(m, MAKER_STREAM_WAIT, 1, 22000, 23000, 20, 0xe);
	maker_call(m, MAKER_LAUNCH, 1, 24000, 26000, 3);
	maker_kernel(m, kernel, 20, 420000, 620000, 3);
	maker_stream_call(m, MAKER_STREAM_SYNCHRONIZE, 1, 30000, 630000, 20, 0);
	maker_close(m, 700000);
	build(&b, *state);
	assert_int_equal(path_find(&p, &b.causes, NULL, 5000, 630000), 0);
	assert_int_equal(p.pieces.count, ARRAY_SIZE(expected));
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		assert_int_equal(p.pieces.data[i].start_ns, expected[i].start_ns);
		assert_int_equal(p.pieces.data[i].end_ns, expected[i].end_ns);
		assert_int_equal(p.pieces.data[i].kind, expected[i].kind);
		assert_int_equal(p.pieces.data[i].edge, expected[i].edge);
	}
	slack = causes_slack(&b.causes, 630000);
	assert_non_null(slack);
	assert_int_equal(slack[work_of(&b, 1, 0)], 0);
	assert_int_equal(slack[work_of(&b, 3, 0)], 0);
	assert_int_equal(slack[work_of(&b, 2, 0)], 420000 - 119000);
	free(slack);
	path_release(&p);
	built_release(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_of_random_graphs),
		cmocka_unit_test(simulations_of_random_graphs),
		cmocka_unit_test(slack_is_within_what_follows),
		cmocka_unit_test(turns_of_threads),
		folder_test(a_recording),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
