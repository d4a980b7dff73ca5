#include "analysis/occupancy.h"

static uint32_t value(const struct trace *t, enum table_id table, int column, uint32_t row)
{
	bool missing;
	uint64_t v = trace_value(t, table, column, row, &missing);

	return missing ? 0 : (uint32_t)v;
}

int occupancy_of_rows(const struct trace *t, uint32_t device_row, uint32_t config_row,
		      struct occupancy *out)
{
#define DEVICE(column) .column = value(t, TABLE_device, COLUMN_device_##column, device_row)
#define CONFIG(column)                                                                             \
	.column = value(t, TABLE_kernel_config, COLUMN_kernel_config_##column, config_row)
	struct row_device device;
	struct row_kernel_config config;

	if (device_row == TRACE_NO_ROW || config_row == TRACE_NO_ROW)
		return E_UNSUPPORTED;
	device = (struct row_device){
		DEVICE(compute_major),
		DEVICE(compute_minor),
		DEVICE(warp_size),
		DEVICE(max_threads_per_multiprocessor),
		DEVICE(max_blocks_per_multiprocessor),
		DEVICE(registers_per_multiprocessor),
		DEVICE(shared_per_multiprocessor_bytes),
		DEVICE(reserved_shared_per_block_bytes),
		DEVICE(multiprocessors),
	};
	config = (struct row_kernel_config){
		CONFIG(grid_x),
		CONFIG(grid_y),
		CONFIG(grid_z),
		CONFIG(block_x),
		CONFIG(block_y),
		CONFIG(block_z),
		CONFIG(registers),
		CONFIG(static_shared_bytes),
		CONFIG(dynamic_shared_bytes),
		CONFIG(executed_shared_bytes),
	};
	return occupancy_of(&device, &config, out);
#undef DEVICE
#undef CONFIG
}
