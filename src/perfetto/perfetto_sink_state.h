/* perfetto_sink_state.h: what the parts of the sink share. */
#ifndef PITOT_PERFETTO_PERFETTO_SINK_STATE_H
#define PITOT_PERFETTO_PERFETTO_SINK_STATE_H

#include <sys/types.h>

#include "format/definitions.h"
#include "perfetto/perfetto_counter.h"
#include "perfetto/perfetto_frames.h"
#include "perfetto/perfetto_sink.h"
#include "perfetto/perfetto_slices.h"
#include "perfetto/perfetto_work.h"

enum {
	LIVE_SEQUENCE_GLOBAL = 1,
	LIVE_SEQUENCE_GPU,
	LIVE_SEQUENCE_COUNTERS,
	LIVE_SEQUENCE_TRACKS,
};

enum live_track_kind {
	LIVE_THREAD,
	LIVE_DOMAIN, /* ranges that a thread pushed, of another domain than NVTX's default one */
	LIVE_RANGES, /* ranges of a domain that cross threads */
	LIVE_LOSS,
	LIVE_SAMPLES, /* a sequence only */
};

#define LIVE_MEASURED (PERFETTO_METRICS | PERFETTO_ARGUMENTS)
#define LIVE_LANES 64u /* of ranges that cross threads and overlap; more are not shown */
#define LIVE_DEVICES 64u
#define LIVE_EARLY 65536u /* kernels that wait for their values; more do not */
#define LIVE_LAUNCHES 4096u /* calls that wait */
#define LIVE_SAMPLES_MAX 65536u /* between two seals */
#define LIVE_NODES 65536u /* of a launch that get arrows */
#define LIVE_NODES_ALL (16u * LIVE_NODES) /* of launches that wait */
#define LIVE_SEALS 64u /* that a launch waits for at most, while nodes of it come */
#define LIVE_VALUES ((size_t)1 << 16) /* of hardware counters that wait for their kernels */

struct live_track {
	struct perfetto_slices slices;
	struct perfetto_defined defined; /* stacks, and threads that are sampled */
	enum live_track_kind kind;
	uint32_t thread, domain;
	uint32_t described; /* lanes */
	uint32_t depth; /* of ranges that are open */
	uint64_t lost; /* bit n: the beginning of the n-th innermost one was not taken; n < 64 */
	uint64_t lanes[LIVE_LANES]; /* when each is free again */
	uint64_t ranges[LIVE_LANES]; /* the open one of each lane in use */
};

/*
 * A call that waits: a launch of a graph for the nodes that it ran, and any call with a new stack
 * for the next seal, because the rows of the stack, or of the files that its code is from, may be
 * on their way. Or nodes that wait for their call.
 */
struct live_launch {
	struct row_api_call call;
	bool has_call;
	bool is_graph;
	bool is_busy; /* a node has come since the last seal */
	uint32_t seals;
	VEC(uint64_t) nodes; /* ids of them */
};

struct perfetto_live {
	struct sink sink;
	struct perfetto_sink_options options;
	struct definitions definitions;
	struct strbuf out; /* packets of the row that is being written */
	struct strbuf text, demangled;
	uint64_t time_ns; /* the last of a row */
	pid_t owner;
	uint32_t pid; /* as the rows have it; 0: not known yet */
	uint64_t
		lost; /* rows that there was no memory for; packets are counted by who takes them */
	uint64_t loss_ns; /* of the last loss */
	uint64_t begun_ns;
	struct map told; /* hashes of refusals */
	uint64_t dropped; /* packets that were not taken, and not told of yet */
	bool process_described, gpus_described;
	uint32_t devices, gpus; /* ordinals, and numbers, of those that are known are below it */
	uint32_t gpu_numbers[LIVE_DEVICES]; /* by ordinal */

	struct perfetto_works works;
	struct perfetto_readings readings;
	VEC(uint32_t) counters; /* ids of those of GPUs, by number - 1 */
	struct map counter_numbers; /* id -> number, 0 for one of the host */
	struct map host_counters; /* id of those whose track is described */

	/* Hardware counters: values come before their kernel's row, and wait for it. */
	struct perfetto_metrics metrics;
	VEC(uint32_t) metric_ids; /* by number - 1 */
	struct map metric_numbers; /* id -> number */
	VEC(struct perfetto_metric) values; /* of a kernel one behind the other */
	/* correlation -> which values, see perfetto_sink_metrics.c; 0: taken */
	struct map value_index;
	size_t values_taken;
	VEC(struct row_kernel)
	early; /* kernels whose values have not come: until the next seal but one */
	size_t early_before; /* of them, those of before the last seal */

	VEC(struct live_track *) tracks;
	struct map track_index;

	VEC(struct live_launch) launches;
	struct map launch_index; /* correlation -> position */
	size_t launch_nodes; /* of all of them */

	/* Call stacks. */
	VEC(struct row_cpu_sample) samples; /* since the last seal */
	VEC(struct row_module) modules;
	VEC(const struct row_stack_node *) frames; /* of the stack at hand, the innermost first */
	const char *note; /* stands before the outermost frame of it; "": nothing */
};

/* What uuids are of; the kinds of tracks come before. */
enum { LIVE_UUID_PROCESS = LIVE_SAMPLES + 1, LIVE_UUID_COUNTER };

/* Ids that all sinks of the process agree on. */
static inline uint64_t live_uuid(const struct perfetto_live *p, unsigned kind, uint64_t id)
{
	return (hash_u64(hash_u64(p->options.seed + kind) ^ id) >> 8 | 1) &
	       ~(uint64_t)(2 * LIVE_LANES - 2);
}

/*
 * Of the work that a call launched; never 0. Nodes of graphs have ids of another kind
 * (live_node_id).
 */
static inline uint64_t live_event_id(const struct perfetto_live *p, uint64_t correlation)
{
	return (hash_u64(p->options.seed) >> 24) + correlation + 1;
}

/*
 * Nodes of a graph have the correlation id of its launch in common; a loop runs a node several
 * times.
 */
static inline uint64_t live_node_id(const struct perfetto_live *p, uint64_t correlation,
				    uint64_t node, uint64_t start_ns)
{
	uint64_t hash = hash_u64(hash_u64(p->options.seed ^ correlation) ^ node);

	return hash_u64(hash ^ start_ns) >> 8 | UINT64_C(1) << 56;
}

static inline uint32_t live_gpu(const struct perfetto_live *p, uint64_t ordinal)
{
	return ordinal < LIVE_DEVICES ? p->gpu_numbers[ordinal] : (uint32_t)ordinal;
}

const struct row_process *live_process(const struct perfetto_live *p);
const char *live_text(const struct perfetto_live *p, uint32_t id);
/* Hands the packets of p->out to the producer. false: some are lost. */
bool live_hand_over(struct perfetto_live *p);
/* Ends a slice whose beginning was taken; p->out is empty. */
void live_end_slice(struct perfetto_live *p, const struct live_track *track, size_t lane,
		    uint64_t time_ns);
/*
 * A descriptor of its track; each sequence has one of its own, because sequences come in no order.
 */
void live_process_descriptor(struct perfetto_live *p, uint32_t sequence);
/* Describes the process once. */
void live_describe_process(struct perfetto_live *p);

/* Made when it is new. NULL: no memory. */
struct live_track *live_track(struct perfetto_live *p, enum live_track_kind kind, uint32_t thread,
			      uint32_t domain);
/* In the sequence of a track, which describes the process once. */
void live_describe_thread(struct perfetto_live *p, struct live_track *track, uint32_t thread);

/* At a seal: writes samples. By then it is known what their stacks consist of. */
void live_samples_end(struct perfetto_live *p);
/*
 * Iid of a stack of a call in the sequence of a track, and whether live_define_stack has to follow
 * in this packet's interned data. *iid 0: it is not known. 0 or -ENOMEM.
 */
int live_call_stack(struct perfetto_live *p, struct live_track *track, uint32_t stack,
		    uint64_t *iid, bool *is_new) MUST_USE;
void live_define_stack(struct perfetto_live *p, struct live_track *track, uint64_t iid);

/* perfetto_readings.specify, perfetto_metrics.specify. */
void live_specify_counters(void *user, struct strbuf *s);
void live_specify_metrics(void *user, struct strbuf *s);

/*
 * At a seal: writes kernels whose values have come meanwhile, and those that have waited for a
 * whole seal, or all.
 */
void live_early_kernels_end(struct perfetto_live *p, bool all);

/* A node of a graph was run: its launch waits for that, or is to come. 0 or -ENOMEM. */
int live_node(struct perfetto_live *p, uint64_t correlation, uint64_t id) MUST_USE;
/* At a seal: writes calls that need not wait any more, or all. */
void live_launches_end(struct perfetto_live *p, bool all);
void live_launches_release(struct perfetto_live *p);

/* Each writes the packets of a row into p->out. 0 or -ENOMEM. */
int live_work(struct perfetto_live *p, const struct table_schema *table, const void *row,
	      unsigned rows) MUST_USE;
int live_call(struct perfetto_live *p, const struct row_api_call *row) MUST_USE;
int live_sample(struct perfetto_live *p, const struct row_cpu_sample *row) MUST_USE;
int live_nvtx(struct perfetto_live *p, const struct row_nvtx *row) MUST_USE;
int live_loss(struct perfetto_live *p, const struct row_loss *row) MUST_USE;
int live_dropped(struct perfetto_live *p) MUST_USE;
int live_capability(struct perfetto_live *p, const struct row_capability *row,
		    unsigned rows) MUST_USE;
int live_counter_sample(struct perfetto_live *p, const struct row_counter_sample *row) MUST_USE;
int live_metric_value(struct perfetto_live *p, const struct row_metric_value *row) MUST_USE;

/*
 * The values that wait for a kernel, which are taken; *count of them, 0: there are none. Until the
 * next row.
 */
const struct perfetto_metric *live_metrics_take(struct perfetto_live *p, uint64_t correlation,
						size_t *count);
const char *live_metric_name(const struct perfetto_live *p, uint32_t number);
/* Forgets all that waits. */
void live_metrics_forget(struct perfetto_live *p);

#endif
