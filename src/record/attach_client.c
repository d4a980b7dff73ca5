#include "record/attach_client.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "arch/processor.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/program_file.h"
#include "record/inject.h"

#define SOCKETS_BYTES ((size_t)64 << 20) /* of /proc/PID/net/unix */
#define MAPS_BYTES ((size_t)16 << 20)
#define STATE_S 2
#define BEGIN_NS (PITOT_SLOWNESS * 5 * NS_PER_S) /* loading CUPTI takes a second */

/* --- the process --- */

static bool is_same_network(pid_t pid)
{
	char path[64];
	struct stat own, other;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	return stat("/proc/self/ns/net", &own) < 0 || stat(path, &other) < 0 ||
	       (own.st_ino == other.st_ino && own.st_dev == other.st_dev);
}

int network_enter(pid_t pid)
{
	_cleanup_close_ int theirs = -1;
	char path[64];
	int own;

	if (is_same_network(pid))
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	theirs = open(path, O_RDONLY | O_CLOEXEC);
	own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (own >= 0 && theirs >= 0 && setns(theirs, CLONE_NEWNET) == 0)
		return own;
	fd_close(&own);
	return -1;
}

void network_leave(int own)
{
	if (own < 0)
		return;
	(void)!setns(own, CLONE_NEWNET);
	close(own);
}

/* The last number of a line of /proc/PID/status, "\nName:"; `otherwise`: there is no such line. */
static long status_number(const char *status, const char *name, long otherwise)
{
	const char *line = strstr(status, name), *end;

	if (!line)
		return otherwise;
	end = line + 1 + strcspn(line + 1, "\n");

	while (end[-1] >= '0' && end[-1] <= '9')
		end--;
	return strtol(end, NULL, 10);
}

static bool has_library(pid_t pid, const char *name)
{
	_cleanup_strbuf_ struct strbuf maps = STRBUF_INIT;

	return io_process_text(pid, "maps", MAPS_BYTES, &maps) == 0 &&
	       strstr(strbuf_text(&maps), name);
}

bool attach_uses_cuda(pid_t pid)
{
	return has_library(pid, "/libcuda.so.");
}

/* Whether the program can load the recorder. Sets *is_setuid also for setgid programs. */
static int check_program(pid_t pid, bool *is_setuid, struct error *e)
{
	struct program_file file;
	char path[64];
	int rc;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	rc = program_file_read(path, &file);
	*is_setuid = rc == -EPERM;
	if (rc == -EACCES)
		return error_set(e, rc,
				 "process %d may not be read: it has more rights than you, or made "
				 "itself undumpable; run pitot with sudo",
				 (int)pid);
	if (rc == 0 && file.is_foreign)
		return error_set(e, E_UNSUPPORTED,
				 "process %d is not a program for this processor: it cannot load "
				 "the recorder",
				 (int)pid);
	if (rc == 0 && !strstr(file.loader, ARCH_LOADER))
		return error_set(e, E_UNSUPPORTED, "process %d %s: it cannot load the recorder",
				 (int)pid,
				 file.loader[0] ? "uses another C library than glibc"
						: "is statically linked");
	return 0;
}

/* Says why a process has no socket of ours, and what to do. */
static int explain_unprepared(pid_t pid, struct error *e)
{
	_cleanup_free_ char *library = record_find_library(NULL);
	bool is_setuid;
	int rc = check_program(pid, &is_setuid, e);

	if (rc < 0)
		return rc;
	if (is_setuid)
		return error_set(e, E_UNSUPPORTED,
				 "process %d was not prepared, and is a setuid or setgid program, "
				 "which ignores PITOT_IDLE: sudo pitot record -p %d --inject",
				 (int)pid, (int)pid);
	if (has_library(pid, "/libpitot.so"))
		return error_set(e, E_UNSUPPORTED,
				 "process %d has the recorder, but was not prepared: start it with "
				 "PITOT_IDLE=1, or let it call pitot_idle()",
				 (int)pid);
	return error_set(e, E_UNSUPPORTED,
			 "process %d was not prepared: start it with PITOT_IDLE=1 "
			 "CUDA_INJECTION64_PATH=%s",
			 (int)pid, library ? library : "…/libpitot.so");
}

/* Refuses processes that cannot answer. Sets *own_pid to the pid that the process sees. */
static int check_process(pid_t pid, int *own_pid, struct error *e)
{
	_cleanup_strbuf_ struct strbuf status = STRBUF_INIT;
	struct process_stat stat;
	long uid, tracer;

	if (!io_process_stat(pid, &stat) || io_process_text(pid, "status", 65536, &status) < 0)
		return error_set(e, -ESRCH, "there is no process %d", (int)pid);
	uid = status_number(strbuf_text(&status), "\nUid:", -1);
	tracer = status_number(strbuf_text(&status), "\nTracerPid:", 0);
	*own_pid = (int)status_number(strbuf_text(&status), "\nNSpid:", pid);
	if (stat.state == 'Z' || stat.state == 'X')
		return error_set(e, -ESRCH, "process %d has ended, and waits for its parent",
				 (int)pid);
	if (geteuid() && uid != (long)geteuid())
		return error_set(
			e, -EACCES,
			"process %d belongs to user %ld: attach as that user, or with sudo",
			(int)pid, uid);
	if (stat.state == 't' || (stat.state == 'T' && tracer))
		return error_set(e, -EBUSY,
				 "process %d is stopped by process %ld, which traces it: continue "
				 "it there first",
				 (int)pid, tracer);
	if (stat.state == 'T')
		return error_set(e, -EBUSY, "process %d is stopped; continue it: kill -CONT %d",
				 (int)pid, (int)pid);
	return 0;
}

/* --- the connection --- */

static bool is_of_process(int fd, pid_t pid)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.pid == pid;
}

/* Connects to the socket of that name if it is the process's, else returns a negative errno. */
static int connect_to(const char *name, size_t length, pid_t pid)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const struct timeval limit = { .tv_sec = STATE_S };
	int fd, err;

	if (length + 1 > sizeof(address.sun_path))
		return -EINVAL;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	fd = fd < 0 ? -errno : io_above_standard(fd);
	if (fd < 0)
		return fd;
	memcpy(address.sun_path + 1, name, length);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(fd, (struct sockaddr *)&address,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) == 0 &&
	    is_of_process(fd, pid))
		return fd;
	err = errno ? errno : ECONNREFUSED;
	close(fd);
	return -err;
}

/* Tries the sockets that have the process's name; others may have made some of them. */
static int find_socket(pid_t pid, int own_pid)
{
	_cleanup_strbuf_ struct strbuf sockets = STRBUF_INIT;
	char name[64];
	const char *at;
	int fd = -ENOENT;

	if (io_process_text(pid, "net/unix", SOCKETS_BYTES, &sockets) < 0)
		return fd;
	snprintf(name, sizeof(name), "@" ATTACH_NAME "%d-", own_pid);
	for (at = strbuf_text(&sockets); fd < 0 && (at = strstr(at, name)); at++)
		fd = connect_to(at + 1, strcspn(at, "\n") - 1, pid);
	return fd;
}

int attach_connect(pid_t pid, struct error *e)
{
	int own_pid = 0, err = check_process(pid, &own_pid, e), network, fd;
	bool foreign;

	if (err < 0)
		return err;
	network = network_enter(pid);
	foreign = !is_same_network(pid);
	fd = find_socket(pid, own_pid);
	network_leave(network);
	if (fd < 0 && fd != -ENOENT && foreign)
		return error_set(e, -EACCES,
				 "process %d has a network of its own: run pitot in its container, "
				 "or with sudo",
				 (int)pid);
	return fd < 0 ? explain_unprepared(pid, e) : fd;
}

int attach_can_load(pid_t pid, struct error *e)
{
	struct error unprepared;
	int own_pid, fd = attach_connect(pid, &unprepared), err;
	bool is_setuid;

	if (fd >= 0) {
		close(fd);
		return 0;
	}
	err = check_process(pid, &own_pid, e);
	if (err >= 0)
		err = check_program(pid, &is_setuid, e);
	return err < 0 ? err : 1;
}

int attach_await(const struct attached *a, int served, void (*serve)(void *user), void *user,
		 uint64_t end_ns, struct attach_answer *out)
{
	for (;;) {
		struct pollfd polled[] = { { .fd = a->fd, .events = POLLIN },
					   { .fd = served, .events = POLLIN } };
		uint64_t now = clock_monotonic_ns();
		ssize_t n;

		if (now >= end_ns)
			return -ETIMEDOUT;
		poll(polled, ARRAY_SIZE(polled), (int)((end_ns - now) / NS_PER_MS) + 1);
		if (polled[1].revents)
			serve(user);
		if (!polled[0].revents)
			continue;
		n = recv(a->fd, out, sizeof(*out), MSG_DONTWAIT);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n != (ssize_t)sizeof(*out) || out->magic != ATTACH_MAGIC)
			return -ECONNRESET;
		out->text[sizeof(out->text) - 1] = '\0';
		return 0;
	}
}

int attach_state(pid_t pid, struct attach_answer *out, struct error *e)
{
	_cleanup_free_ struct attach_request *r = calloc(1, sizeof(*r));
	struct attached a = { pid, attach_connect(pid, e) };
	int rc = a.fd;

	if (rc < 0)
		return rc;
	rc = -ENOMEM;
	if (r) {
		r->magic = ATTACH_MAGIC;
		r->wish = ATTACH_STATE;
		rc = send(a.fd, r, sizeof(*r), MSG_NOSIGNAL) < 0 ? -errno : 0;
	}
	if (rc == 0)
		rc = attach_await(&a, -1, NULL, NULL, clock_monotonic_ns() + STATE_S * NS_PER_S,
				  out);
	close(a.fd);
	return rc < 0 ? error_set(e, rc, "process %d is prepared, but does not answer: %s",
				  (int)pid, error_code_text(rc))
		      : out->error;
}

/* --- recordings --- */

static int put_text(char *to, size_t size, const char *text, struct error *e)
{
	size_t length = strlen(text);

	if (length >= size)
		return error_set(e, -ENAMETOOLONG, "'%.100s…' is too long", text);
	memcpy(to, text, length + 1);
	return 0;
}

int attach_request_fill(struct attach_request *request, const char *launcher, const char *directory,
			const char *options, struct error *e)
{
	int err = put_text(request->launcher, sizeof(request->launcher), launcher, e);

	request->magic = ATTACH_MAGIC;
	request->wish = ATTACH_RECORD;
	if (err >= 0)
		err = put_text(request->directory, sizeof(request->directory), directory, e);
	if (err >= 0)
		err = put_text(request->options, sizeof(request->options), options, e);
	return err;
}

int attach_start(pid_t pid, const struct attach_request *request, int served,
		 void (*serve)(void *user), void *user, struct attached *out,
		 struct attach_answer *answer, struct error *e)
{
	struct attached a = { pid, attach_connect(pid, e) };
	int rc = a.fd;

	if (rc < 0)
		return rc;
	rc = send(a.fd, request, sizeof(*request), MSG_NOSIGNAL) < 0 ? -errno : 0;
	if (rc == 0)
		rc = attach_await(&a, served, serve, user, clock_monotonic_ns() + BEGIN_NS, answer);
	if (rc == -ECONNRESET)
		error_set(e, rc,
			  "process %d does not begin to record: it has ended, or executed another "
			  "program",
			  (int)pid);
	else if (rc < 0)
		error_set(e, rc, "process %d is prepared, but does not begin to record: %s",
			  (int)pid, error_code_text(rc));
	else if (answer->error < 0)
		rc = error_set(e, answer->error, "process %d does not record: %s", (int)pid,
			       answer->text);
	if (rc < 0)
		close(a.fd);
	else
		*out = a;
	return rc < 0 ? rc : 0;
}
