/*
 * attach_client.h: makes running processes record their GPU work, and end that again
 * (format/attach_request.h).
 */
#ifndef PITOT_RECORD_ATTACH_CLIENT_H
#define PITOT_RECORD_ATTACH_CLIENT_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "format/attach_request.h"

/* A process that records for us. */
struct attached {
	pid_t pid;
	int fd; /* the connection, on which the recording depends; -1: none */
};

/*
 * Lets new sockets of this thread belong to the network of a process, which may be in a container.
 * Returns what network_leave() needs; -1: it is our own, or we may not enter it.
 */
int network_enter(pid_t pid);
void network_leave(int own);

/*
 * Connects to a prepared process. Returns a descriptor, or a negative code; *e says why the process
 * cannot be attached to, and what to do.
 */
int attach_connect(pid_t pid, struct error *e) MUST_USE;
/*
 * Returns 1 if a process is not prepared, but is a program that can load the recorder; 0 if it is
 * prepared; or a negative code, and *e says why neither.
 */
int attach_can_load(pid_t pid, struct error *e) MUST_USE;
/* Whether the process has loaded CUDA's driver. */
bool attach_uses_cuda(pid_t pid);
/* Requests the state of a prepared process, within two seconds. Returns 0 or a negative code. */
int attach_state(pid_t pid, struct attach_answer *out, struct error *e) MUST_USE;

/*
 * Waits for the process's answer until end_ns (CLOCK_MONOTONIC). Calls `serve` for each input at
 * `served` meanwhile, because the process needs files from us. Returns 0; -ETIMEDOUT; -ECONNRESET:
 * it has closed the connection.
 */
int attach_await(const struct attached *a, int served, void (*serve)(void *user), void *user,
		 uint64_t end_ns, struct attach_answer *out) MUST_USE;

/* Fills a request to record. Returns 0, or a negative code if a text is too long. */
int attach_request_fill(struct attach_request *request, const char *launcher, const char *directory,
			const char *options, struct error *e) MUST_USE;
/*
 * Makes a prepared process record itself; `served` and `serve` as above. Returns 0 and *out, whose
 * connection the caller closes, or a negative code.
 */
int attach_start(pid_t pid, const struct attach_request *request, int served,
		 void (*serve)(void *user), void *user, struct attached *out,
		 struct attach_answer *answer, struct error *e) MUST_USE;

#endif
