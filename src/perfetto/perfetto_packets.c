#include "perfetto/perfetto_packets.h"

static size_t open_named(struct strbuf *s, uint32_t field, uint64_t iid, const char *name,
			 size_t length)
{
	size_t token = proto_open(s, field);

	proto_uint(s, 1, iid);
	proto_text(s, 2, name, length);
	return token;
}

void perfetto_intern_specification(struct strbuf *s, uint64_t iid, const char *name, size_t length,
				   enum perfetto_stage_category category)
{
	size_t token = open_named(s, 24, iid, name, length);

	if (category != PERFETTO_OTHER)
		proto_uint(s, 4, category);
	proto_close(s, token);
}

void perfetto_intern_context(struct strbuf *s, uint64_t iid, uint32_t pid)
{
	size_t token = proto_open(s, 23);

	proto_uint(s, 1, iid);
	proto_uint(s, 2, pid);
	proto_uint(s, 3, PERFETTO_API_CUDA);
	proto_close(s, token);
}

void perfetto_intern_name(struct strbuf *s, uint32_t field, uint64_t iid, const char *name,
			  size_t length)
{
	proto_close(s, open_named(s, field, iid, name, length));
}

size_t perfetto_intern_kernel(struct strbuf *s, uint64_t iid, const char *name, size_t name_length,
			      const char *demangled, size_t demangled_length, const char *arch)
{
	size_t token = open_named(s, 1000, iid, name, name_length);

	proto_text(s, 3, demangled, demangled_length);
	if (*arch)
		proto_string(s, 4, arch);
	return token;
}

void perfetto_argument_double(struct strbuf *s, uint32_t field, uint32_t name_iid, double value)
{
	size_t token = proto_open(s, field);

	proto_uint(s, 1, name_iid);
	proto_double(s, 5, value);
	proto_close(s, token);
}

void perfetto_argument_named(struct strbuf *s, uint32_t field, const char *name, double value)
{
	size_t token = proto_open(s, field);

	proto_text(s, 2, name, strlen(name));
	proto_double(s, 5, value);
	proto_close(s, token);
}

void perfetto_argument_text(struct strbuf *s, uint32_t field, uint32_t name_iid, const char *text)
{
	size_t token = proto_open(s, field);

	proto_uint(s, 1, name_iid);
	proto_text(s, 6, text, strlen(text));
	proto_close(s, token);
}

void perfetto_dimensions(struct strbuf *s, uint32_t field, const uint32_t xyz[3])
{
	size_t token = proto_open(s, field);

	for (uint32_t i = 0; i < 3; i++)
		proto_uint(s, i + 1, xyz[i]);
	proto_close(s, token);
}

size_t perfetto_stage_open(struct strbuf *s, const struct perfetto_stage *stage)
{
	size_t token = proto_open(s, PACKET_GPU_RENDER_STAGE_EVENT);

	proto_uint(s, 1, stage->event_id);
	if (stage->duration_ns != PERFETTO_NO_TIME)
		proto_uint(s, 2, stage->duration_ns);
	proto_uint(s, 13, stage->queue_iid);
	proto_uint(s, 14, stage->stage_iid);
	proto_uint(s, 11, stage->gpu);
	proto_uint(s, 5, stage->context_iid);
	if (stage->name)
		proto_string(s, 17, stage->name);
	if (stage->waited_for)
		proto_uint(s, 18, stage->waited_for);
	if (stage->kernel_iid)
		proto_uint(s, 19, stage->kernel_iid);
	return token;
}

static void clock_reading(struct strbuf *s, enum perfetto_clock clock, uint64_t time_ns)
{
	size_t token = proto_open(s, 1);

	proto_uint(s, 1, clock);
	proto_uint(s, 2, time_ns);
	proto_close(s, token);
}

/*
 * Trace time is BOOTTIME if it is known, so that the trace can be merged with others from the same
 * machine.
 */
void perfetto_clock_snapshot(struct strbuf *s, uint32_t sequence,
			     const struct perfetto_clocks *clocks)
{
	struct perfetto_packet head = { PERFETTO_NO_TIME, 0, sequence, 0 };
	size_t packet = perfetto_packet_open(s, &head);
	size_t snapshot = proto_open(s, PACKET_CLOCK_SNAPSHOT);

	clock_reading(s, PERFETTO_MONOTONIC, clocks->monotonic_ns);
	if (clocks->boottime_ns)
		clock_reading(s, PERFETTO_BOOTTIME, clocks->boottime_ns);
	clock_reading(s, PERFETTO_REALTIME, clocks->realtime_ns);
	proto_uint(s, 2, clocks->boottime_ns ? PERFETTO_BOOTTIME : PERFETTO_MONOTONIC);
	proto_close(s, snapshot);
	proto_close(s, packet);
}

void perfetto_process_tree(struct strbuf *s, const struct perfetto_packet *head,
			   const struct perfetto_track_descriptor *process, uint32_t parent_pid)
{
	const char *arguments = strchr(process->command, ' ');
	size_t packet, tree, entry;

	if (!*process->command)
		return;
	packet = perfetto_packet_open(s, head);
	tree = proto_open(s, PACKET_PROCESS_TREE);
	entry = proto_open(s, 1);
	proto_uint(s, 1, (uint64_t)process->pid);
	proto_uint(s, 2, parent_pid);
	proto_string(s, 3, process->name);
	if (arguments && arguments[1])
		proto_text(s, 3, arguments + 1, strlen(arguments + 1));
	proto_close(s, entry);
	proto_close(s, tree);
	proto_close(s, packet);
}

void perfetto_log(struct strbuf *s, const struct perfetto_packet *head, const char *tag,
		  const char *message)
{
	size_t packet = perfetto_packet_open(s, head), log = proto_open(s, PACKET_GPU_LOG);

	proto_uint(s, 1, 4); /* WARNING */
	proto_text(s, 2, tag, strlen(tag));
	proto_text(s, 3, message, strlen(message));
	proto_close(s, log);
	proto_close(s, packet);
}

static void describe_process(struct strbuf *s, const struct perfetto_track_descriptor *track)
{
	size_t token = proto_open(s, 3);

	proto_int(s, 1, track->pid);
	if (track->command)
		proto_text(s, 2, track->command, strlen(track->command));
	if (track->name)
		proto_text(s, 6, track->name, track->name_length);
	proto_close(s, token);
}

static void describe_thread(struct strbuf *s, const struct perfetto_track_descriptor *track)
{
	size_t token = proto_open(s, 4);

	proto_int(s, 1, track->pid);
	proto_int(s, 2, track->tid);
	if (track->name)
		proto_text(s, 5, track->name, track->name_length);
	proto_close(s, token);
}

static void describe_counter(struct strbuf *s, const struct perfetto_track_descriptor *track)
{
	size_t token = proto_open(s, 8);

	proto_text(s, 6, track->counter_unit, strlen(track->counter_unit));
	proto_close(s, token);
}

void perfetto_track_descriptor(struct strbuf *s, uint32_t sequence,
			       const struct perfetto_track_descriptor *track)
{
	struct perfetto_packet head = { PERFETTO_NO_TIME, 0, sequence, 0 };
	size_t packet = perfetto_packet_open(s, &head);
	size_t descriptor = proto_open(s, PACKET_TRACK_DESCRIPTOR);

	proto_uint(s, 1, track->uuid);
	if (track->parent_uuid)
		proto_uint(s, 5, track->parent_uuid);
	if (track->pid >= 0 && track->tid < 0)
		describe_process(s, track);
	else if (track->pid >= 0)
		describe_thread(s, track);
	else if (track->name)
		proto_text(s, 2, track->name, track->name_length);
	if (track->counter_unit)
		describe_counter(s, track);
	proto_close(s, descriptor);
	proto_close(s, packet);
}
