/*
 * ipc_frames.h: the frames between a producer and Perfetto's service: a length of four bytes, then an IPCFrame message.
 *
 * Methods have ids that the service tells by name in its reply to the bind request. What the service sends is checked here.
 */
#ifndef PITOT_PERFETTO_IPC_FRAMES_H
#define PITOT_PERFETTO_IPC_FRAMES_H

#include "base/bytes.h"

#define IPC_FRAME_MAX (128u << 10) /* without its length */
#define IPC_LENGTH_BYTES 4
#define IPC_OVERHEAD_MAX 128 /* bytes of a frame around its arguments */

#define IPC_METHODS(M)                                                                             \
	M(INITIALIZE, "InitializeConnection")                                                      \
	M(REGISTER_SOURCE, "RegisterDataSource")                                                   \
	M(COMMIT, "CommitData")                                                                    \
	M(COMMANDS, "GetAsyncCommand")                                                             \
	M(REGISTER_WRITER, "RegisterTraceWriter")                                                  \
	M(UNREGISTER_WRITER, "UnregisterTraceWriter")                                              \
	M(STARTED, "NotifyDataSourceStarted")                                                      \
	M(STOPPED, "NotifyDataSourceStopped")

#define IPC_METHOD_ENUM(name_, text) IPC_##name_,
enum ipc_method { IPC_METHODS(IPC_METHOD_ENUM) IPC_METHOD_COUNT };

struct ipc_methods {
	uint32_t service;
	uint32_t ids[IPC_METHOD_COUNT];
};

/* --- what we send --- */

/* A small message, built in place. A field that does not fit is left out, and marks the message as failed. */
struct ipc_message {
	size_t length;
	bool failed;
	uint8_t bytes[512];
};

void ipc_number(struct ipc_message *m, uint32_t field, uint64_t value);
void ipc_bytes(struct ipc_message *m, uint32_t field, const void *bytes, size_t length);
void ipc_text(struct ipc_message *m, uint32_t field, const char *text);
/* The head of a field whose `length` bytes follow elsewhere. */
void ipc_head(struct ipc_message *m, uint32_t field, size_t length);

/* Frames to send, in fixed memory. */
struct ipc_output {
	uint8_t *bytes;
	size_t start, length,
		capacity; /* bytes[start] is the next to send, bytes[length] the end */
};

static inline size_t ipc_room(const struct ipc_output *out)
{
	return out->capacity - out->length;
}

/* The following return false, and append nothing, when there is no room. */
bool ipc_bind(struct ipc_output *out, uint64_t request) MUST_USE;

/* A call: its arguments are a message, then `length` further bytes, which may be none. */
struct ipc_call {
	uint64_t request;
	enum ipc_method method;
	bool reply; /* is wanted */
	const struct ipc_message *arguments;
	const uint8_t *more;
	size_t more_length;
};

bool ipc_invoke(struct ipc_output *out, const struct ipc_methods *methods,
		const struct ipc_call *call) MUST_USE;

/* --- what we receive --- */

enum ipc_kind { IPC_OTHER, IPC_BIND_REPLY, IPC_INVOKE_REPLY, IPC_REQUEST_ERROR };

struct ipc_frame {
	enum ipc_kind kind;
	uint64_t request;
	bool success, has_more;
	struct cursor reply; /* the reply of the method; of IPC_BIND_REPLY the whole message */
};

/* Each returns false when the bytes are broken. */
bool ipc_frame_read(struct ipc_frame *frame, const void *bytes, size_t length) MUST_USE;
/* false, too, when the service lacks a method. */
bool ipc_methods_read(struct ipc_methods *methods, struct cursor reply) MUST_USE;

enum ipc_command_kind {
	IPC_NO_COMMAND, /* one that is not known */
	IPC_SETUP_TRACING,
	IPC_START,
	IPC_STOP,
	IPC_FLUSH,
	IPC_CLEAR,
};

struct ipc_command {
	enum ipc_command_kind kind;
	uint64_t instance; /* START, STOP */
	struct cursor config; /* START: a DataSourceConfig */
	uint64_t flush; /* FLUSH: its id */
	struct cursor message, ids; /* of ipc_command_next */
};

bool ipc_command_read(struct ipc_command *command, struct cursor reply) MUST_USE;
/* The next of the instances that a FLUSH or CLEAR is about; false: there is none. */
bool ipc_command_next(struct ipc_command *command, uint64_t *instance);

#endif
