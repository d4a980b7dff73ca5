#include "perfetto/ipc_frames.h"

#include "perfetto/proto_read.h"

/* Fields of IPCFrame. */
enum {
	FRAME_REQUEST = 2,
	FRAME_BIND = 3,
	FRAME_BIND_REPLY = 4,
	FRAME_INVOKE = 5,
	FRAME_REPLY = 6,
	FRAME_ERROR = 7
};

/* --- what we send --- */

static bool has_room(struct ipc_message *m, size_t length)
{
	if (m->failed || sizeof(m->bytes) - m->length < length)
		m->failed = true;
	return !m->failed;
}

static void put_varint(struct ipc_message *m, uint64_t v)
{
	if (has_room(m, VARINT_MAX))
		m->length += varint_put(m->bytes + m->length, v);
}

void ipc_number(struct ipc_message *m, uint32_t field, uint64_t value)
{
	put_varint(m, (uint64_t)field << 3 | PROTO_READ_VARINT);
	put_varint(m, value);
}

void ipc_head(struct ipc_message *m, uint32_t field, size_t length)
{
	put_varint(m, (uint64_t)field << 3 | PROTO_READ_BYTES);
	put_varint(m, length);
}

void ipc_bytes(struct ipc_message *m, uint32_t field, const void *bytes, size_t length)
{
	ipc_head(m, field, length);
	if (!has_room(m, length))
		return;
	memcpy(m->bytes + m->length, bytes, length);
	m->length += length;
}

void ipc_text(struct ipc_message *m, uint32_t field, const char *text)
{
	ipc_bytes(m, field, text, strlen(text));
}

static void append(struct ipc_output *out, const void *bytes, size_t length)
{
	if (length)
		memcpy(out->bytes + out->length, bytes, length);
	out->length += length;
}

/* Appends the length of a frame and its first bytes; the caller appends the `following` others. */
static bool begin_frame(struct ipc_output *out, const struct ipc_message *head, size_t following)
{
	uint8_t prefix[IPC_LENGTH_BYTES];
	size_t length = head->length + following;

	if (head->failed || length > IPC_FRAME_MAX || ipc_room(out) < sizeof(prefix) + length)
		return false;
	store_u32(prefix, (uint32_t)length);
	append(out, prefix, sizeof(prefix));
	append(out, head->bytes, head->length);
	return true;
}

bool ipc_bind(struct ipc_output *out, uint64_t request)
{
	struct ipc_message name = { 0 }, frame = { 0 };

	ipc_text(&name, 1, "ProducerPort");
	ipc_number(&frame, FRAME_REQUEST, request);
	ipc_bytes(&frame, FRAME_BIND, name.bytes, name.length);
	return begin_frame(out, &frame, 0);
}

bool ipc_invoke(struct ipc_output *out, const struct ipc_methods *methods,
		const struct ipc_call *call)
{
	struct ipc_message method = { 0 }, frame = { 0 };
	size_t arguments = call->arguments->length + call->more_length;

	ipc_number(&method, 1, methods->service);
	ipc_number(&method, 2, methods->ids[call->method]);
	if (!call->reply)
		ipc_number(&method, 4, true);
	ipc_head(&method, 3, arguments);
	ipc_number(&frame, FRAME_REQUEST, call->request);
	ipc_head(&frame, FRAME_INVOKE, method.length + arguments);
	if (call->arguments->failed || !begin_frame(out, &frame, method.length + arguments))
		return false;
	append(out, method.bytes, method.length);
	append(out, call->arguments->bytes, call->arguments->length);
	append(out, call->more, call->more_length);
	return true;
}

/* --- what we receive --- */

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

/* Checks a flush to its end, so that ipc_command_next need not. */
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
