/* perfetto_kernel_packets.c: descriptions of kernels and GPUs, written once per file. */
#include <stdio.h>

#include "perfetto/perfetto_work_packets.h"
#include "schema/gpu_vendor.h"
#include "schema/theoretical_occupancy.h"

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

static void occupancy_arguments(struct strbuf *s, const struct row_device *device,
				const struct row_kernel_config *k)
{
	struct occupancy o;
	uint64_t resident;

	if (!device || occupancy_of(device, k, &o) < 0)
		return;
	resident = (uint64_t)o.blocks * device->multiprocessors;
	argument_limit(s, ARG_LIMIT_BLOCKS, o.limits[OCCUPANCY_BLOCKS]);
	argument_limit(s, ARG_LIMIT_REGISTERS, o.limits[OCCUPANCY_REGISTERS]);
	argument_limit(s, ARG_LIMIT_SHARED, o.limits[OCCUPANCY_SHARED]);
	argument_limit(s, ARG_LIMIT_WARPS, o.limits[OCCUPANCY_WARPS]);
	perfetto_argument(s, IN_KERNEL, ARG_MAX_WARPS, o.warps);
	if (o.max_warps)
		perfetto_argument_double(s, IN_KERNEL, ARG_OCCUPANCY,
					 100.0 * o.warps / o.max_warps);
	if (resident)
		perfetto_argument_double(s, IN_KERNEL, ARG_WAVES,
					 (double)product(k->grid_x, k->grid_y, k->grid_z) /
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

static void shape_arguments(struct strbuf *s, const struct row_kernel_config *k)
{
	uint64_t blocks = product(k->grid_x, k->grid_y, k->grid_z);
	uint64_t threads = product(k->block_x, k->block_y, k->block_z), all;
	bool has_blocks = row_has(k, COLUMN_kernel_config_grid_x),
	     has_threads = row_has(k, COLUMN_kernel_config_block_x);

	if (has_blocks)
		perfetto_argument(s, IN_KERNEL, ARG_GRID_SIZE, (int64_t)blocks);
	if (has_threads)
		perfetto_argument(s, IN_KERNEL, ARG_BLOCK_SIZE, (int64_t)threads);
	if (has_blocks && has_threads && !__builtin_mul_overflow(blocks, threads, &all))
		perfetto_argument(s, IN_KERNEL, ARG_THREADS, (int64_t)all);
	if (row_has(k, COLUMN_kernel_config_cluster_x))
		perfetto_argument(s, IN_KERNEL, ARG_CLUSTER,
				  (int64_t)product(k->cluster_x, k->cluster_y, k->cluster_z));
}

static void resource_arguments(struct strbuf *s, const struct row_kernel_config *k)
{
#define ARGUMENT(id, column)                                                                       \
	if (row_has(k, COLUMN_kernel_config_##column))                                             \
	perfetto_argument(s, IN_KERNEL, ARG_##id, k->column)
	ARGUMENT(REGISTERS, registers);
	ARGUMENT(STATIC_SHARED, static_shared_bytes);
	ARGUMENT(DYNAMIC_SHARED, dynamic_shared_bytes);
	ARGUMENT(SHARED_SIZE, executed_shared_bytes);
	ARGUMENT(LOCAL, local_bytes_per_thread);
#undef ARGUMENT
	perfetto_argument_text(s, IN_KERNEL, ARG_CACHE_CONFIG,
			       cache_config_name(k->cache_config_executed));
}

/* "CC_90", or "" if unknown. */
static void architecture(const struct row_device *device, char text[32])
{
	text[0] = '\0';
	if (device && device->compute_major)
		snprintf(text, 32, "CC_%u%u", device->compute_major, device->compute_minor);
}

void perfetto_kernel_define(struct strbuf *s, uint64_t iid, const struct perfetto_kernel *kernel)
{
	char arch[32];
	size_t token;

	architecture(kernel->device, arch);
	token = perfetto_intern_kernel(s, iid, kernel->name, kernel->name_length, kernel->demangled,
				       kernel->demangled_length, arch);
	shape_arguments(s, kernel->config);
	resource_arguments(s, kernel->config);
	occupancy_arguments(s, kernel->device, kernel->config);
	perfetto_argument(s, IN_KERNEL, ARG_PROCESS_ID, kernel->pid);
	perfetto_argument_text(s, IN_KERNEL, ARG_PROCESS_NAME, kernel->process);
	proto_close(s, token);
}

/* --- GPUs --- */

/* Parses "GPU-8f3b…" or "MIG-8f3b…" to 16 bytes; false if the text is something else. */
static bool parse_uuid(const char *text, uint8_t uuid[16])
{
	char digits[33];
	size_t n = 0;

	if (!strncmp(text, "GPU-", 4) || !strncmp(text, "MIG-", 4))
		text += 4;
	for (; *text && n < sizeof(digits); text++)
		if (*text != '-')
			digits[n++] = *text;
	if (n != 32)
		return false;
	digits[n] = '\0';
	return hex_decode(digits, uuid, 16) == 16;
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

size_t perfetto_gpu_info_open(struct strbuf *s, const struct perfetto_packet *head, size_t *info)
{
	size_t packet = perfetto_packet_open(s, head);

	*info = proto_open(s, PACKET_GPU_INFO);
	return packet;
}

void perfetto_gpu_info_add(struct strbuf *s, const struct perfetto_gpu *gpu)
{
	size_t token = proto_open(s, 1);
	const struct row_device *d = gpu ? gpu->device : NULL;
	const char *vendor = d ? gpu_vendor_title(d->vendor) : NULL;
	uint8_t uuid[16];
	char text[32];

	if (d) {
		proto_text(s, 1, gpu->display_name, strlen(gpu->display_name));
		if (vendor)
			proto_string(s, 2, vendor);
		proto_text(s, 3, gpu->name, strlen(gpu->name));
		architecture(d, text);
		proto_string(s, 4, text);
		if (parse_uuid(gpu->uuid, uuid))
			proto_bytes(s, 5, uuid, sizeof(uuid));
		if (d->memory_bytes)
			extra_info(s, "memory_bytes", d->memory_bytes);
		if (row_has(d, COLUMN_device_multiprocessors))
			extra_info(s, "multiprocessors", d->multiprocessors);
		extra_info(s, "driver_version", d->driver_version);
		proto_text(s, 7, gpu->pci, strlen(gpu->pci));
	}
	proto_close(s, token);
}
