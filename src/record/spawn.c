/* spawn.c: starts the command, passes signals on, waits. */
#include "record/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/program_file.h"

static const int handled[] = { SIGCHLD, SIGINT,  SIGQUIT, SIGTERM, SIGHUP,
			       SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH };

static int cannot_run(const char *command, int err, struct error *e)
{
	struct stat st;

	if (err == ENOENT && !strchr(command, '/'))
		return error_set(e, -ENOENT, "cannot run '%s': no such command in PATH", command);
	if (err == EACCES && stat(command, &st) == 0 && S_ISREG(st.st_mode) && !(st.st_mode & 0111))
		return error_set(e, -EACCES,
				 "cannot run '%s': the file is not executable; try: chmod +x %s",
				 command, command);
	return error_errno(e, err, "cannot run '%s'", command);
}

int spawn_check(const char *command, struct error *e)
{
	char path[PATH_MAX];
	int err = program_file_find(command, path);

	return err < 0 ? cannot_run(command, -err, e) : 0;
}

static int block_signals(struct spawn *s, struct error *e)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(handled); i++)
		sigaddset(&set, handled[i]);
	sigprocmask(SIG_BLOCK, &set, &s->old_mask);
	s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->signals < 0) {
		int err = errno;

		sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
		return error_errno(e, err, "cannot receive signals");
	}
	return 0;
}

static void close_processes(struct spawn *s)
{
	for (size_t i = 0; i < s->process_count; i++)
		fd_close(&s->processes[i]);
	s->process_count = 0;
}

static bool read_all(int fd, void *buffer, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = read(fd, (char *)buffer + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

/*
 * Receives the variables that the parent adds. Their memory becomes part of the environment and is
 * never freed. Returns 0 or an errno.
 */
static int receive_environment(int gate)
{
	uint32_t size;
	char *text;

	if (!read_all(gate, &size, sizeof(size)))
		return EPIPE;
	text = malloc((size_t)size + 1);
	if (!text)
		return ENOMEM;
	if (!read_all(gate, text, size))
		return EPIPE;
	text[size] = '\0';
	for (char *one = text; one < text + size; one += strlen(one) + 1)
		if (putenv(one))
			return ENOMEM;
	return 0;
}

/*
 * Runs in the child, which waits for the parent at the gate. Errors are sent through the other
 * pipe, which exec closes.
 */
static void __attribute__((noreturn))
run_child(const struct spawn *s, char **argv, int gate, int report)
{
	int err;

	sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
	if (s->ignored_children)
		signal(SIGCHLD, SIG_IGN);
	err = receive_environment(gate);
	if (!err) {
		execvp(argv[0], argv);
		err = errno;
	}
	(void)!write(report, &err, sizeof(err));
	_exit(127);
}

/* Lets the child continue to its exec. */
static int open_gate(const struct spawn *s, int gate, spawn_prepare *prepare, void *user,
		     struct error *e)
{
	_cleanup_strbuf_ struct strbuf environment = STRBUF_INIT;
	int err = prepare(user, s->pid, &environment, e);
	uint32_t size = (uint32_t)environment.length;

	if (err >= 0 && environment.failed)
		err = error_set(e, -ENOMEM, "out of memory");
	if (err < 0)
		return err;
	/* If the child has ended, the caller notices. */
	if (send(gate, &size, sizeof(size), MSG_NOSIGNAL) == sizeof(size) && size)
		(void)!send(gate, environment.data, size, MSG_NOSIGNAL);
	return 0;
}

/* Reads the errno of the child's exec; 0: exec succeeded. */
static int read_exec_error(int report)
{
	ssize_t n;
	int err = 0;

	do
		n = read(report, &err, sizeof(err));
	while (n < 0 && errno == EINTR);
	return n == sizeof(err) ? err : 0;
}

int spawn_start(struct spawn *s, char **argv, spawn_prepare *prepare, void *user, struct error *e)
{
	int report[2] = { -1, -1 }, gate[2] = { -1, -1 }, err, r;

	*s = (struct spawn){ .signals = -1 };
	/* While SIGCHLD is ignored, waitpid does not report statuses. */
	s->ignored_children = signal(SIGCHLD, SIG_DFL) == SIG_IGN;
	/* Orphaned workers become children of this process, which reaps them. */
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	if (pipe2(report, O_CLOEXEC) < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gate) < 0) {
		r = error_errno(e, errno, "cannot start '%s'", argv[0]);
		goto fail;
	}
	r = block_signals(s, e);
	if (r < 0)
		goto fail;
	s->start_ns = clock_monotonic_ns();
	s->pid = fork();
	if (s->pid < 0) {
		r = error_errno(e, errno, "cannot start '%s'", argv[0]);
		goto fail;
	}
	if (!s->pid) {
		close(gate[1]);
		run_child(s, argv, gate[0], report[1]);
	}
	fd_close(&report[1]);
	r = open_gate(s, gate[1], prepare, user, e);
	fd_close(&gate[1]);
	err = read_exec_error(report[0]);
	if (r >= 0 && err)
		r = cannot_run(argv[0], err, e);
	if (r < 0)
		waitpid(s->pid, NULL, 0);
fail:
	fd_close(&report[0]);
	fd_close(&report[1]);
	fd_close(&gate[0]);
	fd_close(&gate[1]);
	if (r < 0)
		spawn_release(s);
	return r;
}

int spawn_attach(struct spawn *s, const pid_t *pids, size_t count, struct error *e)
{
	int err = 0;

	*s = (struct spawn){ .signals = -1 };
	for (size_t i = 0; i < count && err >= 0; i++) {
		int fd = (int)syscall(SYS_pidfd_open, pids[i], 0);

		if (fd < 0)
			err = error_errno(e, errno, "cannot follow process %d", (int)pids[i]);
		else
			s->processes[s->process_count++] = fd;
	}
	s->running = s->process_count;
	if (err >= 0)
		err = block_signals(s, e);
	if (err < 0)
		close_processes(s);
	s->start_ns = clock_monotonic_ns();
	return err;
}

static void forward_signal(struct spawn *s, const struct signalfd_siginfo *info)
{
	int signal = (int)info->ssi_signo;

	if (signal == SIGCHLD || signal == SIGWINCH)
		return;
	if (signal < 32 && s->kept_signals >> signal & 1) {
		s->received |= UINT32_C(1) << signal;
		return;
	}
	if (s->end_ns) {
		s->late_signal = signal;
		return;
	}
	if (s->process_count) { /* attached processes continue, the recording ends */
		s->end_ns = clock_monotonic_ns();
		return;
	}
	if (info->ssi_code == SI_KERNEL)
		return;
	/* The command sent the signal itself, for example with kill(0, …). */
	if ((pid_t)info->ssi_pid == s->pid)
		return;
	kill(s->pid, signal);
}

static int shell_status(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void reap(struct spawn *s, void (*ended)(void *user, pid_t pid, int status), void *user)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		/* A thread that we have stopped to read its stack (dump_parts.h) has not ended. */
		if (!WIFEXITED(status) && !WIFSIGNALED(status))
			continue;
		if (pid == s->pid) {
			s->end_ns = clock_monotonic_ns();
			s->status = shell_status(status);
			s->killed_by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
		}
		ended(user, pid, shell_status(status));
	}
}

/* Waits for a signal or the end of an attached process. */
static void wait_for_event(struct spawn *s, int timeout_ms)
{
	struct pollfd polled[2 + SPAWN_ATTACHED_MAX] = {
		{ .fd = s->signals, .events = POLLIN },
		{ .fd = s->watched ? s->watched : -1, .events = POLLIN },
	};

	for (size_t i = 0; i < s->process_count; i++)
		polled[2 + i] = (struct pollfd){ .fd = s->processes[i], .events = POLLIN };
	poll(polled, 2 + s->process_count, timeout_ms);
	for (size_t i = 0; i < s->process_count; i++) {
		if (!polled[2 + i].revents)
			continue;
		fd_close(&s->processes[i]);
		if (--s->running == 0)
			s->end_ns = clock_monotonic_ns();
	}
}

bool spawn_wait(struct spawn *s, int timeout_ms, void (*ended)(void *user, pid_t pid, int status),
		void *user)
{
	struct signalfd_siginfo info;

	wait_for_event(s, timeout_ms);
	while (read(s->signals, &info, sizeof(info)) == sizeof(info))
		forward_signal(s, &info);
	reap(s, ended, user);
	return !s->end_ns;
}

void spawn_release(struct spawn *s)
{
	if (s->signals < 0)
		return;
	fd_close(&s->signals);
	close_processes(s);
	sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
}
