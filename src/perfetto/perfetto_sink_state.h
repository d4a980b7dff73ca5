/* perfetto_sink_state.h: state shared by the parts of the Perfetto sink. */
#ifndef PITOT_PERFETTO_PERFETTO_SINK_STATE_H
#define PITOT_PERFETTO_PERFETTO_SINK_STATE_H

#include <sys/types.h>

#include "base/lanes.h"
#include "format/definitions.h"
#include "perfetto/perfetto_counter_packets.h"
#include "perfetto/perfetto_stack_packets.h"
#include "perfetto/perfetto_sink.h"
#include "perfetto/perfetto_slice_packets.h"
#include "perfetto/perfetto_work_packets.h"

/* Added to the sink's base; tracks follow, each with its own. */
enum {
	LIVE_SEQUENCE_GLOBAL = 1,
	LIVE_SEQUENCE_GPU,
	LIVE_SEQUENCE_COUNTERS,
};

enum live_track_kind {
	LIVE_THREAD,
	LIVE_DOMAIN, /* ranges that a thread pushed in a domain other than NVTX's default one */
	LIVE_RANGES, /* ranges of a domain that cross threads */
	LIVE_LOSS,
	LIVE_COUNTERS, /* measured ranges whose slice is not in the trace */
	LIVE_MEMORY,
	LIVE_SYNC, /* synchronizations whose call is not in the trace */
	LIVE_OVERHEAD,
	LIVE_GPU_RANGES, /* ranges around the work of a stream, which is `thread` */
	LIVE_SAMPLES, /* sequences only; `domain` is the session */
	LIVE_OFF_CPU,
};

#define LIVE_MEASURED (PERFETTO_METRICS | PERFETTO_ARGUMENTS)
#define LIVE_LANES 64u /* concurrent ranges that cross threads; more are not shown */
#define LIVE_DEVICES 64u
#define LIVE_PENDING_KERNELS 65536u /* kernels that may wait for their metrics */
#define LIVE_LAUNCHES 4096u /* calls that may wait */
#define LIVE_SAMPLES_MAX 65536u /* between two seals */
#define LIVE_NODES 65536u /* arrows of one launch */
#define LIVE_NODES_ALL (16u * LIVE_NODES) /* of all waiting launches */
#define LIVE_SEALS 64u /* that a launch waits for at most while its nodes arrive */
#define LIVE_VALUES ((size_t)1 << 16) /* metric values that may wait for their slices */
#define LIVE_ENDS 4096u /* ends of ranges that may wait for the range's values */

struct live_track {
	struct perfetto_slices slices;
	struct perfetto_defined defined; /* stacks, and sampled threads */
	struct lanes lanes; /* export: slices that do not nest go to further lanes */
	enum live_track_kind kind;
	uint32_t thread, domain;
	uint32_t described; /* number of lanes described */
	uint32_t depth; /* number of open ranges */
	uint64_t lost; /* bit n: the beginning of the n-th innermost open range was lost; n < 64 */
	uint64_t lane_ends[LIVE_LANES]; /* end of each lane's last range, or LANE_IN_USE */
	uint64_t ranges[LIVE_LANES]; /* open range of each lane in use */
};

/*
 * A call that waits: a graph launch for its nodes, or any call with a new stack for the next seal,
 * because the rows of the stack or of its modules may not have arrived yet. Or nodes that wait for
 * their call.
 */
struct live_launch {
	struct row_api_call call;
	bool has_call;
	bool is_graph;
	bool is_busy; /* a node has arrived since the last seal */
	uint32_t seals;
	VEC(uint64_t) nodes; /* their ids */
};

/* The end of a pushed range, which waits for what was measured of the range. */
struct live_end {
	struct live_track *track;
	uint64_t time_ns;
	uint8_t level;
};

struct perfetto_live {
	struct sink sink;
	struct perfetto_sink_options options;
	struct definitions definitions;
	struct perfetto_export *export; /* of the options */
	struct strbuf own_out, *out; /* packets of the current row; export: of the file */
	uint32_t sequence; /* base of enum LIVE_SEQUENCE_… */
	uint32_t own_sequences, *sequences; /* in use */
	struct strbuf text, demangled;
	uint64_t time_ns; /* of the last row */
	pid_t owner;
	uint32_t pid; /* from the rows; 0: not known yet */
	/*
	 * Rows lost for lack of memory. The receiver counts the packets that it rejects; packets
	 * not offered after a rejected one are only in `dropped`.
	 */
	uint64_t lost;
	uint64_t loss_ns; /* of the last loss */
	uint64_t begun_ns;
	struct map reported; /* hashes of refusals already reported */
	uint64_t dropped; /* packets rejected and not yet reported */
	bool process_described, gpus_described;
	uint32_t devices; /* one more than the highest known ordinal */
	uint32_t gpus; /* one more than the highest known GPU number */
	uint32_t gpu_numbers[LIVE_DEVICES]; /* by ordinal */

	struct perfetto_works works;
	struct perfetto_readings readings;
	VEC(uint32_t) counters; /* ids of GPU counters, by number - 1 */
	struct map counter_numbers; /* string id of the name -> number */
	struct map host_counters; /* ids of host counters whose track is described */

	/* Hardware metrics: values arrive before their kernel's row and wait for it. */
	struct perfetto_metrics metrics;
	VEC(uint32_t) metric_ids; /* by number - 1 */
	struct map metric_numbers; /* id -> number */
	VEC(struct perfetto_metric) values; /* the values of a kernel are adjacent */
	/* correlation -> which values, see perfetto_sink_metrics.c; 0: removed */
	struct map value_index;
	size_t values_removed;
	/* kernels whose metrics have not arrived; they wait until the second seal at most */
	VEC(struct row_kernel) pending_kernels;
	size_t pending_before_seal; /* how many of them arrived before the last seal */

	VEC(struct row_range_value) range_values; /* the rows of a measurement are adjacent */
	VEC(struct live_end) ends;
	size_t values_before_seal, ends_before_seal; /* arrived before the last seal */

	VEC(struct live_track *) tracks;
	struct map track_index;

	VEC(struct live_launch) launches;
	struct map launch_index; /* correlation -> index into launches */
	size_t launch_nodes; /* of all launches */

	/* Call stacks. */
	VEC(struct row_cpu_sample) samples; /* since the last seal */
	VEC(struct row_module) modules;
	struct perfetto_frames frames; /* of the current stack */
};

/* Kinds of uuids after the kinds of tracks. */
enum { LIVE_UUID_PROCESS = LIVE_OFF_CPU + 1, LIVE_UUID_COUNTER };

/* Returns an id on which all sinks of the process agree. */
static inline uint64_t live_uuid(const struct perfetto_live *p, unsigned kind, uint64_t id)
{
	return (hash_u64(hash_u64(p->options.seed + kind) ^ id) >> 8 | 1) &
	       ~(uint64_t)(2 * LANES_MAX - 2);
}

/*
 * Returns the id of the work that a call launched; never 0. Nodes of graphs have other ids
 * (live_node_id).
 */
static inline uint64_t live_event_id(const struct perfetto_live *p, uint64_t correlation)
{
	return (hash_u64(p->options.seed) >> 24) + correlation + 1;
}

/*
 * Nodes of a graph share the correlation id of their launch, and a loop runs a node several times.
 */
static inline uint64_t live_node_id(const struct perfetto_live *p, uint64_t correlation,
				    uint64_t node, uint64_t start_ns)
{
	uint64_t hash = hash_u64(hash_u64(p->options.seed ^ correlation) ^ node);

	return hash_u64(hash ^ start_ns) >> 8 | UINT64_C(1) << 56;
}

static inline uint32_t live_gpu(const struct perfetto_live *p, uint64_t ordinal)
{
	if (p->export)
		return p->export->gpu;
	return ordinal < LIVE_DEVICES ? p->gpu_numbers[ordinal] : (uint32_t)ordinal;
}

const char *live_process_name(const struct perfetto_live *p);
const struct row_process *live_process(const struct perfetto_live *p);
const char *live_text(const struct perfetto_live *p, uint32_t id);
/* Discards the packets in p->out for lack of memory, and describes everything anew. */
void live_discard(struct perfetto_live *p);
/*
 * Passes the packets in p->out to options.write, or discards them if memory was lacking. Returns
 * false if some are lost.
 */
bool live_emit(struct perfetto_live *p);
/* Emits the end of a slice whose beginning was accepted; p->out must be empty. */
void live_end_slice(struct perfetto_live *p, const struct live_track *track, size_t lane,
		    uint64_t time_ns);
/*
 * Writes the process's track descriptor; each sequence needs its own, because sequences are
 * unordered.
 */
void live_process_descriptor(struct perfetto_live *p, uint32_t sequence);
/* Describes the process once. */
void live_describe_process(struct perfetto_live *p);

/* Finds or creates a track. NULL if out of memory. */
struct live_track *live_track(struct perfetto_live *p, enum live_track_kind kind, uint32_t thread,
			      uint32_t domain);
/* Describes a thread in the sequence of a track, which describes the process once. */
void live_describe_thread(struct perfetto_live *p, struct live_track *track, uint32_t thread);

/* At a seal: writes the samples. The definitions of their stacks have arrived by then. */
void live_samples_flush(struct perfetto_live *p);
/*
 * Returns in *iid the iid of a call's stack in the sequence of a track (0: unknown), and in *is_new
 * whether live_define_stack must follow in this packet's interned data. Returns 0 or -ENOMEM.
 */
int live_call_stack(struct perfetto_live *p, struct live_track *track, uint32_t stack,
		    uint64_t *iid, bool *is_new) MUST_USE;
void live_define_stack(struct perfetto_live *p, struct live_track *track, uint64_t iid);

/* For perfetto_readings.specify and perfetto_metrics.specify. */
void live_specify_counters(void *user, uint32_t gpu, struct strbuf *s);
void live_specify_metrics(void *user, uint32_t gpu, struct strbuf *s);
/* Returns a GPU's device, in *row if the caller's memory is needed, or NULL if it is unknown. */
const struct row_device *live_device(const struct perfetto_live *p, uint32_t gpu,
				     struct row_device *row);

/*
 * At a seal: writes the kernels whose metrics have arrived, and all that have waited for a whole
 * seal, or (all) every kernel.
 */
void live_pending_kernels_flush(struct perfetto_live *p, bool all);

/*
 * Writes a slice from begin->time_ns to end_ns. Between the two the caller adds annotations. Only
 * in exports, slices of a track may overlap. live_slice returns 0, -E2BIG, or -ENOMEM.
 */
int live_slice(struct perfetto_live *p, struct live_track *track, struct perfetto_slice *begin,
	       uint64_t end_ns, struct open_slice *open) MUST_USE;
void live_slice_end(struct perfetto_live *p, const struct live_track *track,
		    const struct perfetto_slice *begin, uint64_t end_ns, struct open_slice *open);

/* Annotates the open slice of a graph's launch with what was measured of it, if anything. */
void live_annotate_graph(struct perfetto_live *p, uint64_t correlation);
/* Returns whether the end of a pushed range waits for what may have been measured of the range. */
bool live_hold_end(struct perfetto_live *p, struct live_track *track, const struct row_nvtx *row);
/*
 * At a seal: writes the ends whose values have arrived, and the ends and values that have waited
 * for a whole seal, or (all) all of them. live_launches_flush must precede it.
 */
void live_ranges_flush(struct perfetto_live *p, bool all);

/* Adds a graph node that ran to its launch, which may still be to come. Returns 0 or -ENOMEM. */
int live_node(struct perfetto_live *p, uint64_t correlation, uint64_t id) MUST_USE;
/* At a seal: writes the calls that need not wait any longer, or (all) every call. */
void live_launches_flush(struct perfetto_live *p, bool all);
void live_launches_release(struct perfetto_live *p);

/* Each writes the packets of a row into p->out. Returns 0 or -ENOMEM. */
int live_work(struct perfetto_live *p, const struct table_schema *table, const void *row,
	      unsigned rows) MUST_USE;
int live_call(struct perfetto_live *p, const struct row_api_call *row) MUST_USE;
int live_sample(struct perfetto_live *p, const struct row_cpu_sample *row) MUST_USE;
int live_off_cpu(struct perfetto_live *p, const struct row_off_cpu *row) MUST_USE;
int live_cuda_event(struct perfetto_live *p, const struct row_cuda_event *row) MUST_USE;
int live_allocation(struct perfetto_live *p, const struct row_allocation *row) MUST_USE;
/* Only of exports. */
int live_sync(struct perfetto_live *p, const struct row_synchronization *row) MUST_USE;
int live_overhead(struct perfetto_live *p, const struct row_overhead *row) MUST_USE;
int live_nvtx(struct perfetto_live *p, const struct row_nvtx *row) MUST_USE;
int live_loss(struct perfetto_live *p, const struct row_loss *row) MUST_USE;
int live_dropped(struct perfetto_live *p) MUST_USE;
int live_capability(struct perfetto_live *p, const struct row_capability *row,
		    unsigned rows) MUST_USE;
int live_counter_sample(struct perfetto_live *p, const struct row_counter_sample *row) MUST_USE;
int live_metric_value(struct perfetto_live *p, const struct row_metric_value *row) MUST_USE;
int live_range_value(struct perfetto_live *p, const struct row_range_value *row) MUST_USE;

/*
 * Removes and returns the *count values that wait for a kernel (0: none), valid until the next row.
 */
const struct perfetto_metric *live_metrics_remove(struct perfetto_live *p, uint64_t correlation,
						  size_t *count);
/*
 * Returns a metric's number; 0 if out of memory. A new metric changes the iids of the descriptors,
 * which are written again.
 */
uint32_t live_metric_number(struct perfetto_live *p, uint32_t id);
const char *live_metric_name(const struct perfetto_live *p, uint32_t number);
/* Discards all waiting values. */
void live_metrics_clear(struct perfetto_live *p);

#endif
