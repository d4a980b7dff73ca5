/*
 * perfetto_writer.h: what the parts of the Perfetto exporter share.
 *
 * Sequences: 1 holds descriptors and clocks, 2 GPU work, 3 counters of GPUs, and each track of a
 * thread (or of a group such as "NVTX ranges") has one of its own from 4 on. A sequence begins anew
 * in each file.
 */
#ifndef PITOT_EXPORT_PERFETTO_PERFETTO_WRITER_H
#define PITOT_EXPORT_PERFETTO_PERFETTO_WRITER_H

#include "export/export_merge.h"
#include "export/lanes.h"
#include "export/perfetto/perfetto_stacks.h"
#include "perfetto/perfetto_slices.h"
#include "perfetto/perfetto_work.h"

enum {
	SEQUENCE_GLOBAL = 1,
	SEQUENCE_GPU = 2,
	SEQUENCE_COUNTER = 3,
	SEQUENCE_TRACKS = 4,
};

enum track_kind {
	TRACK_THREAD,
	TRACK_RANGES, /* NVTX start/end ranges of a domain */
	TRACK_GPU_RANGES, /* NVTX ranges around the work of a queue */
	TRACK_SYNC, /* synchronizations whose call is not in the recording */
	TRACK_OVERHEAD,
	TRACK_MEMORY,
	TRACK_LOSS,
	TRACK_CPU_SAMPLES, /* these two are sequences only; their process is a session */
	TRACK_OFF_CPU,
};

/*
 * A thread, or a group of a process. Slices that do not nest go to further lanes, which are tracks
 * below it.
 */
struct track {
	struct perfetto *writer;
	struct lanes lanes;
	struct perfetto_slices slices;
	struct perfetto_defined defined; /* stacks */
	size_t lanes_described;
	uint32_t process, id; /* id: thread, domain of ranges, or queue */
	enum track_kind kind;
};

struct perfetto_tracks {
	struct map index; /* key of a track -> position */
	VEC(struct track *) items;
	uint64_t *process_uuids;
	bool *process_described; /* in this file */
	struct track *last;
	uint64_t uuid_seed;
};

struct perfetto_gpus {
	struct perfetto_works works;
	struct strbuf text, demangled; /* names while they are made */
	int stream_width; /* digits of the largest id of a stream */
};

struct perfetto_counters;

struct perfetto {
	struct export_view view;
	struct export_merge merge;
	struct strbuf out; /* packets that are not yet handed to the file */
	uint64_t time_ns; /* start of the last event */
	uint64_t event_base; /* of ids of work: traces opened together share one space */
	struct perfetto_tracks tracks;
	struct export_stacks stacks;
	/* function << 32 | file -> the text that stands for the name of both */
	struct map python_names;
	struct perfetto_gpus gpus;
	struct perfetto_counters *counters;
};

/* Positions at the beginning of a file: descriptions and interned names are to be written again. */
int perfetto_tracks_init(struct perfetto *p) MUST_USE;
void perfetto_tracks_restart(struct perfetto *p);
void perfetto_tracks_finish(struct perfetto *p); /* ends open slices */
void perfetto_tracks_release(struct perfetto *p);

/* Describes a process once in each file. */
void perfetto_describe_process(struct perfetto *p, uint32_t process);

/* The track of a thread or group, made and described when it is new; NULL without memory. */
struct track *perfetto_track(struct perfetto *p, enum track_kind kind, uint32_t process,
			     uint32_t id);

/* Of a session; the thread is described. NULL without memory. */
struct track *perfetto_samples_track(struct perfetto *p, uint32_t session, uint32_t thread,
				     bool off_cpu);

/* How an event is shown on a track. */
struct slice {
	enum track_kind track;
	uint32_t process, id; /* of the track */
	uint32_t category;
	struct track_name name;
	uint32_t stack; /* of the event's session; 0: none */
	bool instant; /* at the event's start */
};

/*
 * Begins a slice; its end is written when its time has come. 0, or -E2BIG when the track is too
 * crowded, or -ENOMEM.
 */
int perfetto_slice_open(struct perfetto *p, const struct slice *slice,
			const struct export_event *event, struct open_slice *open) MUST_USE;
/* Position of the queue of a context's stream, made when it is new; UINT64_MAX without memory. */
uint64_t perfetto_queue(struct perfetto *p, uint32_t process, uint32_t context, uint32_t stream,
			uint32_t device, size_t gpu) MUST_USE;
/* Its name; valid until the next one is made. */
const char *perfetto_queue_name(struct perfetto *p, uint32_t process, uint64_t queue);

/* Work on GPUs. */
void perfetto_gpus_restart(struct perfetto *p); /* writes GpuInfo */
void perfetto_gpus_release(struct perfetto *p);
export_writer perfetto_gpu_work, perfetto_cuda_event;
/* Id of work for arrows; never 0. */
static inline uint64_t perfetto_event_id(const struct perfetto *p, uint32_t number)
{
	return p->event_base + number + 1;
}

/* Calls, ranges, losses …: all that is slices of tracks. */
export_writer perfetto_call, perfetto_nvtx, perfetto_gpu_range, perfetto_sync, perfetto_overhead,
	perfetto_allocation, perfetto_loss;

/* CPU samples and times off the CPU. */
export_writer perfetto_sample;

/* Readings of counters. */
int perfetto_counters_init(struct perfetto *p) MUST_USE;
export_writer perfetto_counter_sample;
void perfetto_counters_restart(struct perfetto *p);
/* The last values hold until then. */
/* Hardware counters of a launch: `rows` rows of metric_value from `first` on. 0 or -ENOMEM. */
int perfetto_kernel_counters(struct perfetto *p, const struct export_event *event, size_t gpu,
			     uint64_t first, unsigned rows) MUST_USE;
int perfetto_counters_finish(struct perfetto *p, uint64_t time_ns) MUST_USE;
void perfetto_counters_release(struct perfetto *p);

#endif
