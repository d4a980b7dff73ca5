/*
 * job_dump.h: an agent's answer to `pitot dump --job`: what it holds of the processes of a job, of
 * an interval. Only those get it who know the secret (peer_auth.h).
 *
 *	GET /dump?job=JOB&from=NS&until=NS&time=…&nonce=…&code=…    times: CLOCK_REALTIME
 *
 *	host NAME\n
 *	file NAME BYTES\n      and its bytes; any number of them
 *	end CODE\n             of all before
 *
 * 404: it has no process of the job. It is answered a second after the interval has ended, when its
 * rows are written.
 */
#ifndef PITOT_AGENT_JOB_DUMP_H
#define PITOT_AGENT_JOB_DUMP_H

#include "agent/agent_sources.h"
#include "agent/peer_auth.h"
#include "base/http_server.h"

#define JOB_DUMP_HOLD_NS (120 * NS_PER_S) /* segments are held so long after they were read */
#define JOB_DUMP_WAITING_MAX 2u /* each may take that much memory */

struct job_dump {
	struct http_server *server;
	struct sources *sources;
	int spool; /* a folder for files; -1: dumps are off */
	struct peer_secret secret;
	struct peer_seen seen;
	struct job_dump_waiting {
		uint64_t connection; /* 0: free */
		uint64_t due_ns; /* CLOCK_MONOTONIC */
		uint64_t from_ns, until_ns; /* CLOCK_REALTIME */
		char nonce[PEER_NONCE + 1], job[256];
	} waiting[JOB_DUMP_WAITING_MAX];
};

/* Answers a request for /dump, at once or later. */
void job_dump_handle(struct job_dump *d, uint64_t connection, const struct http_request *r);
/* Answers what is due. Returns when the next is (CLOCK_MONOTONIC), UINT64_MAX: nothing waits. */
uint64_t job_dump_step(struct job_dump *d);
void job_dump_release(struct job_dump *d);

#endif
