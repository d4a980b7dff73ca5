/*
 * perfetto_writer.h: what the parts of the Perfetto exporter share.
 *
 * Sequences: 1 holds descriptors and clocks, 2 GPU work, 3 counters of GPUs, and each track of a thread (or of a group such
 * as "NVTX ranges") has one of its own from 4 on. A sequence begins anew in each file.
 */
#ifndef PITOT_EXPORT_PERFETTO_PERFETTO_WRITER_H
#define PITOT_EXPORT_PERFETTO_PERFETTO_WRITER_H

#include "export/export_merge.h"
#include "export/lanes.h"
#include "perfetto/perfetto_packets.h"
#include "export/perfetto/perfetto_stacks.h"

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

/* A thread, or a group of a process. Slices that do not nest go to further lanes, which are tracks below it. */
struct track {
	struct perfetto *writer;
	struct lanes lanes;
	struct map names; /* keys of the names that are interned -> iid */
	struct perfetto_defined defined;
	uint64_t uuid; /* of lane 0; lane n: uuid + n */
	size_t lanes_described;
	struct perfetto_sequence sequence;
	uint32_t process, id; /* id: thread, domain of ranges, or queue */
	enum track_kind kind;
};

/* Categories of slices and names of annotations, interned in each sequence of a track. */
#define SLICE_CATEGORIES(C)                                                                        \
	C(RUNTIME, "cuda_runtime")                                                                 \
	C(DRIVER, "cuda_driver")                                                                   \
	C(NVTX, "nvtx")                                                                            \
	C(SCOPE, "scope")                                                                          \
	C(SYNC, "cuda_sync")                                                                       \
	C(OVERHEAD, "overhead")                                                                    \
	C(MEMORY, "memory")                                                                        \
	C(LOSS, "loss")

#define SLICE_NOTES(N)                                                                             \
	N(CORRELATION, "correlation")                                                              \
	N(RESULT, "result")                                                                        \
	N(DOMAIN, "domain")                                                                        \
	N(CATEGORY, "category")                                                                    \
	N(PAYLOAD, "payload")                                                                      \
	N(UNFINISHED, "unfinished")                                                                \
	N(STREAM, "stream")                                                                        \
	N(CONTEXT, "context")                                                                      \
	N(EVENT, "event")                                                                          \
	N(BYTES, "bytes")                                                                          \
	N(ADDRESS, "address")                                                                      \
	N(DEVICE, "device")                                                                        \
	N(THREAD, "thread")                                                                        \
	N(COUNT, "count")                                                                          \
	N(DETAIL, "detail")                                                                        \
	N(SYNC, "synchronization")                                                                 \
	N(SCOPE, "scope")                                                                          \
	N(CONTINUES, "continues")                                                                  \
	N(REPEATS, "repeats")                                                                      \
	N(WARMUPS, "warmups")                                                                      \
	N(EXTERNAL, "external_id")

#define CATEGORY_ID(id, name) CATEGORY_##id,
enum { CATEGORY_NONE, SLICE_CATEGORIES(CATEGORY_ID) CATEGORY_END };
#define NOTE_ID(id, name) NOTE_##id,
enum { NOTE_NONE, SLICE_NOTES(NOTE_ID) NOTE_END };

struct perfetto_tracks {
	struct map index; /* key of a track -> position */
	VEC(struct track *) items;
	uint64_t *process_uuids;
	bool *process_described; /* in this file */
	struct track *last;
	uint64_t uuid_seed;
};

/* A stream of a context: a hardware queue in Perfetto's words. */
struct gpu_queue {
	uint64_t iid;
	uint32_t context_iid, gpu;
	uint32_t context, stream;
	bool defined; /* in this file */
	uint8_t arguments[32]; /* device and stream, encoded */
	uint8_t arguments_length;
};

/* What all executions of a kernel configuration on one GPU have in common; copies and sets by kind. */
struct gpu_class {
	uint64_t kernel_iid; /* 0: no kernel */
	uint64_t stage_iid;
	bool defined; /* in this file */
	uint8_t launch[56]; /* grid and block, encoded */
	uint8_t launch_length;
};

struct perfetto_gpus {
	struct perfetto_sequence sequence;
	struct map contexts; /* process << 32 | context -> iid */
	struct map queue_index; /* context iid << 32 | stream -> position in queues */
	VEC(struct gpu_queue) queues;
	struct map class_index; /* see perfetto_gpu.c */
	VEC(struct gpu_class) classes;
	struct map stages; /* stage iids that are defined in this file */
	struct map kernel_names; /* hash of a short name -> stage iid of the first kernel with it, in this file */
	struct map context_iids; /* of contexts that are defined in this file */
	struct strbuf text; /* a name while it is made */
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
	struct map
		python_names; /* function << 32 | file -> the text that stands for the name of both */
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

/* A text to intern: `key` stands for it, in one track. */
struct track_name {
	uint64_t key;
	const char *text;
	size_t length;
};

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

/* An open slice or instant: annotations may follow, then perfetto_slice_close. */
struct open_slice {
	struct strbuf *out;
	size_t packet, event;
	bool has_stack;
};

/* Begins a slice; its end is written when its time has come. 0, or -E2BIG when the track is too crowded, or -ENOMEM. */
int perfetto_slice_open(struct perfetto *p, const struct slice *slice,
			const struct export_event *event, struct open_slice *open) MUST_USE;
void perfetto_slice_close(struct open_slice *open);

static inline void perfetto_note(struct strbuf *s, uint32_t name_iid, int64_t value)
{
	size_t token = proto_open(s, 4);

	proto_uint(s, 1, name_iid);
	proto_int(s, 4, value);
	proto_close(s, token);
}

void perfetto_note_double(struct strbuf *s, uint32_t name_iid, double value);
void perfetto_note_text(struct strbuf *s, uint32_t name_iid, const char *text, size_t length);

/* Position of the queue of a context's stream, made when it is new; UINT64_MAX without memory. */
uint64_t perfetto_queue(struct perfetto *p, uint32_t process, uint32_t context, uint32_t stream,
			uint32_t device, size_t gpu) MUST_USE;
/* Its name; valid until the next one is made. */
const char *perfetto_queue_name(struct perfetto *p, uint32_t process,
				const struct gpu_queue *queue);

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
int perfetto_counters_finish(struct perfetto *p, uint64_t time_ns) MUST_USE;
void perfetto_counters_release(struct perfetto *p);

#endif
