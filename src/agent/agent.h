/*
 * agent.h: `pitot agent`: reads the recordings of a machine as they grow, and ships small rows of
 * them into a lake, and to Kafka. Single-threaded but for the encoding of files and librdkafka;
 * prints nothing: the caller gets messages. Between two readings it ships for a few seconds at
 * most, plus one request that hangs. Its timers are those of CLOCK_MONOTONIC, so steps of the clock
 * change nothing.
 */
#ifndef PITOT_AGENT_AGENT_H
#define PITOT_AGENT_AGENT_H

#include "agent/batch.h"
#include "agent/gpufl_windows.h"
#include "agent/http_push.h"
#include "agent/kafka.h"
#include "agent/spool.h"
#include "agent/windows.h"

struct agent;

struct agent_options {
	const char *lake; /* a folder or a bucket */
	struct s3_options s3; /* of a bucket */
	struct kafka_options kafka; /* also, if it has brokers */
	struct http_push_options otlp; /* for metrics */
	uint64_t otlp_ns; /* time between them */
	struct http_push_options profiles; /* a server of profiles */
	enum profile_kind profile_kind;
	const char *service; /* name of what sends them */
	void (*render_metrics)(const struct agent *a, const char *service, struct strbuf *out);
	struct gpufl_options gpufl; /* gpufl's backend, for windows */
	const char *spool; /* a folder */
	const char *const *recordings; /* folders with recordings, NULL-terminated */
	const pid_t *pids; /* only these and their descendants; none: all processes */
	size_t pid_count;
	bool no_processes; /* only recordings in these folders */
	uint64_t read_ns; /* time between readings */
	uint64_t ship_ns; /* time between objects */
	uint64_t spool_bytes;
	uint64_t hold_ns; /* segments are held at least so long after they were read */
	unsigned mode; /* of objects */
	const struct rule_list *rules; /* that make windows */
};

struct agent_counts {
	uint64_t batches, objects, windows; /* shipped into the lake */
	uint64_t kafka_objects; /* delivered */
	uint64_t profiles, gpufl_windows; /* sent */
	uint64_t rows[FLEET_TABLE_COUNT];
	uint64_t dropped_rows, failures;
};

/* Where objects go. */
struct agent_sink {
	uint64_t due_ns; /* CLOCK_MONOTONIC, of what waits; UINT64_MAX: nothing waits */
	unsigned failures; /* since the last success */
	int problem; /* code of the last warning; 0: there is none */
};

struct agent {
	const struct agent_options *options;
	/* Receives problems, each once until it is over. */
	void (*warn)(void *user, const char *text);
	void *user;
	struct sources sources;
	struct fleet_rows rows;
	struct spool spool;
	struct lake lake;
	struct kafka *kafka; /* NULL: it is not used */
	struct http_push *otlp, *profiles; /* NULL: there is none */
	uint64_t otlp_due_ns; /* CLOCK_MONOTONIC */
	int otlp_problem; /* as `problem` */
	uint64_t begun_ns; /* CLOCK_REALTIME */
	struct windows *windows; /* NULL: there are no rules */
	struct agent_counts counts;
	uint64_t read_due_ns, ship_due_ns; /* CLOCK_MONOTONIC */
	struct agent_sink sinks[SPOOL_SINKS];
	int problem; /* code of the last warning; 0: there is none */
};

/* The caller has set options and warn. Returns 0 or a negative code; release in any case. */
int agent_open(struct agent *a, struct error *e) MUST_USE;
/*
 * Does what is due, and sets *due_ns to when the next is (CLOCK_MONOTONIC). A negative code means
 * that it must be opened again: the state on the disk is what counts.
 */
int agent_step(struct agent *a, uint64_t *due_ns, struct error *e) MUST_USE;
/*
 * Reads what there is now, with `all` also what is usually waited for, and ships it. Returns 0, or
 * a negative code: some of it is in the spool, or is read later.
 */
int agent_finish(struct agent *a, bool all, struct error *e) MUST_USE;
void agent_release(struct agent *a);

#endif
