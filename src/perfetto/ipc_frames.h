/*
 * ipc_frames.h: frames between a producer and Perfetto's service: a length of four bytes, then an
 * IPCFrame message.
 *
 * The service assigns ids to its methods and lists them by name in its reply to the bind request.
 * Everything received from the service is validated here.
 */
#ifndef PITOT_PERFETTO_IPC_FRAMES_H
#define PITOT_PERFETTO_IPC_FRAMES_H

#include "base/proto.h"

#define IPC_FRAME_MAX (128u << 10) /* without the length */
#define IPC_LENGTH_BYTES 4

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

/* --- frames sent --- */

/* Appends the frame that requests the service's methods. */
void ipc_bind(struct strbuf *out, uint64_t request);

/* A call of a method. The caller writes the arguments (base/proto.h) between open and close. */
struct ipc_call {
	size_t start, invoke, arguments;
};

struct ipc_call ipc_call_open(struct strbuf *out, const struct ipc_methods *methods,
			      uint64_t request, enum ipc_method method, bool expect_reply);
void ipc_call_close(struct strbuf *out, const struct ipc_call *call);

/* --- frames received --- */

enum ipc_kind { IPC_OTHER, IPC_BIND_REPLY, IPC_INVOKE_REPLY, IPC_REQUEST_ERROR };

struct ipc_frame {
	enum ipc_kind kind;
	uint64_t request;
	bool success, has_more;
	struct cursor reply; /* the method's reply; for IPC_BIND_REPLY the whole message */
};

/* Both return false if the bytes are malformed. */
bool ipc_frame_read(struct ipc_frame *frame, const void *bytes, size_t length) MUST_USE;
/* Also returns false if the service lacks a method. */
bool ipc_methods_read(struct ipc_methods *methods, struct cursor reply) MUST_USE;

enum ipc_command_kind {
	IPC_NO_COMMAND, /* unknown command */
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
	struct cursor message, ids; /* state of ipc_command_next */
};

bool ipc_command_read(struct ipc_command *command, struct cursor reply) MUST_USE;
/* Returns the next instance of a FLUSH or CLEAR; false at the end. */
bool ipc_command_next(struct ipc_command *command, uint64_t *instance);

#endif
