/*
 * producer.h: a producer of Perfetto's tracing service `traced`, on its own thread inside the
 * traced program.
 *
 * The thread connects, registers data sources, executes the service's commands, and sends the
 * packets that other threads have queued as chunks inside CommitData; it shares no memory with the
 * service. While nobody traces, the thread sleeps in poll(). Without a service it retries after 0.1
 * s, then doubles the interval up to 10 s.
 *
 * Anybody can listen on a socket in /tmp. The service gets names and stacks, and commands the
 * recorder, so it has to be root's or this process's user's, or that of the account which owns
 * /run/perfetto, a folder that only root can make.
 *
 * An instance is one data source in one session of the service; its number is never reused. Several
 * instances of a source may run at once. An instance lives from `start` until producer_done()
 * answers its `stop`, or until `lost`.
 *
 * The thread does no harm to the program: no output, no signals (blocked in the thread,
 * MSG_NOSIGNAL), and its descriptors are close-on-exec and above 2. If the program closes one of
 * them, the connection ends (`lost`), and nothing is written to the file that now has its number.
 */
#ifndef PITOT_PERFETTO_PRODUCER_H
#define PITOT_PERFETTO_PRODUCER_H

#include <stdbool.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "perfetto/perfetto_config.h"

#define PRODUCER_SOURCES_MAX 16
#define PRODUCER_NAME_MAX 64 /* of a data source or the producer, including its NUL */
#define PRODUCER_INSTANCES_MAX 64 /* at once; all packets of further ones are lost */
#define PRODUCER_SEQUENCES_MAX 4096 /* per instance */
#define PRODUCER_PACKET_MAX (4u << 20) /* in bytes; also limited by the size of the queue */

/*
 * All handlers run on the producer's thread and should return soon, because no packet is sent
 * meanwhile. None runs after producer_stop() has begun. `clear` may be NULL.
 */
struct producer_handler {
	void *user;
	/* `config` is valid only during the call. */
	void (*start)(void *user, uint32_t instance, const struct perfetto_config *config);
	/*
	 * Request all packets up to now; for `stop` also the last ones. Each call is answered by
	 * one producer_done(), from within the call or later, from any thread. An instance gets no
	 * further request before its answer. The service waits for 5 seconds.
	 */
	void (*flush)(void *user, uint32_t instance);
	void (*stop)(void *user, uint32_t instance);
	/* The next packet of each sequence restarts incremental state. */
	void (*clear)(void *user, uint32_t instance);
	/* The connection has ended: all instances are gone, and no request needs an answer. */
	void (*lost)(void *user);
	/* The service at `path` is another user's, so nothing is sent to it. May be NULL. */
	void (*refused)(void *user, const char *path, unsigned uid);
	/* Adds fields to the DataSourceDescriptor of a source, given by its index. May be NULL. */
	void (*describe)(void *user, size_t source, struct strbuf *out);
	/*
	 * Called once a second, may be NULL. Returns true if only the producer's thread is left in
	 * the program. The producer then sends the queued packets and ends its thread.
	 */
	bool (*program_ended)(void *user);
};

struct producer_options {
	const char *socket; /* NULL: $PERFETTO_PRODUCER_SOCK_NAME, else Perfetto's default */
	const char *name;
	const char *const *sources; /* names of data sources */
	size_t source_count;
	size_t queue_bytes; /* 0: 4 MiB; rounded up to a power of two, at least 128 KiB */
	struct producer_handler handler;
};

struct producer;

/*
 * Starts the thread; the options are copied. The service need not be running. Handlers may run
 * before this returns. Returns NULL and sets the error on failure.
 */
struct producer *producer_start(const struct producer_options *options, struct error *e) MUST_USE;

/*
 * Sends the queued packets and ends the thread. Takes up to 3 s as long as the service accepts data
 * at least every 0.5 s, and less than a second otherwise. Must not be called from a handler. Later
 * writes return false, so the memory is not freed. Does nothing in the child of a fork.
 */
void producer_stop(struct producer *p);

/* In the child of a fork: closes the connection there. Later writes return false. p may be NULL. */
void producer_after_fork(struct producer *p);

/*
 * Queues a packet, a TracePacket without trusted_packet_sequence_id, of a sequence (1 …) of an
 * instance. Any thread. The producer adds first_packet_on_sequence and, after a loss,
 * previous_packet_dropped. Never waits for the service. is_end: the packet ends a slice; a part of
 * the queue is reserved for such packets. Returns false if the queue is full or the instance is
 * gone: the packet is counted as lost, and the sequence must restart its incremental state.
 */
bool producer_write(struct producer *p, uint32_t instance, uint32_t sequence, const void *packet,
		    size_t length, bool is_end);

/* Answers the last flush or stop of an instance: all requested packets are written. Any thread. */
void producer_done(struct producer *p, uint32_t instance);

/* Returns the number of lost packets of an instance; 0 if it has long been gone. Any thread. */
uint64_t producer_lost(const struct producer *p, uint32_t instance);

#endif
