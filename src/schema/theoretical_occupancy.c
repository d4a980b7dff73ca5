#include "schema/theoretical_occupancy.h"

#include "base/error.h"

/* Registers are allocated to warps in this unit, and warps are distributed over sub-partitions. */
#define REGISTER_UNIT 256
#define SUB_PARTITIONS 4

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

static uint32_t shared_unit(uint32_t compute_major)
{
	return compute_major >= 8 ? 128 : 256;
}

static uint32_t sub_partitions(const struct occupancy_device *d)
{
	return d->compute_major == 6 && d->compute_minor == 0 ? 2 : SUB_PARTITIONS;
}

static uint32_t blocks_by_registers(const struct occupancy_device *d,
				    const struct occupancy_kernel *k, uint64_t warps)
{
	uint64_t per_warp = round_up((uint64_t)k->registers * d->warp_size, REGISTER_UNIT);
	uint64_t parts = sub_partitions(d);

	if (!per_warp)
		return UINT32_MAX;
	return (uint32_t)(d->registers / parts / per_warp * parts / warps);
}

static uint32_t blocks_by_shared(const struct occupancy_device *d, const struct occupancy_kernel *k)
{
	uint64_t per_block =
		round_up(k->shared_bytes + d->reserved_shared_bytes, shared_unit(d->compute_major));
	uint64_t available = d->shared_bytes;

	if (!per_block)
		return UINT32_MAX;
	/*
	 * The driver may have configured less than the maximum; a size without room for a block is
	 * not credible.
	 */
	if (k->configured_shared_bytes >= per_block && k->configured_shared_bytes < available)
		available = k->configured_shared_bytes;
	return (uint32_t)(available / per_block);
}

int occupancy_compute(const struct occupancy_device *d, const struct occupancy_kernel *k,
		      struct occupancy *out)
{
	struct occupancy o = { 0 };
	uint64_t warps, resident;

	if (!d->warp_size || !d->max_threads || !d->registers || !k->block_threads ||
	    d->compute_major < 3)
		return E_UNSUPPORTED;
	warps = (k->block_threads + d->warp_size - 1) / d->warp_size;
	o.max_warps = d->max_threads / d->warp_size;
	o.limits[OCCUPANCY_WARPS] = (uint32_t)(o.max_warps / warps);
	o.limits[OCCUPANCY_REGISTERS] = blocks_by_registers(d, k, warps);
	o.limits[OCCUPANCY_SHARED] = blocks_by_shared(d, k);
	o.limits[OCCUPANCY_BLOCKS] = d->max_blocks ? d->max_blocks : UINT32_MAX;
	o.blocks = UINT32_MAX;
	for (size_t i = 0; i < OCCUPANCY_LIMITERS; i++) {
		if (o.limits[i] < o.blocks) {
			o.blocks = o.limits[i];
			o.limiter = (enum occupancy_limiter)i;
		}
	}
	o.warps = (uint32_t)(o.blocks * warps);
	resident = (uint64_t)o.blocks * d->multiprocessors;
	if (resident && k->grid_blocks < UINT64_MAX / 1000)
		o.waves_milli = k->grid_blocks * 1000 / resident;
	*out = o;
	return 0;
}

/* Returns 0 on overflow: no real launch has such a size. */
static uint64_t volume(uint32_t x, uint32_t y, uint32_t z)
{
	unsigned __int128 v = (unsigned __int128)x * y * z;

	return v > UINT64_MAX ? 0 : (uint64_t)v;
}

int occupancy_of(const struct row_device *d, const struct row_kernel_config *c,
		 struct occupancy *out)
{
#define MAYBE(row, table, column)                                                                  \
	((row)->missing >> COLUMN_##table##_##column & 1 ? 0 : (row)->column)
	struct occupancy_device device = {
		.compute_major = d->compute_major,
		.compute_minor = d->compute_minor,
		.warp_size = d->warp_size,
		.max_threads = d->max_threads_per_multiprocessor,
		.max_blocks = MAYBE(d, device, max_blocks_per_multiprocessor),
		.registers = d->registers_per_multiprocessor,
		.shared_bytes = d->shared_per_multiprocessor_bytes,
		.reserved_shared_bytes = MAYBE(d, device, reserved_shared_per_block_bytes),
		.multiprocessors = d->multiprocessors,
	};
	struct occupancy_kernel kernel = {
		.block_threads = volume(c->block_x, c->block_y, c->block_z),
		.registers = c->registers,
		.shared_bytes = (uint64_t)c->static_shared_bytes + c->dynamic_shared_bytes,
		.configured_shared_bytes = MAYBE(c, kernel_config, executed_shared_bytes),
		.grid_blocks = volume(c->grid_x, c->grid_y, c->grid_z),
	};
#undef MAYBE
	const uint64_t needed = UINT64_C(1) << COLUMN_kernel_config_registers |
				UINT64_C(1) << COLUMN_kernel_config_static_shared_bytes |
				UINT64_C(1) << COLUMN_kernel_config_dynamic_shared_bytes;

	if (c->missing & needed)
		return E_UNSUPPORTED;
	return occupancy_compute(&device, &kernel, out);
}

void occupancy_add_limits(struct row_device *d)
{
#define BIT(column) (UINT64_C(1) << COLUMN_device_##column)
	static const struct {
		uint8_t major, minor, blocks, shared_kib;
		uint16_t threads;
	} known[] = {
		{ 5, 0, 32, 64, 2048 },   { 5, 2, 32, 96, 2048 },   { 5, 3, 32, 64, 2048 },
		{ 6, 0, 32, 64, 2048 },   { 6, 1, 32, 96, 2048 },   { 6, 2, 32, 64, 2048 },
		{ 7, 0, 32, 96, 2048 },   { 7, 2, 32, 96, 2048 },   { 7, 5, 16, 64, 1024 },
		{ 8, 0, 32, 164, 2048 },  { 8, 6, 16, 100, 1536 },  { 8, 7, 16, 164, 1536 },
		{ 8, 9, 24, 100, 1536 },  { 9, 0, 32, 228, 2048 },  { 10, 0, 32, 228, 2048 },
		{ 10, 3, 32, 228, 2048 }, { 12, 0, 24, 100, 1536 }, { 12, 1, 24, 100, 1536 },
	};
	size_t i = 0;

	while (i < ARRAY_SIZE(known) &&
	       (known[i].major != d->compute_major || known[i].minor != d->compute_minor))
		i++;
	if (i == ARRAY_SIZE(known) || !(d->missing & BIT(max_threads_per_multiprocessor)))
		return;
	d->warp_size = 32;
	d->max_threads_per_multiprocessor = known[i].threads;
	d->max_blocks_per_multiprocessor = known[i].blocks;
	d->registers_per_multiprocessor = 65536;
	d->shared_per_multiprocessor_bytes = (uint32_t)known[i].shared_kib << 10;
	d->reserved_shared_per_block_bytes = known[i].major >= 8 ? 1024 : 0;
	d->missing &=
		~(BIT(warp_size) | BIT(max_threads_per_multiprocessor) |
		  BIT(max_blocks_per_multiprocessor) | BIT(registers_per_multiprocessor) |
		  BIT(shared_per_multiprocessor_bytes) | BIT(reserved_shared_per_block_bytes));
#undef BIT
}

const char *occupancy_limiter_name(unsigned limiter)
{
	static const char *const names[OCCUPANCY_LIMITERS] = {
		[OCCUPANCY_WARPS] = "warps",
		[OCCUPANCY_REGISTERS] = "registers",
		[OCCUPANCY_SHARED] = "shared memory",
		[OCCUPANCY_BLOCKS] = "blocks",
	};

	return names[limiter];
}
