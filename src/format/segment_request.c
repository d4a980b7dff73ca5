#include "format/segment_request.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/compiler.h"
#include "base/clock.h"
#include "base/io.h"

#define WAIT_S 2
#define DUMP_WAIT_S 60
#define NO_FAILURE (-EOWNERDEAD) /* launchers refuse requests without a negative code */

struct launcher {
	unsigned uid;
	char name[LAUNCHER_NAME_MAX + 1], token[LAUNCHER_TOKEN + 1];
	struct folder_id folder;
};

static bool parse(const char *text, struct launcher *out)
{
	unsigned long long device, inode;

	_Static_assert(LAUNCHER_NAME_MAX == 64 && LAUNCHER_TOKEN == 32, "in the format");
	if (sscanf(text, "%u:%64[^:]:%32[0-9a-f]:%llx:%llx", &out->uid, out->name, out->token,
		   &device, &inode) != 5 ||
	    strlen(out->token) != LAUNCHER_TOKEN)
		return false;
	out->folder = (struct folder_id){ device, inode };
	return true;
}

bool launcher_folder(const char *launcher, struct folder_id *id)
{
	struct launcher l;
	bool ok = parse(launcher, &l);

	if (ok)
		*id = l.folder;
	return ok;
}

static int connect_to(const struct launcher *l)
{
	struct sockaddr_un own = { .sun_family = AF_UNIX }, address = { .sun_family = AF_UNIX };
	const struct timeval limit = { .tv_sec = WAIT_S };
	size_t length = strlen(l->name);
	const int on = 1;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	fd = fd < 0 ? -errno : io_above_standard(fd);
	if (fd < 0)
		return fd;
	memcpy(address.sun_path + 1, l->name, length);
	/* An address of the family alone becomes a name that is free. */
	if (bind(fd, (struct sockaddr *)&own, sizeof(own.sun_family)) == 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == 0 &&
	    connect(fd, (struct sockaddr *)&address,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) == 0)
		return fd;
	length = (size_t)errno;
	close(fd);
	return -(int)length;
}

/* Sends a request, with a descriptor unless that is negative. */
static int send_request(int socket, const struct launcher *l, struct segment_request *r, int passed)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr header;
	} control = { .bytes = { 0 } };
	struct iovec part = { r, sizeof(*r) };
	struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };

	r->magic = SEGMENT_REQUEST_MAGIC;
	memcpy(r->token, l->token, sizeof(r->token));
	if (passed >= 0) {
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &passed, sizeof(passed));
		m.msg_control = control.bytes;
		m.msg_controllen = sizeof(control.bytes);
	}
	while (sendmsg(socket, &m, MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

static void read_descriptors(const struct cmsghdr *c, int *passed)
{
	size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

	for (size_t i = 0; i < count; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
		if (*passed < 0)
			*passed = fd;
		else
			close(fd);
	}
}

bool segment_read_control(struct msghdr *message, struct ucred *sender, int *passed)
{
	bool known = false;

	*passed = -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_CREDENTIALS) {
			memcpy(sender, CMSG_DATA(c), sizeof(*sender));
			known = true;
		} else if (c->cmsg_type == SCM_RIGHTS) {
			read_descriptors(c, passed);
		}
	}
	return known;
}

static int receive(int socket, unsigned uid, struct segment_answer *answer)
{
	union {
		char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec part = { answer, sizeof(*answer) };
	struct msghdr m = { .msg_iov = &part,
			    .msg_iovlen = 1,
			    .msg_control = control.bytes,
			    .msg_controllen = sizeof(control.bytes) };
	struct ucred sender;
	struct stat st;
	bool trusted;
	ssize_t n;
	int fd;

	do
		n = recvmsg(socket, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	trusted = segment_read_control(&m, &sender, &fd) && sender.uid == uid;
	fd = io_above_standard(fd);
	if (n == (ssize_t)sizeof(*answer) && answer->magic == SEGMENT_REQUEST_MAGIC && trusted &&
	    fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0)
		return fd;
	fd_close(&fd);
	return n == (ssize_t)sizeof(*answer) && trusted && answer->error < 0 ? answer->error
									     : -EPROTO;
}

/* `passed` is a descriptor, or -1; `answer` is NULL if there will be none. */
static int exchange(const char *launcher, struct segment_request *request, int passed,
		    struct segment_answer *answer)
{
	struct timeval limit = { .tv_sec = DUMP_WAIT_S };
	struct launcher l;
	int socket, rc;

	if (!parse(launcher, &l))
		return -EINVAL;
	socket = connect_to(&l);
	if (socket < 0)
		return socket;
	if (request->number == SEGMENT_DUMP) /* it copies what a ring has */
		setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	rc = send_request(socket, &l, request, passed);
	if (rc == 0 && answer)
		rc = receive(socket, l.uid, answer);
	close(socket);
	return rc;
}

int segment_request(const char *launcher, uint32_t pid, int error, uint32_t *number)
{
	struct segment_request request = { .pid = pid, .number = *number, .error = error };
	struct segment_answer answer;
	int rc = exchange(launcher, &request, -1, &answer);

	if (rc >= 0)
		*number = answer.number;
	return rc;
}

int segment_request_cubin(const char *launcher, uint64_t crc)
{
	struct segment_request request = {
		.pid = (uint32_t)getpid(), .number = SEGMENT_CUBIN, .error = -EACCES, .crc = crc
	};
	struct segment_answer answer;

	return exchange(launcher, &request, -1, &answer);
}

int segment_send_memory(const char *launcher, int memory)
{
	struct segment_request request = { .pid = (uint32_t)getpid(),
					   .number = SEGMENT_MEMORY,
					   .error = NO_FAILURE };

	return exchange(launcher, &request, memory, NULL);
}

struct segment_interval segment_interval_of_last(uint64_t last_ns)
{
	uint64_t now = clock_read_ns(CLOCK_REALTIME);

	return (struct segment_interval){ .from_ns = last_ns ? now - MIN(now, last_ns) : 0 };
}

int segment_request_dump(const char *launcher, int folder, const struct segment_interval *interval)
{
	struct segment_request request = { .pid = (uint32_t)getpid(),
					   .number = SEGMENT_DUMP,
					   .error = NO_FAILURE,
					   .interval = *interval };
	struct segment_answer answer = { .number = 0 };
	int rc = exchange(launcher, &request, folder, &answer);

	/* receive() takes an answer without a descriptor for a refusal. */
	if (rc == -EPROTO && answer.magic == SEGMENT_REQUEST_MAGIC && !answer.error)
		rc = (int)answer.number;
	return rc;
}

void segment_report_lost(const char *launcher, uint32_t pid, int error)
{
	struct segment_request request = { .pid = pid, .number = SEGMENT_LOST, .error = error };
	struct launcher l;
	int socket = parse(launcher, &l) ? connect_to(&l) : -1;

	if (socket < 0)
		return;
	(void)!send_request(socket, &l, &request, -1);
	close(socket);
}
