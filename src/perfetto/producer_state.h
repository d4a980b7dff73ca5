/*
 * producer_state.h: state shared by producer.c (thread and connection) and producer_instances.c
 * (commands and packets).
 */
#ifndef PITOT_PERFETTO_PRODUCER_STATE_H
#define PITOT_PERFETTO_PRODUCER_STATE_H

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/own_fd.h"
#include "perfetto/chunks.h"
#include "perfetto/ipc_frames.h"
#include "perfetto/packet_queue.h"
#include "perfetto/producer.h"

#define OPEN_CHUNKS 16 /* if more writers are active, the chunk open for longest is sent */
#define WRITER_IDS 32768 /* from 1 */
/*
 * Chunks leave room for replies. A service that causes more replies than fit, without reading them,
 * is disconnected.
 */
#define OUTPUT_BYTES (256u << 10)
/* a chunk is added only below this size of the output */
#define OUTPUT_CHUNKS (OUTPUT_BYTES - (96u << 10))
#define INPUT_BYTES (IPC_LENGTH_BYTES + IPC_FRAME_MAX)
#define SEQUENCE_WORDS (PRODUCER_SEQUENCES_MAX / 64)

struct trace_writer {
	uint32_t next_chunk;
	uint16_t id; /* 0: not registered */
	uint8_t open; /* number of its open chunk, from 1; 0: none */
};

enum pending { PENDING_NOTHING, PENDING_FLUSH, PENDING_STOP };

struct instance {
	/* Changed only by the producer's thread, with queue.lock. */
	uint32_t number; /* modulo PRODUCER_INSTANCES_MAX it is the index; 0: never used */
	bool open;

	/* With queue.lock. */
	uint64_t begun[SEQUENCE_WORDS], dropped[SEQUENCE_WORDS]; /* one bit per sequence */
	uint64_t lost;

	/* Producer's thread only. */
	uint64_t id; /* assigned by the service */
	uint32_t target_buffer;
	enum pending pending; /* request to the handler without an answer yet */
	bool stop_requested; /* stop after the answer */
	uint64_t flush_first; /* oldest unanswered flush; 0: none */
	uint64_t flush_next; /* oldest flush that arrived after the request; 0: none */
	uint32_t released; /* writers released so far while stopping */
	struct trace_writer writers[PRODUCER_SEQUENCES_MAX];
};

struct open_chunk {
	struct chunk chunk;
	struct instance *instance; /* NULL: not in use */
	struct trace_writer *writer;
	uint64_t since; /* value of chunks_opened when it was opened */
};

struct producer {
	struct producer_handler handler;
	char name[PRODUCER_NAME_MAX];
	char sources[PRODUCER_SOURCES_MAX][PRODUCER_NAME_MAX];
	size_t source_count;
	struct sockaddr_un address; /* length 0: Perfetto's default */
	socklen_t address_length;
	pid_t owner;

	pthread_mutex_t end_lock;
	pthread_cond_t end_changed;
	bool ended;
	atomic_bool stopping, draining, forgotten;
	struct own_fd wake[2]; /* the thread reads from the first */
	atomic_bool woken;
	uint64_t program_seen_ns; /* when the program was last seen alive */

	struct packet_queue queue;
	struct queued_packet head; /* of the packet being removed */
	bool has_head;
	bool is_continuation; /* a chunk already sent contains a part of it */
	size_t left; /* bytes of it */

	/* The connection. */
	struct own_fd socket;
	bool has_refused; /* a service of another user */
	bool broken; /* must be closed */
	bool bound;
	bool may_commit; /* setup_tracing was received */
	uint64_t requests, initialize_request, commands_request;
	struct ipc_methods methods;
	struct strbuf out; /* frames to send */
	size_t sent; /* bytes of out */
	uint64_t moved_ns; /* when the service last accepted data */
	uint64_t drain_ns; /* when draining began */
	uint8_t *in;
	size_t in_length;

	uint64_t flush_last, flush_acknowledged;
	unsigned instances_open;
	uint32_t last_writer;
	uint64_t chunks_opened;
	uint64_t writer_ids[WRITER_IDS / 64]; /* bits of ids in use */
	struct open_chunk chunks[OPEN_CHUNKS];
	struct perfetto_config config;
	struct instance instances[PRODUCER_INSTANCES_MAX];
};

/* --- producer.c --- */

/* Opens a call to the service. Exceeding the output limit breaks the connection. */
struct ipc_call producer_call(struct producer *p, enum ipc_method method, bool expect_reply);
void producer_call_end(struct producer *p, const struct ipc_call *call);

/* --- producer_instances.c --- */

void producer_command(struct producer *p, struct ipc_command *command);
/* Moves packets into chunks, and chunks into the output, while there is room. */
void producer_drain(struct producer *p);
/* Whether all packets are in the output. */
bool producer_drained(const struct producer *p);
/* Called when the connection has ended. */
void producer_close_instances(struct producer *p);

#endif
