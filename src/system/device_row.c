#include "system/nvml.h"

#include "format/writer.h"

#include "format/rows.h"

void device_row_write(struct writer *w, uint32_t id, const struct gpu_description *d)
{
	struct row_device row = {
		.id = id,
		.name = rows_text(w, d->name),
		.uuid = rows_text(w, d->uuid),
		.pci = rows_text(w, d->pci),
		.compute_major = (uint32_t)d->compute_major,
		.compute_minor = (uint32_t)d->compute_minor,
		.memory_bytes = d->memory_bytes,
		.clock_khz = d->sm_clock_mhz * 1000,
		.memory_clock_khz = d->memory_clock_mhz * 1000,
		.driver_version = (uint32_t)d->cuda_version,
		.vendor = (uint8_t)d->vendor,
	};

	ROW_MISSING_IF(&row, device, clock_khz, !d->sm_clock_mhz);
	ROW_MISSING_IF(&row, device, memory_clock_khz, !d->memory_clock_mhz);
	ROW_MISSING(&row, device, multiprocessors, l2_bytes, memory_bus_bits, warp_size,
		    max_threads_per_block, max_threads_per_multiprocessor,
		    max_blocks_per_multiprocessor, registers_per_block,
		    registers_per_multiprocessor, shared_per_block_bytes,
		    shared_per_block_optin_bytes, shared_per_multiprocessor_bytes,
		    reserved_shared_per_block_bytes);
	writer_append(w, TABLE_device, &row);
}
