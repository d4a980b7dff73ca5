/* perfetto_kernel.c: kernels and GPUs, as they are described once in a file. */
#include "export/perfetto/perfetto_gpu.h"

#include <stdio.h>

#include "analysis/occupancy.h"
#include "symbol/demangle.h"
#include "trace/columns.h"

const char *const perfetto_argument_names[ARG_END] = {
	[ARG_DEVICE] = "device",
	[ARG_STREAM] = "stream",
	[ARG_CORRELATION] = "correlation",
	[ARG_GRAPH] = "graph_id",
	[ARG_GRAPH_NODE] = "graph_node_id",
	[ARG_BYTES] = "bytes",
	[ARG_VALUE] = "value",
	[ARG_EVENT] = "event",
	[ARG_REGISTERS] = "registers_per_thread",
	[ARG_STATIC_SHARED] = "shared_mem_static",
	[ARG_DYNAMIC_SHARED] = "shared_mem_dynamic",
	[ARG_SHARED_SIZE] = "shared_mem_config_size",
	[ARG_CACHE_CONFIG] = "func_cache_config",
	[ARG_LOCAL] = "local_mem_per_thread",
	[ARG_THREADS] = "thread_count",
	[ARG_GRID_SIZE] = "grid_size",
	[ARG_BLOCK_SIZE] = "workgroup_size",
	[ARG_CLUSTER] = "cluster_size",
	[ARG_WAVES] = "waves_per_multiprocessor",
	[ARG_LIMIT_BLOCKS] = "occupancy_limit_blocks",
	[ARG_LIMIT_REGISTERS] = "occupancy_limit_registers",
	[ARG_LIMIT_SHARED] = "occupancy_limit_shared_mem",
	[ARG_LIMIT_WARPS] = "occupancy_limit_warps",
	[ARG_OCCUPANCY] = "sm__maximum_warps_per_active_cycle_pct",
	[ARG_MAX_WARPS] = "sm__maximum_warps_avg_per_active_cycle",
	[ARG_PROCESS_NAME] = "process_name",
	[ARG_PROCESS_ID] = "process_id",
};

/* "GPU-8f3b…" as 16 bytes; false when it is something else. */
static bool parse_uuid(const char *text, uint8_t uuid[16])
{
	size_t digits = 0;

	if (!strncmp(text, "GPU-", 4))
		text += 4;
	memset(uuid, 0, 16);
	for (; *text; text++) {
		int value;

		if (*text == '-')
			continue;
		if (*text >= '0' && *text <= '9')
			value = *text - '0';
		else if (*text >= 'a' && *text <= 'f')
			value = *text - 'a' + 10;
		else
			return false;
		if (digits == 32)
			return false;
		uuid[digits / 2] = (uint8_t)(uuid[digits / 2] << 4 | value);
		digits++;
	}
	return digits == 32;
}

static void extra_info(struct strbuf *s, const char *key, uint64_t value)
{
	char text[24];
	size_t token = proto_open(s, 6);

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	proto_string(s, 1, key);
	proto_string(s, 2, text);
	proto_close(s, token);
	proto_reserve(s, PERFETTO_PACKET_MAX);
}

static uint32_t device_u32(const struct trace *t, int column, uint32_t row)
{
	return trace_u32(t, TABLE_device, column)[row];
}

/* "CC_90", or "" where it is not known. */
static void architecture(const struct perfetto *p, size_t gpu, char text[32])
{
	uint32_t row = p->view.gpus.items[gpu].row;

	text[0] = '\0';
	if (row != TRACE_NO_ROW)
		snprintf(text, 32, "CC_%u%u",
			 device_u32(p->view.trace, COLUMN_device_compute_major, row),
			 device_u32(p->view.trace, COLUMN_device_compute_minor, row));
}

static void describe_gpu(struct perfetto *p, size_t index)
{
	const struct gpu *gpu = &p->view.gpus.items[index];
	const struct trace *t = p->view.trace;
	struct strbuf *s = &p->out;
	size_t token = proto_open(s, 1), length;
	const char *pci;
	uint8_t uuid[16];
	char text[32];

	if (gpu->row == TRACE_NO_ROW) {
		proto_close(s, token); /* keeps the positions of those after it */
		return;
	}
	proto_text(s, 1, gpu->name, strlen(gpu->name));
	proto_string(s, 2, "NVIDIA");
	proto_text(s, 3, gpu->name, strlen(gpu->name));
	architecture(p, index, text);
	proto_string(s, 4, text);
	if (parse_uuid(gpu->uuid, uuid))
		proto_bytes(s, 5, uuid, sizeof(uuid));
	proto_reserve(s, PERFETTO_PACKET_MAX);
	extra_info(s, "memory_bytes", device_columns(t)->memory_bytes[gpu->row]);
	extra_info(s, "multiprocessors", device_u32(t, COLUMN_device_multiprocessors, gpu->row));
	extra_info(s, "driver_version", device_u32(t, COLUMN_device_driver_version, gpu->row));
	pci = export_text(&p->view, TABLE_device, COLUMN_device_pci, gpu->row, &length);
	proto_text(s, 7, pci, length);
	proto_close(s, token);
	proto_reserve(s, PERFETTO_PACKET_MAX);
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

static bool config_has(const struct perfetto *p, int column, uint32_t config)
{
	const uint8_t *valid = trace_valid(p->view.trace, TABLE_kernel_config, column);

	return !valid || valid[config];
}

static void argument_limit(struct strbuf *s, uint32_t name, uint32_t limit)
{
	if (limit != UINT32_MAX)
		perfetto_argument(s, IN_KERNEL, name, limit);
}

static void occupancy_arguments(struct perfetto *p, uint32_t config, size_t gpu)
{
	struct strbuf *s = &p->out;
	struct occupancy o;

	if (occupancy_of_rows(p->view.trace, p->view.gpus.items[gpu].row, config, &o) < 0)
		return;
	argument_limit(s, ARG_LIMIT_BLOCKS, o.limits[OCCUPANCY_BLOCKS]);
	argument_limit(s, ARG_LIMIT_REGISTERS, o.limits[OCCUPANCY_REGISTERS]);
	argument_limit(s, ARG_LIMIT_SHARED, o.limits[OCCUPANCY_SHARED]);
	argument_limit(s, ARG_LIMIT_WARPS, o.limits[OCCUPANCY_WARPS]);
	perfetto_argument(s, IN_KERNEL, ARG_MAX_WARPS, o.warps);
	if (o.max_warps)
		perfetto_argument_double(s, IN_KERNEL, ARG_OCCUPANCY,
					 100.0 * o.warps / o.max_warps);
	if (o.waves_milli)
		perfetto_argument_double(s, IN_KERNEL, ARG_WAVES, (double)o.waves_milli / 1000);
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

static uint64_t product(const struct perfetto *p, int first_column, uint32_t config)
{
	uint64_t xy = (uint64_t)config_u32(p, first_column, config) *
		      config_u32(p, first_column + 1, config),
		 all;

	return __builtin_mul_overflow(xy, config_u32(p, first_column + 2, config), &all)
		       ? UINT64_MAX
		       : all;
}

static void shape_arguments(struct perfetto *p, uint32_t config)
{
	struct strbuf *s = &p->out;
	uint64_t blocks = product(p, COLUMN_kernel_config_grid_x, config);
	uint64_t threads = product(p, COLUMN_kernel_config_block_x, config), all;

	perfetto_argument(s, IN_KERNEL, ARG_GRID_SIZE, (int64_t)blocks);
	perfetto_argument(s, IN_KERNEL, ARG_BLOCK_SIZE, (int64_t)threads);
	if (!__builtin_mul_overflow(blocks, threads, &all))
		perfetto_argument(s, IN_KERNEL, ARG_THREADS, (int64_t)all);
	if (config_has(p, COLUMN_kernel_config_cluster_x, config))
		perfetto_argument(s, IN_KERNEL, ARG_CLUSTER,
				  (int64_t)product(p, COLUMN_kernel_config_cluster_x, config));
}

static void resource_arguments(struct perfetto *p, uint32_t config)
{
	static const struct {
		uint8_t name, column;
	} arguments[] = {
		{ ARG_REGISTERS, COLUMN_kernel_config_registers },
		{ ARG_STATIC_SHARED, COLUMN_kernel_config_static_shared_bytes },
		{ ARG_DYNAMIC_SHARED, COLUMN_kernel_config_dynamic_shared_bytes },
		{ ARG_SHARED_SIZE, COLUMN_kernel_config_executed_shared_bytes },
		{ ARG_LOCAL, COLUMN_kernel_config_local_bytes_per_thread },
	};
	uint8_t cache = kernel_config_columns(p->view.trace)->cache_config_executed[config];

	for (size_t i = 0; i < ARRAY_SIZE(arguments); i++)
		if (config_has(p, arguments[i].column, config))
			perfetto_argument(&p->out, IN_KERNEL, arguments[i].name,
					  config_u32(p, arguments[i].column, config));
	perfetto_argument_text(&p->out, IN_KERNEL, ARG_CACHE_CONFIG, cache_config_name(cache));
}

void perfetto_define_kernel(struct perfetto *p, uint64_t iid, uint32_t config, uint32_t process,
			    size_t gpu)
{
	const struct trace *t = p->view.trace;
	const struct export_process *x = &p->view.processes[process];
	uint32_t name = config_u32(p, COLUMN_kernel_config_name, config);
	char arch[32];
	size_t token;

	strbuf_clear(&p->gpus.text);
	demangle(trace_string(t, name), &p->gpus.text);
	architecture(p, gpu, arch);
	token = perfetto_intern_kernel(&p->out, iid, trace_string(t, name),
				       trace_string_length(t, name), strbuf_text(&p->gpus.text),
				       p->gpus.text.length, arch);
	shape_arguments(p, config);
	resource_arguments(p, config);
	occupancy_arguments(p, config, gpu);
	perfetto_argument(&p->out, IN_KERNEL, ARG_PROCESS_ID, x->pid);
	perfetto_argument_text(&p->out, IN_KERNEL, ARG_PROCESS_NAME, x->name);
	proto_close(&p->out, token);
}
