#include "perfetto/ipc_frames.h"

#include "base/proto_read.h"

/* Fields of IPCFrame. */
enum {
	FRAME_REQUEST = 2,
	FRAME_BIND = 3,
	FRAME_BIND_REPLY = 4,
	FRAME_INVOKE = 5,
	FRAME_REPLY = 6,
	FRAME_ERROR = 7
};

/* --- frames sent --- */

/* frame_end fills in the length. */
static size_t frame_begin(struct strbuf *out, uint64_t request)
{
	size_t start = out->length;

	raw_reserve(out, 0);
	out->length += IPC_LENGTH_BYTES;
	proto_uint(out, FRAME_REQUEST, request);
	return start;
}

static void frame_end(struct strbuf *out, size_t start)
{
	store_u32(out->data + start, (uint32_t)(out->length - start - IPC_LENGTH_BYTES));
}

void ipc_bind(struct strbuf *out, uint64_t request)
{
	size_t start = frame_begin(out, request), bind = proto_open(out, FRAME_BIND);

	proto_string(out, 1, "ProducerPort");
	proto_close(out, bind);
	frame_end(out, start);
}

struct ipc_call ipc_call_open(struct strbuf *out, const struct ipc_methods *methods,
			      uint64_t request, enum ipc_method method, bool expect_reply)
{
	struct ipc_call call = { .start = frame_begin(out, request) };

	call.invoke = proto_open(out, FRAME_INVOKE);
	proto_uint(out, 1, methods->service);
	proto_uint(out, 2, methods->ids[method]);
	if (!expect_reply)
		proto_uint(out, 4, true);
	call.arguments = proto_open(out, 3);
	return call;
}

void ipc_call_close(struct strbuf *out, const struct ipc_call *call)
{
	proto_close(out, call->arguments);
	proto_close(out, call->invoke);
	frame_end(out, call->start);
}

/* --- frames received --- */

static bool read_invoke_reply(struct ipc_frame *frame, struct cursor in)
{
	struct proto_field f;

	while (proto_next(&in, &f)) {
		if (f.number == 1)
			frame->success = f.value;
		else if (f.number == 2)
			frame->has_more = f.value;
		else if (f.number == 3)
			frame->reply = proto_message(&f);
	}
	return !in.failed;
}

bool ipc_frame_read(struct ipc_frame *frame, const void *bytes, size_t length)
{
	struct cursor in = cursor_of(bytes, length);
	struct proto_field f;
	bool valid = true;

	*frame = (struct ipc_frame){ .kind = IPC_OTHER, .reply = cursor_of(bytes, 0) };
	while (valid && proto_next(&in, &f)) {
		if (f.number == FRAME_REQUEST) {
			frame->request = f.value;
		} else if (f.number == FRAME_BIND_REPLY) {
			frame->kind = IPC_BIND_REPLY;
			frame->reply = proto_message(&f);
		} else if (f.number == FRAME_REPLY) {
			frame->kind = IPC_INVOKE_REPLY;
			valid = read_invoke_reply(frame, proto_message(&f));
		} else if (f.number == FRAME_ERROR) {
			frame->kind = IPC_REQUEST_ERROR;
		}
	}
	return valid && !in.failed;
}

static bool read_method(struct ipc_methods *methods, struct cursor in)
{
#define NAME(name_, text) text,
	static const char *const names[IPC_METHOD_COUNT] = { IPC_METHODS(NAME) };
#undef NAME
	struct proto_field f, name = { 0 };
	uint32_t id = 0;

	while (proto_next(&in, &f)) {
		if (f.number == 1)
			id = (uint32_t)f.value;
		else if (f.number == 2)
			name = f;
	}
	for (size_t i = 0; i < IPC_METHOD_COUNT; i++)
		if (name.length == strlen(names[i]) && !memcmp(name.bytes, names[i], name.length))
			methods->ids[i] = id;
	return !in.failed;
}

bool ipc_methods_read(struct ipc_methods *methods, struct cursor reply)
{
	struct proto_field f;
	bool valid = true, success = false;

	*methods = (struct ipc_methods){ 0 };
	while (valid && proto_next(&reply, &f)) {
		if (f.number == 1)
			success = f.value;
		else if (f.number == 2)
			methods->service = (uint32_t)f.value;
		else if (f.number == 3)
			valid = read_method(methods, proto_message(&f));
	}
	for (size_t i = 0; i < IPC_METHOD_COUNT; i++)
		valid &= methods->ids[i] != 0;
	return valid && success && !reply.failed;
}

static bool read_start(struct ipc_command *command, struct cursor in)
{
	struct proto_field f;

	while (proto_next(&in, &f)) {
		if (f.number == 1)
			command->instance = f.value;
		else if (f.number == 2)
			command->config = proto_message(&f);
	}
	return !in.failed;
}

/* Validates all of a flush, so that ipc_command_next need not. */
static bool read_flush(struct ipc_command *command, struct cursor in)
{
	struct proto_field f;

	command->message = in;
	while (proto_next(&in, &f)) {
		if (f.number == 2)
			command->flush = f.value;
	}
	return !in.failed;
}

bool ipc_command_read(struct ipc_command *command, struct cursor reply)
{
	static const enum ipc_command_kind kinds[] = {
		[1] = IPC_START, [2] = IPC_STOP,  [3] = IPC_SETUP_TRACING,
		[5] = IPC_FLUSH, [7] = IPC_CLEAR,
	};
	struct proto_field f;
	bool valid = true;

	*command = (struct ipc_command){ .config = cursor_of(reply.p, 0),
					 .message = cursor_of(reply.p, 0),
					 .ids = cursor_of(reply.p, 0) };
	while (valid && proto_next(&reply, &f)) {
		if (f.number >= ARRAY_SIZE(kinds) || !kinds[f.number])
			continue;
		command->kind = kinds[f.number];
		if (command->kind == IPC_START || command->kind == IPC_STOP)
			valid = read_start(command, proto_message(&f));
		else
			valid = read_flush(command, proto_message(&f));
	}
	return valid && !reply.failed;
}

bool ipc_command_next(struct ipc_command *command, uint64_t *instance)
{
	struct proto_field f;

	while (!cursor_left(&command->ids)) {
		if (!proto_next(&command->message, &f))
			return false;
		if (f.number == 1)
			command->ids = proto_numbers(&f);
	}
	*instance = cursor_varint(&command->ids);
	return !command->ids.failed;
}
