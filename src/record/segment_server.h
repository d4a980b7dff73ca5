/*
 * segment_server.h: creates files for recorders that cannot (format/segment_request.h), and
 * collects the processes without a segment.
 */
#ifndef PITOT_RECORD_SEGMENT_SERVER_H
#define PITOT_RECORD_SEGMENT_SERVER_H

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "base/error.h"
#include "base/folder.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "base/vec.h"
#include "format/segment_request.h"
#include "record/segment_ring.h"

#define SEGMENTS_REFUSED_MAX 16

/* A process without a segment. */
struct segment_refusal {
	pid_t pid;
	uid_t uid;
	int error; /* negative */
};

#define MEMORIES_MAX 1024
#define MEMORIES_OF_ONE 16

/* Memory that a process shares with us (recover/recover.h). */
struct held_memory {
	pid_t pid;
	int process; /* a pidfd; -1: it had ended already */
	int fd;
};

struct segment_server {
	int fd; /* a socket to poll for input; -1: closed */
	int folder;
	unsigned created;
	struct map created_by; /* sending pid -> number */
	char address[LAUNCHER_NAME_MAX + 1], token[LAUNCHER_TOKEN + 1];
	struct segment_refusal refused[SEGMENTS_REFUSED_MAX];
	size_t refused_count; /* of all, also of those beyond the array */
	VEC(struct held_memory) memories;
	size_t memories_max; /* each has two descriptors */
	struct segment_ring ring; /* where segments go if its limits are set */
	struct dump_request {
		int folder; /* -1: none */
		struct segment_interval interval;
		struct sockaddr_un from;
		socklen_t from_length;
	} dump; /* to be answered with segment_server_dumped() */
};

#define SEGMENT_SERVER_INIT                                                                        \
	{                                                                                          \
		.fd = -1, .folder = -1, .dump.folder = -1                                          \
	}

/* Returns 0 or a negative code, and then the server is closed. */
int segment_server_open(struct segment_server *s, const char *directory,
			const struct folder_id *folder) MUST_USE;
/*
 * Appends the value of LAUNCHER_VARIABLE. Without `finds_folder` nobody finds the recording's
 * folder, so that all ask for their segments.
 */
void segment_server_text(const struct segment_server *s, bool finds_folder, struct strbuf *out);
/* Answers the dump request that has arrived: the number of segments or a negative code. */
void segment_server_dumped(struct segment_server *s, int result);
/* Answers the requests that have arrived. Does not wait. */
void segment_server_answer(struct segment_server *s);
/*
 * Takes the memory of a process that has ended, or, with `last`, has executed another program or
 * whose end cannot be seen. Returns its descriptor, which the caller closes, or -1: there is none.
 */
int segment_server_take_memory(struct segment_server *s, bool last);
/* Gives memory back of processes that ended in order, for which nobody takes it yet. */
void segment_server_trim_memories(struct segment_server *s);
void segment_server_close(struct segment_server *s);

#endif
