/* layer: perfetto */
/*
 * What a service sends: frames behind their lengths, with replies, commands and configurations
 * inside.
 */
#include "fuzz.h"

#include <stdlib.h>

#include "perfetto/ipc_frames.h"
#include "perfetto/perfetto_config.h"

static void check_config(struct cursor bytes)
{
	static struct perfetto_config c;

	if (!perfetto_config_decode(&c, bytes.p, cursor_left(&bytes)))
		return;
	if (c.counter_names.count > PERFETTO_LIST_MAX || c.range_count > PERFETTO_LIST_MAX ||
	    c.name_filter_count > PERFETTO_LIST_MAX || c.counter_id_count > PERFETTO_LIST_MAX ||
	    strnlen(c.source, sizeof(c.source)) == sizeof(c.source))
		abort();
}

static void check_command(struct cursor reply)
{
	struct ipc_command command;
	uint64_t id;

	if (!ipc_command_read(&command, reply))
		return;
	check_config(command.config);
	for (size_t n = 0; ipc_command_next(&command, &id); n++)
		if (n > cursor_left(&reply))
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct cursor in = cursor_of(bytes, size);
	struct ipc_methods methods;
	struct ipc_frame frame;

	check_config(in);
	check_command(in);
	while (cursor_left(&in)) {
		uint32_t length = cursor_u32(&in);
		const uint8_t *p = cursor_bytes(&in, length);

		if (!p)
			break;
		if (!ipc_frame_read(&frame, p, length))
			continue;
		if (frame.kind == IPC_BIND_REPLY)
			(void)!ipc_methods_read(&methods, frame.reply);
		else
			check_command(frame.reply);
	}
	return 0;
}
