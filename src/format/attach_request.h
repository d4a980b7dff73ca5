/*
 * attach_request.h: the protocol by which `pitot record -p` makes a prepared process record itself.
 *
 *   - A prepared process (capture/attach_server.h) listens on an abstract Unix socket of packets.
 *     Its name is ATTACH_NAME, its pid as it sees that itself, "-" and random digits:
 *     /proc/PID/net/unix lists it, and nobody can take the name in advance. A client trusts a
 *     socket only if SO_PEERCRED names the process that it looks for; the process serves its own
 *     user and root.
 *   - The client sends a struct attach_request. The process answers with a struct attach_answer:
 *     it records, or why it does not. It creates its segments through the client's launcher
 *     (segment_request.h), so both may have different files, and the client may be root.
 *   - The recording lasts as long as the connection. When the client shuts down its side, or dies,
 *     the process ends the recording, sends another answer, and closes.
 *
 * Both are on one machine, so words have its byte order. Their versions may differ: a struct that
 * changes gets another ATTACH_MAGIC.
 */
#ifndef PITOT_FORMAT_ATTACH_REQUEST_H
#define PITOT_FORMAT_ATTACH_REQUEST_H

#include <stdbool.h>

#include "schema/settings.h"

#define ATTACH_NAME "pitot-idle-"
#define ATTACH_MAGIC 0x31415450u

enum attach_wish { ATTACH_STATE, ATTACH_RECORD };

struct attach_request {
	uint32_t magic;
	uint32_t wish; /* enum attach_wish; the texts are of ATTACH_RECORD */
	char launcher[SETTINGS_LAUNCHER_MAX]; /* as LAUNCHER_VARIABLE */
	char directory[SETTINGS_PATH_MAX]; /* of the recording, for messages */
	char options[8192]; /* as PITOT_OPTIONS */
};
_Static_assert(sizeof(struct attach_request) == 12488, "two processes share it");

/*
 * Whether this is a request that can be used, of this version: its texts have ends. *r has `size`
 * bytes.
 */
bool attach_request_is_valid(const struct attach_request *r, size_t size);

#define ATTACH_NO_ENGINE 1 /* it records, without the engine that was requested */

struct attach_answer {
	uint32_t magic;
	/* negative: nothing is recorded, or it is incomplete; ATTACH_NO_ENGINE: see text */
	int32_t error;
	uint32_t recordings; /* that go on in the process, with the one that was requested */
	char text[500]; /* about the error, or what is missing, or what stays; "": nothing */
};
_Static_assert(sizeof(struct attach_answer) == 512, "two processes share it");

#endif
