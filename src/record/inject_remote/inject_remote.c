#include "record/inject_remote/inject_remote.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "arch/processor.h"
#include "base/clock.h"
#include "base/folder.h"
#include "base/io.h"
#include "record/attach_client.h"
#include "record/inject.h"
#include "record/inject_remote/remote_filter.h"
#include "record/inject_remote/remote_python.h"
#include "record/inject_remote/remote_sleep.h"
#include "sampler/proc_tree.h"
#include "sampler/sampled_processes.h"

/* Longer and longer: a thread that was stopped has to get a processor before it sleeps again. */
#define SEARCHES 20u /* in all 4 s */
#define SEARCH_PAUSE_NS (20 * NS_PER_MS)
#define FILES_NEEDED 8u
#define LIMIT_NS (PITOT_SLOWNESS * 15 * NS_PER_S) /* loading takes a tenth of a second */

/* What our process says to its parent, in one write. */
struct outcome {
	int rc;
	struct inject_thread thread;
	struct error error;
};

struct injection {
	pid_t pid;
	const char *library; /* as the process sees it */
	uint64_t inode; /* of the library */
	bool only_check;
	long seccomp; /* the main thread's mode; 0: no filter */
	struct remote_image image;
	struct remote_thread thread;
	struct outcome outcome;
};

/* --- refusals --- */

static long status_of(pid_t pid, const char *name, int base)
{
	_cleanup_strbuf_ struct strbuf status = STRBUF_INIT;
	const char *line;

	if (io_process_text(pid, "status", 65536, &status) < 0)
		return 0;
	line = strstr(strbuf_text(&status), name);
	return line ? (long)strtoull(line + strlen(name), NULL, base) : 0;
}

/* The process that traces one of the threads; 0: none does. */
static long tracer_of(pid_t pid)
{
	_cleanup_list_ DIR *list = folder_list_process(pid, "task");
	const char *name;
	long tracer = 0;

	while (list && !tracer && (name = folder_next(list)))
		tracer = status_of((pid_t)strtol(name, NULL, 10), "\nTracerPid:", 10);
	return tracer;
}

static int refuse_tracer(pid_t pid, long tracer, struct error *e)
{
	return error_set(e, -EBUSY,
			 "process %d is traced by process %ld, a debugger, strace or another "
			 "pitot: let that end first",
			 (int)pid, tracer);
}

static int explain_permission(pid_t pid, struct error *e)
{
	long tracer = tracer_of(pid);
	static const char scope_file[] = "/proc/sys/kernel/yama/ptrace_scope";
	_cleanup_strbuf_ struct strbuf scope = STRBUF_INIT;

	if (tracer)
		return refuse_tracer(pid, tracer, e);
	(void)!io_read_text(scope_file, 16, &scope);
	switch (strtol(strbuf_text(&scope), NULL, 10)) {
	case 1:
		return error_set(e, -EPERM,
				 "process %d is not a descendant, and %s is 1: run pitot with "
				 "sudo, or `sysctl kernel.yama.ptrace_scope=0`",
				 (int)pid, scope_file);
	case 2:
		return error_set(e, -EPERM,
				 "process %d may be traced by root only (%s is 2): run pitot with "
				 "sudo",
				 (int)pid, scope_file);
	case 3:
		return error_set(e, -EPERM,
				 "no process may be traced on this machine until it is started "
				 "again (%s is 3): prepare the program with PITOT_IDLE=1",
				 scope_file);
	default:
		return error_set(e, -EPERM,
				 "process %d may not be traced: it belongs to another user "
				 "namespace, has more rights, or made itself undumpable; run pitot "
				 "with sudo",
				 (int)pid);
	}
}

/* Whether it may open some more files, as loading a library needs. */
static bool has_room(pid_t pid)
{
	_cleanup_list_ DIR *list = NULL;
	_cleanup_strbuf_ struct strbuf limits = STRBUF_INIT;
	static const char name[] = "\nMax open files";
	const char *line = NULL;
	unsigned long room;

	if (io_process_text(pid, "limits", 8192, &limits) == 0)
		line = strstr(strbuf_text(&limits), name);
	if (!line)
		return true;
	room = strtoul(line + sizeof(name) - 1, NULL, 10); /* 0: unlimited */
	list = room ? folder_list_process(pid, "fd") : NULL;
	if (!list)
		return true;
	for (room -= MIN(room, FILES_NEEDED - 1); room && folder_next(list); room--)
		;
	return room > 0;
}

static int check(struct injection *i, struct error *e)
{
	long tracer = tracer_of(i->pid);

	if (tracer)
		return refuse_tracer(i->pid, tracer, e);
	if (!has_room(i->pid))
		return error_set(e, -EMFILE,
				 "process %d has no room for more open files: raise its limit with "
				 "prlimit --nofile",
				 (int)i->pid);
	i->seccomp = status_of(i->pid, "\nSeccomp:", 10);
	if (i->seccomp == SECCOMP_MODE_STRICT)
		return error_set(e, E_UNSUPPORTED,
				 "process %d is in seccomp's strict mode, which ends it for the "
				 "system calls of the recorder",
				 (int)i->pid);
	return 0;
}

/* What calls in a thread's place need beside that. */
static int check_calls(struct injection *i, struct error *e)
{
	unsigned long ignored = (unsigned long)status_of(i->pid, "\nSigIgn:", 16);

	if (!ARCH_CAN_CALL)
		return error_set(e, E_UNSUPPORTED,
				 "the recorder can be loaded into running processes on x86-64 "
				 "only, and into CPython from 3.14 on: prepare the program with "
				 "PITOT_IDLE=1");
	if (ignored & 1ul << (SIGTRAP - 1))
		return error_set(
			e, E_UNSUPPORTED,
			"process %d has SIGTRAP ignored, with which the call of the loader "
			"ends: prepare the program with PITOT_IDLE=1",
			(int)i->pid);
	return 0;
}

/* Whether the library at the process's path is ours, or a copy of it. */
static int compare_library(struct injection *i, int theirs, struct error *e)
{
	_cleanup_close_ int own = -1;
	uint8_t bytes[2][4096];
	struct stat st;
	size_t n = 1;

	if (i->image.recorder)
		return 0;
	own = io_open_file(i->library, &st);
	for (uint64_t at = 0; own >= 0 && n; at += n) {
		n = io_read_at(own, at, bytes[0], sizeof(bytes[0]));
		if (io_read_at(theirs, at, bytes[1], sizeof(bytes[1])) != n ||
		    memcmp(bytes[0], bytes[1], n) != 0)
			break;
	}
	return n ? error_set(e, E_UNSUPPORTED,
			     "process %d has another file at '%s': copy this Pitot there, or run "
			     "that one in its container",
			     (int)i->pid, i->library)
		 : 0;
}

/* Whether the process sees our library at its path; it may be in a container. */
static int check_library(struct injection *i, struct error *e)
{
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX + 32];
	struct stat theirs;

	if (i->image.recorder)
		i->library = i->image.recorder;
	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)i->pid, i->library);
	fd = io_open_file(path, &theirs);
	if (fd < 0)
		return error_set(
			e, fd,
			"process %d does not see '%s': %s: copy Pitot to the same place in "
			"its container",
			(int)i->pid, i->library, error_code_text(fd));
	i->inode = theirs.st_ino;
	return compare_library(i, fd, e);
}

/* --- in our process --- */

struct place {
	uint64_t address, inode; /* of the file that is mapped there */
};

static int find_inode(void *place, const struct target_mapping *m)
{
	struct place *p = place;

	if (p->address - m->start < m->end - m->start)
		p->inode = m->inode;
	return 0;
}

/* Whether code of that file is at an address. */
static bool is_mapped(pid_t pid, uint64_t address, uint64_t inode)
{
	struct place place = { .address = address };

	(void)!proc_maps_read(pid, find_inode, &place);
	return place.inode && place.inode == inode;
}

/* Stops a thread that will do now. Libraries come and go, so all is read anew each time. */
static int search_once(struct injection *i, const char **call, struct strbuf *seen, struct error *e)
{
	struct remote_sleep *sleep;
	int rc;

	strbuf_clear(seen);
	remote_image_release(&i->image);
	rc = remote_image_read(i->pid, &i->image, e);
	if (rc == 0)
		rc = check_library(i, e);
	if (rc == 0)
		rc = remote_sleep_new(i->pid, &sleep, e);
	if (rc < 0)
		return rc;
	rc = remote_sleep_stop(sleep, &i->image, &i->thread, call, seen);
	remote_sleep_free(sleep);
	/* The process may have executed another program since its image was read. */
	if (rc == 0 && !is_mapped(i->pid, i->image.dlopen, i->image.libc_inode)) {
		(void)!remote_thread_leave(&i->thread);
		return -EAGAIN;
	}
	if (rc == 0 && status_of(i->thread.tid, "\nSeccomp:", 10)) {
		rc = remote_filter_check(i->pid, i->thread.tid, e);
		if (rc < 0)
			(void)!remote_thread_leave(&i->thread);
	}
	return rc;
}

static void read_name(struct injection *i)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	struct inject_thread *t = &i->outcome.thread;
	char file[64];

	snprintf(file, sizeof(file), "task/%d/comm", (int)t->tid);
	(void)!io_process_text(i->pid, file, sizeof(t->name), &name);
	snprintf(t->name, sizeof(t->name), "%s", strbuf_text(&name));
}

static int search(struct injection *i, struct error *e)
{
	struct timespec pause = { 0 };
	_cleanup_strbuf_ struct strbuf seen = STRBUF_INIT;
	const char *call;
	int rc;

	while ((rc = search_once(i, &call, &seen, e)) == -EAGAIN &&
	       pause.tv_nsec < (long)(SEARCHES * SEARCH_PAUSE_NS)) {
		pause.tv_nsec += (long)SEARCH_PAUSE_NS;
		nanosleep(&pause, NULL);
	}
	if (rc < 0 && e->code)
		return rc;
	if (rc == -EPERM)
		return explain_permission(i->pid, e);
	if (rc == -ESRCH)
		return error_set(e, rc, "there is no process %d any more", (int)i->pid);
	if (rc < 0)
		return error_set(e, E_UNSUPPORTED,
				 "process %d has no thread in whose place a library can be loaded: "
				 "%s",
				 (int)i->pid, strbuf_text(&seen));
	i->outcome.thread.tid = i->thread.tid;
	snprintf(i->outcome.thread.call, sizeof(i->outcome.thread.call), "%s", call);
	read_name(i);
	return 0;
}

/* What pitot_idle() has returned. */
static int check_idle(const struct injection *i, int result, struct error *e)
{
	if (result == 0)
		return error_set(e, E_UNSUPPORTED,
				 "process %d has recording switched off (PITOT_DISABLED)",
				 (int)i->pid);
	return result > 0 ? 0
			  : error_set(e, result,
				      "process %d: the recorder cannot wait for recordings: %s",
				      (int)i->pid, error_code_text(result));
}

/* The library's pitot_idle(): the handle of dlopen() begins with the library's base. */
static int idle(struct injection *i, uint64_t handle, struct error *e)
{
	uint64_t base, function, result;
	int rc = remote_symbol(i->pid, i->library, "pitot_idle", NULL, &function, e);

	if (rc < 0)
		return rc;
	if (!remote_read(i->pid, handle, &base, sizeof(base)) ||
	    !is_mapped(i->pid, base + function, i->inode))
		return error_set(e, E_UNSUPPORTED,
				 "process %d has loaded another file than '%s': it is not used",
				 (int)i->pid, i->library);
	rc = remote_thread_call(&i->thread, base + function, 0, 0, &result);
	return rc < 0 ? error_set(e, rc, "process %d: the recorder does not start: %s", (int)i->pid,
				  error_code_text(rc))
		      : check_idle(i, (int)result, e);
}

static int load(struct injection *i, struct error *e)
{
	uint64_t text, errno_at = 0, handle = 0;
	int error_number = 0, rc = remote_thread_prepare(&i->thread, i->library, &text);

	if (rc == 0)
		rc = remote_thread_call(&i->thread, i->image.errno_location, 0, 0, &errno_at);
	if (rc == 0 && !remote_read(i->pid, errno_at, &error_number, sizeof(error_number)))
		rc = -EFAULT;
	if (rc == 0)
		rc = remote_thread_call(&i->thread, i->image.dlopen, text, RTLD_NOW | RTLD_LOCAL,
					&handle);
	if (rc < 0)
		error_set(e, rc, "process %d: the recorder cannot be loaded: %s", (int)i->pid,
			  error_code_text(rc));
	else if (!handle)
		rc = error_set(e, E_UNSUPPORTED,
			       "process %d cannot load '%s': its loader refuses it; LD_PRELOAD of "
			       "it, in another process of that program, says why",
			       (int)i->pid, i->library);
	else
		rc = idle(i, handle, e);
	if (errno_at)
		(void)!remote_write(i->pid, errno_at, &error_number, sizeof(error_number));
	return rc;
}

/*
 * Returns 1 if CPython does it; 0 if a thread that sleeps has to, and *why says why, if there is
 * such a CPython.
 */
static int inject_by_python(struct injection *i, struct error *why, struct error *e)
{
	struct inject_thread *t = &i->outcome.thread;
	struct remote_python python;
	int idle, rc = remote_python_find(i->pid, &python, why);

	if (rc == -EPERM)
		return explain_permission(i->pid, e);
	if (rc <= 0)
		return 0;
	rc = remote_image_read(i->pid, &i->image, e);
	if (rc == 0)
		rc = check_library(i, e);
	if (rc == 0 && !i->only_check)
		rc = remote_python_load(&python, i->library, &idle, &t->tid, why);
	if (rc == -ETIMEDOUT)
		return error_set(e, rc, "process %d: %s", (int)i->pid, why->text);
	if (rc < 0)
		return e->code ? rc : 0;
	t->python = python.minor;
	if (i->only_check)
		return 1;
	rc = check_idle(i, idle, e);
	read_name(i);
	return rc < 0 ? rc : 1;
}

static int inject_by_call(struct injection *i, struct error *e)
{
	int rc = check_calls(i, e), left;

	if (rc == 0)
		rc = search(i, e);
	if (rc < 0)
		return rc;
	rc = i->only_check ? 0 : load(i, e);
	left = remote_thread_leave(&i->thread);
	return rc < 0 || left == 0
		       ? rc
		       : error_set(e, left, "process %d has ended meanwhile", (int)i->pid);
}

static int inject(struct injection *i, struct error *e)
{
	struct error why = { 0 };
	int rc = check(i, e);

	if (rc == 0 && !i->seccomp) /* filters can be read of a thread that is stopped */
		rc = inject_by_python(i, &why, e);
	if (rc != 0)
		return MIN(rc, 0);
	rc = inject_by_call(i, e);
	return rc < 0 && why.code ? error_prefix(e, "process %d: %s", (int)i->pid, why.text) : rc;
}

/* Signals, also those of the terminal, must not end it. */
static void run_process(struct injection *i, int result)
{
	sigset_t all;

	setsid();
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	i->outcome.rc = inject(i, &i->outcome.error);
	(void)!write(result, &i->outcome, sizeof(i->outcome));
	_exit(0);
}

/* --- the caller --- */

int inject_remote(pid_t pid, const char *library, bool only_check, struct inject_thread *out,
		  struct error *e)
{
	_cleanup_free_ struct injection *i = calloc(1, sizeof(*i));
	struct pollfd polled = { .events = POLLIN };
	int ends[2], limit = (int)(LIMIT_NS / NS_PER_MS);
	ssize_t n = 0;
	pid_t worker;

	if (!i || pipe2(ends, O_CLOEXEC) < 0)
		return error_set(e, i ? -errno : -ENOMEM, "cannot load the recorder");
	*i = (struct injection){ .pid = pid, .library = library, .only_check = only_check };
	worker = fork();
	if (worker == 0)
		run_process(i, ends[1]);
	close(ends[1]);
	polled.fd = ends[0];
	if (worker > 0 && poll(&polled, 1, limit) > 0)
		n = read(ends[0], &i->outcome, sizeof(i->outcome));
	close(ends[0]);
	if (n != (ssize_t)sizeof(i->outcome))
		return error_set(e, -ETIMEDOUT,
				 "process %d: the recorder is still being loaded, perhaps behind "
				 "another library; process %d is waiting for that, and must not be "
				 "killed",
				 (int)pid, (int)worker);
	waitpid(worker, NULL, 0);
	*out = i->outcome.thread;
	if (i->outcome.rc < 0)
		*e = i->outcome.error;
	return i->outcome.rc;
}

/* Returns 1 if the process is prepared, now or before; 0: it does not use CUDA. */
static int prepare_one(pid_t pid, const char *library, inject_visit *prepared, void *user,
		       struct error *e)
{
	struct inject_thread thread;
	int rc = attach_can_load(pid, e);

	if (rc <= 0)
		return rc < 0 ? rc : 1;
	if (!attach_uses_cuda(pid))
		return 0;
	rc = inject_remote(pid, library, false, &thread, e);
	if (rc < 0)
		return rc;
	prepared(user, pid, &thread);
	return 1;
}

int inject_unprepared(const pid_t *pids, size_t count, inject_visit *prepared, void *user,
		      struct error *e)
{
	_cleanup_free_ char *library = record_find_library(e);
	struct proc_tree tree = { 0 };
	size_t ready = 0;

	if (!library)
		return e->code;
	if (proc_tree_read(&tree, pids, count) == -ESRCH)
		return MIN(attach_can_load(pids[0], e), 0); /* says that it is not there */
	for (size_t i = 0; i < tree.pids.count; i++) {
		struct error problem = { 0 };

		ready += prepare_one(tree.pids.data[i], library, prepared, user, &problem) > 0;
		if (problem.code && !e->code)
			*e = problem;
	}
	proc_tree_release(&tree);
	if (ready || e->code)
		return ready ? 0 : e->code;
	return error_set(e, -ESRCH,
			 "neither process %d nor a descendant uses CUDA, or they have ended",
			 (int)pids[0]);
}
