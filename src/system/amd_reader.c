#include "system/amd_reader.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/io.h"
#include "base/path.h"
#include "schema/schema.h"
#include "system/throttle.h"

/* Readers return 0 and *value, or a negative errno. */
typedef int reader(const struct amd_device *d, const char *file, int64_t *value);

static int read_file(const struct amd_device *d, const char *file, int64_t *value)
{
	return amd_read_number(d->card.folder, file, value);
}

static int read_sensor(const struct amd_device *d, const char *file, int64_t *value)
{
	return d->hwmon[0] ? amd_read_number(d->hwmon, file, value) : -ENOENT;
}

/*
 * uW or uJ, as thousandths of the unit. Newer chips have the power of now, older ones an average.
 */
static int read_micro(const struct amd_device *d, const char *file, int64_t *value)
{
	int rc = read_sensor(d, file, value);

	if (rc == -ENOENT && strcmp(file, "power1_average") == 0)
		rc = read_sensor(d, "power1_input", value);
	*value /= 1000;
	return rc;
}

/* The clock of the line with an asterisk: "1: 2100Mhz *". */
static int read_clock(const struct amd_device *d, const char *file, int64_t *value)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	int rc = amd_read(d->card.folder, file, &text);

	if (rc < 0)
		return rc;
	for (const char *line = strbuf_text(&text); line; line = strchr(line, '\n')) {
		unsigned level;
		long long mhz;
		size_t length;

		line += *line == '\n';
		length = strcspn(line, "\n");
		if (!memchr(line, '*', length) || sscanf(line, "%u: %lldM", &level, &mhz) != 2)
			continue;
		*value = mhz;
		return 0;
	}
	return -ENODATA;
}

/* The sensor with one of these labels, which are separated by a blank, in their order. */
static int read_temperature(const struct amd_device *d, const char *labels, int64_t *value)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char file[32];

	for (const char *label = labels; *label; label += strspn(label, " ")) {
		size_t length = strcspn(label, " ");

		for (unsigned i = 1; i <= 8 && d->hwmon[0]; i++) {
			snprintf(file, sizeof(file), "temp%u_label", i);
			if (amd_read(d->hwmon, file, &text) < 0 || text.length != length ||
			    strncmp(strbuf_text(&text), label, length) != 0)
				continue;
			snprintf(file, sizeof(file), "temp%u_input", i);
			if (amd_read_number(d->hwmon, file, value) < 0)
				return -EAGAIN;
			*value /= 1000;
			return 0;
		}
		label += length;
	}
	return -ENOENT;
}

/* The sum over all parts of the GPU, each with a file of lines "ue: 0" and "ce: 0". */
static int read_errors(const struct amd_device *d, const char *name, int64_t *value)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char pattern[AMD_PATH_MAX + 32];
	int64_t sum = 0;
	bool found = false;
	glob_t files;

	snprintf(pattern, sizeof(pattern), "%s/ras/*_err_count", d->card.folder);
	if (glob(pattern, 0, NULL, &files) != 0)
		return -ENOENT;
	for (size_t i = 0; i < files.gl_pathc; i++) {
		const char *at;

		if (amd_read(d->card.folder, files.gl_pathv[i] + strlen(d->card.folder) + 1,
			     &text) < 0)
			continue;
		at = strstr(strbuf_text(&text), name);
		if (!at)
			continue;
		sum += strtoll(at + strlen(name), NULL, 10);
		found = true;
	}
	globfree(&files);
	*value = sum;
	return found ? 0 : -ENOENT;
}

/*
 * What limits the clocks, in the driver's table gpu_metrics. Of its versions only 1.3 is read: 120
 * bytes, with the reasons in 64 bits at 112, by groups: power, current, temperature.
 */
#define METRICS_FORMAT 1
#define METRICS_CONTENT 3
#define METRICS_BYTES 120u
#define REASONS_AT 112u
#define REASONS_POWER UINT64_C(0xff)
#define REASONS_CURRENT (UINT64_C(0xff) << 16)
#define REASONS_TEMPERATURE (UINT64_C(0xffff) << 32)

static int read_throttling(const struct amd_device *d, const char *file, int64_t *value)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char path[AMD_PATH_MAX + 16];
	const uint8_t *p;
	uint64_t reasons;
	int rc;

	snprintf(path, sizeof(path), "%s/%s", d->card.folder, file);
	rc = io_read_file(path, AMD_FILE_MAX, &text);
	if (rc < 0)
		return rc;
	p = (const uint8_t *)strbuf_text(&text);
	if (text.length < METRICS_BYTES || p[2] != METRICS_FORMAT || p[3] != METRICS_CONTENT)
		return -EPROTONOSUPPORT;
	reasons = load_u64(p + REASONS_AT);
	if (reasons == UINT64_MAX) /* so it says that it does not know */
		return -ENOENT;
	*value = (reasons & REASONS_POWER ? 1 << THROTTLE_POWER_LIMIT : 0) |
		 (reasons & REASONS_CURRENT ? 1 << THROTTLE_HARDWARE : 0) |
		 (reasons & REASONS_TEMPERATURE ? 1 << THROTTLE_THERMAL : 0);
	return 0;
}

static unsigned find_processes(const struct amd_device *d, struct nvml_process *out, unsigned max)
{
	char pattern[AMD_PATH_MAX], name[32];
	unsigned count = 0;
	glob_t folders;

	snprintf(name, sizeof(name), "vram_%u", d->card.gpu_id);
	if (!d->card.gpu_id ||
	    glob(amd_path(pattern, "/sys/class/kfd/kfd/proc/[0-9]*"), 0, NULL, &folders) != 0)
		return 0;
	for (size_t i = 0; i < folders.gl_pathc; i++) {
		unsigned pid = (unsigned)strtoul(base_name(folders.gl_pathv[i]), NULL, 10);
		int64_t bytes;

		if (amd_read_number(folders.gl_pathv[i], name, &bytes) < 0)
			continue;
		if (count < max)
			out[count] =
				(struct nvml_process){ .pid = pid, .used_bytes = (uint64_t)bytes };
		count++;
	}
	globfree(&folders);
	return count;
}

static int count_processes(const struct amd_device *d, const char *file, int64_t *value)
{
	(void)file;
	*value = find_processes(d, NULL, 0);
	return d->card.gpu_id ? 0 : -ENOENT;
}

#define MS(n) ((n)*NS_PER_MS)
/* clang-format off */
static const struct amd_metric {
	uint32_t id;
	const char *file; /* or labels, or a name */
	uint64_t interval_ns; /* 0: at each reading */
	reader *read;
} metrics[] = {
	{ METRIC_gpu_utilization, "gpu_busy_percent", 0, read_file },
	{ METRIC_gpu_memory_utilization, "mem_busy_percent", 0, read_file },
	{ METRIC_gpu_sm_clock, "pp_dpm_sclk", 0, read_clock },
	{ METRIC_gpu_memory_clock, "pp_dpm_mclk", MS(500), read_clock },
	{ METRIC_gpu_power, "power1_average", 0, read_micro },
	{ METRIC_gpu_temperature, "edge junction", MS(500), read_temperature },
	{ METRIC_gpu_memory_used, "mem_info_vram_used", MS(250), read_file },
	{ METRIC_gpu_energy, "energy1_input", MS(1000), read_micro },
	{ METRIC_gpu_throttle_reasons, "gpu_metrics", MS(250), read_throttling },
	{ METRIC_gpu_power_limit, "power1_cap", MS(10000), read_micro },
	{ METRIC_gpu_memory_temperature, "mem", MS(1000), read_temperature },
	{ METRIC_gpu_ecc_corrected, "ce: ", MS(10000), read_errors },
	{ METRIC_gpu_ecc_uncorrected, "ue: ", MS(10000), read_errors },
	{ METRIC_gpu_processes, "", MS(1000), count_processes },
};
/* clang-format on */
_Static_assert(ARRAY_SIZE(metrics) <= AMD_METRICS_MAX, "each metric has a pace and a bit");

unsigned amd_device_count(void)
{
	struct amd_card cards[AMD_CARDS_MAX];

	return amd_cards_find(cards, AMD_CARDS_MAX);
}

bool amd_device_open(struct amd_device *d, unsigned index)
{
	struct amd_card cards[AMD_CARDS_MAX];
	char pattern[AMD_PATH_MAX + 16];
	glob_t folders;

	if (index >= amd_cards_find(cards, AMD_CARDS_MAX))
		return false;
	*d = (struct amd_device){ .card = cards[index] };
	snprintf(pattern, sizeof(pattern), "%s/hwmon/hwmon*", d->card.folder);
	if (glob(pattern, 0, NULL, &folders) != 0)
		return true;
	if (strlen(folders.gl_pathv[0]) < sizeof(d->hwmon))
		memcpy(d->hwmon, folders.gl_pathv[0], strlen(folders.gl_pathv[0]) + 1);
	globfree(&folders);
	return true;
}

void amd_describe(const struct amd_device *d, struct gpu_description *out)
{
	const struct gpu *gpu = &d->card.gpu;

	*out = (struct gpu_description){ .memory_bytes = gpu->memory_bytes,
					 .sm_clock_mhz =
						 (unsigned)MAX(gpu->limits.clock_khz, 0) / 1000,
					 .vendor = gpu_vendor_amd };
	snprintf(out->name, sizeof(out->name), "%.95s", gpu->name);
	snprintf(out->uuid, sizeof(out->uuid), "%s", gpu->uuid);
	snprintf(out->pci, sizeof(out->pci), "%s", gpu->pci);
}

/* Whether a metric will never have a value: its file is missing, or the chip does not know. */
static bool is_permanent(int err)
{
	return err == -ENOENT || err == -EOPNOTSUPP || err == -EPROTONOSUPPORT || err == -EACCES;
}

static void emit_absent(const struct amd_metric *m, int err, const struct metric_sink *sink)
{
	if (sink->absent)
		sink->absent(sink->user, m->id,
			     err == -EPROTONOSUPPORT ? "its driver's table is of another version"
			     : err == -EACCES        ? "no permission"
						     : "not supported");
}

static bool is_asleep(const struct amd_device *d)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	return amd_read(d->card.folder, "power/runtime_status", &text) == 0 &&
	       strcmp(strbuf_text(&text), "suspended") == 0;
}

void amd_device_read(struct amd_device *d, uint64_t now_ns, const struct metric_sink *sink)
{
	_cleanup_strbuf_ struct strbuf vendor = STRBUF_INIT;

	if (d->lost || is_asleep(d))
		return;
	d->lost = amd_read(d->card.folder, "vendor", &vendor) < 0;
	for (unsigned i = 0; i < ARRAY_SIZE(metrics) && !d->lost; i++) {
		const struct amd_metric *m = &metrics[i];
		int64_t value = 0;
		int err;

		if (d->absent >> i & 1 || !pace_is_due(&d->paces[i], m->interval_ns, now_ns))
			continue;
		err = m->read(d, m->file, &value);
		if (err == 0)
			sink->value(sink->user, m->id, clock_monotonic_ns(), value);
		else if (is_permanent(err)) {
			d->absent |= 1u << i;
			emit_absent(m, err, sink);
		}
	}
}

unsigned amd_processes(const struct amd_device *d, struct nvml_process *out, unsigned max)
{
	return MIN(find_processes(d, out, max), max);
}
