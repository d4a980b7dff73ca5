#include "analysis/occupancy.h"

int occupancy_of_rows(const struct trace *t, uint32_t device_row, uint32_t config_row,
		      struct occupancy *out)
{
	struct row_device device;
	struct row_kernel_config config;

	if (device_row == TRACE_NO_ROW || config_row == TRACE_NO_ROW)
		return E_UNSUPPORTED;
	trace_row(t, TABLE_device, device_row, &device);
	trace_row(t, TABLE_kernel_config, config_row, &config);
	return occupancy_of(&device, &config, out);
}
