#include "capture/nvml/nvml_gpus.h"

#include <stdio.h>
#include <string.h>

#include "capture/core/capability_notes.h"
#include "capture/counters/counters_shared.h"
#include "capture/cuda/devices.h"
#include "capture/core/vendor_thread.h"
#include "system/nvml.h"

#define EVENTS_MAX 16u /* per round */

static struct {
	enum { WANTED, READY, OFF } state; /* of the library */
	uint64_t written; /* metrics that the capability row names, as bits */
	unsigned notes; /* number of capability notes so far */
	struct strbuf *why; /* reasons found in this round */
	enum { UNKNOWN, FOUND, LOST, TAKEN } states[NVML_DEVICES_MAX];
	struct nvml_device devices[NVML_DEVICES_MAX];
	struct counters_lock locks[NVML_DEVICES_MAX];
	/* All GPUs of the machine by NVML's index; written before the first reading is pushed. */
	struct gpu_description known[NVML_DEVICES_MAX];
	bool is_listed;
} self;

static void push(void *user, uint32_t id, uint64_t time_ns, int64_t value)
{
	counters_push(id, (uint32_t)(uintptr_t)user, time_ns, value);
}

static void note_absent(void *user, uint32_t id, const char *why)
{
	char whose[32];

	snprintf(whose, sizeof(whose), "device %u has no ", (unsigned)(uintptr_t)user);
	metric_add_absent(self.why, whose, id, why);
}

static void add_reason(uint32_t ordinal, const char *pci, const char *why)
{
	strbuf_addf(self.why, "%sdevice %u (%s): %s", self.why->length ? "; " : "", ordinal, pci,
		    why);
}

static struct metric_sink sink_of(uint32_t ordinal)
{
	return (struct metric_sink){ .user = (void *)(uintptr_t)ordinal,
				     .enter = vendor_enter,
				     .leave = vendor_leave,
				     .value = push,
				     .absent = note_absent };
}

static void list_all(void)
{
	unsigned count = nvml_device_count();
	struct nvml_device d;

	self.is_listed = true;
	vendor_enter("nvmlDeviceGetHandleByIndex_v2");
	for (unsigned i = 0; i < count; i++)
		if (nvml_device_by_index(&d, i) == NVML_SUCCESS)
			nvml_describe(&d, &self.known[i]);
	vendor_leave();
}

/* CUDA's ordinals take precedence if they are known. */
static const char *pci_of(uint32_t ordinal)
{
	const char *pci = devices_pci(ordinal);

	return pci || !self.known[ordinal].pci[0] ? pci : self.known[ordinal].pci;
}

void nvml_gpus_write(struct writer *w, uint32_t ordinal)
{
	if (ordinal < NVML_DEVICES_MAX && self.known[ordinal].pci[0] && !devices_pci(ordinal))
		device_row_write(w, ordinal, &self.known[ordinal]);
}

/*
 * A device that NVML does not know is not looked up again; a device that another process reads is,
 * because that process may have ended.
 */
static bool find(uint32_t ordinal, const char *directory, const char *pci)
{
	const struct metric_sink calls = sink_of(ordinal);
	int status;

	if (self.states[ordinal] == FOUND || self.states[ordinal] == LOST)
		return self.states[ordinal] == FOUND;
	if (!counters_lock(self.locks, NVML_DEVICES_MAX, ordinal, directory, pci)) {
		self.states[ordinal] = TAKEN;
		return false;
	}
	status = nvml_device_by_pci(&self.devices[ordinal], pci, &calls);
	self.states[ordinal] = status == NVML_SUCCESS ? FOUND : LOST;
	if (status != NVML_SUCCESS)
		add_reason(ordinal, pci, nvml_status_text(status));
	else if (devices_is_part(ordinal))
		add_reason(ordinal, pci, "a part of a GPU (MIG); readings are of the whole GPU");
	return self.states[ordinal] == FOUND;
}

static void read_gpu(uint32_t ordinal, const char *pci, enum nvml_choice choice, uint64_t now_ns)
{
	const struct metric_sink sink = sink_of(ordinal);
	struct nvml_device *d = &self.devices[ordinal];

	nvml_device_read(d, choice, now_ns, &sink);
	if (!d->lost)
		return;
	self.states[ordinal] = LOST;
	counters_push(METRIC_gpu_lost, ordinal, clock_monotonic_ns(), 1);
	add_reason(ordinal, pci, nvml_status_text(NVML_GPU_IS_LOST));
}

/* Notes the available metrics and why others are missing; repeated when more becomes known. */
static void write_capability(uint64_t seen)
{
	/* Must stay valid for the collector; written two or three times in total, in turn. */
	static char texts[2][2048];
	char *actual = texts[self.notes++ % 2];
	enum capability_state state = capability_state_on;
	char room[METRIC_NAME_MAX];
	size_t n = 0;

	for (uint32_t id = METRIC_GPU_FIRST; id < METRIC_GPU_END; id++)
		if (seen >> (id - METRIC_GPU_FIRST) & 1)
			n += (size_t)snprintf(actual + n, sizeof(texts[0]) - n, "%s%s",
					      n ? ", " : "", metric_name(id, room));
	if (!n)
		state = capability_state_unavailable;
	else if (self.why->length)
		state = capability_state_degraded;
	capability_note(feature_nvml, state, NULL, n ? actual : NULL, "%s", strbuf_text(self.why));
	self.written = seen;
}

static void read_events(void)
{
	nvml_handle handle;
	int64_t xid;

	vendor_enter("nvmlEventSetWait_v2");
	for (unsigned n = 0; n < EVENTS_MAX && nvml_next_event(&handle, &xid); n++)
		for (uint32_t i = 0; i < NVML_DEVICES_MAX; i++)
			if (self.devices[i].handle == handle)
				counters_push(METRIC_gpu_xid, i, clock_monotonic_ns(), xid);
	vendor_leave();
}

bool nvml_gpus_read(enum nvml_choice choice, bool all, const char *directory, uint64_t now_ns)
{
	_cleanup_strbuf_ struct strbuf why = STRBUF_INIT;
	const struct metric_sink sink = sink_of(0);
	uint64_t seen = 0;

	self.why = &why;
	if (all && self.state == WANTED)
		self.state = nvml_load(&sink, &why) ? READY : OFF;
	if (all && self.state == READY && !self.is_listed)
		list_all();
	for (uint32_t i = 0; i < NVML_DEVICES_MAX && self.state != OFF; i++) {
		const char *pci = pci_of(i);

		if (!pci)
			continue;
		if (self.state == WANTED)
			self.state = nvml_load(&sink, &why) ? READY : OFF;
		if (self.state == READY && find(i, directory, pci))
			read_gpu(i, pci, choice, now_ns);
		seen |= self.devices[i].seen;
	}
	if (self.state == READY)
		read_events();
	if (why.length || seen != self.written)
		write_capability(seen);
	return self.state != OFF;
}

void nvml_gpus_after_fork(void)
{
	counters_unlock(self.locks, NVML_DEVICES_MAX);
	memset(&self, 0, sizeof(self));
}
