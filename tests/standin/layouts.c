#include "layouts.h"

#include <stdio.h>

#include <cupti.h>

#include "base/bytes.h"

#define K(name) CUPTI_ACTIVITY_KIND_##name

/* 0 ends a list; offset 0 is the kind, so no time or id is there. */
static const struct layout {
	uint16_t times[6];
	uint16_t correlations[3];
} layouts[KINDS_MAX] = {
	[K(MEMCPY)] = { { 16, 24 }, { 44, 48 } },
	[K(MEMSET)] = { { 16, 24 }, { 44 } },
	[K(KERNEL)] = { { 16, 24, 32, 120, 128 }, { 92 } },
	[K(CONCURRENT_KERNEL)] = { { 16, 24, 32, 120, 128 }, { 92 } },
	[K(DRIVER)] = { { 8, 16 }, { 32 } },
	[K(RUNTIME)] = { { 8, 16 }, { 32 } },
	[K(INTERNAL_LAUNCH_API)] = { { 8, 16 }, { 32 } },
	[K(MARKER)] = { { 8 }, { 0 } },
	[K(OVERHEAD)] = { { 24, 32 }, { 40 } },
	[K(ENVIRONMENT)] = { { 8 }, { 0 } },
	[K(MEMCPY2)] = { { 16, 24 }, { 60 } },
	[K(UNIFIED_MEMORY_COUNTER)] = { { 16, 24 }, { 0 } },
	[K(CUDA_EVENT)] = { { 40 }, { 4 } },
	[K(SYNCHRONIZATION)] = { { 8, 16 }, { 24 } },
	[K(EXTERNAL_CORRELATION)] = { { 0 }, { 16 } },
	[K(MEMORY2)] = { { 32 }, { 12 } },
	[K(MEMORY_POOL)] = { { 56 }, { 12 } },
	[K(GRAPH_TRACE)] = { { 8, 16 }, { 4 } },
	[K(JIT)] = { { 16, 24 }, { 32 } },
	[K(DEVICE_GRAPH_TRACE)] = { { 8, 16 }, { 0 } },
	[K(MEM_DECOMPRESS)] = { { 48, 56 }, { 24 } },
};

static const struct layout *layout_of(const uint8_t *record, size_t size)
{
	uint32_t kind = size >= sizeof(kind) ? load_u32(record) : 0;

	return kind < KINDS_MAX ? &layouts[kind] : &layouts[0];
}

void record_times(uint8_t *record, size_t size, void (*visit)(uint8_t *time, void *user),
		  void *user)
{
	const struct layout *l = layout_of(record, size);

	for (size_t i = 0; l->times[i]; i++)
		if (l->times[i] + sizeof(uint64_t) <= size)
			visit(record + l->times[i], user);
}

void record_shift_correlation(uint8_t *record, size_t size, uint32_t shift)
{
	const struct layout *l = layout_of(record, size);

	for (size_t i = 0; l->correlations[i]; i++) {
		uint8_t *id = record + l->correlations[i];

		if (l->correlations[i] + sizeof(uint32_t) <= size && load_u32(id))
			store_u32(id, load_u32(id) + shift);
	}
}

uint32_t record_correlation(const uint8_t *record, size_t size)
{
	const struct layout *l = layout_of(record, size);
	uint32_t highest = 0;

	for (size_t i = 0; l->correlations[i]; i++)
		if (l->correlations[i] + sizeof(uint32_t) <= size)
			highest = MAX(highest, load_u32(record + l->correlations[i]));
	return highest;
}

unsigned record_start_offset(uint32_t kind)
{
	const struct layout *l = kind < KINDS_MAX ? &layouts[kind] : &layouts[0];

	return l->times[1] ? l->times[0] : 0;
}

size_t record_size_in(uint32_t kind, uint32_t version, size_t recorded)
{
	static const struct {
		uint16_t kind;
		uint32_t version; /* of the first CUPTI with this size */
		uint16_t size;
	} sizes[] = {
		{ K(KERNEL), 19, 208 },
		{ K(KERNEL), 130000, 216 },
		{ K(CONCURRENT_KERNEL), 19, 208 },
		{ K(CONCURRENT_KERNEL), 130000, 216 },
		{ K(MEMCPY), 19, 88 },
		{ K(MEMCPY), 26, 96 },
		{ K(MEMCPY2), 19, 96 },
		{ K(MEMSET), 19, 88 },
		{ K(SYNCHRONIZATION), 19, 40 },
		{ K(SYNCHRONIZATION), 26, 56 },
		{ K(GRAPH_TRACE), 19, 48 },
		{ K(GRAPH_TRACE), 21, 56 },
		{ K(MEMORY2), 19, 120 },
		{ K(MEMORY2), 24, 128 },
		{ K(OVERHEAD), 19, 48 },
		{ K(OVERHEAD), 22, 56 },
		{ K(CUDA_EVENT), 19, 24 },
		{ K(CUDA_EVENT), 26, 56 },
	};
	size_t size = recorded;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		if (sizes[i].kind == kind && sizes[i].version <= version)
			size = sizes[i].size;
	return version >= 130100
		       ? MIN(size + 8 * (version / 100 % 100), recorded + RECORD_GROWTH_MAX)
		       : size;
}

const char *kind_name(uint32_t kind)
{
	static const char *const names[KINDS_MAX] = {
#define N(name) [K(name)] = #name
		N(MEMCPY),
		N(MEMSET),
		N(KERNEL),
		N(DRIVER),
		N(RUNTIME),
		N(DEVICE),
		N(CONTEXT),
		N(CONCURRENT_KERNEL),
		N(NAME),
		N(MARKER),
		N(MARKER_DATA),
		N(OVERHEAD),
		N(ENVIRONMENT),
		N(MEMCPY2),
		N(UNIFIED_MEMORY_COUNTER),
		N(FUNCTION),
		N(MODULE),
		N(DEVICE_ATTRIBUTE),
		N(CUDA_EVENT),
		N(STREAM),
		N(SYNCHRONIZATION),
		N(EXTERNAL_CORRELATION),
		N(NVLINK),
		N(MEMORY),
		N(PCIE),
		N(INTERNAL_LAUNCH_API),
		N(MEMORY2),
		N(MEMORY_POOL),
		N(GRAPH_TRACE),
		N(JIT),
		N(DEVICE_GRAPH_TRACE),
		N(MEM_DECOMPRESS),
#undef N
	};
	static __thread char number[24];

	if (kind < KINDS_MAX && names[kind])
		return names[kind];
	snprintf(number, sizeof(number), "KIND_%u", kind);
	return number;
}
