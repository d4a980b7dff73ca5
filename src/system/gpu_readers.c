#include "system/gpu_readers.h"

static unsigned nvidia_find(const struct metric_sink *calls, struct strbuf *why)
{
	unsigned count = nvml_load(calls, why) ? nvml_device_count() : 0;

	if (!count && !why->length)
		strbuf_adds(why, "the driver shows no GPU");
	return count;
}

static const char *nvidia_open(struct gpu_device *d, unsigned index)
{
	int status = nvml_device_by_index(&d->is.nvml, index);

	d->is.nvml.read_last = true;
	return status ? nvml_status_text(status) : NULL;
}

static void nvidia_describe(const struct gpu_device *d, struct gpu_description *out)
{
	nvml_describe(&d->is.nvml, out);
}

static void nvidia_read(struct gpu_device *d, uint64_t now_ns, const struct metric_sink *sink)
{
	nvml_device_read(&d->is.nvml, NVML_ALL, now_ns, sink);
	d->lost = d->is.nvml.lost;
}

static void nvidia_read_last(struct gpu_device *d, const struct metric_sink *sink)
{
	nvml_device_read_last(&d->is.nvml, sink);
}

static unsigned nvidia_processes(const struct gpu_device *d, struct nvml_process *out, unsigned max)
{
	return nvml_processes(&d->is.nvml, out, max);
}

static int nvidia_process_use(const struct gpu_device *d, uint64_t since_ns,
			      struct nvml_process_use *out, unsigned max)
{
	return nvml_process_use(&d->is.nvml, since_ns, out, max);
}

static unsigned amd_find(const struct metric_sink *calls, struct strbuf *why)
{
	(void)calls;
	(void)why;
	return amd_device_count();
}

static const char *amd_open(struct gpu_device *d, unsigned index)
{
	return amd_device_open(&d->is.amd, index) ? NULL : "it is gone";
}

static void amd_describe_device(const struct gpu_device *d, struct gpu_description *out)
{
	amd_describe(&d->is.amd, out);
}

static void amd_read_device(struct gpu_device *d, uint64_t now_ns, const struct metric_sink *sink)
{
	amd_device_read(&d->is.amd, now_ns, sink);
	d->lost = d->is.amd.lost;
}

static unsigned amd_device_processes(const struct gpu_device *d, struct nvml_process *out,
				     unsigned max)
{
	return amd_processes(&d->is.amd, out, max);
}

static const struct gpu_reader nvidia = { nvidia_find,       nvidia_open,      nvidia_describe,
					  nvidia_read,       nvidia_read_last, nvidia_processes,
					  nvidia_process_use };
static const struct gpu_reader amd = {
	amd_find, amd_open, amd_describe_device, amd_read_device, NULL, amd_device_processes, NULL
};

const struct gpu_reader *const gpu_readers[GPU_READERS] = { &nvidia, &amd };
