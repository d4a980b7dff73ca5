/* checks.c: checks of the machine: driver, libraries, permissions, other tools, disk. */
#include "record/checks.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/human.h"
#include "base/io.h"
#include "base/plural.h"
#include "record/libcuda.h"
#include "record/inject.h"
#include "sampler/cpu_sampler.h"

#define PROC_MAX 65536
#define DISK_LOW_BYTES (UINT64_C(1) << 30)

static void found(struct check *c, enum check_state state, const char *format, ...)
	PRINTF_LIKE(3, 4);
static void found(struct check *c, enum check_state state, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(c->detail, sizeof(c->detail), format, args);
	va_end(args);
	c->state = state;
}

static void advise(struct check *c, const char *text)
{
	snprintf(c->advice, sizeof(c->advice), "%s", text);
}

/* Reads a number from a file of /proc/sys; returns `otherwise` if there is no such file. */
static long read_number(const char *path, long otherwise)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	return io_read_file(path, 64, &text) < 0 ? otherwise : strtol(strbuf_text(&text), NULL, 10);
}

/* Finds the first word like 580.159.03 in the driver's description. */
static const char *version_word(const char *text, size_t *length)
{
	for (; *text && *text != '\n'; text += *length, text += strspn(text, " \t")) {
		*length = strcspn(text, " \t\n");
		if (strspn(text, "0123456789.") == *length && memchr(text, '.', *length))
			return text;
	}
	*length = strlen("of unknown version");
	return "of unknown version";
}

static void check_driver(struct check *c)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const char *version;
	size_t length;

	if (io_read_file("/proc/driver/nvidia/version", PROC_MAX, &text) < 0) {
		if (!access("/dev/dxg", F_OK)) {
			found(c, CHECK_LIMITED,
			      "WSL: the driver is part of Windows, where CUPTI has fewer features");
			return;
		}
		found(c, CHECK_MISSING,
		      "no NVIDIA kernel driver is loaded (no /proc/driver/nvidia/version)");
		advise(c, "install the NVIDIA driver; start a container with --gpus all");
		return;
	}
	version = version_word(strbuf_text(&text), &length);
	found(c, CHECK_OK, "NVIDIA driver %.*s", (int)length, version);
}

static void check_device_files(struct check *c)
{
	glob_t files;
	size_t usable = 0, all = 0;

	if (!access("/dev/dxg", R_OK | W_OK)) {
		found(c, CHECK_OK, "/dev/dxg");
		return;
	}
	if (!glob("/dev/nvidia[0-9]*", 0, NULL, &files)) {
		all = files.gl_pathc;
		for (size_t i = 0; i < all; i++)
			usable += !access(files.gl_pathv[i], R_OK | W_OK);
		globfree(&files);
	}
	if (!all || access("/dev/nvidiactl", F_OK)) {
		found(c, CHECK_MISSING, "no device files (/dev/nvidiactl, /dev/nvidia0)");
		advise(c, "load the driver (nvidia-modprobe); start a container with --gpus all");
	} else if (!usable || access("/dev/nvidiactl", R_OK | W_OK)) {
		found(c, CHECK_MISSING, "%zu device file%s, but you may open none of them", all,
		      plural(all));
		advise(c, "ask for access to /dev/nvidia* (often through a group such as video)");
	} else {
		found(c, usable == all ? CHECK_OK : CHECK_LIMITED,
		      "%zu of %zu GPU device files can be opened", usable, all);
	}
}

static void check_libcuda(struct check *c)
{
	struct error e = { 0 };
	struct libcuda cuda;
	int version = 0;

	if (libcuda_load(&cuda, &e) < 0) {
		found(c, CHECK_MISSING, "%s", e.text);
		advise(c, "libcuda.so.1 comes with the driver: install the user-space part of the "
			  "same version");
		return;
	}
	if (libcuda_init(&cuda, &e) < 0) {
		found(c, CHECK_MISSING, "%s", e.text);
		advise(c, "run nvidia-smi; if it fails, too, repair the driver");
		return;
	}
	cuda.driver_version(&version);
	if (!libcuda_device_count(&cuda)) {
		found(c, CHECK_MISSING, "CUDA %d.%d, but no GPU is visible", version / 1000,
		      version % 1000 / 10);
		advise(c, getenv("CUDA_VISIBLE_DEVICES") ? "CUDA_VISIBLE_DEVICES hides them"
							 : "run nvidia-smi");
		return;
	}
	found(c, CHECK_OK, "CUDA %d.%d, %d GPU%s (`pitot devices`)", version / 1000,
	      version % 1000 / 10, libcuda_device_count(&cuda),
	      plural(libcuda_device_count(&cuda)));
}

static void check_library(struct check *c)
{
	struct error e = { 0 };
	_cleanup_free_ char *path = record_find_library(&e);
	const char *(*version)(void);
	void *handle;

	if (!path) {
		found(c, CHECK_MISSING, "%s", e.text);
		advise(c, "run `make install`, or set PITOT_LIBRARY to the path of libpitot.so");
		return;
	}
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		found(c, CHECK_MISSING, "%s", dlerror());
		return;
	}
	*(void **)&version = dlsym(handle, "pitot_version");
	if (!version || strcmp(version(), PITOT_VERSION)) {
		found(c, CHECK_LIMITED, "%s has version %s, but this program has " PITOT_VERSION,
		      path, version ? version() : "(none)");
		advise(c, "install both from the same build");
		return;
	}
	found(c, CHECK_OK, "%s", path);
}

/* Searches for CUPTI as the recorder does, by calling its library. */
static void check_cupti(struct check *c)
{
	_cleanup_free_ char *path = record_find_library(NULL);
	void *handle = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	int (*find)(char *text, size_t size, unsigned *cupti_version);
	unsigned version = 0;
	char text[384] = "";

	if (!handle) {
		found(c, CHECK_MISSING, "not searched, because libpitot.so is missing");
		return;
	}
	*(void **)&find = dlsym(handle, "pitot_find_cupti");
	if (!find) {
		found(c, CHECK_MISSING, "%s was built without CUDA's headers", path);
		advise(c, "build it again with a CUDA toolkit or network access (README.md)");
	} else if (find(text, sizeof(text), &version)) {
		found(c, CHECK_OK, "version %u, %s", version, text);
	} else {
		found(c, CHECK_MISSING, "%s", text);
		advise(c, "install the CUDA toolkit or `pip install nvidia-cuda-cupti`, or set "
			  "PITOT_CUPTI to the path of "
			  "libcupti.so");
	}
}

static void check_other_tools(struct check *c)
{
	const char *value, *variable = record_foreign_injection(&value),
			   *preload = getenv("LD_PRELOAD");

	if (variable) {
		found(c, CHECK_MISSING, "another tool owns %s=%s", variable, value);
		advise(c, "unset it, or replace it: pitot record --force-injection");
	} else if (preload && (strstr(preload, "nsys") || strstr(preload, "ncu") ||
			       strstr(preload, "libToolsInjection"))) {
		found(c, CHECK_LIMITED, "another profiler is in LD_PRELOAD=%s", preload);
		advise(c, "only one profiler at a time can use CUPTI; run without it");
	} else {
		found(c, CHECK_OK, "no other profiler in the environment");
	}
}

static void check_disk(struct check *c)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct statvfs fs;
	uint64_t bytes;

	if (access(".", W_OK) < 0) {
		found(c, CHECK_LIMITED, "the current folder is not writable");
		advise(c, "choose another folder: pitot record -o DIR");
		return;
	}
	if (statvfs(".", &fs) < 0) {
		found(c, CHECK_LIMITED, "cannot determine the free space: %s", strerror(errno));
		return;
	}
	bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	human_bytes(&text, bytes);
	found(c, bytes < DISK_LOW_BYTES ? CHECK_LIMITED : CHECK_OK, "%s free in the current folder",
	      strbuf_text(&text));
	if (bytes < DISK_LOW_BYTES)
		advise(c, "free some space, or limit the recording: pitot record --max-size SIZE");
}

static void check_follow(struct check *c)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)getpid(), (int)getpid());
	if (!access(path, R_OK)) {
		found(c, CHECK_OK, "child processes can be followed");
		return;
	}
	found(c, CHECK_LIMITED, "there is no %s", path);
	advise(c,
	       "processes that use CUDA are recorded all the same, other children are not listed");
}

static void check_counters(struct check *c)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const char *line;

	if (io_read_file("/proc/driver/nvidia/params", PROC_MAX, &text) < 0) {
		found(c, CHECK_MISSING, "no NVIDIA driver is loaded");
		return;
	}
	line = strstr(strbuf_text(&text), "RmProfilingAdminOnly: ");
	if (line && line[strlen("RmProfilingAdminOnly: ")] == '0') {
		found(c, CHECK_OK, "available to all users");
	} else if (!geteuid()) {
		found(c, CHECK_OK, "for administrators only; you are root");
	} else {
		found(c, CHECK_LIMITED, "for administrators only; tracing does not need them");
		advise(c, "run as root, or load the driver with "
			  "NVreg_RestrictProfilingToAdminUsers=0");
	}
}

static void check_method(struct check *c, enum cpu_method method, const char *gives)
{
	struct error e = { 0 };

	if (cpu_method_check(method, &e) < 0)
		found(c, CHECK_LIMITED, "%s", e.text);
	else
		found(c, CHECK_OK, "%s", gives);
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
		found(c, scope == 3 ? CHECK_MISSING : CHECK_OK, "ptrace_scope is %ld", scope);
	} else {
		found(c, scope == 1 ? CHECK_LIMITED : CHECK_MISSING, "ptrace_scope is %ld", scope);
		advise(c, "sudo sysctl kernel.yama.ptrace_scope=0");
	}
}

static const struct {
	const char *name, *purpose;
	bool needed;
	void (*run)(struct check *c);
} all_checks[] = {
	{ "driver", "everything on a GPU", true, check_driver },
	{ "device files", "everything on a GPU", true, check_device_files },
	{ "libcuda", "everything on a GPU", true, check_libcuda },
	{ "libpitot", "recording", true, check_library },
	{ "CUPTI", "recording GPU work", true, check_cupti },
	{ "other profilers", "recording GPU work", true, check_other_tools },
	{ "disk", "recording", false, check_disk },
	{ "processes", "following a command's processes", false, check_follow },
	{ "GPU counters", "hardware counters, PC sampling", false, check_counters },
	{ "perf events", "CPU sampling; otherwise a timer inside the command", false, check_perf },
	{ "eBPF", "CPU sampling, the best method", false, check_bpf },
	{ "ptrace", "Python frames of running processes, without root", false, check_ptrace },
};

size_t checks_run(struct check *checks, size_t max)
{
	size_t count = MIN(max, ARRAY_SIZE(all_checks));

	for (size_t i = 0; i < count; i++) {
		checks[i] = (struct check){
			.name = all_checks[i].name,
			.purpose = all_checks[i].purpose,
			.needed = all_checks[i].needed,
		};
		all_checks[i].run(&checks[i]);
	}
	return count;
}

bool checks_no_gpu_reason(char *out, size_t size)
{
	struct check c = { 0 };
	struct error e = { 0 };
	struct libcuda cuda;

	check_driver(&c);
	if (c.state != CHECK_MISSING)
		check_device_files(&c);
	if (c.state == CHECK_MISSING) {
		snprintf(out, size, "%s", c.detail);
		return true;
	}
	if (libcuda_load(&cuda, &e) < 0) {
		snprintf(out, size, "%s", e.text);
		return true;
	}
	return false;
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
