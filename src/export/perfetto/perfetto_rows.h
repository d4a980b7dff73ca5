/*
 * perfetto_rows.h: the events of a recording as rows for Perfetto's sinks (perfetto_sink.h), one
 * per process, with what only the whole recording tells about each.
 */
#ifndef PITOT_EXPORT_PERFETTO_PERFETTO_ROWS_H
#define PITOT_EXPORT_PERFETTO_PERFETTO_ROWS_H

#include "export/collective_links.h"
#include "export/export_merge.h"
#include "export/export_stacks.h"
#include "export/row_feed.h"
#include "perfetto/perfetto_sink.h"

#define PERFETTO_SEQUENCE 1 /* of clocks and GPUs */

struct perfetto {
	struct export_view view;
	struct export_merge merge;
	struct export_stacks stacks;
	struct collective_links links;
	struct strbuf out; /* packets not yet passed to the file */
	uint64_t time_ns; /* start of the last event */
	/* added to ids of work, as traces opened together share one id space */
	uint64_t event_base;
	atomic_uint rows; /* all of enum perfetto_rows */
	int stream_width; /* digits of the largest stream id */
	struct row_feed *feeds; /* per session; without a sink: see its owner's */
	struct map levels; /* process << 32 | number of counters that its sink knows */
	struct perfetto_export export;
	const struct export_event *event; /* the current one */
	uint32_t process; /* its process */
	struct perfetto_slices path; /* track of the critical path; sequence id 0: none yet */
	struct map path_calls; /* rows of api_call that are on it */
};

/* Returns the id of work, for arrows; never 0. */
static inline uint64_t perfetto_work_id(const struct perfetto *p, uint64_t number)
{
	return p->event_base + number + 1;
}

/* Returns 0 or -ENOMEM. */
int perfetto_feeds_init(struct perfetto *p) MUST_USE;
void perfetto_feeds_release(struct perfetto *p);
void perfetto_describe_gpus(struct perfetto *p);

/* --- perfetto_path.c --- */

/* Returns 0 or -ENOMEM. */
int perfetto_path_init(struct perfetto *p) MUST_USE;
void perfetto_path_release(struct perfetto *p);
/* Adds the flow that leads from the critical path to a call on it. */
void perfetto_path_add_flow(struct perfetto *p, uint64_t call, struct strbuf *out);

export_writer perfetto_gpu_work, perfetto_cuda_event, perfetto_call, perfetto_nvtx,
	perfetto_gpu_range, perfetto_sync, perfetto_overhead, perfetto_allocation, perfetto_loss,
	perfetto_range_values, perfetto_sample, perfetto_counter_sample, perfetto_path;

#endif
