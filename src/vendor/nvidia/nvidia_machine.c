/* nvidia_machine.c: checks of NVIDIA's driver, its libraries and CUPTI, and the GPUs they show. */
#include "vendor/machine.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/plural.h"
#include "vendor/nvidia/libcuda.h"

#define PROC_MAX 65536

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

static void check_no_driver(struct check *c)
{
	unsigned gpus = machine_pci_gpus(vendors[VENDOR_nvidia]);
	char there[64] = "and no NVIDIA GPU is seen on the PCI bus";

	if (gpus)
		snprintf(there, sizeof(there), "but the PCI bus has %u NVIDIA GPU%s", gpus,
			 plural(gpus));
	check_found(c, CHECK_MISSING,
		    "no NVIDIA kernel driver is loaded (no /proc/driver/nvidia/version), %s",
		    there);
	check_advise(c, "install the NVIDIA driver; start a container with --gpus all");
}

static void check_driver(struct check *c)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const char *version;
	size_t length;

	if (io_read_file("/proc/driver/nvidia/version", PROC_MAX, &text) < 0) {
		if (!access("/dev/dxg", F_OK)) {
			check_found(c, CHECK_LIMITED,
				    "WSL: the driver is part of Windows, where CUPTI has fewer "
				    "features");
			return;
		}
		check_no_driver(c);
		return;
	}
	version = version_word(strbuf_text(&text), &length);
	check_found(c, CHECK_OK, "NVIDIA driver %.*s", (int)length, version);
}

static void check_device_files(struct check *c)
{
	glob_t files;
	size_t usable = 0, all = 0;

	if (!access("/dev/dxg", R_OK | W_OK)) {
		check_found(c, CHECK_OK, "/dev/dxg");
		return;
	}
	if (!glob("/dev/nvidia[0-9]*", 0, NULL, &files)) {
		all = files.gl_pathc;
		for (size_t i = 0; i < all; i++)
			usable += !access(files.gl_pathv[i], R_OK | W_OK);
		globfree(&files);
	}
	if (!all || access("/dev/nvidiactl", F_OK)) {
		check_found(c, CHECK_MISSING, "no device files (/dev/nvidiactl, /dev/nvidia0)");
		check_advise(
			c, "load the driver (nvidia-modprobe); start a container with --gpus all");
	} else if (!usable || access("/dev/nvidiactl", R_OK | W_OK)) {
		check_found(c, CHECK_MISSING, "%zu device file%s, but you may open none of them",
			    all, plural(all));
		check_advise(
			c, "ask for access to /dev/nvidia* (often through a group such as video)");
	} else {
		check_found(c, usable == all ? CHECK_OK : CHECK_LIMITED,
			    "%zu of %zu GPU device files can be opened", usable, all);
	}
}

static void check_libcuda(struct check *c)
{
	struct error e = { 0 };
	struct libcuda cuda;
	int version = 0;

	if (libcuda_load(&cuda, &e) < 0) {
		check_found(c, CHECK_MISSING, "%s", e.text);
		check_advise(
			c, "libcuda.so.1 comes with the driver: install the user-space part of the "
			   "same version");
		return;
	}
	if (libcuda_init(&cuda, &e) < 0) {
		check_found(c, CHECK_MISSING, "%s", e.text);
		check_advise(c, "run nvidia-smi; if it fails, too, repair the driver");
		return;
	}
	cuda.driver_version(&version);
	if (!libcuda_device_count(&cuda)) {
		check_found(c, CHECK_MISSING, "CUDA %d.%d, but no GPU is visible", version / 1000,
			    version % 1000 / 10);
		check_advise(c, getenv("CUDA_VISIBLE_DEVICES") ? "CUDA_VISIBLE_DEVICES hides them"
							       : "run nvidia-smi");
		return;
	}
	check_found(c, CHECK_OK, "CUDA %d.%d, %d GPU%s (`pitot devices`)", version / 1000,
		    version % 1000 / 10, libcuda_device_count(&cuda),
		    plural(libcuda_device_count(&cuda)));
}

/* Searches for CUPTI as the recorder does, by calling its library. */
static void check_cupti(struct check *c)
{
	void *handle = c->library ? dlopen(c->library, RTLD_NOW | RTLD_LOCAL) : NULL;
	int (*find)(char *text, size_t size, unsigned *cupti_version);
	unsigned version = 0;
	char text[384] = "";

	if (!handle) {
		check_found(c, CHECK_MISSING, "not searched, because libpitot.so is missing");
		return;
	}
	*(void **)&find = dlsym(handle, "pitot_find_cupti");
	if (!find) {
		check_found(c, CHECK_MISSING, "%s was built without CUDA's headers", c->library);
		check_advise(c, "build it again with a CUDA toolkit or network access (README.md)");
	} else if (find(text, sizeof(text), &version)) {
		check_found(c, CHECK_OK, "version %u, %s", version, text);
	} else {
		check_found(c, CHECK_MISSING, "%s", text);
		check_advise(c,
			     "install the CUDA toolkit or `pip install nvidia-cuda-cupti`, or set "
			     "PITOT_CUPTI to the path of "
			     "libcupti.so");
	}
}

static void check_counters(struct check *c)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const char *line;

	if (io_read_file("/proc/driver/nvidia/params", PROC_MAX, &text) < 0) {
		check_found(c, CHECK_MISSING, "no NVIDIA driver is loaded");
		return;
	}
	line = strstr(strbuf_text(&text), "RmProfilingAdminOnly: ");
	if (line && line[strlen("RmProfilingAdminOnly: ")] == '0') {
		check_found(c, CHECK_OK, "available to all users");
	} else if (!geteuid()) {
		check_found(c, CHECK_OK, "for administrators only; you are root");
	} else {
		check_found(c, CHECK_LIMITED,
			    "for administrators only; tracing does not need them");
		check_advise(c, "run as root, or load the driver with "
				"NVreg_RestrictProfilingToAdminUsers=0");
	}
}

static const struct machine_check checks[] = {
	{ "driver", "everything on a GPU", true, check_driver },
	{ "device files", "everything on a GPU", true, check_device_files },
	{ "libcuda", "everything on a GPU", true, check_libcuda },
	{ "CUPTI", "recording GPU work", true, check_cupti },
	{ "GPU counters", "hardware counters, PC sampling", false, check_counters },
};

static bool no_gpu_reason(char *out, size_t size)
{
	struct check c = { 0 };
	struct error e = { 0 };
	struct libcuda cuda;

	check_driver(&c);
	if (c.state != CHECK_MISSING)
		check_device_files(&c);
	if (c.state != CHECK_MISSING && libcuda_load(&cuda, &e) == 0)
		return false;
	snprintf(out, size, "%s", c.state == CHECK_MISSING ? c.detail : e.text);
	return true;
}

const struct vendor_machine vendor_machine_nvidia = {
	.checks = checks,
	.check_count = ARRAY_SIZE(checks),
	.gpus = libcuda_gpus,
	.no_gpu_reason = no_gpu_reason,
};
