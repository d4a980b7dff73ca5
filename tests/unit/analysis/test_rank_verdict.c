/*
 * Which rank is late in simulated jobs (simulated_job.h). What a fault costs is the difference to
 * the same job without it.
 */
#include "analysis/rank_path.h"
#include "analysis/rank_times.h"
#include "simulated_job.h"

static bool is_near(uint64_t value, uint64_t truth)
{
	return value >= truth / 100 * 90 && value <= truth / 100 * 110;
}

/* Rank, line, and the amounts: what the fault lasted, and what it cost. */
static void check_amounts(const struct report *r, const struct job *job, uint64_t cost_ns,
			  uint64_t whole_ns)
{
	const struct rank_times *t = r->rank_times;
	uint64_t late_ns = (uint64_t)((double)t->late_ns / (double)t->span_ns * (double)whole_ns);

	if (job->kind == JOB_RANK && r->collectives->ranks[t->rank].number != job->late)
		fail_msg("%s: rank %u", job->name, r->collectives->ranks[t->rank].number);
	if (!t->cause != !job->line ||
	    (job->line && strcmp(t->texts.items[t->cause->place.text].text, line_texts[job->line])))
		fail_msg("%s: %s", job->name,
			 t->cause ? t->texts.items[t->cause->place.text].text : "no place");
	if (job->kind == JOB_RANK && !job->sync_every && !job->jump_ns &&
	    !is_near(t->cause->excess_ns / t->cause->count, job->faults[0].ns))
		fail_msg("%s: %d us longer", job->name,
			 (int)(t->cause->excess_ns / t->cause->count / US));
	if (!job->partly_hidden && !is_near(late_ns, cost_ns))
		fail_msg("%s: late by %d us of %d us, not %d us", job->name, (int)(late_ns / US),
			 (int)(whole_ns / US), (int)(cost_ns / US));
}

/* Of the whole path other than transfers and pauses, what is of a rank; ANY: all ranks. */
static uint64_t on_path(const struct report *r, uint32_t rank)
{
	const struct rank_path *p = r->rank_path;
	uint64_t ns = 0;

	for (size_t i = 0; i < p->rank_count; i++)
		if (rank == ANY || r->collectives->ranks[p->ranks[i].rank].number == rank)
			ns += p->ranks[i].ns - p->ranks[i].transfer_ns - p->ranks[i].pause_ns;
	return ns;
}

/* The path tiles its window, and leads mostly through a rank that the others wait for. */
static void check_path(const struct report *r, const struct job *job)
{
	const struct rank_path *p = r->rank_path;
	uint64_t owners_ns = 0, stays_ns = 0, drift_ns = job->hosts ? p->window_ns / 1000 : 0;

	if (!p->window_ns && r->rank_times->compared && r->rank_times->waits_known)
		fail_msg("%s: no path", job->name);
	for (size_t i = 0; i < p->owner_count; i++)
		owners_ns += p->owners[i].ns;
	for (size_t i = 0; i < p->stay_count; i++) {
		assert_true(p->stays[i].start_ns < p->stays[i].end_ns);
		assert_true(!i || p->stays[i].end_ns == p->stays[i - 1].start_ns);
		stays_ns += p->stays[i].end_ns - p->stays[i].start_ns;
	}
	assert_true(owners_ns == p->window_ns);
	if (MAX(stays_ns, owners_ns) - MIN(stays_ns, owners_ns) > drift_ns)
		fail_msg("%s: path of %d us, stays of %d us", job->name, (int)(owners_ns / US),
			 (int)(stays_ns / US));
	if (p->class_ns[PATH_UNKNOWN] > p->window_ns / 20)
		fail_msg("%s: %d us of %d us are unknown", job->name,
			 (int)(p->class_ns[PATH_UNKNOWN] / US), (int)(p->window_ns / US));
	/* A pipeline fills and drains through all of its stages. */
	if (job->kind == JOB_RANK &&
	    on_path(r, job->late) < on_path(r, ANY) / (job->shape == PIPELINE ? 3 : 2))
		fail_msg("%s: the path is for %d us on rank %u, of %d us", job->name,
			 (int)(on_path(r, job->late) / US), job->late, (int)(on_path(r, ANY) / US));
}

/* All ranks, those that are late by most first. */
static void check_order(const struct rank_times *t)
{
	uint64_t seen = 0, before_ns = UINT64_MAX;

	for (size_t i = 0; i < t->count; before_ns = t->items[t->by_late[i++]].late_ns) {
		assert_true(t->items[t->by_late[i]].late_ns <= before_ns);
		seen |= UINT64_C(1) << t->by_late[i];
	}
	assert_true(t->count > RANKS_MAX || seen == UINT64_MAX >> (64 - t->count));
}

static void check(const char *folder, const struct job *job)
{
	uint64_t start_ns = START_NS, good_ns = run(job, false, NULL, 0, START_NS) - START_NS;
	uint64_t bad_ns = run(job, true, NULL, 0, START_NS) - START_NS;
	struct analyzed a;

	for (uint32_t attempt = 0; attempt <= job->restarts; attempt++)
		start_ns = run(job, true, folder, attempt, start_ns) + 500 * MS;
	if (job->other_job)
		run(job, true, folder, 7, START_NS + 3 * MS);
	analyze(&a, folder, (struct report_options){ .filter = FILTER_ALL, .critical_path = true });
	check_path(&a.report, job);
	check_order(a.report.rank_times);
	if (a.report.rank_times->kind != job->kind)
		fail_msg("%s: %d instead of %d", job->name, a.report.rank_times->kind, job->kind);
	if (job->kind == JOB_RANK || job->kind == JOB_TURNS)
		check_amounts(&a.report, job, bad_ns - good_ns, bad_ns);
	analyzed_release(&a);
}

#define SLEEPS(rank, ms, ...)                                                                      \
	{                                                                                          \
		{                                                                                  \
			SLEEP, rank, (ms)*MS, .line = LOAD, ##__VA_ARGS__                          \
		}                                                                                  \
	}

static const struct job jobs[] = {
	{ "balanced 2", PLAIN, 2, .kind = JOB_ALIKE },
	{ "balanced 8", PLAIN, 8, .kind = JOB_ALIKE },
	{ "balanced 64", PLAIN, 64, .kind = JOB_ALIKE },
	{ "balanced overlap 8", OVERLAP, 8, .kind = JOB_ALIKE },
	{ "balanced overlap async 8", OVERLAP, 8, .kind = JOB_ALIKE, .sync_every = 10 },
	{ "balanced sampled 8", PLAIN, 8, .kind = JOB_ALIKE, .sampled = true },
	{ "balanced guessed 8", PLAIN, 8, .kind = JOB_ALIKE, .guessed = true },
	{ "balanced pipeline 4", PIPELINE, 4, .kind = JOB_ALIKE, .steps = 20 },
	{ "balanced pipeline 4, few steps", PIPELINE, 4, .kind = JOB_ALIKE, .steps = 5 },
	{ "pipeline, slow stage, few steps",
	  PIPELINE,
	  4,
	  { { SLOW_GPU, 1, 1 * MS, .line = EXTRA } },
	  JOB_RANK,
	  1,
	  .line = EXTRA,
	  .steps = 5 },
	{ "balanced pipeline 2", PIPELINE, 2, .kind = JOB_ALIKE, .steps = 20 },
	{ "balanced jitter 8", PLAIN, 8, .kind = JOB_ALIKE, .jitter_ns = 100 * US },
	{ "balanced hierarchy 8", PLAIN, 8, .kind = JOB_ALIKE, .hierarchy = true },
	/* What long transfers leave uncertain is more than 5 % of such short steps. */
	{ "balanced 4 hosts", PLAIN, 8, .kind = JOB_UNKNOWN, .hosts = 4,
	  .ahead_ns = { 0, 3 * MS, -2000 * (int64_t)MS, 7 * MS },
	  .drift = { 0, 20e-6, -50e-6, 100e-6 } },
	{ "communication", PLAIN, 8, .kind = JOB_COMMUNICATION, .transfer_ns = 4 * MS },
	{ "sleep 1 of 2", PLAIN, 2, SLEEPS(1, 1), JOB_RANK, 1, .line = LOAD },
	{ "sleep 3 of 2", PLAIN, 2, SLEEPS(1, 3), JOB_RANK, 1, .line = LOAD },
	{ "sleep 10 of 2", PLAIN, 2, SLEEPS(0, 10), JOB_RANK, 0, .line = LOAD },
	{ "sleep 1 of 8", PLAIN, 8, SLEEPS(3, 1), JOB_RANK, 3, .line = LOAD },
	{ "sleep 3 of 8", PLAIN, 8, SLEEPS(3, 3), JOB_RANK, 3, .line = LOAD },
	{ "sleep 10 of 8", PLAIN, 8, SLEEPS(3, 10), JOB_RANK, 3, .line = LOAD },
	{ "sleep 1 of 64", PLAIN, 64, SLEEPS(33, 1), JOB_RANK, 33, .line = LOAD },
	{ "sleep 3 of 64", PLAIN, 64, SLEEPS(33, 3), JOB_RANK, 33, .line = LOAD },
	{ "sleep 10 of 64", PLAIN, 64, SLEEPS(33, 10), JOB_RANK, 33, .line = LOAD },
	{ "sleep 3 of 8 sampled", PLAIN, 8, SLEEPS(3, 3), JOB_RANK, 3, .line = LOAD,
	  .sampled = true },
	{ "sleep 3 of 8 async", PLAIN, 8, SLEEPS(3, 3), JOB_RANK, 3, .line = LOAD,
	  .sync_every = 10 },
	{ "sleep 1 of 8 async hidden", PLAIN, 8, SLEEPS(3, 1), JOB_ALIKE, .sync_every = 100 },
	{ "sleep 3 of 8 guessed", PLAIN, 8, SLEEPS(3, 3), JOB_RANK, 3, .line = LOAD,
	  .guessed = true },
	{ "sleep 3 of 8 overlap", OVERLAP, 8, SLEEPS(3, 3), JOB_RANK, 3, .line = LOAD },
	{ "sleep 3 of 8 overlap async", OVERLAP, 8, SLEEPS(3, 3), JOB_RANK, 3, .line = LOAD,
	  .sync_every = 10 },
	{ "sleep 3 every 4th", PLAIN, 8, SLEEPS(3, 3, .every = 4, .phase = 1), JOB_RANK, 3,
	  .line = LOAD },
	{ "sleep 3 hierarchy", PLAIN, 8, SLEEPS(6, 3), JOB_RANK, 6, .line = LOAD,
	  .hierarchy = true },
	{ "sleep 3 jitter", PLAIN, 8, SLEEPS(6, 3), JOB_RANK, 6, .line = LOAD,
	  .jitter_ns = 200 * US },
	{ "small step, sleep 1", PLAIN, 8, SLEEPS(6, 1), JOB_RANK, 6, .line = LOAD,
	  .kernel_ns = 5 * US },
	{ "burn 3 of 8",
	  PLAIN,
	  8,
	  { { BURN, 5, 3 * MS, .line = EXTRA } },
	  JOB_RANK,
	  5,
	  .line = EXTRA,
	  .sampled = true,
	  .steps = 200 },
	{ "burn 1 of 8",
	  PLAIN,
	  8,
	  { { BURN, 5, 1 * MS, .line = EXTRA } },
	  JOB_RANK,
	  5,
	  .line = EXTRA,
	  .sampled = true,
	  .steps = 200 },
	{ "burn 3 unsampled",
	  PLAIN,
	  8,
	  { { BURN, 5, 3 * MS, .line = EXTRA } },
	  JOB_RANK,
	  5,
	  .line = FORWARD },
	{ "slow gpu 1 of 2",
	  PLAIN,
	  2,
	  { { SLOW_GPU, 1, 1 * MS, .line = EXTRA } },
	  JOB_RANK,
	  1,
	  .line = EXTRA },
	{ "slow gpu 3 of 8",
	  PLAIN,
	  8,
	  { { SLOW_GPU, 1, 3 * MS, .line = EXTRA } },
	  JOB_RANK,
	  1,
	  .line = EXTRA },
	{ "slow gpu 3 of 8 async",
	  PLAIN,
	  8,
	  { { SLOW_GPU, 1, 3 * MS, .line = EXTRA } },
	  JOB_RANK,
	  1,
	  .line = EXTRA,
	  .sync_every = 100 },
	{ "slow gpu 3 of 8 overlap",
	  OVERLAP,
	  8,
	  { { SLOW_GPU, 1, 3 * MS, .line = EXTRA } },
	  JOB_RANK,
	  1,
	  .line = EXTRA,
	  .sync_every = 100 },
	{ "slow gpu 1 of 64",
	  PLAIN,
	  64,
	  { { SLOW_GPU, 60, 1 * MS, .line = EXTRA } },
	  JOB_RANK,
	  60,
	  .line = EXTRA },
	{ "alternating 2", PLAIN, 2, SLEEPS(IN_TURN, 3), JOB_TURNS, ANY, .line = LOAD },
	{ "alternating 8", PLAIN, 8, SLEEPS(IN_TURN, 3), JOB_TURNS, ANY, .line = LOAD },
	{ "alternating 64", PLAIN, 64, SLEEPS(IN_TURN, 3), JOB_TURNS, ANY, .line = LOAD,
	  .steps = 200 },
	{ "alternating 8 async", PLAIN, 8, SLEEPS(IN_TURN, 3), JOB_TURNS, ANY, .line = LOAD,
	  .sync_every = 5 },
	{ "two culprits, same step",
	  PLAIN,
	  8,
	  { { SLEEP, 2, 3 * MS, .line = LOAD }, { SLEEP, 5, 2 * MS, .line = EXTRA } },
	  JOB_RANK,
	  2,
	  .line = LOAD },
	{ "two culprits, alternate steps",
	  PLAIN,
	  8,
	  { { SLEEP, 2, 3 * MS, .line = LOAD, .every = 2, .phase = 0 },
	    { SLEEP, 5, 3 * MS, .line = EXTRA, .every = 2, .phase = 1 } },
	  .kind = JOB_TURNS },
	{ "two culprits, alternate, one line",
	  PLAIN,
	  8,
	  { { SLEEP, 2, 3 * MS, .line = LOAD, .every = 2, .phase = 0 },
	    { SLEEP, 5, 3 * MS, .line = LOAD, .every = 2, .phase = 1 } },
	  JOB_TURNS,
	  ANY,
	  .line = LOAD },
	{ "two culprits, sleep and gpu",
	  PLAIN,
	  8,
	  { { SLEEP, 2, 3 * MS, .line = LOAD, .every = 2, .phase = 0 },
	    { SLOW_GPU, 5, 3 * MS, .line = EXTRA, .every = 2, .phase = 1 } },
	  .kind = JOB_TURNS },
	{ "one host of 8 sleeps",
	  PLAIN,
	  64,
	  { { SLEEP, 16, 3 * MS, .line = LOAD, .ranks = 8 } },
	  JOB_TURNS,
	  ANY,
	  .line = LOAD },
	{ "half of the ranks sleeps",
	  PLAIN,
	  8,
	  { { SLEEP, 4, 3 * MS, .line = LOAD, .ranks = 4 } },
	  JOB_TURNS,
	  ANY,
	  .line = LOAD },
	{ "all sleep",
	  PLAIN,
	  8,
	  { { SLEEP, 0, 3 * MS, .line = LOAD, .ranks = 8 } },
	  .kind = JOB_ALIKE },
	{ "pipeline, slow stage",
	  PIPELINE,
	  4,
	  { { SLOW_GPU, 2, 1 * MS, .line = EXTRA } },
	  JOB_RANK,
	  2,
	  .line = EXTRA,
	  .steps = 20 },
	{ "pipeline, stage sleeps", PIPELINE, 4, SLEEPS(1, 10), JOB_RANK, 1, .line = LOAD,
	  .steps = 20, .partly_hidden = true },
	{ "pipeline of 8, slow stage",
	  PIPELINE,
	  8,
	  { { SLOW_GPU, 5, 1 * MS, .line = EXTRA } },
	  JOB_RANK,
	  5,
	  .line = EXTRA,
	  .steps = 20 },
	{ "restart", PLAIN, 8, SLEEPS(3, 3), JOB_RANK, 3, .line = LOAD, .restarts = 1,
	  .job_id = "a" },
	{ "restart, guessed", PLAIN, 8, SLEEPS(3, 3), JOB_RANK, 3, .line = LOAD, .restarts = 1,
	  .job_id = "a", .guessed = true },
	{ "restarts, guessed", PLAIN, 2, SLEEPS(1, 3), JOB_RANK, 1, .line = LOAD, .restarts = 3,
	  .job_id = "a", .guessed = true },
	{ "two runs with one job id", PLAIN, 8, SLEEPS(3, 3), JOB_UNKNOWN, .restarts = 1,
	  .job_id = "a", .same_id = true },
	{ "restart without a job", PLAIN, 8, SLEEPS(3, 3), JOB_UNKNOWN, .restarts = 1 },
	{ "helpers", PLAIN, 8, SLEEPS(3, 3), JOB_RANK, 3, .line = LOAD, .helpers = true },
	{ "helpers, guessed", PLAIN, 8, SLEEPS(3, 3), JOB_RANK, 3, .line = LOAD, .helpers = true,
	  .guessed = true },
	{ "two jobs", PLAIN, 4, SLEEPS(3, 3), JOB_UNKNOWN, .job_id = "none", .other_job = true },
	{ "two jobs, guessed", PLAIN, 4, SLEEPS(3, 3), JOB_UNKNOWN, .job_id = "1",
	  .other_job = true, .guessed = true },
	{ "seconds", PLAIN, 8, SLEEPS(6, 3), JOB_RANK, 6, .line = LOAD, .hosts = 2,
	  .ahead_ns = { 0, 5000 * MS } },
	{ "seconds behind", PLAIN, 8, SLEEPS(6, 3), JOB_RANK, 6, .line = LOAD, .hosts = 2,
	  .ahead_ns = { 0, -5000 * (int64_t)MS } },
	{ "seconds, balanced", PLAIN, 8, .kind = JOB_UNKNOWN, .hosts = 2,
	  .ahead_ns = { 0, 5000 * MS } },
	{ "seconds, 8 hosts, drift", PLAIN, 64, SLEEPS(40, 3), JOB_RANK, 40, .line = LOAD,
	  .hosts = 8, .ahead_ns = { 0, 5000 * MS, -3000 * (int64_t)MS, 20 * MS },
	  .drift = { 0, 1e-4, -1e-4, 2e-5, 1e-6 } },
	{ "step of a clock", PLAIN, 8, SLEEPS(6, 3), JOB_RANK, 6, .line = LOAD, .hosts = 2,
	  .ahead_ns = { 0, MS }, .jump_ns = 50 * MS },
	{ "step of a clock back", PLAIN, 8, SLEEPS(2, 3), JOB_RANK, 2, .line = LOAD, .hosts = 2,
	  .ahead_ns = { 0, MS }, .jump_ns = -2 * (int64_t)MS },
	{ "step of a clock, balanced", PLAIN, 8, .kind = JOB_UNKNOWN, .hosts = 2,
	  .jump_ns = 700 * US },
	{ "killed", PLAIN, 4, .kind = JOB_ALIKE, .killed_ns = 20 * MS },
	{ "hung", PLAIN, 4, .kind = JOB_HUNG, .killed_ns = 2000 * MS },
	{ "seconds, killed", PLAIN, 4, SLEEPS(3, 3), JOB_RANK, 3, LOAD, .killed_ns = 20 * MS,
	  .hosts = 2, .ahead_ns = { 0, 5000 * MS } },
	{ "seconds behind, killed", PLAIN, 4, SLEEPS(3, 3), JOB_RANK, 3, LOAD, .killed_ns = 20 * MS,
	  .hosts = 2, .ahead_ns = { 0, -5000 * (int64_t)MS } },
	{ "seconds, hung", PLAIN, 4, .kind = JOB_HUNG, .killed_ns = 2000 * MS, .hosts = 2,
	  .ahead_ns = { 0, 5000 * MS } },
	{ "seconds behind, hung", PLAIN, 4, .kind = JOB_HUNG, .killed_ns = 2000 * MS, .hosts = 2,
	  .ahead_ns = { 0, -5000 * (int64_t)MS } },
	{ "fitting rate", PLAIN, 8, SLEEPS(6, 1), JOB_RANK, 6, .line = LOAD, .hosts = 2,
	  .drift = { 0, 1e-4 }, .steps = 400 },
};

static void the_cause_is_found(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++) {
		char folder[512];

		snprintf(folder, sizeof(folder), "%s/%zu", (const char *)*state, i);
		check(folder, &jobs[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(the_cause_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
