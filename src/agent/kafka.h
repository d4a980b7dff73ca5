/*
 * kafka.h: messages to Kafka by the machine's librdkafka, loaded when it is needed. The producer is
 * idempotent and waits for all replicas. What is sent is known to be there when the delivery
 * reports of all its messages have come; until then the spool has it. So a message comes again only
 * if this process has ended meanwhile, and its headers tell which it is. Single-threaded but for
 * librdkafka's own threads; prints nothing.
 */
#ifndef PITOT_AGENT_KAFKA_H
#define PITOT_AGENT_KAFKA_H

#include <stdbool.h>

#include "base/error.h"

struct kafka_options {
	const char *brokers; /* HOST:PORT,…; NULL: there is none */
	const char *topic; /* what names of topics begin with */
	const char *config; /* a file with properties of librdkafka, NAME=VALUE; NULL: none */
};

struct kafka;

/* Sends nothing. Returns 0 or a negative code. */
int kafka_open(struct kafka **out, const struct kafka_options *options, struct error *e) MUST_USE;
/*
 * Sends a file of lines as messages of a topic, each with whole lines. `key` is that of all
 * messages, `id` names the file in their headers. To be called again with the same id until it is
 * over. Returns 1 while delivery reports are missing, 0 when all are there, -EINPROGRESS if they
 * are late, with the reason, or another negative code: it has to be sent again.
 */
int kafka_send(struct kafka *k, int file, const char *table, const char *key, const char *id,
	       struct error *e) MUST_USE;
/*
 * Takes back what librdkafka has not sent yet, as the spool has dropped some of it: it would arrive
 * although a loss has been said. The rest has to be sent again.
 */
void kafka_take_back(struct kafka *k);
void kafka_free(struct kafka *k); /* may be NULL */

#endif
