/*
 * gpu_readers.h: reads the metrics of the GPUs of all vendors, each through a struct gpu_reader.
 *
 * To be used by one thread at a time. A metric that a GPU does not have is not requested again.
 */
#ifndef PITOT_SYSTEM_GPU_READERS_H
#define PITOT_SYSTEM_GPU_READERS_H

#include "system/amd_reader.h"
#include "system/nvml.h"

struct gpu_device {
	const struct gpu_reader *reader;
	bool lost; /* it cannot be read any more */
	union {
		struct nvml_device nvml;
		struct amd_device amd;
	} is;
};

struct gpu_reader {
	/* Returns the number of GPUs; 0: *why tells the reason if the vendor's driver is there. */
	unsigned (*find)(const struct metric_sink *calls, struct strbuf *why);
	/* Opens a GPU for readings at many times. Returns NULL, or why it cannot be opened. */
	const char *(*open)(struct gpu_device *d, unsigned index);
	void (*describe)(const struct gpu_device *d, struct gpu_description *out);
	/* Reads what is due; all the rest as in nvml.h. */
	void (*read)(struct gpu_device *d, uint64_t now_ns, const struct metric_sink *sink);
	void (*read_last)(struct gpu_device *d, const struct metric_sink *sink); /* or NULL */
	unsigned (*processes)(const struct gpu_device *d, struct nvml_process *out, unsigned max);
	/* As nvml_process_use(); or NULL. */
	int (*process_use)(const struct gpu_device *d, uint64_t since_ns,
			   struct nvml_process_use *out, unsigned max);
};

#define GPU_READERS 2u
extern const struct gpu_reader *const gpu_readers[GPU_READERS];

#endif
