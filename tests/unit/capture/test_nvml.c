/*
 * NVML's counters, read from stand-ins for libnvidia-ml.so.1. Each case runs in a child: NVML is
 * loaded once.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/clock.h"
#include "capture/cuda/devices.h"
#include "capture/counters/counters_source.h"
#include "capture/core/vendor_thread.h"
#include "pitot/pitot.h"
#include "unit/capture/captured_rows.h"
#include "unit/capture/nvml_standin.h"
#include "unit/capture/source_ops.h"
#include "system/nvml.h"

#define BASIC 9 /* metrics that NVML_BASIC has */

static const char *const two_devices[] = { "0000:1a:00.0", "0000:1b:00.0" };

static struct captured *captured;
static struct nvml_standin *standin;
static struct row_counter *counters;
static struct row_counter_sample *samples;
static struct row_capability *capabilities;
static size_t counter_count, sample_count, capability_count;
static uint64_t now = NS_PER_S, step = 500 * NS_PER_MS;

/* The source's own dlopen then finds this one, by its soname. */
static void use(const char *folder)
{
	char path[512];
	void *library;

	snprintf(path, sizeof(path), "%s/%s/libnvidia-ml.so.1", NVML_STANDINS, folder);
	library = dlopen(path, RTLD_NOW);
	if (!library)
		fail_msg("%s", dlerror());
	standin = dlsym(library, "nvml_standin");
	assert_non_null(standin);
}

/* --- what the rest of the recorder would be --- */

atomic_bool collector_idle;
static const char *const *used_pci;
static unsigned used_devices;

void collector_wake(void)
{
}

void pitot_mark(const char *name)
{
	(void)name;
}

unsigned vendor_thread_request(enum vendor_reason reason)
{
	(void)reason;
	return 0;
}

void vendor_enter(const char *function)
{
	(void)function;
}

void vendor_leave(void)
{
}

bool devices_is_part(uint32_t ordinal)
{
	(void)ordinal;
	return false;
}

const char *devices_pci(uint32_t ordinal)
{
	return ordinal < used_devices ? used_pci[ordinal] : NULL;
}

static void start(void)
{
	source_window(&counters_source, true, captured->writer);
}

/* `of` the process whose recording it is: others of the machine have theirs. */
static void start_all(pid_t of)
{
	struct settings wanted = SETTINGS_INIT;

	step = 1000 * NS_PER_S; /* so that a machine however slow reads everything each time */
	snprintf(wanted.directory, sizeof(wanted.directory), "/recording of %d", (int)of);
	wanted.system = SETTING_SYSTEM_ALL;
	counters_source.window(&wanted, captured->writer);
}

static void sample(const char *const *pci, unsigned devices)
{
	used_pci = pci;
	used_devices = devices;
	counters_source.vendor(VENDOR_FLUSH, now);
	source_drain(&counters_source, captured->writer);
	capability_notes_write(captured->writer);
	now += step;
}

static void read_rows(void)
{
	captured_close(captured);
	counters = captured_rows(captured, TABLE_counter, &counter_count);
	samples = captured_rows(captured, TABLE_counter_sample, &sample_count);
	capabilities = captured_rows(captured, TABLE_capability, &capability_count);
}

static const struct row_counter *counter_named(const char *name)
{
	for (size_t i = 0; i < counter_count; i++)
		if (strcmp(captured_text(captured, counters[i].name), name) == 0)
			return &counters[i];
	return NULL;
}

/* Number of samples of a counter of a device, all of which must have the value. */
static size_t samples_of(const char *name, uint32_t device, int64_t value)
{
	const struct row_counter *counter = counter_named(name);
	size_t n = 0;

	for (size_t i = 0; counter && i < sample_count; i++) {
		if (samples[i].counter != counter->id || samples[i].device != device)
			continue;
		assert_true(HAS(&samples[i], counter_sample, device));
		assert_int_equal(samples[i].value, value);
		n++;
	}
	return n;
}

static void assert_capability(enum capability_state state, const char *reason)
{
	assert_int_equal(capability_count, 1);
	assert_int_equal(capabilities[0].name, feature_nvml);
	assert_int_equal(capabilities[0].state, state);
	assert_int_equal(HAS(&capabilities[0], capability, reason), reason != NULL);
	if (reason)
		assert_string_equal(captured_text(captured, capabilities[0].reason), reason);
}

/* --- the cases --- */

static void everything(void)
{
	use("whole");
	start();
	assert_int_equal(standin->inits, 0);
	for (int i = 0; i < 3; i++)
		sample(two_devices, 1);
	assert_int_equal(standin->inits, 1);
	assert_int_equal(standin->lookups, 1);
	read_rows();
	assert_int_equal(counter_count, BASIC);
	assert_int_equal(sample_count, 3 * BASIC);
	assert_int_equal(samples_of("gpu_utilization", 0, 97), 3);
	assert_int_equal(samples_of("gpu_memory_utilization", 0, 41), 3);
	assert_int_equal(samples_of("gpu_sm_clock", 0, 1980), 3);
	assert_int_equal(samples_of("gpu_memory_clock", 0, 3201), 3);
	assert_int_equal(samples_of("gpu_power", 0, 700123), 3);
	assert_int_equal(samples_of("gpu_temperature", 0, 41), 3);
	assert_int_equal(samples_of("gpu_memory_used", 0, 1000000000), 3);
	assert_int_equal(samples_of("gpu_energy", 0, 12345678901235), 3);
	assert_string_equal(captured_text(captured, counter_named("gpu_power")->unit), "W");
	assert_int_equal(counter_named("gpu_power")->decimals, 3);
	for (size_t i = 0; i < sample_count; i++)
		assert_true(samples[i].time_ns &&
			    (i == 0 || samples[i].time_ns >= samples[i - 1].time_ns));
	assert_capability(capability_state_on, NULL);
	assert_int_equal(standin->event_waits, 3);
	assert_int_equal(standin->field_calls + standin->gpm_samples, 0);
}

/* The driver reports them whatever is read. */
static void an_error_of_the_driver(void)
{
	use("whole");
	start();
	sample(two_devices, 1);
	standin->xid = 79;
	sample(two_devices, 1);
	sample(two_devices, 1);
	read_rows();
	assert_int_equal(samples_of("gpu_xid", 0, 79), 1);
}

static void what_a_device_lacks(void)
{
	use("whole");
	start();
	sample(two_devices, 2);
	sample(two_devices, 2);
	read_rows();
	assert_int_equal(samples_of("gpu_utilization", 0, 97), 2);
	assert_int_equal(samples_of("gpu_utilization", 1, 0), 0);
	assert_int_equal(samples_of("gpu_power", 1, 1400246), 2);
	assert_int_equal(sample_count, 2 * (2 * BASIC - 2));
	assert_capability(capability_state_degraded,
			  "device 1 has no gpu_utilization, gpu_memory_utilization: not supported");
}

static void functions_that_are_missing(void)
{
	use("partial");
	start();
	sample(two_devices, 1);
	sample(two_devices, 1);
	read_rows();
	assert_int_equal(counter_count, BASIC - 5);
	assert_int_equal(sample_count, 2 * (BASIC - 5));
	assert_null(counter_named("gpu_power"));
	assert_null(counter_named("gpu_energy"));
	assert_null(counter_named("gpu_sm_clock"));
	assert_int_equal(samples_of("gpu_temperature", 0, 41), 2);
	assert_capability(capability_state_degraded,
			  "device 0 has no gpu_sm_clock, gpu_memory_clock, gpu_power, gpu_energy, "
			  "gpu_throttle_reasons: function not found");
}

static void failures_that_pass(void)
{
	use("whole");
	start();
	standin->temperature_status = 999;
	sample(two_devices, 1);
	standin->temperature_status = 17;
	sample(two_devices, 1);
	standin->temperature_status = 0;
	sample(two_devices, 1);
	read_rows();
	assert_int_equal(samples_of("gpu_temperature", 0, 41), 1);
	assert_int_equal(sample_count, 3 * BASIC - 2);
	assert_int_equal(capability_count, 2); /* without it, and with it */
	assert_int_equal(capabilities[1].state, capability_state_on);
	assert_null(strstr(captured_text(captured, capabilities[0].actual), "gpu_temperature"));
	assert_non_null(strstr(captured_text(captured, capabilities[1].actual), "gpu_temperature"));
}

static void failures_that_stay(void)
{
	use("whole");
	start();
	sample(two_devices, 1);
	standin->utilization_status = 4;
	sample(two_devices, 1);
	standin->utilization_status = 0;
	sample(two_devices, 1);
	read_rows();
	assert_int_equal(samples_of("gpu_utilization", 0, 97), 1);
	assert_int_equal(capability_count, 2);
	assert_int_equal(capabilities[1].state, capability_state_degraded);
}

static void devices_that_nvml_does_not_know(void)
{
	const char *const pci[] = { NULL, "0000:99:00.0", two_devices[0] };

	use("whole");
	start();
	sample(pci, 0);
	assert_int_equal(standin->inits, 0);
	sample(pci, 3);
	sample(pci, 3);
	assert_int_equal(standin->lookups, 2);
	read_rows();
	assert_int_equal(sample_count, 2 * BASIC);
	assert_int_equal(samples_of("gpu_utilization", 2, 97), 2);
	assert_capability(capability_state_degraded, "device 1 (0000:99:00.0): not found");
}

static void more_devices_than_there_is_room_for(void)
{
	const char *pci[NVML_DEVICES_MAX + 10];

	for (size_t i = 0; i < ARRAY_SIZE(pci); i++)
		pci[i] = two_devices[0];
	use("whole");
	start();
	sample(pci, ARRAY_SIZE(pci));
	read_rows();
	assert_int_equal(sample_count, NVML_DEVICES_MAX * BASIC);
}

static void a_driver_that_is_not_loaded(void)
{
	use("whole");
	start();
	standin->init_status = 9;
	sample(two_devices, 1);
	sample(two_devices, 1);
	assert_int_equal(standin->inits, 1);
	read_rows();
	assert_int_equal(counter_count + sample_count, 0);
	assert_capability(capability_state_unavailable, "nvmlInit_v2 failed: driver not loaded");
}

static void a_library_without_the_essentials(void)
{
	use("bare");
	start();
	sample(two_devices, 1);
	sample(two_devices, 1);
	read_rows();
	assert_int_equal(sample_count, 0);
	assert_capability(
		capability_state_unavailable,
		"libnvidia-ml.so.1 lacks nvmlInit_v2 or nvmlDeviceGetHandleByPciBusId_v2");
}

static void a_lost_device(void)
{
	use("whole");
	start();
	sample(two_devices, 2);
	standin->temperature_status = 15;
	sample(two_devices, 1);
	standin->temperature_status = 0;
	sample(two_devices, 2);
	read_rows();
	assert_int_equal(samples_of("gpu_temperature", 0, 41), 1);
	assert_int_equal(samples_of("gpu_power", 0, 700123), 2); /* it is read before */
	assert_int_equal(samples_of("gpu_memory_used", 0, 1000000000), 1);
	assert_int_equal(samples_of("gpu_temperature", 1, 42), 2);
	assert_int_equal(samples_of("gpu_lost", 0, 1), 1);
	assert_int_equal(samples_of("gpu_lost", 1, 1), 0);
	assert_int_equal(capability_count, 2);
	assert_string_equal(captured_text(captured, capabilities[1].reason),
			    "device 0 (0000:1a:00.0): the GPU is lost");
}

static void all_gpus_where_cupti_names_none(void)
{
	struct settings wanted = SETTINGS_INIT;
	struct row_device *devices;
	size_t count;

	use("whole");
	wanted.engine = SETTING_ENGINE_MONITOR;
	counters_source.window(&wanted, captured->writer);
	for (int i = 0; i < 3; i++)
		sample(NULL, 0);
	read_rows();
	devices = captured_rows(captured, TABLE_device, &count);
	assert_int_equal(count, 2);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(devices[i].id, i);
		assert_memory_equal(captured_text(captured, devices[i].name), "Stand-in ", 9);
		assert_non_null(
			strcasestr(captured_text(captured, devices[i].pci), two_devices[i] + 4));
		assert_false(HAS(&devices[i], device, multiprocessors));
	}
	assert_int_equal(samples_of("gpu_power", 0, 700123), 3);
	assert_int_equal(samples_of("gpu_power", 1, 1400246), 3);
	assert_int_equal(standin->inits, 1);
	free(devices);
}

/* Devices that CUPTI has named have their rows from CUDA. */
static void other_gpus_than_cupti_names(void)
{
	struct settings wanted = SETTINGS_INIT;
	struct row_device *devices;
	size_t count;

	use("whole");
	wanted.engine = SETTING_ENGINE_MONITOR;
	counters_source.window(&wanted, captured->writer);
	sample(two_devices, 1);
	read_rows();
	devices = captured_rows(captured, TABLE_device, &count);
	assert_int_equal(count, 1);
	assert_int_equal(devices[0].id, 1);
	assert_int_equal(samples_of("gpu_power", 0, 700123), 1);
	assert_int_equal(samples_of("gpu_power", 1, 1400246), 1);
	free(devices);
}

/* Which process reads a GPU is agreed on by a socket; without one it is better read twice. */
static void no_descriptor_is_left(void)
{
	struct rlimit before, none;

	use("whole");
	start();
	getrlimit(RLIMIT_NOFILE, &before);
	none = (struct rlimit){ 0, before.rlim_max };
	setrlimit(RLIMIT_NOFILE, &none);
	sample(two_devices, 1);
	setrlimit(RLIMIT_NOFILE, &before);
	read_rows();
	assert_int_equal(samples_of("gpu_power", 0, 700123), 1);
}

/* The vendor thread may sleep while no window is open. */
static void windows_of_the_program(void)
{
	struct settings wanted = SETTINGS_INIT;

	use("whole");
	wanted.counters_always = false;
	wanted.counters_ns = NS_PER_S;
	counters_source.window(&wanted, captured->writer);
	pitot_system_stop(NULL); /* of none */
	used_pci = two_devices;
	used_devices = 1;
	assert_true(counters_source.vendor(VENDOR_FLUSH, now) == UINT64_MAX);
	pitot_system_start("window");
	assert_int_equal(counters_source.vendor(VENDOR_FLUSH, now), NS_PER_S);
	now += 2 * NS_PER_S;
	pitot_system_stop("window");
	assert_true(counters_source.vendor(VENDOR_FLUSH, now) == UINT64_MAX);
	now += 2 * NS_PER_S;
	assert_true(counters_source.vendor(VENDOR_FLUSH, now) == UINT64_MAX);
	source_drain(&counters_source, captured->writer);
	read_rows();
	assert_int_equal(samples_of("gpu_power", 0, 700123), 2);
}

/* `pitot record --cpu-only`: GPUs are none of its business. */
static void no_gpus_without_cuda(void)
{
	struct settings wanted = SETTINGS_INIT;

	use("whole");
	wanted.cuda = false;
	counters_source.window(&wanted, captured->writer);
	sample(NULL, 0);
	sample(NULL, 0);
	read_rows();
	assert_int_equal(standin->inits + sample_count + capability_count, 0);
}

/* Values of fields are their numbers times 1000 (the stand-in). */
static void links_errors_and_units(void)
{
	use("whole");
	standin->throttle = 0x24;
	start_all(getpid());
	for (int i = 0; i < 3; i++)
		sample(two_devices, 2);
	standin->xid = 79;
	sample(two_devices, 2);
	read_rows();
	assert_int_equal(samples_of("gpu_throttle_reasons", 0, 0x24), 4);
	assert_int_equal(samples_of("gpu_throttle_reasons", 1, 1), 4);
	assert_int_equal(samples_of("gpu_pcie_received", 0, 198000), 4);
	assert_int_equal(samples_of("gpu_pcie_sent", 0, 197000), 4);
	assert_int_equal(samples_of("gpu_pcie_received", 1, 396000), 4);
	assert_int_equal(samples_of("gpu_pcie_sent", 1, 0), 0);
	assert_int_equal(samples_of("gpu_nvlink_sent", 0, 138000 * 1024), 4);
	assert_int_equal(samples_of("gpu_nvlink_received", 1, 2 * 139000 * 1024), 4);
	assert_int_equal(samples_of("gpu_memory_temperature", 0, 82000), 4);
	assert_int_equal(samples_of("gpu_limited_by_reliability", 0, 79000), 4);
	assert_true(samples_of("gpu_ecc_uncorrected", 1, 8000) >= 1);
	assert_true(samples_of("gpu_remapped_rows_uncorrected", 0, 143000) >= 1);
	assert_true(samples_of("gpu_processes", 0, 2) >= 1);
	assert_true(samples_of("gpu_power_limit", 0, 700000) >= 1);
	/* The first reading only begins; a value is rounded to tenths. */
	assert_int_equal(samples_of("gpu_sm_active", 0, 24), 3);
	assert_int_equal(samples_of("gpu_dram_active", 0, 104), 3);
	assert_int_equal(samples_of("gpu_dram_active", 1, 0), 0);
	assert_int_equal(samples_of("gpu_xid", 0, 79), 1);
	assert_int_equal(counter_named("gpu_xid")->kind, counter_kind_event);
	assert_int_equal(counter_named("gpu_pcie_sent")->kind, counter_kind_sum);
	assert_int_equal(counter_named("gpu_throttle_reasons")->kind, counter_kind_bits);
	assert_null(counter_named("gpu_retired_pages_corrected")); /* a real number */
	assert_non_null(counter_named("process_cpu"));
	assert_non_null(counter_named("host_memory_available"));
	for (size_t i = 0; i < sample_count; i++)
		assert_int_equal(HAS(&samples[i], counter_sample, device),
				 samples[i].counter < METRIC_HOST_FIRST);
}

static void units_without_support(void)
{
	use("whole");
	standin->mig = 1;
	standin->gpm_value = 50;
	start_all(getpid());
	sample(two_devices, 1);
	sample(two_devices, 1);
	read_rows();
	assert_int_equal(standin->gpm_samples, 0);
	assert_null(counter_named("gpu_sm_active"));
	assert_non_null(counter_named("gpu_pcie_sent"));
}

static void one_process_reads_the_machine(void)
{
	pid_t parent = getpid(), pid;
	int status;

	use("whole");
	start_all(parent);
	sample(two_devices, 1);
	pid = fork();
	if (pid == 0) {
		counters_source.after_fork();
		capability_notes_after_fork();
		rings_discard();
		captured = captured_begin();
		start_all(parent);
		sample(two_devices, 2);
		read_rows();
		assert_non_null(counter_named("process_cpu"));
		assert_null(counter_named("host_cpu_busy"));
		assert_int_equal(samples_of("gpu_power", 0, 700123), 0);
		assert_int_equal(samples_of("gpu_power", 1, 1400246), 1);
		captured_free(captured);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	read_rows();
	assert_non_null(counter_named("host_cpu_busy"));
}

/* Neither a sample that failed nor what is no percentage is a value. */
static void values_that_are_none(void)
{
	use("whole");
	start_all(getpid());
	sample(two_devices, 1);
	standin->gpm_value = -1;
	sample(two_devices, 1);
	standin->gpm_value = 0.0 / 0.0;
	sample(two_devices, 1);
	standin->gpm_value = 0.04;
	sample(two_devices, 1);
	standin->field_status = 999;
	sample(two_devices, 1);
	read_rows();
	assert_int_equal(samples_of("gpu_sm_active", 0, 0), 2);
	assert_int_equal(samples_of("gpu_pcie_sent", 0, 197000), 4);
}

/*
 * How often NVML is called in a minute of readings every 100 ms: what that costs on a GPU is the
 * sum of these calls' costs (docs/monitor.md).
 */
static void calls_of_a_minute(void)
{
	struct settings wanted = SETTINGS_INIT;

	use("whole");
	wanted.system = SETTING_SYSTEM_ALL;
	wanted.counters_ns = step = 100 * NS_PER_MS;
	counters_source.window(&wanted, captured->writer);
	for (int i = 0; i < 600; i++)
		sample(two_devices, 1);
	read_rows();
	assert_int_equal(samples_of("gpu_power", 0, 700123), 600);
	assert_int_equal(samples_of("gpu_sm_clock", 0, 1980), 600);
	assert_int_equal(samples_of("gpu_throttle_reasons", 0, 0), 600);
	assert_in_range(samples_of("gpu_utilization", 0, 97), 200, 204);
	assert_in_range(samples_of("gpu_memory_used", 0, 1000000000), 200, 204);
	assert_in_range(samples_of("gpu_memory_clock", 0, 3201), 120, 125);
	assert_in_range(samples_of("gpu_temperature", 0, 41), 120, 125);
	assert_int_equal(samples_of("gpu_energy", 0, 12345678901235), 12);
	assert_in_range(samples_of("gpu_processes", 0, 2), 10, 66);
	assert_in_range(samples_of("gpu_power_limit", 0, 700000), 6, 15);
	/* one call for memory, PCIe and NVLink, and one for limits and errors */
	assert_in_range(standin->field_calls, 12, 66 + 15);
	assert_in_range(samples_of("gpu_limited_by_power", 0, 74000), 6, 15);
	assert_in_range(samples_of("gpu_ecc_corrected", 0, 3000), 6, 15);
	assert_in_range(standin->gpm_samples, 6, 600);
}

/* Of two minutes of readings every half second. */
static void energy_is_read_less_often(void)
{
	use("whole");
	start();
	for (int i = 0; i < 240; i++)
		sample(two_devices, 2);
	read_rows();
	assert_int_equal(samples_of("gpu_power", 0, 700123), 240);
	assert_int_equal(samples_of("gpu_energy", 0, 12345678901235), 12);
	assert_int_equal(samples_of("gpu_energy", 0, 12345678901235),
			 samples_of("gpu_energy", 1, 12345678901236));
}

static void no_library(void)
{
	void *real = dlopen("libnvidia-ml.so.1", RTLD_LAZY);

	start();
	if (real) /* a machine with a driver: there is a library */
		return;
	sample(two_devices, 1);
	read_rows();
	assert_capability(capability_state_unavailable,
			  "libnvidia-ml.so.1 cannot be loaded; it comes with NVIDIA's driver");
}

static void nothing_before_the_start(void)
{
	use("whole");
	sample(two_devices, 2);
	assert_int_equal(standin->inits, 0);
	read_rows();
	assert_int_equal(counter_count + sample_count + capability_count, 0);
}

static void a_second_session_after_a_fork(void)
{
	use("whole");
	start();
	sample(two_devices, 1);
	counters_source.after_fork();
	capability_notes_after_fork();
	captured_free(captured);
	captured = captured_begin();
	sample(two_devices, 1);
	start();
	sample(two_devices, 1);
	read_rows();
	assert_int_equal(counter_count, BASIC);
	assert_int_equal(sample_count, BASIC);
	assert_capability(capability_state_on, NULL);
}

/* --- running them --- */

static void (*running)(void);

static void run_one(void **state)
{
	(void)state;
	captured = captured_begin();
	running();
	captured_free(captured);
	free(counters);
	free(samples);
	free(capabilities);
}

/* As a group of its own: a failure would go on with the other cases, in the child too. */
static void in_a_child(void (*body)(void))
{
	const struct CMUnitTest one[] = { cmocka_unit_test(run_one) };
	int status;
	pid_t pid;

	running = body;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		if (!freopen("/dev/null", "w", stdout)) /* what passes; failures are errors */
			_exit(1);
		_exit(cmocka_run_group_tests(one, NULL, NULL));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define IN_A_CHILD(body)                                                                           \
	static void test_##body(void **state)                                                      \
	{                                                                                          \
		(void)state;                                                                       \
		in_a_child(body);                                                                  \
	}
#define CASES(C)                                                                                   \
	C(everything)                                                                              \
	C(an_error_of_the_driver)                                                                  \
	C(what_a_device_lacks)                                                                     \
	C(functions_that_are_missing)                                                              \
	C(failures_that_pass)                                                                      \
	C(failures_that_stay)                                                                      \
	C(devices_that_nvml_does_not_know)                                                         \
	C(more_devices_than_there_is_room_for)                                                     \
	C(a_driver_that_is_not_loaded)                                                             \
	C(a_library_without_the_essentials)                                                        \
	C(a_lost_device)                                                                           \
	C(all_gpus_where_cupti_names_none)                                                         \
	C(other_gpus_than_cupti_names)                                                             \
	C(no_descriptor_is_left)                                                                   \
	C(windows_of_the_program)                                                                  \
	C(no_gpus_without_cuda)                                                                    \
	C(links_errors_and_units)                                                                  \
	C(units_without_support)                                                                   \
	C(one_process_reads_the_machine)                                                           \
	C(values_that_are_none)                                                                    \
	C(calls_of_a_minute)                                                                       \
	C(energy_is_read_less_often)                                                               \
	C(no_library)                                                                              \
	C(nothing_before_the_start)                                                                \
	C(a_second_session_after_a_fork)

CASES(IN_A_CHILD)

int main(void)
{
#define ENTRY(body) cmocka_unit_test(test_##body),
	const struct CMUnitTest tests[] = { CASES(ENTRY) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
