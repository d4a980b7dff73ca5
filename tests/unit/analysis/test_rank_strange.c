/* Jobs of unusual shapes and with missing data: the one right verdict of each, or none. */
#include "analysis/rank_path.h"
#include "analysis/rank_times.h"

#include <sys/stat.h>

#include "job_script.h"

#define STEPS 60
#define ALL_REDUCE(id, ns, ...)                                                                    \
	((struct script_collective){ .communicator = (id),                                         \
				     .function = collective_function_all_reduce,                   \
				     .root = NO_PEER,                                              \
				     .transfer_ns = (ns),                                          \
				     ##__VA_ARGS__ })

static void expect_in(const char *folder, const char *name, enum job_kind kind, uint32_t rank)
{
	struct analyzed a;
	const struct rank_times *t;

	analyze(&a, folder, (struct report_options){ .filter = FILTER_ALL, .critical_path = true });
	t = a.report.rank_times;
	if (t->kind != kind)
		fail_msg("%s: %d instead of %d; late by %d us of %d us, %d compared", name, t->kind,
			 kind, (int)(t->late_ns / US), (int)(t->span_ns / US), (int)t->compared);
	if (rank != NO_PEER && a.report.collectives->ranks[t->rank].number != rank)
		fail_msg("%s: rank %u", name, a.report.collectives->ranks[t->rank].number);
	analyzed_release(&a);
}

/* Closes the script, and checks the verdict on it. */
static void expect(struct script *s, const char *name, enum job_kind kind, uint32_t rank)
{
	script_close(s);
	expect_in(s->folder, name, kind, rank);
}

static const char *folder_of(void **state, const char *name)
{
	static char path[600];

	snprintf(path, sizeof(path), "%s/%s", (const char *)*state, name);
	assert_int_equal(mkdir(path, 0755), 0);
	return path;
}

/* --- tensor, pipeline and data parallel: 2 x 2 x 2 --- */

#define TENSOR 1
#define PIPE 2
#define DATA 3

/* Rank = 4 pipeline + 2 data + tensor. */
static void join_groups(struct script *s)
{
	for (uint32_t i = 0; i < 8; i++) {
		script_join(&s->ranks[i], TENSOR, 1000 + i / 2, 2, i % 2);
		script_join(&s->ranks[i], PIPE, 2000, 8, i);
		script_join(&s->ranks[i], DATA, 3000 + i / 4 * 2 + i % 2, 2, i / 2 % 2);
	}
}

/* A layer of the ranks of one stage. */
static void layer(struct script *s, uint32_t stage, uint32_t late, uint64_t late_ns)
{
	for (uint32_t i = 4 * stage; i < 4 * stage + 4; i++)
		script_kernel(&s->ranks[i], 300 * US + (i == late ? late_ns : 0));
	for (uint32_t i = 4 * stage; i < 4 * stage + 4; i += 2)
		script_meet(s, (uint32_t[]){ i, i + 1 }, 2, ALL_REDUCE(TENSOR, 60 * US));
}

static void parallel(void **state, const char *name, uint32_t late, uint64_t late_ns,
		     enum job_kind kind)
{
	struct script s;

	script_begin(&s, folder_of(state, name), 8);
	join_groups(&s);
	for (int step = 0; step < STEPS; step++) {
		for (int micro = 0; micro < 4; micro++) {
			layer(&s, 0, late, late_ns);
			for (uint32_t i = 0; i < 4; i++)
				script_send(&s, PIPE, i, i + 4, false);
			layer(&s, 1, late, late_ns);
		}
		for (uint32_t i = 0; i < 8; i += i % 4 == 1 ? 3 : 1)
			script_meet(&s, (uint32_t[]){ i, i + 2 }, 2, ALL_REDUCE(DATA, 60 * US));
		for (uint32_t i = 0; i < 8; i++)
			script_wait(&s.ranks[i]);
	}
	expect(&s, name, kind, kind == JOB_RANK ? late : NO_PEER);
}

static void tensor_pipeline_and_data_parallel(void **state)
{
	parallel(state, "balanced", NO_PEER, 0, JOB_ALIKE);
	parallel(state, "slow GPU 5", 5, 200 * US, JOB_RANK);
	parallel(state, "slow GPU 2", 2, 200 * US, JOB_RANK);
}

/* --- 1F1B --- */

/* One forward, one backward: stages send activations down and gradients up. */
static void one_forward_one_backward(void **state, const char *name, uint32_t late,
				     enum job_kind kind, bool buffered)
{
	struct script s;
	uint32_t stages = 4, micros = 8;

	script_begin(&s, folder_of(state, name), stages);
	script_join_all(&s, PIPE, 7);
	for (int step = 0; step < 20; step++) {
		for (uint32_t k = 0; k < micros + stages - 1; k++) {
			for (uint32_t i = 0; i < stages; i++) { /* micro k - i is on stage i */
				if (k < i || k - i >= micros)
					continue;
				script_kernel(&s.ranks[i], 400 * US + (i == late ? 300 * US : 0));
				if (i + 1 < stages)
					script_send(&s, PIPE, i, i + 1, buffered);
			}
			for (uint32_t i = stages; i-- > 0;) {
				if (k < i || k - i >= micros)
					continue;
				script_kernel(&s.ranks[i], 800 * US);
				if (i)
					script_send(&s, PIPE, i, i - 1, buffered);
			}
		}
		for (uint32_t i = 0; i < stages; i++)
			script_wait(&s.ranks[i]);
	}
	expect(&s, name, kind, late);
}

static void pipelines(void **state)
{
	one_forward_one_backward(state, "1F1B", NO_PEER, JOB_ALIKE, false);
	one_forward_one_backward(state, "1F1B, slow stage 2", 2, JOB_RANK, false);
	one_forward_one_backward(state, "1F1B, slow stage 0", 0, JOB_RANK, false);
	one_forward_one_backward(state, "1F1B, buffered", NO_PEER, JOB_ALIKE, true);
	one_forward_one_backward(state, "1F1B, buffered, slow stage 3", 3, JOB_RANK, true);
}

/* --- functions with a root --- */

/* Each step ends with a collective that has a root; hosts wait for their own GPU only. */
static void rooted(void **state, const char *name, enum collective_function function, uint32_t late,
		   enum job_kind kind)
{
	struct script s;

	script_begin(&s, folder_of(state, name), 4);
	script_join_all(&s, 1, 7);
	for (int step = 0; step < STEPS; step++) {
		for (uint32_t i = 0; i < 4; i++) {
			script_host(&s.ranks[i], i == late ? 2 * MS : 20 * US);
			script_kernel(&s.ranks[i], 500 * US);
		}
		script_meet_all(&s, (struct script_collective){ .communicator = 1,
								.function = function,
								.root = 0,
								.transfer_ns = 30 * US });
		for (uint32_t i = 0; i < 4; i++)
			script_wait(&s.ranks[i]);
	}
	expect(&s, name, kind, kind == JOB_RANK ? late : NO_PEER);
}

/* Who comes late to a broadcast, and is not the root, delays nobody. */
static void collectives_with_a_root(void **state)
{
	rooted(state, "broadcast", collective_function_broadcast, NO_PEER, JOB_ALIKE);
	rooted(state, "broadcast, late root", collective_function_broadcast, 0, JOB_RANK);
	rooted(state, "broadcast, late member", collective_function_broadcast, 2, JOB_ALIKE);
	rooted(state, "reduce, late root", collective_function_reduce, 0, JOB_ALIKE);
	rooted(state, "reduce, late member", collective_function_reduce, 2, JOB_RANK);
}

/* --- two communicators at once --- */

static void overlapping(void **state, const char *name, uint32_t late, enum job_kind kind)
{
	struct script s;

	script_begin(&s, folder_of(state, name), 4);
	script_join_all(&s, 1, 7);
	for (uint32_t i = 0; i < 4; i++)
		script_join(&s.ranks[i], 2, 70 + i / 2, 2, i % 2);
	for (int step = 0; step < STEPS; step++) {
		for (uint32_t i = 0; i < 4; i++)
			script_kernel(&s.ranks[i], 500 * US + (i == late ? MS : 0));
		script_meet_all(&s, ALL_REDUCE(1, 300 * US, .beside = true));
		for (uint32_t i = 0; i < 4; i += 2)
			script_meet(&s, (uint32_t[]){ i, i + 1 }, 2,
				    ALL_REDUCE(2, 60 * US, .beside = true));
		for (uint32_t i = 0; i < 4; i++)
			script_kernel(&s.ranks[i], 400 * US);
		for (uint32_t i = 0; i < 4; i++)
			script_wait(&s.ranks[i]);
	}
	expect(&s, name, kind, late);
}

static void overlapping_communicators(void **state)
{
	overlapping(state, "two communicators", NO_PEER, JOB_ALIKE);
	overlapping(state, "two communicators, slow GPU", 3, JOB_RANK);
}

/* --- ranks that come and go --- */

static void train(struct script *s, int steps, uint32_t late, uint64_t late_ns)
{
	for (int step = 0; step < steps; step++) {
		for (uint32_t i = 0; i < s->count; i++) {
			script_host(&s->ranks[i], 20 * US + (i == late ? late_ns : 0));
			script_kernel(&s->ranks[i], 800 * US);
		}
		script_meet_all(s, ALL_REDUCE(1, 60 * US));
		for (uint32_t i = 0; i < s->count; i++)
			script_wait(&s->ranks[i]);
	}
}

static void a_rank_that_joined_late(void **state)
{
	struct script s;

	script_begin(&s, folder_of(state, "late"), 4);
	s.ranks[3].host_ns += 5000 * MS;
	script_join_all(&s, 1, 7);
	train(&s, STEPS, NO_PEER, 0);
	expect(&s, "a rank joins 5 s late", JOB_ALIKE, NO_PEER);
}

/* Late in the first half only: it delays the others for a sixth of all. */
static void a_rank_that_recovers(void **state)
{
	struct script s;

	script_begin(&s, folder_of(state, "recovers"), 4);
	script_join_all(&s, 1, 7);
	train(&s, STEPS / 2, 1, 400 * US);
	train(&s, STEPS / 2, NO_PEER, 0);
	expect(&s, "late in the first half", JOB_RANK, 1);
}

static void a_rank_that_is_not_recorded(void **state)
{
	struct script s;
	char path[700];

	script_begin(&s, folder_of(state, "absent"), 4);
	script_join_all(&s, 1, 7);
	train(&s, STEPS, 3, 2 * MS);
	script_close(&s);
	snprintf(path, sizeof(path), "%s/103.0.pit", s.folder);
	assert_int_equal(remove(path), 0);
	expect_in(s.folder, "the late rank was not recorded", JOB_UNKNOWN, NO_PEER);
}

static void a_rank_without_the_plug_in(void **state)
{
	struct script s;

	script_begin(&s, folder_of(state, "plug-in"), 4);
	s.ranks[3].guessed = true;
	script_join_all(&s, 1, 7);
	train(&s, STEPS, 3, 2 * MS);
	expect(&s, "the late rank has no plug-in", JOB_UNKNOWN, NO_PEER);
}

/* Two jobs on one machine, with ids, at the same time. */
static void two_jobs(void **state)
{
	const char *folder = folder_of(state, "jobs");
	struct script s = { .count = 2, .folder = folder, .job = "a" };

	for (uint32_t i = 0; i < 2; i++)
		script_begin_rank(&s, i, SCRIPT_START);
	script_join_all(&s, 1, 7);
	train(&s, STEPS, 1, MS);
	script_close(&s);
	s.job = "b";
	s.count = 4;
	for (uint32_t i = 2; i < 4; i++)
		script_begin_rank(&s, i, SCRIPT_START + MS);
	for (uint32_t i = 2; i < 4; i++)
		script_join(&s.ranks[i], 1, 8, 2, i - 2);
	for (int step = 0; step < STEPS; step++) {
		script_kernel(&s.ranks[2], 800 * US);
		script_kernel(&s.ranks[3], 800 * US);
		script_meet(&s, (uint32_t[]){ 2, 3 }, 2, ALL_REDUCE(1, 60 * US));
	}
	maker_close(s.ranks[2].m, script_end(&s));
	maker_close(s.ranks[3].m, script_end(&s));
	expect_in(folder, "two jobs", JOB_UNKNOWN, NO_PEER);
}

/* Ranks 0 and 1 of a job of two ranks, and 2 and 3 of another one of four. */
static void two_sizes(void **state)
{
	static const struct {
		const char *name, *jobs[2];
		uint64_t later_ns;
		enum job_kind kind;
	} cases[] = {
		{ "sizes", { NULL, NULL }, 0, JOB_UNKNOWN },
		{ "sizes, of one job", { "a", "a" }, 0, JOB_UNKNOWN },
		{ "sizes, one after the other", { NULL, NULL }, 9000 * MS, JOB_UNKNOWN },
		{ "sizes, of one job id", { "a", "a" }, 9000 * MS, JOB_UNKNOWN },
		{ "sizes, restarted", { "a#0", "a#1" }, 9000 * MS, JOB_ALIKE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *folder = folder_of(state, cases[i].name);

		for (uint32_t run = 0; run < 2; run++) {
			struct script s = { .folder = folder, .job = cases[i].jobs[run] };
			uint32_t pair[2] = { 2 * run, 2 * run + 1 };

			s.count = run ? 4 : 2;
			for (uint32_t k = 0; k < 2; k++) {
				script_begin_rank(&s, pair[k],
						  SCRIPT_START + run * cases[i].later_ns);
				script_join(&s.ranks[pair[k]], 1, 7 + run, 2, k);
			}
			for (int step = 0; step < STEPS; step++) {
				for (uint32_t k = 0; k < 2; k++)
					script_kernel(&s.ranks[pair[k]], 800 * US);
				script_meet(&s, pair, 2, ALL_REDUCE(1, 60 * US));
			}
			script_close(&s);
		}
		expect_in(folder, cases[i].name, cases[i].kind, NO_PEER);
	}
}

/* Only a barrier at the begin: nothing is compared. */
static void ranks_without_collectives_in_their_steps(void **state)
{
	struct script s;

	script_begin(&s, folder_of(state, "no steps"), 4);
	script_join_all(&s, 1, 7);
	script_meet_all(&s, ALL_REDUCE(1, 60 * US));
	for (int step = 0; step < STEPS; step++)
		for (uint32_t i = 0; i < 4; i++)
			script_kernel(&s.ranks[i], i == 3 ? 2 * MS : MS);
	expect(&s, "one collective", JOB_UNKNOWN, NO_PEER);
}

/* All ranks have a long pause of their own now and then, as garbage collectors make. */
static void random_hiccups_of_all(void **state)
{
	struct script s;
	uint64_t random = 5;

	script_begin(&s, folder_of(state, "hiccups"), 8);
	script_join_all(&s, 1, 7);
	for (int step = 0; step < 4 * STEPS; step++)
		train(&s, 1, step % 10 ? NO_PEER : (uint32_t)(random_u64(&random) % 8), 4 * MS);
	expect(&s, "hiccups", JOB_TURNS, NO_PEER);
}

/* A verdict on another rank than the one through which the path leads is none. */
static void the_path_contradicts_a_verdict(void **state)
{
	struct job_source source;
	struct rank_path path;
	struct script s;
	struct analyzed a;

	script_begin(&s, folder_of(state, "contradiction"), 4);
	script_join_all(&s, 1, 7);
	train(&s, STEPS, 3, 2 * MS);
	script_close(&s);
	analyze(&a, s.folder, EVERYTHING);
	assert_int_equal(a.report.rank_times->kind, JOB_RANK);
	assert_int_equal(a.report.rank_times->rank, 3);
	assert_false(a.report.options.critical_path);
	assert_int_equal(a.report.rank_path->ranks[0].rank, 3); /* it was asked all the same */
	source = job_source_of(&a.report);
	for (uint32_t blamed = 3; blamed >= 2; blamed--) {
		a.report.rank_times->rank = blamed;
		assert_int_equal(
			rank_path_find(&source, a.report.collectives, a.report.rank_times, &path),
			0);
		assert_int_equal(a.report.rank_times->contradicted, blamed == 2);
		assert_int_equal(path.ranks[0].rank, 3);
		assert_in_range(path.collectives, STEPS - 1, STEPS);
		assert_true(path.ranks[0].ns > path.window_ns / 100 * 90);
		analysis_rank_path.release(&path);
	}
	assert_int_equal(a.report.rank_times->kind, JOB_UNKNOWN);
	assert_int_equal(a.report.rank_times->path_rank, 3);
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(tensor_pipeline_and_data_parallel),
		folder_test(pipelines),
		folder_test(collectives_with_a_root),
		folder_test(overlapping_communicators),
		folder_test(a_rank_that_joined_late),
		folder_test(a_rank_that_recovers),
		folder_test(a_rank_that_is_not_recorded),
		folder_test(a_rank_without_the_plug_in),
		folder_test(two_jobs),
		folder_test(two_sizes),
		folder_test(ranks_without_collectives_in_their_steps),
		folder_test(random_hiccups_of_all),
		folder_test(the_path_contradicts_a_verdict),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
