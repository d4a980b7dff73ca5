#include "analysis/verdict.h"

#include <errno.h>
#include <string.h>

#include "analysis/rank_times.h"
#include "analysis/report.h"
#include "analysis/sentence.h"
#include "analysis/steady.h"

static uint64_t useful_ns(const struct report *r, size_t gpu)
{
	uint64_t busy_ns = r->busy->gpus[gpu].union_ns;

	return busy_ns - MIN(busy_ns, rank_times_waited(r, gpu));
}

static size_t busiest(const struct report *r)
{
	size_t best = 0;

	for (size_t i = 1; i < r->busy->count; i++)
		if (useful_ns(r, i) > useful_ns(r, best))
			best = i;
	return best;
}

static enum verdict_kind decide(const struct verdict *v)
{
	static const enum verdict_kind kinds[IDLE_PARTS] = {
		[IDLE_PART_SYNC] = VERDICT_SYNC,       [IDLE_PART_COPY] = VERDICT_COPY,
		[IDLE_PART_LATENCY] = VERDICT_LATENCY, [IDLE_PART_LAUNCH] = VERDICT_LAUNCH,
		[IDLE_PART_CALL] = VERDICT_CALL,       [IDLE_PART_HOST] = VERDICT_HOST,
		[IDLE_PART_UNKNOWN] = VERDICT_IDLE,
	};
	size_t best = 0;

	if (v->part_ns[IDLE_PART_MEASURING] > (v->span_ns + v->pause_ns))
		return VERDICT_MEASURED;
	if ((unsigned __int128)v->busy_ns * 100 >=
	    (unsigned __int128)v->span_ns * VERDICT_BUSY_PERCENT)
		return v->exposed_copy_ns > v->busy_ns / 2 ? VERDICT_COPY : VERDICT_GPU;
	for (size_t i = 1; i < IDLE_PART_MEASURING; i++)
		if (v->part_ns[i] > v->part_ns[best])
			best = i;
	return v->wait_ns > v->part_ns[best] ? VERDICT_WAIT : kinds[best];
}

static uint64_t count_work(const struct busy *busy)
{
	uint64_t count = busy->untimed;

	for (size_t i = 0; i < busy->count; i++)
		for (int kind = 0; kind < GPU_WORK_KINDS; kind++)
			count += busy->gpus[i].work[kind].count;
	return count;
}

/* Computes the verdict from the other analyses of a report. */
static struct verdict make_verdict(const struct report *r)
{
	const struct busy *busy = r->busy;
	const struct idle *idle = r->idle;
	const struct launches *launches = r->launches;
	struct verdict v = { .gpu = busiest(r),
			     .work = count_work(busy),
			     .untimed = busy->untimed };
	const struct gpu_busy *b = busy->count ? &busy->gpus[v.gpu] : NULL;
	const struct gpu_idle *g = idle->count ? &idle->gpus[v.gpu] : NULL;
	uint64_t calls = launches->kernel_calls.count + launches->graph_calls.count;
	struct steady steady;

	v.kind = v.untimed ? VERDICT_UNTIMED : VERDICT_NO_WORK;
	if (!b || !g || v.untimed > v.work / 10 * 9)
		return v;
	if (!b->union_ns) {
		v.kind = v.untimed < v.work ? VERDICT_INSTANT : v.kind;
		return v;
	}
	steady_find(b, g, &steady);
	v.span_ns = steady.span_ns;
	v.pauses = steady.pauses;
	v.pause_ns = steady.pause_ns;
	v.pieces = steady.pieces;
	v.start_up = steady.start_up;
	memcpy(v.part_ns, steady.part_ns, sizeof(v.part_ns));
	v.measured = measuring_count(&r->measuring, b->first_ns, b->last_ns);
	v.busy_ns = useful_ns(r, v.gpu);
	v.wait_ns = b->union_ns - v.busy_ns;
	v.exposed_copy_ns = b->copy_ns - b->overlap_ns;
	v.part_ns[IDLE_PART_COPY] += v.exposed_copy_ns;
	v.launches = calls;
	v.launch_mean_ns =
		calls ? (launches->kernel_calls.total_ns + launches->graph_calls.total_ns) / calls
		      : 0;
	v.sync_calls = r->syncs->sync_count;
	v.before_ns = b->first_ns > r->start_ns ? b->first_ns - r->start_ns : 0;
	v.after_ns = b->last_ns < r->end_ns ? r->end_ns - b->last_ns : 0;
	v.kind = decide(&v);
	return v;
}

/* Texts of each kind. `why` describes what the GPU did in the part that decided the verdict. */
static const struct {
	const char *key, *name, *why, *advice;
	enum idle_part part;
} texts[VERDICT_KINDS] = {
	[VERDICT_NO_WORK] = { "no_work", "no GPU work", "", "" },
	[VERDICT_UNTIMED] = { "untimed", "none", "", "" },
	[VERDICT_INSTANT] = { "no_duration", "none", "", "" },
	[VERDICT_MEASURED] = { "measured", "none (Pitot measured most of the time)", "",
			       "a recording without --engine, to see what the program itself "
			       "waits for" },
	[VERDICT_GPU] = { "gpu", "GPU-bound", "",
			  "optimizing the kernels at the top of the list below" },
	[VERDICT_LAUNCH] = { "launch", "launch-bound",
			     "waiting for the next launch in gaps shorter than 100 us",
			     "fewer, larger launches: CUDA graphs, fused kernels (torch.compile), "
			     "larger batches",
			     IDLE_PART_LAUNCH },
	[VERDICT_CALL] = { "launch_call", "slow launch calls",
			   "in launch calls during gaps of 100 us or more",
			   "loading kernels before they are needed: a warm-up, "
			   "CUDA_MODULE_LOADING=EAGER; `pitot report --by caller` and the launches "
			   "below show where",
			   IDLE_PART_CALL },
	[VERDICT_COPY] = { "copy", "copy-bound",
			   "copying while no kernel ran, or idle after a copy",
			   "pinned memory, copies on a separate stream that overlap with kernels, "
			   "fewer copies",
			   IDLE_PART_COPY },
	[VERDICT_SYNC] = { "synchronize", "blocked in synchronization",
			   "idle after the host waited for the GPU",
			   "fewer of the synchronizing calls below: .item(), .cpu(), blocking "
			   "copies, unneeded synchronization",
			   IDLE_PART_SYNC },
	[VERDICT_LATENCY] = { "latency", "latency-bound",
			      "idle although the next operation was already launched",
			      "fusing short kernels, fewer dependencies across streams, CUDA "
			      "graphs",
			      IDLE_PART_LATENCY },
	[VERDICT_HOST] = { "host", "host-bound", "waiting for the host in gaps of 100 us or more",
			   "less work on the CPU in the gaps: data loading, Python, I/O, CUDA "
			   "allocations and module loading (pitot record --api all shows them)",
			   IDLE_PART_HOST },
	[VERDICT_WAIT] = { "wait", "waiting for other ranks", "", "" },
	[VERDICT_IDLE] = { "idle", "idle", "waiting for work whose launch was not recorded",
			   "`pitot info` shows why the calls are missing (capability api_call, "
			   "loss)",
			   IDLE_PART_UNKNOWN },
};

const char *verdict_key(unsigned kind)
{
	return texts[kind].key;
}

const char *verdict_name(unsigned kind)
{
	return texts[kind].name;
}

const char *verdict_advice(unsigned kind)
{
	return texts[kind].advice;
}

/* Appends what the time of the verdict excludes. Measuring for less than 1 % of it is no news. */
static void add_exclusions(const struct verdict *v, struct strbuf *out)
{
	uint64_t measuring_ns = v->part_ns[IDLE_PART_MEASURING];
	bool measuring = measuring_ns > v->span_ns / 100;

	if (v->pauses)
		sentence_add(out,
			     WORDS(v->pauses == 1 ? ", excluding one pause of "
						  : ", excluding pauses of "),
			     DURATION(v->pause_ns));
	if (measuring)
		sentence_add(out, WORDS(v->pauses ? " and " : ", excluding "),
			     DURATION(measuring_ns), WORDS(" of Pitot's measuring"));
}

static void add_measured(const struct verdict *v, struct strbuf *out)
{
	uint64_t measuring_ns = v->part_ns[IDLE_PART_MEASURING];
	uint64_t rest_ns = v->span_ns + v->pause_ns;

	if (v->measured)
		sentence_add(out, COUNTED_AS(v->measured, "measurement"),
			     WORDS(" by Pitot kept the GPU idle for "));
	else
		strbuf_adds(out, "Pitot's set-up kept the GPU idle for ");
	sentence_add(out, DURATION(measuring_ns), WORDS(" of the "),
		     DURATION(measuring_ns + rest_ns),
		     WORDS(" from the first to the last GPU work; the other "), DURATION(rest_ns),
		     WORDS(" are too little for a verdict"));
}

void verdict_sentence(const struct verdict *v, struct strbuf *out)
{
	if (v->kind == VERDICT_NO_WORK) {
		strbuf_adds(out, "no GPU work in this part of the recording");
		return;
	}
	if (v->kind == VERDICT_UNTIMED) {
		sentence_add(out, NUMBER(v->untimed), WORDS(" of "),
			     COUNTED_AS(v->work, "GPU operation"),
			     WORDS(" have no times, so it is unknown what the GPUs waited for"));
		return;
	}
	if (v->kind == VERDICT_INSTANT) {
		sentence_add(out, COUNTED_AS(v->work - v->untimed, "GPU operation"),
			     WORDS(" of 0 ns, so it is unknown what the GPUs waited for"));
		return;
	}
	if (v->kind == VERDICT_MEASURED) {
		add_measured(v, out);
		return;
	}
	strbuf_addf(out, "GPU %zu utilization ", v->gpu);
	sentence_add(out, PERCENT(v->busy_ns, v->span_ns), WORDS(" over "), DURATION(v->span_ns),
		     WORDS(" (first to last GPU work"));
	add_exclusions(v, out);
	strbuf_addc(out, ')');
	if (v->wait_ns)
		sentence_add(out, WORDS(", "), PERCENT(v->wait_ns, v->span_ns),
			     WORDS(" waiting for other ranks"));
	if (!*texts[v->kind].why)
		return;
	sentence_add(out, WORDS(", "), PERCENT(v->part_ns[texts[v->kind].part], v->span_ns),
		     WORDS(" "), WORDS(texts[v->kind].why));
	if (v->kind == VERDICT_LAUNCH)
		sentence_add(out, WORDS(" ("), COUNTED_AS(v->launches, "launch"), WORDS(", "),
			     DURATION(v->launch_mean_ns), WORDS(" of host time per call)"));
	if (v->kind == VERDICT_SYNC)
		sentence_add(out, WORDS(" ("), COUNTED_AS(v->sync_calls, "synchronizing call"),
			     WORDS(")"));
}

/* Analyses on which the verdict depends. */
static const struct {
	const struct analysis *analysis;
	size_t result;
} evidence[] = {
	{ &analysis_busy, offsetof(struct report, busy) },
	{ &analysis_idle, offsetof(struct report, idle) },
	{ &analysis_launches, offsetof(struct report, launches) },
	{ &analysis_syncs, offsetof(struct report, syncs) },
};

/*
 * Computes the verdict on the time after a slow start-up. Only the filter's window changes, so all
 * columns are loaded already.
 */
static int verdict_after_start_up(const struct report *r, struct verdict *out)
{
	struct report later = *r;
	void *results[ARRAY_SIZE(evidence)] = { 0 };
	struct filter filter = r->options.filter;
	int code;

	filter.since_ns = later.start_ns = r->verdicts->whole.start_up.end_ns;
	code = selection_init(&later.selection, r->trace, &filter, &r->ranges, NULL);
	if (code < 0)
		return code;
	for (size_t i = 0; i < ARRAY_SIZE(evidence) && code >= 0; i++) {
		results[i] = calloc(1, evidence[i].analysis->size);
		memcpy((char *)&later + evidence[i].result, &results[i], sizeof(results[i]));
		code = results[i] ? evidence[i].analysis->run(&later, results[i]) : -ENOMEM;
	}
	if (code >= 0)
		*out = make_verdict(&later);
	for (size_t i = 0; i < ARRAY_SIZE(evidence); i++)
		analysis_release(evidence[i].analysis, results[i]);
	selection_release(&later.selection);
	return code;
}

static int run(struct report *r, void *out)
{
	struct verdicts *v = out;

	v->whole = make_verdict(r);
	return v->whole.start_up.pieces ? verdict_after_start_up(r, &v->later) : 0;
}

const struct analysis analysis_verdicts = {
	.size = sizeof(struct verdicts),
	.run = run,
	.reads_others = true,
};
