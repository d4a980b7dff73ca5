/*
 * amd_reader.h: reads metrics of AMD's GPUs from the files of the kernel's driver (sysfs), without
 * a library. What a GPU has no file for is unavailable, with that reason. Expensive metrics are
 * read less often (pace.h). A GPU that sleeps is not read, since that would wake it.
 */
#ifndef PITOT_SYSTEM_AMD_READER_H
#define PITOT_SYSTEM_AMD_READER_H

#include "system/metrics.h"
#include "system/nvml.h"
#include "system/pace.h"
#include "vendor/amd/amd_cards.h"

#define AMD_METRICS_MAX 16u

struct amd_device {
	struct amd_card card;
	char hwmon[AMD_PATH_MAX]; /* folder of its sensors; "": none */
	bool lost; /* its files are gone */
	uint32_t absent; /* bit i: metric i of amd_reader.c's list is unavailable */
	struct pace paces[AMD_METRICS_MAX];
};

unsigned amd_device_count(void);
/* Initializes *d. Returns false if there are fewer GPUs. */
bool amd_device_open(struct amd_device *d, unsigned index);
void amd_describe(const struct amd_device *d, struct gpu_description *out);
void amd_device_read(struct amd_device *d, uint64_t now_ns, const struct metric_sink *sink);
/* Lists at most `max` processes that compute on the GPU, by amdkfd. Returns their number. */
unsigned amd_processes(const struct amd_device *d, struct nvml_process *out, unsigned max);

#endif
