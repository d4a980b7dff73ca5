/* perfetto_kernel.c: kernels and GPUs, as they are described once in a file. */
#include "export/perfetto/perfetto_gpu.h"

#include <stdio.h>

#include "analysis/occupancy.h"
#include "symbol/demangle.h"
#include "trace/columns.h"

#define ARGUMENT_NAME(id, name) [ARG_##id] = name,
const char *const perfetto_argument_names[ARG_END] = { PERFETTO_ARGUMENTS(ARGUMENT_NAME) };

/* "GPU-8f3b…" as 16 bytes; false when it is something else. */
static bool parse_uuid(const char *text, uint8_t uuid[16])
{
	char digits[33];
	size_t n = 0;

	if (!strncmp(text, "GPU-", 4))
		text += 4;
	for (; *text && n < sizeof(digits); text++)
		if (*text != '-')
			digits[n++] = *text;
	if (n != 32)
		return false;
	digits[n] = '\0';
	return bytes_of_hex(digits, uuid, 16) == 16;
}

static void extra_info(struct strbuf *s, const char *key, uint64_t value)
{
	char text[24];
	size_t token = proto_open(s, 6);

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	proto_string(s, 1, key);
	proto_string(s, 2, text);
	proto_close(s, token);
}

/* "CC_90", or "" where it is not known. */
static void architecture(const struct perfetto *p, size_t gpu, char text[32])
{
	const struct device_columns *d = device_columns(p->view.trace);
	uint32_t row = p->view.gpus.items[gpu].row;

	text[0] = '\0';
	if (row != TRACE_NO_ROW)
		snprintf(text, 32, "CC_%u%u", d->compute_major[row], d->compute_minor[row]);
}

/* "NVIDIA H200", with a number where there are several: readers show the name alone. */
static void put_name(struct perfetto *p, size_t index)
{
	const struct gpu *gpus = p->view.gpus.items;
	struct strbuf *text = &p->gpus.text;
	unsigned before = 0, all = 0;

	for (size_t i = 0; i < p->view.gpus.count; i++) {
		bool same = !strcmp(gpus[i].name, gpus[index].name);

		before += same && i < index;
		all += same;
	}
	strbuf_clear(text);
	strbuf_adds(text, gpus[index].name);
	if (all > 1)
		strbuf_addf(text, " #%u", before);
	proto_text(&p->out, 1, strbuf_text(text), text->length);
}

static void describe_gpu(struct perfetto *p, size_t index)
{
	const struct gpu *gpu = &p->view.gpus.items[index];
	const struct device_columns *d = device_columns(p->view.trace);
	struct strbuf *s = &p->out;
	size_t token = proto_open(s, 1), length;
	const char *pci;
	uint8_t uuid[16];
	char text[32];

	if (gpu->row == TRACE_NO_ROW) {
		proto_close(s, token); /* keeps the positions of those after it */
		return;
	}
	put_name(p, index);
	proto_string(s, 2, "NVIDIA");
	proto_text(s, 3, gpu->name, strlen(gpu->name));
	architecture(p, index, text);
	proto_string(s, 4, text);
	if (parse_uuid(gpu->uuid, uuid))
		proto_bytes(s, 5, uuid, sizeof(uuid));
	extra_info(s, "memory_bytes", d->memory_bytes[gpu->row]);
	if (column_has(d->valid.multiprocessors, gpu->row))
		extra_info(s, "multiprocessors", d->multiprocessors[gpu->row]);
	extra_info(s, "driver_version", d->driver_version[gpu->row]);
	pci = export_text(&p->view, TABLE_device, COLUMN_device_pci, gpu->row, &length);
	proto_text(s, 7, pci, length);
	proto_close(s, token);
}

void perfetto_gpu_info(struct perfetto *p)
{
	struct perfetto_packet head = { p->time_ns, PERFETTO_MONOTONIC, SEQUENCE_GLOBAL, 0 };
	size_t packet, info;

	if (!p->view.gpus.count)
		return;
	packet = perfetto_packet_open(&p->out, &head);
	info = proto_open(&p->out, PACKET_GPU_INFO);
	for (size_t i = 0; i < p->view.gpus.count; i++)
		describe_gpu(p, i);
	proto_close(&p->out, info);
	proto_close(&p->out, packet);
}

static void argument_limit(struct strbuf *s, uint32_t name, uint32_t limit)
{
	if (limit != UINT32_MAX)
		perfetto_argument(s, IN_KERNEL, name, limit);
}

static uint64_t product(uint64_t x, uint64_t y, uint64_t z)
{
	uint64_t all;

	return __builtin_mul_overflow(x * y, z, &all) ? UINT64_MAX : all;
}

static void occupancy_arguments(struct perfetto *p, uint32_t config, size_t gpu)
{
	const struct trace *t = p->view.trace;
	const struct kernel_config_columns *k = kernel_config_columns(t);
	uint32_t device = p->view.gpus.items[gpu].row;
	struct strbuf *s = &p->out;
	struct occupancy o;
	uint64_t resident;

	if (occupancy_of_rows(t, device, config, &o) < 0)
		return;
	resident = (uint64_t)o.blocks * device_columns(t)->multiprocessors[device];
	argument_limit(s, ARG_LIMIT_BLOCKS, o.limits[OCCUPANCY_BLOCKS]);
	argument_limit(s, ARG_LIMIT_REGISTERS, o.limits[OCCUPANCY_REGISTERS]);
	argument_limit(s, ARG_LIMIT_SHARED, o.limits[OCCUPANCY_SHARED]);
	argument_limit(s, ARG_LIMIT_WARPS, o.limits[OCCUPANCY_WARPS]);
	perfetto_argument(s, IN_KERNEL, ARG_MAX_WARPS, o.warps);
	if (o.max_warps)
		perfetto_argument_double(s, IN_KERNEL, ARG_OCCUPANCY,
					 100.0 * o.warps / o.max_warps);
	if (resident)
		perfetto_argument_double(
			s, IN_KERNEL, ARG_WAVES,
			(double)product(k->grid_x[config], k->grid_y[config], k->grid_z[config]) /
				(double)resident);
}

static const char *cache_config_name(uint8_t config)
{
	static const char *const names[] = {
		[cache_config_unknown] = "n/a",
		[cache_config_none] = "CachePreferNone",
		[cache_config_prefer_shared] = "CachePreferShared",
		[cache_config_prefer_l1] = "CachePreferL1",
		[cache_config_prefer_equal] = "CachePreferEqual",
	};

	return config < ARRAY_SIZE(names) ? names[config] : names[0];
}

static void shape_arguments(struct strbuf *s, const struct kernel_config_columns *k, uint32_t i)
{
	uint64_t blocks = product(k->grid_x[i], k->grid_y[i], k->grid_z[i]);
	uint64_t threads = product(k->block_x[i], k->block_y[i], k->block_z[i]), all;

	perfetto_argument(s, IN_KERNEL, ARG_GRID_SIZE, (int64_t)blocks);
	perfetto_argument(s, IN_KERNEL, ARG_BLOCK_SIZE, (int64_t)threads);
	if (!__builtin_mul_overflow(blocks, threads, &all))
		perfetto_argument(s, IN_KERNEL, ARG_THREADS, (int64_t)all);
	if (column_has(k->valid.cluster_x, i))
		perfetto_argument(
			s, IN_KERNEL, ARG_CLUSTER,
			(int64_t)product(k->cluster_x[i], k->cluster_y[i], k->cluster_z[i]));
}

static void argument_of(struct strbuf *s, uint32_t name, const uint8_t *valid,
			const uint32_t *values, uint32_t row)
{
	if (column_has(valid, row))
		perfetto_argument(s, IN_KERNEL, name, values[row]);
}

static void resource_arguments(struct strbuf *s, const struct kernel_config_columns *k, uint32_t i)
{
	argument_of(s, ARG_REGISTERS, k->valid.registers, k->registers, i);
	argument_of(s, ARG_STATIC_SHARED, k->valid.static_shared_bytes, k->static_shared_bytes, i);
	argument_of(s, ARG_DYNAMIC_SHARED, k->valid.dynamic_shared_bytes, k->dynamic_shared_bytes,
		    i);
	argument_of(s, ARG_SHARED_SIZE, k->valid.executed_shared_bytes, k->executed_shared_bytes,
		    i);
	argument_of(s, ARG_LOCAL, k->valid.local_bytes_per_thread, k->local_bytes_per_thread, i);
	perfetto_argument_text(s, IN_KERNEL, ARG_CACHE_CONFIG,
			       cache_config_name(k->cache_config_executed[i]));
}

void perfetto_define_kernel(struct perfetto *p, uint64_t iid, uint32_t config, uint32_t process,
			    size_t gpu)
{
	const struct trace *t = p->view.trace;
	const struct export_process *x = &p->view.processes[process];
	const struct kernel_config_columns *k = kernel_config_columns(t);
	uint32_t name = k->name[config];
	char arch[32];
	size_t token;

	strbuf_clear(&p->gpus.text);
	demangle(trace_string(t, name), &p->gpus.text);
	architecture(p, gpu, arch);
	token = perfetto_intern_kernel(&p->out, iid, trace_string(t, name),
				       trace_string_length(t, name), strbuf_text(&p->gpus.text),
				       p->gpus.text.length, arch);
	shape_arguments(&p->out, k, config);
	resource_arguments(&p->out, k, config);
	occupancy_arguments(p, config, gpu);
	perfetto_argument(&p->out, IN_KERNEL, ARG_PROCESS_ID, x->pid);
	perfetto_argument_text(&p->out, IN_KERNEL, ARG_PROCESS_NAME, x->name);
	proto_close(&p->out, token);
}
