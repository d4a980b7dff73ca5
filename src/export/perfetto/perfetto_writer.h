/*
 * perfetto_writer.h: declarations shared by the parts of the Perfetto exporter.
 *
 * Packet sequences: 1 contains descriptors and clocks, 2 GPU work, 3 GPU counters. Each track of a
 * thread (or of a group such as "NVTX ranges") has its own from 4 on. Every file restarts all
 * sequences.
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
	TRACK_COUNTERS, /* measured ranges that no other slice shows */
	/* this kind and the next are sequences only; their process is a session */
	TRACK_CPU_SAMPLES,
	TRACK_OFF_CPU,
};

/*
 * A thread or a group of a process. Slices that do not nest go to further lanes, which are child
 * tracks.
 */
struct track {
	struct lanes lanes;
	struct perfetto *writer;
	struct perfetto_slices slices;
	struct perfetto_defined defined; /* stacks defined in the sequence */
	size_t lanes_described;
	uint32_t process, id; /* id: thread, domain of ranges, or queue */
	enum track_kind kind;
};

struct perfetto_tracks {
	struct tracks all; /* key: kind << 60 | process << 32 | id */
	uint64_t *process_uuids;
	bool *process_described; /* in the current file */
	struct track *last;
	uint64_t uuid_seed;
};

struct perfetto_gpus {
	struct perfetto_works works;
	struct strbuf text, demangled; /* scratch buffers for names */
	int stream_width; /* digits of the largest stream id */
};

struct perfetto_counters;

struct perfetto {
	struct export_view view;
	struct export_merge merge;
	struct strbuf out; /* packets not yet passed to the file */
	uint64_t time_ns; /* start of the last event */
	/* added to ids of work, as traces opened together share one id space */
	uint64_t event_base;
	struct perfetto_tracks tracks;
	struct export_stacks stacks;
	/* function << 32 | file -> text that is the name of both */
	struct map python_names;
	struct perfetto_gpus gpus;
	struct perfetto_counters *counters;
};

/* perfetto_tracks_restart begins a file: all descriptors and interned names are written again. */
int perfetto_tracks_init(struct perfetto *p) MUST_USE;
void perfetto_tracks_restart(struct perfetto *p);
void perfetto_tracks_finish(struct perfetto *p); /* ends open slices */
void perfetto_tracks_release(struct perfetto *p);

/* Writes the descriptor of a process once per file. */
void perfetto_describe_process(struct perfetto *p, uint32_t process);

/* Finds or creates, and describes, the track of a thread or group; NULL if out of memory. */
struct track *perfetto_track(struct perfetto *p, enum track_kind kind, uint32_t process,
			     uint32_t id);

/* The sample sequence of a session's thread, which it describes; NULL if out of memory. */
struct track *perfetto_samples_track(struct perfetto *p, uint32_t session, uint32_t thread,
				     bool off_cpu);

/* An event as a slice on a track. */
struct slice {
	enum track_kind track;
	uint32_t process, id; /* of the track */
	uint32_t category;
	struct track_name name, scope; /* scope: see struct perfetto_slice */
	uint32_t stack; /* stack id in the event's session; 0: none */
	bool instant; /* at the event's start */
};

/*
 * Begins a slice; its end is written when the events reach that time. Returns 0, -E2BIG if the
 * track has too many overlapping slices, or -ENOMEM.
 */
int perfetto_slice_open(struct perfetto *p, const struct slice *slice,
			const struct export_event *event, struct open_slice *open) MUST_USE;
/* Finds or creates the queue of a stream. Returns its index; UINT64_MAX if out of memory. */
uint64_t perfetto_queue(struct perfetto *p, uint32_t process, uint32_t context, uint32_t stream,
			uint32_t device, size_t gpu) MUST_USE;
/* Returns the name of a queue, valid until the next call. */
const char *perfetto_queue_name(struct perfetto *p, uint32_t process, uint64_t queue);

/* GPU work. */
void perfetto_gpus_restart(struct perfetto *p); /* writes GpuInfo */
void perfetto_gpus_release(struct perfetto *p);
export_writer perfetto_gpu_work, perfetto_cuda_event;
/* Returns the id of work, for arrows; never 0. */
static inline uint64_t perfetto_event_id(const struct perfetto *p, uint32_t number)
{
	return p->event_base + number + 1;
}

/* Calls, ranges, losses and other slices on tracks. */
export_writer perfetto_call, perfetto_nvtx, perfetto_gpu_range, perfetto_sync, perfetto_overhead,
	perfetto_allocation, perfetto_loss, perfetto_range_values;

/* CPU samples and time off the CPU. */
export_writer perfetto_sample;

/* Counter samples. */
int perfetto_counters_init(struct perfetto *p) MUST_USE;
export_writer perfetto_counter_sample;
void perfetto_counters_restart(struct perfetto *p);
/* Writes the `rows` hardware metrics of a launch from row `first` on. Returns 0 or -ENOMEM. */
int perfetto_kernel_counters(struct perfetto *p, const struct export_event *event, size_t gpu,
			     uint64_t first, unsigned rows) MUST_USE;
/* Ends the counters at time_ns; the last values hold until then. */
int perfetto_counters_finish(struct perfetto *p, uint64_t time_ns) MUST_USE;
void perfetto_counters_release(struct perfetto *p);

#endif
