#include "serve/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/html.h"
#include "base/io.h"
#include "base/options.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define FIRST_FD 3 /* of a worker: the socket, then the folders of its recordings */

/* --- the worker itself --- */

static void add_link(struct strbuf *bar, const char *path, const char *text)
{
	strbuf_addf(bar, "<a href=\"%s\" style=\"color:#8ab4f8\">%s</a> ", path, text);
}

/* What leads from page to page. Its colours do not depend on the page. */
static void make_bar(const struct serve_target *t, struct strbuf *bar)
{
	strbuf_adds(bar, "<div style=\"flex:none;padding:6px 14px;background:#1f2228;color:#e7e9ec;"
			 "font:13px/1.6 system-ui,sans-serif;overflow-wrap:anywhere\">");
	add_link(bar, "/", "Recordings");
	for (unsigned i = 0; i < t->count; i++) {
		strbuf_adds(bar, i ? " and " : "<b>");
		html_escape(bar, t->names[i], strlen(t->names[i]));
	}
	strbuf_adds(bar, t->count ? "</b> " : "");
	if (t->count == 1) {
		add_link(bar, "report", "Report");
		add_link(bar, "timeline", "Timeline");
		add_link(bar, "flame", "Flame graph");
		add_link(bar, "source", "Source");
	}
	strbuf_adds(bar, "</div>\n");
}

static int answer(struct serve_target *t, serve_render *render, const struct serve_ask *ask)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct error e = { 0 };
	int rc = render(t, ask, &out, &e);
	struct worker_head head = { .code = rc };

	if (rc >= 0 && out.failed)
		rc = error_set(&e, -ENOMEM, "out of memory");
	head.code = MIN(rc, 0);
	if (rc < 0) {
		out.failed = false;
		strbuf_clear(&out);
		strbuf_adds(&out, *e.text ? e.text : error_code_text(rc));
	}
	head.length = out.length;
	rc = io_write_all(FIRST_FD, &head, sizeof(head));
	return rc < 0 ? rc : io_write_all(FIRST_FD, strbuf_text(&out), out.length);
}

/* Descriptors are in place. Ends with the server. */
static void __attribute__((noreturn))
serve(struct serve_target *t, serve_render *render, const char *nonce)
{
	struct strbuf bar = STRBUF_INIT;
	struct serve_ask ask;
	char paths[2][32];

	for (unsigned i = 0; i < t->count; i++) {
		snprintf(paths[i], sizeof(paths[i]), "/proc/self/fd/%u", FIRST_FD + 1 + i);
		t->paths[i] = paths[i];
	}
	make_bar(t, &bar);
	html_serve(nonce, strbuf_text(&bar));
	while (recv(FIRST_FD, &ask, sizeof(ask), MSG_WAITALL) == (ssize_t)sizeof(ask))
		if (answer(t, render, &ask) < 0)
			break;
	_exit(0);
}

/* Leaves only the worker's descriptors open. They are moved up first, so that none is lost. */
static bool place_descriptors(int fd, const int folders[2], unsigned count)
{
	int from[3] = { fd, folders[0], folders[1] };

	for (unsigned i = 0; i <= count; i++)
		from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, FIRST_FD + 3);
	for (unsigned i = 0; i <= count; i++)
		if (dup3(from[i], FIRST_FD + (int)i, O_CLOEXEC) < 0)
			return false;
	syscall(SYS_close_range, FIRST_FD + count + 1, ~0U, 0);
	return true;
}

static void __attribute__((noreturn))
become_worker(int fd, pid_t parent, const int folders[2], struct serve_target *t,
	      serve_render *render, const char *nonce)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	signal(SIGINT, SIG_IGN); /* the server ends its workers */
	signal(SIGTERM, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	if (getppid() == parent && place_descriptors(fd, folders, t->count))
		serve(t, render, nonce);
	_exit(1);
}

/* --- the server's side --- */

int worker_start(struct worker *w, serve_render *render, const int folders[2],
		 const char *const names[2], const char *nonce, struct error *e)
{
	struct serve_target target = { .count = w->count, .names = { names[0], names[1] } };
	pid_t parent = getpid();
	int pair[2], rc;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return error_errno(e, errno, "cannot start a reader");
	w->fd = io_above_standard(pair[0]);
	fflush(NULL); /* what is buffered is the server's */
	w->pid = w->fd >= 0 ? fork() : -1;
	if (!w->pid)
		become_worker(pair[1], parent, folders, &target, render, nonce);
	rc = w->pid < 0 ? error_errno(e, errno, "cannot start a reader") : 0;
	close(pair[1]);
	if (rc == 0 && fcntl(w->fd, F_SETFL, O_NONBLOCK) < 0)
		rc = error_errno(e, errno, "cannot start a reader");
	if (rc < 0) {
		w->pid = MAX(w->pid, 0);
		worker_end(w);
	}
	w->used_ns = clock_monotonic_ns();
	return rc;
}

/* The request is small, and the worker has read all before: it fits into the socket. */
static int send_first(struct worker *w)
{
	const struct serve_ask *ask = &w->queue.data[0].ask;

	w->asked_ns = w->used_ns = clock_monotonic_ns();
	w->is_busy = true;
	return send(w->fd, ask, sizeof(*ask), MSG_NOSIGNAL) == (ssize_t)sizeof(*ask) ? 0 : -EPIPE;
}

int worker_ask(struct worker *w, const struct worker_request *request)
{
	if (vec_push(&w->queue, *request) < 0)
		return -ENOMEM;
	return w->is_busy ? 0 : send_first(w);
}

int worker_read(struct worker *w)
{
	struct worker_head head = { 0 };
	uint64_t want = sizeof(head);
	ssize_t n;

	do {
		if (w->answer.length >= sizeof(head)) {
			memcpy(&head, w->answer.data, sizeof(head));
			want = sizeof(head) + head.length;
		}
		if (w->answer.length == want)
			return 1;
		if (head.length > WORKER_ANSWER_MAX ||
		    !strbuf_reserve(&w->answer, MIN(want - w->answer.length, (uint64_t)1 << 20)))
			return -ENOMEM;
		n = recv(w->fd, w->answer.data + w->answer.length,
			 MIN(want - w->answer.length, (uint64_t)1 << 20), 0);
		if (n > 0)
			w->answer.length += (size_t)n;
	} while (n > 0);
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -EPIPE;
}

int worker_answered(struct worker *w)
{
	w->is_busy = false;
	strbuf_release(&w->answer);
	memmove(w->queue.data, w->queue.data + 1, --w->queue.count * sizeof(*w->queue.data));
	return w->queue.count ? send_first(w) : 0;
}

void worker_measure(struct worker *w)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	uint64_t pages;
	char *resident;

	if (io_process_text(w->pid, "statm", 200, &text) < 0)
		return;
	resident = strchr(strbuf_text(&text), ' ');
	if (resident) {
		resident[1 + strcspn(resident + 1, " ")] = '\0';
		if (parse_u64(resident + 1, &pages) == 0)
			w->memory_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
	}
}

int worker_end(struct worker *w)
{
	int status = 0;

	if (w->pid) {
		kill(w->pid, SIGKILL);
		while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	if (w->fd >= 0)
		close(w->fd);
	vec_release(&w->queue);
	strbuf_release(&w->answer);
	*w = (struct worker){ .fd = -1 };
	return status;
}
