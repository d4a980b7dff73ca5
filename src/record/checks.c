/* checks.c: checks of the machine: GPUs by vendor, the recorder, permissions, other tools, disk. */
#include "record/checks.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "arch/processor.h"
#include "base/human.h"
#include "base/io.h"
#include "base/plural.h"
#include "record/attach_client.h"
#include "record/inject.h"
#include "record/inject_remote/inject_remote.h"
#include "sampler/cpu_sampler.h"

#define DISK_LOW_BYTES (UINT64_C(1) << 30)

/* Reads a number from a file of /proc/sys; returns `otherwise` if there is no such file. */
static long read_number(const char *path, long otherwise)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	return io_read_file(path, 64, &text) < 0 ? otherwise : strtol(strbuf_text(&text), NULL, 10);
}

static void check_library(struct check *c)
{
	struct error e = { 0 };
	_cleanup_free_ char *path = record_find_library(&e);
	const char *(*version)(void);
	void *handle;

	if (!path) {
		check_found(c, CHECK_MISSING, "%s", e.text);
		check_advise(c,
			     "run `make install`, or set PITOT_LIBRARY to the path of libpitot.so");
		return;
	}
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		check_found(c, CHECK_MISSING, "%s", dlerror());
		return;
	}
	*(void **)&version = dlsym(handle, "pitot_version");
	if (!version || strcmp(version(), PITOT_VERSION)) {
		check_found(c, CHECK_LIMITED,
			    "%s has version %s, but this program has " PITOT_VERSION, path,
			    version ? version() : "(none)");
		check_advise(c, "install both from the same build");
		return;
	}
	check_found(c, CHECK_OK, "%s", path);
}

static void check_other_tools(struct check *c)
{
	const char *value, *variable = record_foreign_injection(&value),
			   *preload = getenv("LD_PRELOAD");

	if (variable) {
		check_found(c, CHECK_MISSING, "another tool owns %s=%s", variable, value);
		check_advise(c, "unset it, or replace it: pitot record --force-injection");
	} else if (preload && (strstr(preload, "nsys") || strstr(preload, "ncu") ||
			       strstr(preload, "libToolsInjection"))) {
		check_found(c, CHECK_LIMITED, "another profiler is in LD_PRELOAD=%s", preload);
		check_advise(c, "only one profiler at a time can use CUPTI; run without it");
	} else {
		check_found(c, CHECK_OK, "no other profiler in the environment");
	}
}

static void check_disk(struct check *c)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct statvfs fs;
	uint64_t bytes;

	if (access(".", W_OK) < 0) {
		check_found(c, CHECK_LIMITED, "the current folder is not writable");
		check_advise(c, "choose another folder: pitot record -o DIR");
		return;
	}
	if (statvfs(".", &fs) < 0) {
		check_found(c, CHECK_LIMITED, "cannot determine the free space: %s",
			    strerror(errno));
		return;
	}
	bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	human_bytes(&text, bytes);
	check_found(c, bytes < DISK_LOW_BYTES ? CHECK_LIMITED : CHECK_OK,
		    "%s free in the current folder", strbuf_text(&text));
	if (bytes < DISK_LOW_BYTES)
		check_advise(
			c, "free some space, or limit the recording: pitot record --max-size SIZE");
}

static void check_follow(struct check *c)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)getpid(), (int)getpid());
	if (!access(path, R_OK)) {
		check_found(c, CHECK_OK, "child processes can be followed");
		return;
	}
	check_found(c, CHECK_LIMITED, "there is no %s", path);
	check_advise(
		c,
		"processes that use CUDA are recorded all the same, other children are not listed");
}

static void check_method(struct check *c, enum cpu_method method, const char *gives)
{
	struct error e = { 0 };

	if (cpu_method_check(method, &e) < 0)
		check_found(c, CHECK_LIMITED, "%s", e.text);
	else
		check_found(c, CHECK_OK, "%s", gives);
}

static void check_perf(struct check *c)
{
	check_method(c, CPU_METHOD_PERF,
		     "CPU samples with native stacks; Python frames from timers inside");
}

static void check_bpf(struct check *c)
{
	check_method(c, CPU_METHOD_EBPF,
		     "CPU samples with OS kernel, native and Python frames; time off the CPU");
}

static void check_ptrace(struct check *c)
{
	long scope = read_number("/proc/sys/kernel/yama/ptrace_scope", 0);

	if (!geteuid() || scope == 0) {
		check_found(c, scope == 3 ? CHECK_MISSING : CHECK_OK, "ptrace_scope is %ld", scope);
	} else {
		check_found(c, scope == 1 ? CHECK_LIMITED : CHECK_MISSING, "ptrace_scope is %ld",
			    scope);
		check_advise(c, "sudo sysctl kernel.yama.ptrace_scope=0");
	}
}

static void check_processor(struct check *c)
{
	bool is_proven = !*ARCH_UNPROVEN;

	check_found(c, is_proven ? CHECK_OK : CHECK_LIMITED, "%s%s%s", ARCH_NAME,
		    is_proven ? "" : ": ", ARCH_UNPROVEN);
}

static const struct machine_check common_checks[] = {
	{ "processor", "recording", false, check_processor },
	{ "libpitot", "recording", true, check_library },
	{ "other profilers", "recording GPU work", true, check_other_tools },
	{ "disk", "recording", false, check_disk },
	{ "processes", "following a command's processes", false, check_follow },
	{ "perf events", "CPU sampling; otherwise a timer inside the command", false, check_perf },
	{ "eBPF", "CPU sampling, the best method", false, check_bpf },
	{ "ptrace", "Python frames of running processes, without root", false, check_ptrace },
};

/* Appends the results of checks. Returns whether nothing that GPU work needs is missing. */
static bool run_checks(struct checks *out, const struct machine_check *checks, size_t count,
		       const struct vendor *vendor, const char *library)
{
	bool can_record = true;

	for (size_t i = 0; i < count && out->count < CHECKS_MAX; i++) {
		struct check *c = &out->list[out->count++];

		*c = (struct check){
			.vendor = vendor,
			.name = checks[i].name,
			.purpose = checks[i].purpose,
			.needed = checks[i].needed,
			.library = library,
		};
		checks[i].run(c);
		can_record &= !c->needed || c->state != CHECK_MISSING;
	}
	return can_record;
}

void checks_run(struct checks *out)
{
	_cleanup_free_ char *library = record_find_library(NULL);

	*out = (struct checks){ .count = 0 };
	for (unsigned v = 0; v < VENDOR_COUNT; v++)
		if (machine_has(v))
			out->can_record |=
				run_checks(out, vendor_machines[v]->checks,
					   vendor_machines[v]->check_count, vendors[v], library);
	out->can_record &= run_checks(out, common_checks, ARRAY_SIZE(common_checks), NULL, library);
}

/* A process that was not prepared may still be, by `pitot record --inject`. */
static bool check_unprepared(struct check *c, pid_t pid, struct error *e)
{
	_cleanup_free_ char *library = record_find_library(NULL);
	struct inject_thread thread;
	struct error why = { 0 };

	if (!library || !attach_uses_cuda(pid) || attach_can_load(pid, &why) <= 0)
		return false;
	if (inject_remote(pid, library, true, &thread, &why) < 0) {
		*e = why;
		return false;
	}
	if (thread.python)
		check_found(c, CHECK_LIMITED,
			    "process %d was not prepared; its CPython 3.%u can load the recorder, "
			    "when one of its threads executes Python code",
			    (int)pid, thread.python);
	else
		check_found(c, CHECK_LIMITED,
			    "process %d was not prepared; the recorder can be loaded into it, "
			    "through thread %d '%s', which sleeps in %s",
			    (int)pid, (int)thread.tid, thread.name, thread.call);
	check_advise(c, "pitot record -p PID --inject");
	return true;
}

void checks_of_process(struct checks *out, pid_t pid)
{
	struct check *c = &out->list[0];
	struct attach_answer answer;
	struct error e = { 0 };

	*out = (struct checks){ .count = 1 };
	*c = (struct check){ .name = "attach",
			     .purpose = "recording GPU work of the running process",
			     .needed = true };
	out->can_record = attach_state(pid, &answer, &e) == 0;
	if (!out->can_record && check_unprepared(c, pid, &e))
		out->can_record = true;
	else if (!out->can_record)
		check_found(c, CHECK_MISSING, "%s", e.text);
	else
		check_found(c, CHECK_OK,
			    "process %d is prepared, with libpitot.so %.*s; %u %s of it now",
			    (int)pid, (int)strspn(answer.text, "0123456789."), answer.text,
			    answer.recordings,
			    plural_of(answer.recordings, "recording goes on", "recordings go on"));
}

bool checks_foreign_proc(void)
{
	char text[24];
	ssize_t n = readlink("/proc/self", text, sizeof(text) - 1);

	if (n <= 0)
		return false;
	text[n] = '\0';
	return strtol(text, NULL, 10) != getpid();
}
