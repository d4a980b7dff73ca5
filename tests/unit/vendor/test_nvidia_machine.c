/* link: -Wl,--wrap=access,--wrap=glob,--wrap=geteuid,--wrap=io_read_file */
/* What doctor says of NVIDIA's driver, by the files that a machine has. */
#include "vendor/machine.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "support/cmocka_tests.h"

#define DRIVER                                                                                     \
	"NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.03  Tue\nGCC version: 12.2.0"

static struct {
	const char *driver, *parameters; /* texts of files; NULL: they cannot be read */
	unsigned devices, usable;
	bool has_control, may_control, is_user;
} machine;

int __wrap_access(const char *path, int mode);
int __wrap_access(const char *path, int mode)
{
	unsigned number;

	if (strcmp(path, "/dev/nvidiactl") == 0)
		return (mode == F_OK ? machine.has_control : machine.may_control) ? 0 : -1;
	return sscanf(path, "/dev/nvidia%u", &number) == 1 && number < machine.usable ? 0 : -1;
}

int __real_glob(const char *pattern, int flags, int (*failed)(const char *, int), glob_t *out);
int __wrap_glob(const char *pattern, int flags, int (*failed)(const char *, int), glob_t *out);
int __wrap_glob(const char *pattern, int flags, int (*failed)(const char *, int), glob_t *out)
{
	int rc = GLOB_NOMATCH;
	char path[32];

	if (strcmp(pattern, "/dev/nvidia[0-9]*") != 0)
		return rc; /* no PCI bus */
	for (unsigned i = 0; i < machine.devices; i++) {
		snprintf(path, sizeof(path), "/dev/nvidia%u", i);
		rc = __real_glob(path, flags | GLOB_NOCHECK | (i ? GLOB_APPEND : 0), failed, out);
	}
	return rc;
}

uid_t __wrap_geteuid(void);
uid_t __wrap_geteuid(void)
{
	return machine.is_user ? 1000 : 0;
}

int __wrap_io_read_file(const char *path, size_t max, struct strbuf *out);
int __wrap_io_read_file(const char *path, size_t max, struct strbuf *out)
{
	const char *text = NULL;

	(void)max;
	if (strcmp(path, "/proc/driver/nvidia/version") == 0)
		text = machine.driver;
	else if (strcmp(path, "/proc/driver/nvidia/params") == 0)
		text = machine.parameters;
	if (!text)
		return -EPERM;
	strbuf_adds(out, text);
	return 0;
}

static void assert_check(const char *name, enum check_state state, const char *detail)
{
	const struct vendor_machine *nvidia = vendor_machines[VENDOR_nvidia];

	for (unsigned i = 0; i < nvidia->check_count; i++) {
		struct check c = { .name = name };

		if (strcmp(nvidia->checks[i].name, name) != 0)
			continue;
		nvidia->checks[i].run(&c);
		assert_string_equal(c.detail, detail);
		assert_int_equal(c.state, state);
		return;
	}
	fail();
}

static void test_driver(void **state)
{
	char why[512];

	(void)state;
	machine.driver = DRIVER;
	assert_check("driver", CHECK_OK, "NVIDIA driver 580.159.03");
	machine.driver = "NVRM version: NVIDIA of tomorrow\nGCC version: 12.2.0";
	assert_check("driver", CHECK_OK, "NVIDIA driver of unknown version");
	machine.driver = NULL;
	assert_check("driver", CHECK_MISSING,
		     "no NVIDIA kernel driver is loaded (no /proc/driver/nvidia/version), and no "
		     "NVIDIA GPU is seen on the PCI bus");
	assert_true(vendor_machines[VENDOR_nvidia]->no_gpu_reason(why, sizeof(why)));
	assert_int_equal(strncmp(why, "no NVIDIA kernel driver", 23), 0);
}

static void test_device_files(void **state)
{
	static const char none[] = "no device files (/dev/nvidiactl, /dev/nvidia0)";
	char why[512];

	(void)state;
	machine.driver = DRIVER;
	assert_check("device files", CHECK_MISSING, none);
	machine.devices = 2;
	assert_check("device files", CHECK_MISSING, none);
	assert_true(vendor_machines[VENDOR_nvidia]->no_gpu_reason(why, sizeof(why)));
	assert_string_equal(why, none);
	machine.has_control = true;
	assert_check("device files", CHECK_MISSING,
		     "2 device files, but you may open none of them");
	machine.usable = 1;
	assert_check("device files", CHECK_MISSING,
		     "2 device files, but you may open none of them");
	machine.may_control = true;
	assert_check("device files", CHECK_LIMITED, "1 of 2 GPU device files can be opened");
	machine.usable = 2;
	assert_check("device files", CHECK_OK, "2 of 2 GPU device files can be opened");
}

static void test_counters(void **state)
{
	(void)state;
	assert_check("GPU counters", CHECK_MISSING, "no NVIDIA driver is loaded");
	machine.parameters = "EnableMSI: 1\nRmProfilingAdminOnly: 0\n";
	assert_check("GPU counters", CHECK_OK, "available to all users");
	machine.parameters = "EnableMSI: 1\nRmProfilingAdminOnly: 1\n";
	assert_check("GPU counters", CHECK_OK, "for administrators only; you are root");
	machine.is_user = true;
	assert_check("GPU counters", CHECK_LIMITED,
		     "for administrators only; tracing does not need them");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_driver),
		cmocka_unit_test(test_device_files),
		cmocka_unit_test(test_counters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
