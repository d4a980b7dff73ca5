/*
 * sbt_format.h: numbers of TraceSmith's file format SBT 0.1, for its importer and its exporter.
 */
#ifndef PITOT_SCHEMA_SBT_FORMAT_H
#define PITOT_SCHEMA_SBT_FORMAT_H

#include "schema/schema.h"

#define SBT_FILE_BYTES_MAX ((size_t)2 << 30) /* of a file that Pitot reads or writes */
#define SBT_HEADER_BYTES 72u

enum { SBT_METADATA = 1, SBT_STRINGS, SBT_DEVICES, SBT_EVENTS, SBT_END = 255 };
enum { SBT_HAS_DURATION = 1, SBT_HAS_KERNEL = 2, SBT_HAS_MEMORY = 4, SBT_HAS_STACK = 8 };

/* Types of events: E(n, name). */
#define SBT_TYPES(E)                                                                               \
	E(0, Unknown)                                                                              \
	E(1, KernelLaunch)                                                                         \
	E(2, KernelComplete)                                                                       \
	E(3, MemcpyH2D)                                                                            \
	E(4, MemcpyD2H)                                                                            \
	E(5, MemcpyD2D)                                                                            \
	E(6, MemsetDevice)                                                                         \
	E(7, StreamSync)                                                                           \
	E(8, DeviceSync)                                                                           \
	E(9, EventRecord)                                                                          \
	E(10, EventSync)                                                                           \
	E(11, StreamCreate)                                                                        \
	E(12, StreamDestroy)                                                                       \
	E(13, ContextCreate)                                                                       \
	E(14, ContextDestroy)                                                                      \
	E(15, MemAlloc)                                                                            \
	E(16, MemFree)                                                                             \
	E(17, Marker)                                                                              \
	E(18, RangeStart)                                                                          \
	E(19, RangeEnd)                                                                            \
	E(20, NCCLStart)                                                                           \
	E(21, NCCLComplete)                                                                        \
	E(255, Custom)
#define SBT_TYPE(n, name) SBT_##name = (n),
enum sbt_type { SBT_TYPES(SBT_TYPE) };

/* Columns of a GPU, in the order of their values. */
static const uint8_t sbt_device_columns[] = {
	COLUMN_device_compute_major,
	COLUMN_device_compute_minor,
	COLUMN_device_memory_bytes,
	COLUMN_device_memory_clock_khz,
	COLUMN_device_memory_bus_bits,
	COLUMN_device_multiprocessors,
	COLUMN_device_max_threads_per_multiprocessor,
	COLUMN_device_clock_khz,
	COLUMN_device_warp_size,
};

#endif
