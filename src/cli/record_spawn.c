/* record_spawn.c: starts the command, passes signals on, waits. */
#include "cli/record_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/io.h"
#include "cli/record_inject.h"

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

/* In the child. What goes wrong is told to the parent through the pipe, which exec closes. */
static void __attribute__((noreturn))
run_child(const struct spawn *s, char **argv, const struct spawn_environment *environment,
	  int report)
{
	int err;

	sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
	if (s->ignored_children)
		signal(SIGCHLD, SIG_IGN);
	err = -record_set_environment(environment->library, environment->directory,
				      environment->options);
	if (!err) {
		execvp(argv[0], argv);
		err = errno;
	}
	(void)!write(report, &err, sizeof(err));
	_exit(127);
}

int spawn_start(struct spawn *s, char **argv, const struct spawn_environment *environment,
		struct error *e)
{
	int report[2], err = 0, r;
	ssize_t n;

	*s = (struct spawn){ .signals = -1 };
	/* Who ignores SIGCHLD never learns how a child ended. */
	s->ignored_children = signal(SIGCHLD, SIG_DFL) == SIG_IGN;
	/* Workers whose parent has ended stay ours to be seen and reaped. */
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	if (pipe2(report, O_CLOEXEC) < 0)
		return error_errno(e, errno, "cannot start '%s'", argv[0]);
	r = block_signals(s, e);
	if (r < 0)
		goto fail;
	s->start_ns = clock_monotonic_ns();
	s->pid = fork();
	if (s->pid < 0) {
		r = error_errno(e, errno, "cannot start '%s'", argv[0]);
		spawn_release(s);
		goto fail;
	}
	if (!s->pid)
		run_child(s, argv, environment, report[1]);
	close(report[1]);
	do
		n = read(report[0], &err, sizeof(err));
	while (n < 0 && errno == EINTR);
	close(report[0]);
	if (n == sizeof(err) && err) {
		waitpid(s->pid, NULL, 0);
		spawn_release(s);
		return cannot_run(argv[0], err, e);
	}
	return 0;
fail:
	close(report[0]);
	close(report[1]);
	return r;
}

static void pass_on(const struct spawn *s, const struct signalfd_siginfo *info)
{
	int signal = (int)info->ssi_signo;

	if (signal == SIGCHLD || signal == SIGWINCH || info->ssi_code == SI_KERNEL || s->end_ns)
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
	struct pollfd pollfd = { .fd = s->signals, .events = POLLIN };
	struct signalfd_siginfo info;

	poll(&pollfd, 1, timeout_ms);
	while (read(s->signals, &info, sizeof(info)) == sizeof(info))
		pass_on(s, &info);
	reap(s, ended, user);
	return !s->end_ns;
}

void spawn_release(struct spawn *s)
{
	if (s->signals < 0)
		return;
	close(s->signals);
	s->signals = -1;
	sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
}
