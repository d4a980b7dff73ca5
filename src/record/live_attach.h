/*
 * live_attach.h: makes prepared processes record themselves into memory, for as long as somebody
 * watches them (live_tail.h reads what they record). Nothing is written to the disk.
 */
#ifndef PITOT_RECORD_LIVE_ATTACH_H
#define PITOT_RECORD_LIVE_ATTACH_H

#include "record/attach_client.h"
#include "record/segment_server.h"

struct live_attach {
	struct segment_server server; /* .fd is to be polled */
	char *folder; /* empty; NULL: no process was added */
	VEC(struct attached) attached;
	/* What the process that was added last does not record, and why; "": nothing. */
	struct attach_answer answer;
};

#define LIVE_ATTACH_INIT                                                                           \
	{                                                                                          \
		.server = SEGMENT_SERVER_INIT                                                      \
	}

/* Settings of the recorder for who looks at the last seconds again and again. */
#define LIVE_ATTACH_TAIL "counters_ns=0;stacks=python;segment_bytes=2097152"
/*
 * `options` is the text of PITOT_OPTIONS. Returns 0, or a negative code; *e says why the process
 * cannot be attached to.
 */
int live_attach_add(struct live_attach *l, pid_t pid, const char *options,
		    struct error *e) MUST_USE;
/* Serves the processes. Must be called several times a second. */
void live_attach_serve(struct live_attach *l);
/* Lets all processes end their recordings, within three seconds. */
void live_attach_close(struct live_attach *l);

#endif
