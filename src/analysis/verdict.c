#include "analysis/verdict.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/rank_times.h"
#include "analysis/report.h"
#include "analysis/sentence.h"
#include "analysis/steady.h"
#include "analysis/sync_calls.h"
#include "analysis/launches.h"

/* --- the work of a process --- */

/* GPU work of one process from a time on. */
struct own_work {
	struct work_gaps between;
	uint64_t first_ns, last_ns, measuring_ns;
	uint64_t *busy_ns, *until_ns; /* by GPU */
};

static void add_operation(const struct report *r, uint32_t process, struct own_work *own,
			  const struct gpu_operation *op)
{
	struct idle_gap gap = { .start_ns = own->last_ns,
				.length_ns = op->start_ns - own->last_ns };

	if (!own->last_ns) {
		own->first_ns = own->last_ns = op->start_ns;
	} else if (op->start_ns > own->last_ns) {
		gap.own_ns = gap.length_ns -
			     measuring_within(&r->measuring, process, own->last_ns, op->start_ns);
		own->measuring_ns += gap.length_ns - gap.own_ns;
		work_gaps_add(&own->between, &gap);
	}
	pace_add(&own->between.pace, op->start_ns);
	own->last_ns = MAX(own->last_ns, op->end_ns);
	own->busy_ns[op->gpu] +=
		MAX(op->end_ns, own->until_ns[op->gpu]) - MAX(op->start_ns, own->until_ns[op->gpu]);
	own->until_ns[op->gpu] = MAX(own->until_ns[op->gpu], op->end_ns);
}

static void own_work_release(struct own_work *own)
{
	free(own->busy_ns);
	free(own->until_ns);
}

/* 0 or -ENOMEM; own_work_release in either case. */
static int find_own_work(const struct report *r, uint32_t process, uint64_t from_ns,
			 struct own_work *own)
{
	struct gpu_operation op;
	struct gpu_walk walk;
	int rc = gpu_walk_init(&walk, &r->gpus, &r->selection);

	*own = (struct own_work){ .busy_ns = calloc(r->gpus.count + 1, sizeof(*own->busy_ns)),
				  .until_ns = calloc(r->gpus.count + 1, sizeof(*own->until_ns)) };
	if (!own->busy_ns || !own->until_ns)
		rc = -ENOMEM;
	while (rc >= 0 && gpu_walk_next(&walk, &op))
		if (op.process == process && op.start_ns >= from_ns)
			add_operation(r, process, own, &op);
	gpu_walk_release(&walk);
	return rc;
}

/* Finds the process whose work takes longest, apart from waits for other ranks. */
static int find_process(const struct report *r, struct verdict *v)
{
	size_t count = trace_process_count(r->trace);
	_cleanup_free_ uint64_t *sums_ns = calloc(count + 1, sizeof(*sums_ns));
	const struct rank_times *t = r->rank_times;
	struct gpu_operation op;
	struct gpu_walk walk;
	int rc = gpu_walk_init(&walk, &r->gpus, &r->selection);

	if (!sums_ns)
		rc = -ENOMEM;
	while (rc >= 0 && gpu_walk_next(&walk, &op))
		sums_ns[op.process] += op.end_ns - op.start_ns;
	gpu_walk_release(&walk);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < count; i++)
		v->processes += sums_ns[i] != 0;
	for (size_t i = 0; i < t->count; i++) {
		uint64_t *ns = &sums_ns[r->collectives->ranks[i].process];

		*ns -= MIN(*ns, t->items[i].all_wait_ns);
	}
	for (uint32_t i = 0; i < count; i++)
		if (sums_ns[i] > sums_ns[v->bounds.process])
			v->bounds.process = i;
	return 0;
}

/* --- the verdict --- */

/* Texts of each kind. `what` describes the path's time of the bound. */
static const struct {
	const char *key, *name, *what, *advice;
	const char *amd; /* the advice for AMD's GPUs; NULL: the same */
	enum { OF_NONE, OF_GPU, OF_HOST, OF_SYNC, OF_PITOT, OF_UNKNOWN, SIDES } side;
} texts[VERDICT_KINDS] = {
	[VERDICT_NO_WORK] = { "no_work", "no GPU work", "", "", .side = OF_NONE },
	[VERDICT_UNTIMED] = { "untimed", "none", "", "", .side = OF_NONE },
	[VERDICT_INSTANT] = { "no_duration", "none", "", "", .side = OF_NONE },
	[VERDICT_MEASURED] = { "measured", "none (Pitot measured most of the time)", "",
			       "a recording without --engine, to see what the program itself "
			       "waits for",
			       .side = OF_NONE },
	[VERDICT_UNDECIDED] = { "undecided", "none (GPU and host limit the pace alike)", "",
				"optimizing the kernels at the top of the list below, and fewer, "
				"larger launches: one alone gains little",
				.side = OF_NONE },
#define BOUND(kind) [VERDICT_BOUND + BOUND_##kind]
	BOUND(GPU) = { "gpu", "GPU-bound", "kernels",
		       "optimizing the kernels at the top of the list below", .side = OF_GPU },
	BOUND(COPY) = { "copy", "copy-bound", "copies",
			"pinned memory, copies on a separate stream that overlap with kernels, "
			"fewer copies",
			.side = OF_GPU },
	BOUND(LATENCY) = { "latency", "latency-bound",
			   "GPU latency between work that was launched already",
			   "fusing short kernels, fewer dependencies across streams, CUDA graphs",
			   .side = OF_GPU,
			   .amd = "fusing short kernels, fewer dependencies across streams, HIP "
				  "graphs" },
	BOUND(FALSE_DEPENDENCY) = { "false_dependency", "bound by false dependencies",
				    "streams serialized only by a shared hardware queue",
				    "a larger CUDA_DEVICE_MAX_CONNECTIONS (up to 32), or fewer "
				    "streams",
				    .side = OF_GPU,
				    .amd = "a larger GPU_MAX_HW_QUEUES, or fewer streams" },
	BOUND(DEFAULT_STREAM) = { "default_stream", "serialized by the default stream",
				  "streams serialized only by the default stream",
				  "if that work is independent: streams created with "
				  "cudaStreamNonBlocking, or a default stream per thread",
				  .side = OF_GPU,
				  .amd = "if that work is independent: streams created with "
					 "hipStreamNonBlocking" },
	BOUND(HOST_FUNCTION) = { "host_function", "bound by host functions in streams",
				 "streams waiting for host functions",
				 "shorter host functions, or an event that the host waits for "
				 "instead",
				 .side = OF_GPU },
	BOUND(WAIT) = { "wait", "waiting for other ranks", "waiting for other ranks", "",
			.side = OF_GPU },
	BOUND(COLLECTIVE) = { "collective", "in collectives, waiting or transferring",
			      "collectives, of which waiting for other ranks is unknown",
			      "recordings of all ranks, which tell the two apart: pitot record on "
			      "each host, and pitot merge",
			      .side = OF_GPU },
	BOUND(SYNC) = { "synchronize", "blocked in synchronization",
			"returns from synchronization, and host time held up by it",
			"fewer of the synchronizing calls below: .item(), .cpu(), blocking copies, "
			"unneeded synchronization",
			.side = OF_SYNC },
	BOUND(LAUNCH) = { "launch", "launch-bound", "launching, in steps shorter than 100 us",
			  "fewer, larger launches: CUDA graphs, fused kernels (torch.compile), "
			  "larger batches",
			  .side = OF_HOST,
			  .amd = "fewer, larger launches: HIP graphs, fused kernels "
				 "(torch.compile), larger batches" },
	BOUND(CALL) = { "launch_call", "slow launch calls", "launch calls of 100 us or more",
			"loading kernels before they are needed: a warm-up, "
			"CUDA_MODULE_LOADING=EAGER; `pitot report --by caller` and the launches "
			"below show where",
			.side = OF_HOST,
			.amd = "loading kernels before they are needed: a warm-up; `pitot report "
			       "--by caller` and the launches below show where" },
	BOUND(NODES) = { "graph_nodes", "none (Pitot records the nodes of graphs)",
			 "what Pitot needs to record the nodes of launched graphs, an estimate",
			 "a recording with --graphs launch, to see what the program itself waits "
			 "for; `pitot what-if` takes that cost off",
			 .side = OF_PITOT },
	BOUND(MEMORY) = { "allocation", "bound by memory allocation",
			  "calls that allocate or free memory",
			  "a pool of memory that is used again (a caching allocator, "
			  "cudaMallocAsync); no allocation in steps",
			  .side = OF_HOST,
			  .amd = "a pool of memory that is used again (a caching allocator, "
				 "hipMallocAsync); no allocation in steps" },
	BOUND(OFF_CPU) = { "off_cpu", "host waiting off the CPU",
			   "the launching thread off the CPU",
			   "what the thread waits for: locks, other threads, I/O; the lines below "
			   "and `pitot flame` (after `pitot record --off-cpu`) show where",
			   .side = OF_HOST },
	BOUND(HOST) = { "host", "host-bound", "host code in steps of 100 us or more",
			"less work on the CPU in the gaps: data loading, Python, I/O, GPU "
			"allocations and module loading (pitot record --api all shows them)",
			.side = OF_HOST },
	BOUND(UNKNOWN) = { "idle", "idle", "waiting for what was not recorded",
			   "`pitot info` shows why the calls are missing (capability api_call, "
			   "loss)",
			   .side = OF_UNKNOWN },
#undef BOUND
};

const char *verdict_key(unsigned kind)
{
	return texts[kind].key;
}

const char *verdict_name(unsigned kind)
{
	return texts[kind].name;
}

const char *verdict_bound_text(unsigned bound)
{
	return texts[VERDICT_BOUND + bound].what;
}

const char *verdict_advice(unsigned kind, bool amd)
{
	return amd && texts[kind].amd ? texts[kind].amd : texts[kind].advice;
}

static bool is_busy(const struct verdict *v)
{
	return (unsigned __int128)v->busy_ns * 100 >=
	       (unsigned __int128)v->bounds.span_ns * VERDICT_BUSY_PERCENT;
}

static unsigned decide(const struct verdict *v)
{
	uint64_t side_ns[SIDES] = { 0 }, most_ns = 0;
	unsigned side = OF_GPU, kind = VERDICT_BOUND;

	if (v->bounds.measuring_ns > v->bounds.span_ns + v->pause_ns)
		return VERDICT_MEASURED;
	for (unsigned i = 0; i < BOUNDS; i++)
		side_ns[texts[VERDICT_BOUND + i].side] += v->bounds.sums[i].ns;
	for (unsigned i = OF_GPU; i < SIDES; i++)
		if (side_ns[i] > side_ns[side])
			side = i;
	if (side != OF_GPU && is_busy(v))
		return VERDICT_UNDECIDED;
	for (unsigned i = 0; i < BOUNDS; i++)
		if (texts[VERDICT_BOUND + i].side == side && v->bounds.sums[i].ns > most_ns) {
			most_ns = v->bounds.sums[i].ns;
			kind = VERDICT_BOUND + i;
		}
	return kind;
}

static uint64_t count_work(const struct busy *busy)
{
	uint64_t count = busy->untimed;

	for (size_t i = 0; i < busy->count; i++)
		for (int kind = 0; kind < GPU_WORK_KINDS; kind++)
			count += busy->gpus[i].work[kind].count;
	return count;
}

static void add_calls(const struct report *r, struct verdict *v)
{
	const struct launches *l = r->launches;

	v->launches = l->kernel_calls.count + l->graph_calls.count;
	if (v->launches)
		v->launch_mean_ns =
			(l->kernel_calls.total_ns + l->graph_calls.total_ns) / v->launches;
	v->sync_calls = r->syncs->sync_count;
}

/* Judges the process's work from a time on. 0 or a negative code. */
static int judge_work(const struct report *r, const struct own_work *own, struct verdict *v)
{
	uint64_t span_ns = own->last_ns - own->first_ns - own->measuring_ns;
	struct bound_pause pauses[IDLE_LONGEST];
	struct steady steady;
	int rc;

	steady_find(&own->between, span_ns, own->measuring_ns, &steady);
	for (size_t i = 0; i < steady.pauses; i++)
		pauses[i] = (struct bound_pause){ steady.pause[i].start_ns,
						  own->between.longest[i].start_ns +
							  own->between.longest[i].length_ns };
	rc = bounds_find(r, v->bounds.process, own->first_ns, own->last_ns, pauses, steady.pauses,
			 &v->bounds);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < r->gpus.count; i++)
		if (own->busy_ns[i] > own->busy_ns[v->gpu])
			v->gpu = i;
	v->pauses = steady.pauses;
	v->pause_ns = steady.pause_ns;
	v->pieces = steady.pieces;
	v->start_up = steady.start_up;
	v->busy_ns = own->busy_ns[v->gpu];
	v->busy_ns -= MIN(v->busy_ns, v->bounds.sums[BOUND_WAIT].ns);
	v->busy_ns = MIN(v->busy_ns, v->bounds.span_ns); /* some of it while Pitot measured */
	v->exposed_copy_ns = r->busy->gpus[v->gpu].copy_ns - r->busy->gpus[v->gpu].overlap_ns;
	v->measured = measuring_count(&r->measuring, own->first_ns, own->last_ns);
	v->before_ns = own->first_ns > r->start_ns ? own->first_ns - r->start_ns : 0;
	v->after_ns = own->last_ns < r->end_ns ? r->end_ns - own->last_ns : 0;
	v->kind = decide(v);
	return 0;
}

static int judge(const struct report *r, uint64_t from_ns, struct verdict *v)
{
	struct own_work own;
	int rc = find_own_work(r, v->bounds.process, from_ns, &own);

	if (rc >= 0 && own.last_ns > own.first_ns)
		rc = judge_work(r, &own, v);
	own_work_release(&own);
	return rc;
}

static int run(struct report *r, void *out)
{
	struct verdicts *verdicts = out;
	struct verdict *v = &verdicts->whole;
	uint64_t timed;
	int rc;

	v->work = count_work(r->busy);
	v->untimed = r->busy->untimed;
	timed = v->work - v->untimed;
	v->kind = timed && v->untimed <= v->work / 10 * 9 ? VERDICT_INSTANT
		  : v->untimed                            ? VERDICT_UNTIMED
							  : VERDICT_NO_WORK;
	rc = v->kind == VERDICT_INSTANT ? find_process(r, v) : 0;
	add_calls(r, v);
	if (v->processes && rc >= 0)
		rc = judge(r, 0, v);
	if (rc < 0 || !v->start_up.pieces)
		return rc;
	verdicts->later = (struct verdict){ .bounds.process = v->bounds.process };
	return judge(r, v->start_up.end_ns, &verdicts->later);
}

/* --- words --- */

/* Appends what the time of the verdict excludes. Measuring for less than 1 % of it is no news. */
static void add_exclusions(const struct verdict *v, struct strbuf *out)
{
	uint64_t measuring_ns = v->bounds.measuring_ns;
	bool measuring = measuring_ns > v->bounds.span_ns / 100;

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
	uint64_t measuring_ns = v->bounds.measuring_ns;
	uint64_t rest_ns = v->bounds.span_ns + v->pause_ns;

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

static uint64_t gpu_ns(const struct bounds *b)
{
	uint64_t ns = 0;

	for (unsigned i = 0; i < BOUNDS; i++)
		if (texts[VERDICT_BOUND + i].side == OF_GPU)
			ns += b->sums[i].ns;
	return ns;
}

/* The edge with the longest latencies; a lone one is no news. */
static void add_latency(const struct bounds *b, struct strbuf *out)
{
	unsigned most = EDGE_none;

	for (unsigned k = EDGE_none + 1; k < EDGE_KINDS; k++)
		if (b->latency_ns[k] > b->latency_ns[most])
			most = k;
	if (most != EDGE_none)
		sentence_add(out, WORDS(" (most of it: "), WORDS(edge_kind_texts[most]),
			     WORDS(", "), DURATION(b->latency_ns[most]), WORDS(")"));
}

static void add_bound(const struct verdict *v, struct strbuf *out)
{
	unsigned bound = v->kind - VERDICT_BOUND;

	if (v->kind == VERDICT_UNDECIDED) {
		sentence_add(
			out, WORDS(", but only "), PERCENT(gpu_ns(&v->bounds), v->bounds.span_ns),
			WORDS(" of the critical path is the GPU's: both limit the pace alike, or "
			      "the recording lacks what work waited for"));
		return;
	}
	sentence_add(out, WORDS("; of the critical path "),
		     PERCENT(v->bounds.sums[bound].ns, v->bounds.span_ns),
		     WORDS(bound == BOUND_GPU || bound == BOUND_COPY || bound == BOUND_COLLECTIVE
				   ? " are "
				   : " is "),
		     WORDS(texts[v->kind].what));
	if (bound == BOUND_LAUNCH && v->launches)
		sentence_add(out, WORDS(" ("), COUNTED_AS(v->launches, "launch"), WORDS(", "),
			     DURATION(v->launch_mean_ns), WORDS(" of host time per call)"));
	if (bound == BOUND_SYNC && v->sync_calls)
		sentence_add(out, WORDS(" ("), COUNTED_AS(v->sync_calls, "synchronizing call"),
			     WORDS(")"));
	if (bound == BOUND_LATENCY)
		add_latency(&v->bounds, out);
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
	sentence_add(out, PERCENT(v->busy_ns, v->bounds.span_ns), WORDS(" over "),
		     DURATION(v->bounds.span_ns), WORDS(" (first to last GPU work"));
	add_exclusions(v, out);
	strbuf_addc(out, ')');
	if (v->bounds.sums[BOUND_WAIT].ns && !verdict_is(v, BOUND_WAIT))
		sentence_add(out, WORDS(", "),
			     PERCENT(v->bounds.sums[BOUND_WAIT].ns, v->bounds.span_ns),
			     WORDS(" waiting for other ranks"));
	if (v->bounds.sums[BOUND_COLLECTIVE].ns && !verdict_is(v, BOUND_COLLECTIVE))
		sentence_add(out, WORDS(", "),
			     PERCENT(v->bounds.sums[BOUND_COLLECTIVE].ns, v->bounds.span_ns),
			     WORDS(" in collectives, of which waiting for other ranks is unknown"));
	add_bound(v, out);
}

const struct analysis analysis_verdicts = {
	.size = sizeof(struct verdicts),
	.run = run,
	.reads_others = true,
};
