/* spawn.c: starts the command, passes signals on, waits. */
#include "record/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/io.h"

static const int handled[] = { SIGCHLD, SIGINT,  SIGQUIT, SIGTERM, SIGHUP,
			       SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH };

static int cannot_run(const char *command, int err, struct error *e)
{
	if (err == ENOENT && !strchr(command, '/'))
		return error_set(e, -ENOENT, "cannot run '%s': no such command in PATH", command);
	return error_errno(e, err, "cannot run '%s'", command);
}

/* 0 if the file can be executed, else an errno. */
static int check_file(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return errno;
	if (S_ISDIR(st.st_mode))
		return EISDIR;
	return access(path, X_OK) < 0 ? errno : 0;
}

int spawn_check(const char *command, struct error *e)
{
	const char *folder = getenv("PATH"), *end;
	char path[PATH_MAX];
	int err, worst = ENOENT;

	if (strchr(command, '/')) {
		err = check_file(command);
		return err ? cannot_run(command, err, e) : 0;
	}
	if (!folder) /* what the C library looks through then is its own business */
		return 0;
	for (; folder; folder = *end ? end + 1 : NULL) {
		end = strchrnul(folder, ':');
		if ((size_t)snprintf(path, sizeof(path), "%.*s%s%s", (int)(end - folder), folder,
				     end > folder ? "/" : "", command) >= sizeof(path))
			continue;
		err = check_file(path);
		if (!err)
			return 0;
		if (err == EACCES)
			worst = EACCES;
	}
	return cannot_run(command, worst, e);
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

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
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

/* Waits for what the parent has to add. The strings stay: they are the environment. 0 or an errno. */
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
 * In the child, which waits for the parent at the gate. What goes wrong is told through the other pipe, which exec
 * closes.
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

/* Lets the child go. */
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
	/* Of a child that has gone the caller hears. */
	if (send(gate, &size, sizeof(size), MSG_NOSIGNAL) == sizeof(size) && size)
		(void)!send(gate, environment.data, size, MSG_NOSIGNAL);
	return 0;
}

/* What the child has to say: 0 when it runs, or an errno. */
static int hear_child(int report)
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

	*s = (struct spawn){ .signals = -1, .process = -1 };
	/* Who ignores SIGCHLD never learns how a child ended. */
	s->ignored_children = signal(SIGCHLD, SIG_DFL) == SIG_IGN;
	/* Workers whose parent has ended stay ours to be seen and reaped. */
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
	close_fd(&report[1]);
	r = open_gate(s, gate[1], prepare, user, e);
	close_fd(&gate[1]);
	err = hear_child(report[0]);
	if (r >= 0 && err)
		r = cannot_run(argv[0], err, e);
	if (r < 0)
		waitpid(s->pid, NULL, 0);
fail:
	close_fd(&report[0]);
	close_fd(&report[1]);
	close_fd(&gate[0]);
	close_fd(&gate[1]);
	if (r < 0)
		spawn_release(s);
	return r;
}

int spawn_attach(struct spawn *s, pid_t pid, struct error *e)
{
	int err;

	*s = (struct spawn){ .signals = -1, .process = -1, .pid = pid };
	s->process = (int)syscall(SYS_pidfd_open, pid, 0);
	if (s->process < 0)
		return error_errno(e, errno, "cannot follow process %d", (int)pid);
	err = block_signals(s, e);
	if (err < 0)
		close_fd(&s->process);
	s->start_ns = clock_monotonic_ns();
	return err;
}

static void pass_on(struct spawn *s, const struct signalfd_siginfo *info)
{
	int signal = (int)info->ssi_signo;

	if (signal == SIGCHLD || signal == SIGWINCH || s->end_ns)
		return;
	if (s->process >= 0) { /* not our command: it goes on, we do not */
		s->end_ns = clock_monotonic_ns();
		return;
	}
	if (info->ssi_code == SI_KERNEL)
		return;
	/* The command itself told us, for example with kill(0, …): it knows. */
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
		if (pid == s->pid) {
			s->end_ns = clock_monotonic_ns();
			s->status = shell_status(status);
		}
		ended(user, pid, shell_status(status));
	}
}

bool spawn_wait(struct spawn *s, int timeout_ms, void (*ended)(void *user, pid_t pid, int status),
		void *user)
{
	struct pollfd polled[] = { { .fd = s->signals, .events = POLLIN },
				   { .fd = s->process, .events = POLLIN } };
	struct signalfd_siginfo info;

	poll(polled, ARRAY_SIZE(polled), timeout_ms);
	if (polled[1].revents)
		s->end_ns = clock_monotonic_ns();
	while (read(s->signals, &info, sizeof(info)) == sizeof(info))
		pass_on(s, &info);
	reap(s, ended, user);
	return !s->end_ns;
}

void spawn_release(struct spawn *s)
{
	if (s->signals < 0)
		return;
	close_fd(&s->signals);
	close_fd(&s->process);
	sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
}
