/*
 * producer.h: a producer of Perfetto's tracing service `traced`, in a thread of its own inside
 * somebody else's program.
 *
 * The thread connects, announces data sources, obeys the service's commands, and sends the packets
 * that other threads have put into a queue as chunks inside CommitData: no memory is shared with
 * the service. While nobody traces, the thread sleeps in poll(). While no service is there, it
 * tries again after 0.1 s, then after twice as long each time, up to 10 s.
 *
 * An instance is one data source in one session of the service; its number is never used again.
 * Several instances of a source run at once. An instance lives from `start` until producer_done()
 * answers its `stop`, or until `lost`.
 *
 * In the program: no output, no signals (blocked in the thread, MSG_NOSIGNAL), descriptors that are
 * close-on-exec and above 2. When the program closes one of them, the connection ends (`lost`), and
 * nothing is written into what has its number now.
 */
#ifndef PITOT_PERFETTO_PRODUCER_H
#define PITOT_PERFETTO_PRODUCER_H

#include <stdbool.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "perfetto/perfetto_config.h"

#define PRODUCER_SOURCES_MAX 16
#define PRODUCER_NAME_MAX 64 /* of a data source, of the producer; with its NUL */
#define PRODUCER_INSTANCES_MAX 64 /* at once; of one more all packets are lost */
#define PRODUCER_SEQUENCES_MAX 4096 /* of an instance */
#define PRODUCER_PACKET_MAX (4u << 20) /* bytes; and at most what fits into the queue */

/*
 * All of these run on the producer's thread and should return soon, because meanwhile no packet is
 * sent. None runs after producer_stop() has begun. `clear` may be NULL.
 */
struct producer_handler {
	void *user;
	/* `config` is gone when the function returns. */
	void (*start)(void *user, uint32_t instance, const struct perfetto_config *config);
	/*
	 * Asks for all packets up to now, of `stop` also the last ones. Each call is answered by
	 * one producer_done(), from within it or later and from any thread. An instance is not
	 * asked again before it has answered. The service waits for 5 seconds.
	 */
	void (*flush)(void *user, uint32_t instance);
	void (*stop)(void *user, uint32_t instance);
	/* The next packet of each sequence begins incremental state anew. */
	void (*clear)(void *user, uint32_t instance);
	/* The connection has ended: all instances are gone, and nothing has to be answered. */
	void (*lost)(void *user);
	/* Adds fields to the DataSourceDescriptor of a source, by its position. May be NULL. */
	void (*describe)(void *user, size_t source, struct strbuf *out);
	/*
	 * Asked once a second, may be NULL. true: the program has no thread left but ours, so the
	 * producer sends what is in the queue and ends its thread.
	 */
	bool (*program_ended)(void *user);
};

struct producer_options {
	const char *socket; /* NULL: $PERFETTO_PRODUCER_SOCK_NAME, else Perfetto's default */
	const char *name;
	const char *const *sources; /* names of data sources */
	size_t source_count;
	size_t queue_bytes; /* 0: 4 MiB; is rounded up to a power of two, at least 128 KiB */
	struct producer_handler handler;
};

struct producer;

/*
 * Starts the thread; the options are copied. A service need not be there. Handlers may run before
 * this returns. NULL: the error says why.
 */
struct producer *producer_start(const struct producer_options *options, struct error *e) MUST_USE;

/*
 * Sends what is in the queue and ends the thread: for as long as the service takes something at
 * least every 0.5 s, and for 3 s at most; within a second where it takes nothing. Not from a
 * handler. Writing is still allowed and returns false, so the memory stays until the process ends.
 * Does nothing in the child of a fork.
 */
void producer_stop(struct producer *p);

/*
 * In the child of a fork: closes the connection there. Writing returns false from now on. NULL is
 * fine.
 */
void producer_after_fork(struct producer *p);

/*
 * Hands over a packet, a TracePacket without trusted_packet_sequence_id, of a sequence (1 …) of an
 * instance; from any thread. The producer adds first_packet_on_sequence and, after a loss,
 * previous_packet_dropped. Never waits for the service. is_end: the packet ends a slice; a part of
 * the queue is reserved for these. false: the queue is full or the instance is gone; the packet is
 * counted as lost, and the sequence has to begin its incremental state anew.
 */
bool producer_write(struct producer *p, uint32_t instance, uint32_t sequence, const void *packet,
		    size_t length, bool is_end);

/*
 * Answers the last flush or stop of an instance: all packets that it asked for are written. From
 * any thread.
 */
void producer_done(struct producer *p, uint32_t instance);

/*
 * Packets of an instance that were lost; 0 when the instance has been gone for long. From any
 * thread.
 */
uint64_t producer_lost(const struct producer *p, uint32_t instance);

#endif
