/*
 * perfetto_packets.h: writes the messages of a Perfetto trace field by field. Field numbers are
 * those of Perfetto's schema (perfetto_trace.proto, and its extensions for GPU compute, 1000 and
 * above).
 */
#ifndef PITOT_PERFETTO_PERFETTO_PACKETS_H
#define PITOT_PERFETTO_PERFETTO_PACKETS_H

#include "base/proto.h"

enum perfetto_clock { PERFETTO_REALTIME = 1, PERFETTO_MONOTONIC = 3, PERFETTO_BOOTTIME = 6 };
enum perfetto_flags { PERFETTO_CLEARED = 1, PERFETTO_NEEDS_STATE = 2 };
enum perfetto_stage_category { PERFETTO_OTHER = 0, PERFETTO_GRAPHICS = 1, PERFETTO_COMPUTE = 2 };
enum { PERFETTO_API_CUDA = 4 };

#define PERFETTO_NO_TIME UINT64_MAX

struct perfetto_packet {
	uint64_t time_ns; /* PERFETTO_NO_TIME: none */
	uint32_t clock; /* 0: the sequence's default */
	uint32_t sequence; /* nonzero */
	uint32_t flags;
};

/* Field numbers of TracePacket, for proto_open after perfetto_packet_open. */
enum {
	PACKET_PROCESS_TREE = 2,
	PACKET_CLOCK_SNAPSHOT = 6,
	PACKET_TRACK_EVENT = 11,
	PACKET_INTERNED_DATA = 12,
	PACKET_GPU_COUNTER_EVENT = 52,
	PACKET_GPU_RENDER_STAGE_EVENT = 53,
	PACKET_DEFAULTS = 59,
	PACKET_TRACK_DESCRIPTOR = 60,
	PACKET_GPU_LOG = 63,
	PACKET_GPU_MEMORY = 71,
	PACKET_GPU_INFO = 128,
	PACKET_GPU_FREQUENCY = 129,
	PACKET_STACK_SAMPLE = 135,
};

/* Opens a packet; close it with proto_close. */
static inline size_t perfetto_packet_open(struct strbuf *s, const struct perfetto_packet *packet)
{
	size_t token;

	raw_reserve(s, 0);
	token = proto_open(s, 1);
	if (packet->time_ns != PERFETTO_NO_TIME)
		proto_uint(s, 8, packet->time_ns);
	if (packet->clock)
		proto_uint(s, 58, packet->clock);
	proto_uint(s, 10, packet->sequence);
	if (packet->flags)
		proto_uint(s, 13, packet->flags);
	return token;
}

struct perfetto_sequence {
	uint32_t id;
	bool started; /* in this file */
};

/*
 * Opens a packet of a sequence with defaults and interned data. The first packet in a file makes
 * MONOTONIC the sequence's clock; *defaults is then the open message of the defaults, which the
 * caller closes, and otherwise 0.
 */
static inline size_t perfetto_sequence_open(struct strbuf *s, struct perfetto_sequence *sequence,
					    uint64_t time_ns, size_t *defaults)
{
	struct perfetto_packet head = { time_ns, 0, sequence->id, PERFETTO_NEEDS_STATE };
	size_t token;

	*defaults = 0;
	if (likely(sequence->started))
		return perfetto_packet_open(s, &head);
	sequence->started = true;
	head.clock = PERFETTO_MONOTONIC;
	head.flags |= PERFETTO_CLEARED;
	token = perfetto_packet_open(s, &head);
	*defaults = proto_open(s, PACKET_DEFAULTS);
	proto_uint(s, 58, PERFETTO_MONOTONIC);
	return token;
}

/* --- InternedData (inside an open one) --- */

/* Fields of InternedData. */
enum {
	DATA_EVENT_CATEGORIES = 1,
	DATA_EVENT_NAMES = 2,
	DATA_ANNOTATION_NAMES = 3,
	DATA_FUNCTION_NAMES = 5,
	DATA_FRAMES = 6,
	DATA_CALLSTACKS = 7,
	DATA_BUILD_IDS = 16,
	DATA_MAPPING_PATHS = 17,
	DATA_SOURCE_PATHS = 18,
	DATA_MAPPINGS = 19,
	DATA_ANNOTATION_TEXTS = 29,
	DATA_ARGUMENT_NAMES = 1001,
};

void perfetto_intern_specification(struct strbuf *s, uint64_t iid, const char *name, size_t length,
				   enum perfetto_stage_category category);
void perfetto_intern_context(struct strbuf *s, uint64_t iid, uint32_t pid);
void perfetto_intern_name(struct strbuf *s, uint32_t field, uint64_t iid, const char *name,
			  size_t length);
/* Opens a compute kernel; the caller adds its arguments and closes it with proto_close. */
size_t perfetto_intern_kernel(struct strbuf *s, uint64_t iid, const char *name, size_t name_length,
			      const char *demangled, size_t demangled_length, const char *arch);

/* ExtraComputeArg; field: 3 in a launch, 5 in a kernel. */
static inline void perfetto_argument(struct strbuf *s, uint32_t field, uint32_t name_iid,
				     int64_t value)
{
	size_t token = proto_open(s, field);

	proto_uint(s, 1, name_iid);
	proto_int(s, 3, value);
	proto_close(s, token);
}

static inline void perfetto_argument_unsigned(struct strbuf *s, uint32_t field, uint32_t name_iid,
					      uint64_t value)
{
	size_t token = proto_open(s, field);

	proto_uint(s, 1, name_iid);
	proto_uint(s, 4, value);
	proto_close(s, token);
}

void perfetto_argument_double(struct strbuf *s, uint32_t field, uint32_t name_iid, double value);
/* Writes an argument whose name is not interned. */
void perfetto_argument_named(struct strbuf *s, uint32_t field, const char *name, double value);
void perfetto_argument_text(struct strbuf *s, uint32_t field, uint32_t name_iid, const char *text);

/* Dim3; field: 1 grid, 2 block. */
void perfetto_dimensions(struct strbuf *s, uint32_t field, const uint32_t xyz[3]);

/* --- GpuRenderStageEvent --- */

struct perfetto_stage {
	uint64_t event_id;
	uint64_t duration_ns; /* PERFETTO_NO_TIME: an instant */
	uint64_t queue_iid, stage_iid;
	uint32_t gpu, context_iid;
	const char *name; /* NULL: the stage's name */
	uint64_t kernel_iid; /* 0: none */
	uint64_t waited_for; /* event id; 0: none */
};

/* Opens the message inside a packet and writes these fields; the launch may follow. */
size_t perfetto_stage_open(struct strbuf *s, const struct perfetto_stage *stage);
enum { STAGE_LAUNCH = 21 };

/* --- whole packets --- */

struct perfetto_clocks {
	uint64_t monotonic_ns, realtime_ns, boottime_ns; /* boottime 0: unknown */
};

void perfetto_clock_snapshot(struct strbuf *s, uint32_t sequence,
			     const struct perfetto_clocks *clocks);

struct perfetto_track_descriptor {
	uint64_t uuid, parent_uuid; /* parent 0: none */
	const char *name; /* NULL: none */
	size_t name_length;
	int64_t pid, tid; /* pid -1: neither a process nor a thread; tid -1: a process */
	const char *command; /* of a process; NULL: none */
	const char *counter_unit; /* unit of a counter; NULL: not a counter */
};

/*
 * Writes the parent and, if known, the command of a process. Readers name the process after the
 * first word of the command.
 */
void perfetto_process_tree(struct strbuf *s, const struct perfetto_packet *head,
			   const struct perfetto_track_descriptor *process, uint32_t parent_pid);

/* Writes a warning to the track "GPU Log". */
void perfetto_log(struct strbuf *s, const struct perfetto_packet *head, const char *tag,
		  const char *message);

/* Writes a track descriptor. The name of a process or thread goes into its own message. */
void perfetto_track_descriptor(struct strbuf *s, uint32_t sequence,
			       const struct perfetto_track_descriptor *track);

#endif
