/*
 * segment_request.h: the protocol by which a recorder gets a file that it cannot create itself: a
 * segment, or that of a module's device code.
 *
 * The command of `pitot record` may become another user (su, setpriv, setuid), or live in another
 * mount namespace, and then cannot reach the recording's folder. It asks the launcher, which
 * creates the file and passes its descriptor. So nobody else can ever enter the folder.
 *
 *   - The launcher listens on an abstract Unix datagram socket. PITOT_LAUNCHER, in the command's
 *     environment, is "UID:NAME:TOKEN:DEVICE:INODE": the launcher's user, the socket's name, a
 *     secret, and the identity of the recording's folder. All users can see the names of sockets;
 *     the token shows that the sender has the environment of the command.
 *   - The recorder connects and sends a struct segment_request. The answer is a struct
 *     segment_answer with a descriptor, or with an error, which the launcher reports at its end.
 *     The recorder takes answers of the launcher's user only: after its end another process may
 *     listen under the same name.
 *   - A request with the number SEGMENT_LOST has no answer: a segment was created, but its header
 *     could not be written.
 *   - A request with the number SEGMENT_CUBIN is for the file of the module with that checksum; the
 *     answer is -EEXIST if the recording has it.
 *   - A request with the number SEGMENT_MEMORY passes a descriptor of memory, which the launcher
 *     holds until the process has ended (capture/core/shared_area.h). It has no answer.
 *   - A request with the number SEGMENT_DUMP passes the descriptor of a folder, into which the
 *     launcher writes what its ring has of an interval (record/segment_ring.h). The answer has no
 *     descriptor; its number is that of the segments. Only processes of the launcher's user get
 *     one.
 *
 * Both are of the same version and on one machine, so words have its byte order.
 */
#ifndef PITOT_FORMAT_SEGMENT_REQUEST_H
#define PITOT_FORMAT_SEGMENT_REQUEST_H

#include <stdint.h>

#include "base/folder.h"

#define LAUNCHER_VARIABLE "PITOT_LAUNCHER"
#define LAUNCHER_TEXT_MAX 192 /* bytes of its value */
#define LAUNCHER_NAME_MAX 64
#define LAUNCHER_TOKEN 32 /* bytes of hexadecimal digits */

#define SEGMENT_REQUEST_MAGIC 0x31515350u
#define SEGMENT_LOST UINT32_MAX
#define SEGMENT_CUBIN (UINT32_MAX - 1)
#define SEGMENT_MEMORY (UINT32_MAX - 2)
#define SEGMENT_DUMP (UINT32_MAX - 3)

/* Times of CLOCK_REALTIME; 0: without a limit. */
struct segment_interval {
	uint64_t from_ns, until_ns;
};

struct segment_request {
	uint32_t magic;
	uint32_t pid; /* for the file's name, as the process sees it */
	uint32_t number; /* first one to try for the file's name, SEGMENT_LOST or SEGMENT_CUBIN */
	int32_t error; /* negative: why the process could not create the file */
	char token[LAUNCHER_TOKEN];
	union {
		uint64_t crc; /* for the file's name of SEGMENT_CUBIN */
		struct segment_interval interval; /* of SEGMENT_DUMP */
	};
};
_Static_assert(sizeof(struct segment_request) == 64, "two processes share it");

struct segment_answer {
	uint32_t magic;
	uint32_t number; /* in the file's name */
	int32_t error; /* negative, without a descriptor; or 0 */
};
_Static_assert(sizeof(struct segment_answer) == 12, "two processes share it");

/*
 * Reads what came along with a message: *sender, and a descriptor, or -1. Further ones, for which
 * the padding of control messages leaves room, are closed. Returns whether the sender is known.
 */
struct msghdr;
struct ucred;
bool segment_read_control(struct msghdr *message, struct ucred *sender, int *passed);

/* Reads the folder's identity from the text of the variable. Returns false when it is malformed. */
bool launcher_folder(const char *launcher, struct folder_id *id);

/*
 * Requests a new segment; `error` is why none could be created. Sets *number to that of the file.
 * Returns a descriptor for writing, or a negative code, within two seconds.
 */
int segment_request(const char *launcher, uint32_t pid, int error, uint32_t *number) MUST_USE;
/* Requests the file of a module's device code, in the same way. */
int segment_request_cubin(const char *launcher, uint64_t crc) MUST_USE;
/*
 * Requests a dump into a folder. Returns the number of segments, E_UNSUPPORTED when the recording
 * is on the disk, or another negative code.
 */
int segment_request_dump(const char *launcher, int folder,
			 const struct segment_interval *interval) MUST_USE;
/* The last `last_ns`; 0: everything. */
struct segment_interval segment_interval_of_last(uint64_t last_ns);
/* Passes the descriptor of memory. Returns 0 or a negative code. */
int segment_send_memory(const char *launcher, int memory) MUST_USE;
/* Reports a segment that was lost after its creation. Never waits for long. */
void segment_report_lost(const char *launcher, uint32_t pid, int error);

#endif
