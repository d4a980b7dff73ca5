#include "cli/record_windows.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/record_output.h"
#include "cli/ui.h"
#include "format/recording_dir.h"

struct made {
	char *directory;
	struct folder_id id;
};

struct windows {
	const struct context *context;
	const struct record_windows *how;
	struct record_request *request;
	struct pollfd processes[SPAWN_ATTACHED_MAX]; /* pidfds; -1: ended */
	size_t running;
	VEC(struct made) made;
	struct error last; /* text "": there was none */
};

static void watch(struct windows *w)
{
	for (size_t i = 0; i < w->request->pid_count; i++) {
		int fd = (int)syscall(SYS_pidfd_open, w->request->pids[i], 0);

		w->processes[i] = (struct pollfd){ .fd = fd, .events = POLLIN };
		w->running += fd >= 0;
	}
}

static void release(struct windows *w)
{
	for (size_t i = 0; i < w->request->pid_count; i++)
		fd_close(&w->processes[i].fd);
	for (size_t i = 0; i < w->made.count; i++)
		free(w->made.data[i].directory);
	vec_release(&w->made);
}

/* Waits for the next window. Returns false when all processes have ended or a signal has come. */
static bool await_window(struct windows *w)
{
	uint64_t every_ns = w->how->every_ns,
		 at_ns = (clock_read_ns(CLOCK_REALTIME) / every_ns + 1) * every_ns, now;

	while (w->running && !terminal_stop_signal &&
	       (now = clock_read_ns(CLOCK_REALTIME)) < at_ns) {
		uint64_t left_ms = (at_ns - now) / NS_PER_MS + 1;

		if (poll(w->processes, w->request->pid_count, (int)MIN(left_ms, 1000u)) <= 0)
			continue;
		for (size_t i = 0; i < w->request->pid_count; i++)
			if (w->processes[i].fd >= 0 && w->processes[i].revents) {
				close(w->processes[i].fd);
				w->processes[i].fd = -1;
				w->running--;
			}
	}
	return w->running && !terminal_stop_signal;
}

static void remember(struct windows *w, const struct recording *r)
{
	struct made made = { strdup(r->directory), r->identity.folder };
	struct error e = { 0 };

	if (!made.directory || vec_push(&w->made, made) < 0)
		free(made.directory);
	if (w->made.count <= w->how->keep)
		return;
	if (recording_dir_remove(w->made.data[0].directory, &w->made.data[0].id, &e) < 0)
		cli_warn(w->context, "%s", e.text);
	free(w->made.data[0].directory);
	w->made.count--;
	memmove(w->made.data, w->made.data + 1, w->made.count * sizeof(w->made.data[0]));
}

/* Says each failure once, until another one comes. */
static void warn(struct windows *w, const struct error *e)
{
	if (!w->how->is_command || (w->made.count && strcmp(w->last.text, e->text) != 0))
		cli_warn(w->context, "%s", e->text);
	w->last = *e;
}

/* Returns 1; 0 after a signal; or a negative code. */
static int record_one(struct windows *w, struct error *e)
{
	struct context quiet = *w->context;
	struct record_output output = { .context = &quiet };
	_cleanup_(recording_release) struct recording r = {
		.request = w->request, .listener = record_output_listener(&output), RECORDING_INIT
	};
	int rc;

	quiet.quiet = true;
	rc = record_attach(&r, e);
	if (rc >= 0) {
		record_run(&r);
		rc = !r.cpu.end_ns || r.spawn.end_ns >= r.cpu.end_ns ||
		     !r.spawn.running; /* else a signal has ended it */
		record_finish(&r);
		cli_note(w->context, "%s", r.shown);
		remember(w, &r);
	}
	return rc;
}

int record_windows(const struct context *c, struct record_request *request,
		   const struct record_windows *how)
{
	struct windows w = { .context = c, .how = how, .request = request };
	struct error e = { 0 };
	int rc = 1;

	request->settings.duration_ns = how->for_ns;
	terminal_catch_signals();
	watch(&w);
	while (rc > 0 && await_window(&w)) {
		e = (struct error){ 0 };
		rc = record_one(&w, &e);
		/* It has ended a moment ago, or a GPU that hangs holds it up this time. */
		if (rc < 0 && (w.made.count || how->is_command)) {
			warn(&w, &e);
			rc = 1;
		}
	}
	if (how->is_command && !w.made.count)
		cli_warn(c, "nothing was recorded: %s",
			 *w.last.text ? "no window found the command using a GPU"
				      : "the command ended before the first window");
	release(&w);
	return rc < 0 ? cli_fail(c, &e) : EXIT_DONE;
}

/* --- of a command --- */

struct windows_process {
	pid_t pid;
	bool has_ended;
};

static void on_end(void *user, pid_t pid, int status)
{
	struct windows_process *windows = user;

	(void)status;
	windows->has_ended |= pid == windows->pid;
}

/* Ctrl-C reaches the command, and this process ends when the command does, or its parent. */
static void __attribute__((noreturn))
run_windows(const struct context *c, struct recording *r, struct record_request *request,
	    const struct record_windows *how)
{
	struct record_windows of_command = *how;

	of_command.is_command = true;
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	request->pids[0] = r->spawn.pid;
	request->pid_count = 1;
	spawn_release(&r->spawn);
	exit(record_windows(c, request, &of_command));
}

int record_windows_of_command(const struct context *c, struct record_request *request,
			      const struct record_windows *how, char **argv)
{
	struct record_output output = { .context = c };
	_cleanup_(recording_release) struct recording r = {
		.request = request, .listener = record_output_listener(&output), RECORDING_INIT
	};
	struct windows_process windows = { 0 };
	struct error e = { 0 };
	int status;

	if (record_launch_idle(&r, argv, &e) < 0) {
		status = cli_fail(c, &e);
		status = r.spawn.status ? r.spawn.status : status;
	} else {
		fflush(NULL);
		windows.pid = fork();
		if (!windows.pid)
			run_windows(c, &r, request, how);
		if (windows.pid < 0)
			cli_warn(c, "nothing is recorded: cannot start a process: %s",
				 strerror(errno));
		while (spawn_wait(&r.spawn, 1000, on_end, &windows))
			;
		if (windows.pid > 0 && !windows.has_ended)
			waitpid(windows.pid, NULL, 0);
		spawn_release(&r.spawn);
		status = r.spawn.status;
	}
	return status;
}
