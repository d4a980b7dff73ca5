#include "capture/attach_server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/helper_thread.h"
#include "base/own_fd.h"
#include "capture/core/collector.h"
#include "capture/core/log.h"
#include "capture/core/process_exit.h"
#include "capture/core/refusals.h"
#include "capture/core/session.h"
#include "capture/core/vendor_thread.h"
#include "format/attach_request.h"
#include "format/segment_request.h"
#include "format/writer.h"

#define CLIENTS_MAX 8
#define REQUEST_S 2 /* how long a client may take to send its request */
#define SERVER_STACK_BYTES (256u << 10)
#define CLIENT_STACK_BYTES (1u << 20) /* a recording loads CUPTI */
#define RETRY_NS NS_PER_S
#define FORK_PAUSE_NS (20 * NS_PER_MS) /* most children of forks execute another program at once */

struct client {
	atomic_bool is_taken;
	struct own_fd fd;
};

static struct {
	atomic_bool on;
	bool is_forked;
	struct own_fd listening; /* the server thread's, and after a fork the child's */
	struct client clients[CLIENTS_MAX];
	atomic_uint recordings;
} self;

/* --- a client --- */

static void answer(const struct client *c, int error, const char *text)
{
	struct attach_answer a = { .magic = ATTACH_MAGIC,
				   .error = error,
				   .recordings = atomic_load(&self.recordings) };

	snprintf(a.text, sizeof(a.text), "%s", text ? text : "");
	if (own_fd_valid(&c->fd))
		(void)!send(c->fd.fd, &a, sizeof(a), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static bool receive(const struct client *c, struct attach_request *r)
{
	const struct timeval limit = { .tv_sec = REQUEST_S };
	ssize_t n;

	setsockopt(c->fd.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	do
		n = recv(c->fd.fd, r, sizeof(*r), MSG_TRUNC);
	while (n < 0 && errno == EINTR);
	return n > 0 && attach_request_is_valid(r, (size_t)n);
}

static struct session *open_session(const struct attach_request *r, struct error *e)
{
	struct settings s = SETTINGS_INIT;
	struct writer_options to = { .directory = s.directory,
				     .launcher = s.launcher,
				     .background = true };
	struct session *session;
	struct sink *sink;

	log_open();
	settings_parse(&s, r->options);
	settings_clear_sinks(&s);
	memcpy(s.directory, r->directory, sizeof(s.directory));
	memcpy(s.launcher, r->launcher, sizeof(s.launcher));
	(void)!launcher_folder(s.launcher, &s.folder);
	to.folder = s.folder;
	to.max_bytes = s.max_bytes;
	to.segment_bytes = s.segment_bytes;
	if (recording_sink_new(&to, &sink, e) < 0)
		return NULL;
	session = session_open(&s, sink, SESSION_BY_PROGRAM);
	if (!session)
		error_set(e, -EAGAIN,
			  "the recorder cannot start: no memory, no thread, or a GPU that hangs "
			  "keeps the last recording from ending");
	return session;
}

/* Waits until the client shuts down its side or dies. */
static void await_end(const struct client *c)
{
	struct pollfd end = { .fd = c->fd.fd, .events = POLLIN };

	while (poll(&end, 1, -1) < 0 && errno == EINTR)
		;
}

/* Ends the session and tells the client what stays in the process. */
static void close_session(const struct client *c, struct session *session)
{
	int rc = session_close(&session);
	uint64_t since_ns;
	const char *call = vendor_thread_current_call(&since_ns);
	char text[200] = "";

	atomic_fetch_sub(&self.recordings, 1);
	if (rc == -ETIMEDOUT && call)
		snprintf(text, sizeof(text),
			 "%s has not returned for %.1f s: the recorder leaves when it has", call,
			 (double)(clock_machine_ns() - since_ns) / (double)NS_PER_S);
	else if (rc == -ETIMEDOUT)
		snprintf(text, sizeof(text), "the last rows have not been written yet");
	else if (rc < 0)
		snprintf(text, sizeof(text), "rows are lost: %s", error_code_text(rc));
	else if (collector_running())
		snprintf(text, sizeof(text), "another recording of the process goes on");
	answer(c, rc, text);
}

static void answer_begun(const struct client *c, const struct session *session)
{
	const char *no_gpu = refusal_text(&refusals[REFUSAL_LIBRARY]);
	struct error missing = { 0 };

	if (!no_gpu && session_missing(session, &missing))
		answer(c, ATTACH_NO_ENGINE, missing.text);
	else
		answer(c, 0, no_gpu);
}

static void record(const struct client *c, const struct attach_request *r)
{
	struct error e = { 0 };
	struct session *session = open_session(r, &e);

	if (!session) {
		answer(c, e.code, e.text);
		return;
	}
	atomic_fetch_add(&self.recordings, 1);
	answer_begun(c, session);
	await_end(c);
	close_session(c, session);
}

static void *serve(void *argument)
{
	struct client *c = argument;
	struct attach_request *r = malloc(sizeof(*r));

	pthread_setname_np(pthread_self(), "pitot-attach");
	if (!r || !receive(c, r))
		answer(c, r ? -EPROTO : -ENOMEM, "the request is of another version of Pitot");
	else if (r->wish == ATTACH_RECORD)
		record(c, r);
	else
		answer(c, 0, PITOT_VERSION);
	free(r);
	own_fd_close(&c->fd);
	atomic_store(&c->is_taken, false);
	return NULL;
}

static bool is_permitted(int fd)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
	       (peer.uid == geteuid() || peer.uid == 0);
}

/* Takes fd. A client too many, or of another user, gets no answer. */
static void take_client(int fd)
{
	struct client *c = self.clients;

	while (c < self.clients + CLIENTS_MAX && atomic_exchange(&c->is_taken, true))
		c++;
	if (c == self.clients + CLIENTS_MAX) {
		close(fd);
		return;
	}
	if (own_fd_set(&c->fd, fd) == 0 && is_permitted(c->fd.fd) &&
	    helper_thread_start(serve, c, CLIENT_STACK_BYTES) == 0)
		return;
	own_fd_close(&c->fd);
	atomic_store(&c->is_taken, false);
}

/* --- the server --- */

static int open_socket(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	uint64_t random;
	int length;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random) ||
	    own_fd_set(&self.listening, socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) < 0)
		return -errno;
	length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1,
			  ATTACH_NAME "%d-%016llx", (int)getpid(), (unsigned long long)random);
	if (bind(self.listening.fd, (struct sockaddr *)&address,
		 (socklen_t)offsetof(struct sockaddr_un, sun_path) + 1 + (socklen_t)length) == 0 &&
	    listen(self.listening.fd, CLIENTS_MAX) == 0)
		return 0;
	length = errno;
	own_fd_close(&self.listening);
	return -length;
}

static void pause_for(uint64_t ns)
{
	const struct timespec t = { (time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S) };

	nanosleep(&t, NULL);
}

/* The program may close a descriptor that it did not open: then another socket takes its place. */
static void *listen_for_clients(void *unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), "pitot-idle");
	if (self.is_forked)
		pause_for(FORK_PAUSE_NS);
	for (;;) {
		int fd = -1;

		if (own_fd_valid(&self.listening) || open_socket() == 0)
			fd = accept4(self.listening.fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			take_client(fd);
		else if (errno != EINTR && errno != ECONNABORTED)
			pause_for(RETRY_NS);
	}
	return NULL;
}

static void after_fork(void)
{
	own_fd_close(&self.listening);
	for (struct client *c = self.clients; c < self.clients + CLIENTS_MAX; c++) {
		own_fd_close(&c->fd);
		atomic_store(&c->is_taken, false);
	}
	atomic_store(&self.recordings, 0);
	self.is_forked = true;
	if (helper_thread_start(listen_for_clients, NULL, SERVER_STACK_BYTES) < 0)
		atomic_store(&self.on, false);
}

bool attach_server_is_on(void)
{
	return atomic_load(&self.on);
}

int attach_server_start(void)
{
	static bool is_watched; /* written by whoever turns `on` */
	struct settings s = { 0 };
	int err;

	(void)!settings_read(&s, NULL, true, NULL);
	if (s.disabled)
		return 0;
	if (atomic_exchange(&self.on, true))
		return 1;
	/* Before ours, because it resets the number of threads in a child. */
	process_exit_watch_fork();
	if (!is_watched)
		pthread_atfork(NULL, NULL, after_fork);
	is_watched = true;
	err = open_socket();
	if (err == 0)
		err = helper_thread_start(listen_for_clients, NULL, SERVER_STACK_BYTES);
	if (err == 0)
		return 1;
	own_fd_close(&self.listening);
	atomic_store(&self.on, false);
	return err;
}

void attach_server_loaded(void)
{
	const char *text = secure_getenv("PITOT_IDLE");
	bool requested = false;
	int rc;

	if (!text || !*text)
		return;
	log_open();
	if (!parse_switch(text, &requested))
		log_line("PITOT_IDLE takes 1 or 0, not '%.100s'", text);
	rc = requested ? attach_server_start() : 0;
	if (rc < 0)
		log_line("cannot wait for recordings: %s", error_code_text(rc));
}
