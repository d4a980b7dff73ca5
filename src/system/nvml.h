/*
 * nvml.h: reads metrics of GPUs through NVML (libnvidia-ml.so.1, loaded at run time).
 *
 * To be used by one thread at a time. NVML is never shut down, because the process may be exiting,
 * and other code in it may use NVML. A metric whose function is missing, or that a GPU does not
 * support, is not requested again. Expensive metrics are read less often (pace.h).
 */
#ifndef PITOT_SYSTEM_NVML_H
#define PITOT_SYSTEM_NVML_H

#include "base/strbuf.h"
#include "schema/schema.h"
#include "system/metrics.h"
#include "system/nvml_api.h"
#include "system/pace.h"

#define NVML_DEVICES_MAX 64
#define NVML_GROUPS_MAX 24

/* Which metrics of a GPU are read. */
enum nvml_choice { NVML_BASIC, NVML_ALL };

struct nvml_device {
	nvml_handle handle;
	bool lost; /* it fell off the bus, and is not read any more */
	uint64_t absent; /* bit i: metric METRIC_GPU_FIRST + i is unavailable */
	uint64_t seen; /* likewise: it has had a value */
	struct pace paces[NVML_GROUPS_MAX];
	nvml_gpm_sample gpm[2]; /* the newer one is gpm[1] */
	enum { GPM_UNKNOWN, GPM_FIRST, GPM_READY, GPM_OFF } gpm_state;
	bool events_registered; /* registered for error events, where possible */
	bool read_last; /* nvml_device_read_last() will be called: sums need no early readings */
};

/*
 * Loads and initializes the library. Returns false, with the reason in *why, if that fails. Calls
 * the enter and leave functions of `calls`.
 */
bool nvml_load(const struct metric_sink *calls, struct strbuf *why);
/* Releases the GPUs after nvml_load, in a process in which nothing else uses NVML. */
void nvml_unload(void);

unsigned nvml_device_count(void);
/* Initializes *d. Returns 0, or a status of NVML (nvml_status_text()). */
int nvml_device_by_pci(struct nvml_device *d, const char *pci, const struct metric_sink *calls);
int nvml_device_by_index(struct nvml_device *d, unsigned index);
/* Valid until the next call. */
const char *nvml_status_text(int status);

/*
 * Reads the metrics that are due at `now_ns` (any clock, the same in all calls), and passes them to
 * `sink`. Sets `lost` if the GPU is lost.
 */
void nvml_device_read(struct nvml_device *d, enum nvml_choice choice, uint64_t now_ns,
		      const struct metric_sink *sink);

/* Reads the sums that are read seldom, at the end. */
void nvml_device_read_last(struct nvml_device *d, const struct metric_sink *sink);

/*
 * Returns the next error event of a device that was read with NVML_ALL, with its Xid number
 * (METRIC_gpu_xid). Returns false if there is none; never waits.
 */
bool nvml_next_event(nvml_handle *device, int64_t *xid);

/* Properties of a GPU; unknown: "" or 0. */
struct gpu_description {
	enum gpu_vendor vendor;
	char name[96], uuid[96], pci[32];
	uint64_t memory_bytes;
	int compute_major, compute_minor, cuda_version;
	unsigned sm_clock_mhz, memory_clock_mhz;
};
void nvml_describe(const struct nvml_device *d, struct gpu_description *out);

/* Lists at most `max` processes with a compute context. Returns their number; 0 if unknown. */
unsigned nvml_processes(const struct nvml_device *d, struct nvml_process *out, unsigned max);

#define NVML_LINKS_MAX 36u

/* An active NVLink. */
struct nvml_link {
	unsigned version; /* 0: unknown */
	bool to_switch;
	char pci[16]; /* of the other GPU, as Linux writes it; "": unknown */
};
/* Lists at most NVML_LINKS_MAX links. Returns their number. */
unsigned nvml_links(const struct nvml_device *d, struct nvml_link *out);
/* What is between two GPUs. */
enum topology_way nvml_way(const struct nvml_device *a, const struct nvml_device *b);

/*
 * Lists at most `max` processes that have worked since a time (CLOCK_REALTIME), one or several
 * times each. Returns their number, or -1 if the GPU does not tell.
 */
int nvml_process_use(const struct nvml_device *d, uint64_t since_ns, struct nvml_process_use *out,
		     unsigned max);

/* Writes a row of `device` with what is known; the rest is missing. */
struct writer;
void device_row_write(struct writer *w, uint32_t id, const struct gpu_description *d);

#endif
