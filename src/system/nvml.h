/*
 * nvml.h: reads GPUs through NVML (libnvidia-ml.so.1, found at run time).
 *
 * One thread at a time. NVML is never shut down: the process may be dying, and others in it may use
 * NVML. A metric whose function is missing, or that a GPU does not offer, is not asked for again.
 * What is expensive is read less often (pace.h).
 */
#ifndef PITOT_SYSTEM_NVML_H
#define PITOT_SYSTEM_NVML_H

#include "base/strbuf.h"
#include "system/metrics.h"
#include "system/nvml_api.h"
#include "system/pace.h"

#define NVML_DEVICES_MAX 64
#define NVML_GROUPS_MAX 24

/* How much is read of a GPU. */
enum nvml_choice { NVML_BASIC, NVML_ALL };

struct nvml_device {
	nvml_handle handle;
	bool lost; /* it fell off the bus: nothing is asked of it any more */
	uint64_t off; /* bit i: the metric with id METRIC_NVML_FIRST + i does not come */
	uint64_t seen; /* the same: it has come */
	struct pace paces[NVML_GROUPS_MAX];
	nvml_gpm_sample gpm[2]; /* the last one is gpm[1] */
	enum { GPM_UNKNOWN, GPM_FIRST, GPM_READY, GPM_OFF } gpm_state;
	bool watched; /* NVML reports its errors from now on, where it can */
};

/*
 * Loads and initializes the library; false: there is none that works, and *why has the reason.
 * Around NVML's calls `calls`.
 */
bool nvml_load(const struct metric_sink *calls, struct strbuf *why);

unsigned nvml_device_count(void);
/* *d is initialized. 0, or NVML's status, whose text nvml_status_text has. */
int nvml_device_by_pci(struct nvml_device *d, const char *pci, const struct metric_sink *calls);
int nvml_device_by_index(struct nvml_device *d, unsigned index);
/* Valid until the next call. */
const char *nvml_status_text(int status);

/*
 * Reads what is due at `now_ns` (any clock; the same in all calls) and hands it on. A GPU that is
 * lost has `lost` set from then on.
 */
void nvml_device_read(struct nvml_device *d, enum nvml_choice choice, uint64_t now_ns,
		      const struct metric_sink *sink);

/*
 * The next error that a driver reported of a device that was read with NVML_ALL, by its Xid number
 * (METRIC_gpu_xid). false: there is none; waits for nothing.
 */
bool nvml_next_event(nvml_handle *device, int64_t *xid);

/* What a device is; a text that is not known is "", a number 0. */
struct nvml_description {
	char name[96], uuid[96], pci[32];
	uint64_t memory_bytes;
	int compute_major, compute_minor, cuda_version;
	unsigned sm_clock_mhz, memory_clock_mhz;
};
void nvml_describe(const struct nvml_device *d, struct nvml_description *out);

/*
 * Processes with a compute context on the device, at most `max`. Returns how many; 0 also where
 * they are not known.
 */
unsigned nvml_processes(const struct nvml_device *d, struct nvml_process *out, unsigned max);

/*
 * A GPU that only NVML is asked about, as a row of table device; what NVML does not say is missing.
 */
struct writer;
void device_row_write(struct writer *w, uint32_t id, const struct nvml_description *is);

#endif
