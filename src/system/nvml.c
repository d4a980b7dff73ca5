/*
 * nvml.c: reads metrics in groups, each with one call where NVML allows that. The cost of a reading
 * differs by a factor of a thousand between functions (energy: 4 ms on an H100, during which the
 * driver spins; memory 65 us, utilization 47, the others 5 to 11: bench/results/h200-l.txt), so
 * each group has its own pace. NVML itself averages utilization over at least a sixth of a second.
 */
#include "system/nvml.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libnvidia-ml.so.1"
#define GROUP_MAX 11
#define COST_SHARE 10000u /* see pace.h */
#define PROCESSES_USUAL 48u /* of a GPU */
#define PROCESSES_MAX 65536u
#define PROCESSES_NEW 16u /* that may start between two calls */

static struct nvml nvml;
static nvml_events event_set;
static bool any_events; /* some device is registered for events */

struct value {
	int64_t value;
	int status;
};

/* Metrics that are read by one call: adjacent in the list of metrics. */
struct group {
	const char *name;
	uint32_t first, count; /* ids of metrics */
	bool all; /* read only with NVML_ALL */
	bool is_sum; /* a sum that is read seldom: the last reading covers the time since */
	uint64_t interval_ns;
	void (*read)(struct nvml_device *d, const struct group *g, struct value *out);
	struct query {
		unsigned id, scope, factor; /* field and scale factor; 0: 1 */
	} queries[GROUP_MAX];
};

/* --- single functions --- */

#define READER(name, function, type, call, ...)                                                    \
	static void name(struct nvml_device *d, const struct group *g, struct value *out)          \
	{                                                                                          \
		type v = { 0 };                                                                    \
		int status = nvml.function ? nvml.function call : NVML_FUNCTION_NOT_FOUND;         \
		const int64_t values[] = { __VA_ARGS__ };                                          \
                                                                                                   \
		for (uint32_t i = 0; i < g->count; i++)                                            \
			out[i] = (struct value){ values[i], status };                              \
	}

READER(read_utilization, DeviceGetUtilizationRates, struct nvml_utilization, (d->handle, &v), v.gpu,
       v.memory)
READER(read_sm_clock, DeviceGetClockInfo, unsigned, (d->handle, NVML_CLOCK_SM, &v), v)
READER(read_memory_clock, DeviceGetClockInfo, unsigned, (d->handle, NVML_CLOCK_MEMORY, &v), v)
READER(read_power, DeviceGetPowerUsage, unsigned, (d->handle, &v), v)
READER(read_temperature, DeviceGetTemperature, unsigned, (d->handle, NVML_TEMPERATURE_GPU, &v), v)
READER(read_used, DeviceGetMemoryInfo, struct nvml_memory, (d->handle, &v), (int64_t)v.used)
READER(read_energy, DeviceGetTotalEnergyConsumption, unsigned long long, (d->handle, &v),
       (int64_t)v)
READER(read_throttling, DeviceGetCurrentClocksThrottleReasons, unsigned long long, (d->handle, &v),
       (int64_t)v)
READER(read_limit, DeviceGetEnforcedPowerLimit, unsigned, (d->handle, &v), v)

/* Called without a buffer, NVML returns the number of processes. */
static void read_processes(struct nvml_device *d, const struct group *g, struct value *out)
{
	unsigned count = 0;
	int status = nvml.DeviceGetComputeRunningProcesses_v3
			     ? nvml.DeviceGetComputeRunningProcesses_v3(d->handle, &count, NULL)
			     : NVML_FUNCTION_NOT_FOUND;

	(void)g;
	*out = (struct value){ count, status == NVML_INSUFFICIENT_SIZE ? NVML_SUCCESS : status };
}

/* --- fields --- */

static int field_value(const struct nvml_field *f, int64_t *out)
{
	switch (f->type) {
	case NVML_TYPE_U32:
		*out = f->value.u32;
		return f->status;
	case NVML_TYPE_ULONG:
	case NVML_TYPE_U64:
	case NVML_TYPE_I64:
		*out = f->value.i64;
		return f->status;
	case NVML_TYPE_I32:
		*out = f->value.i32;
		return f->status;
	case NVML_TYPE_U16:
		*out = f->value.u16;
		return f->status;
	default: /* none of our fields is a floating-point number */
		return f->status ? f->status : NVML_NOT_SUPPORTED;
	}
}

static void read_fields(struct nvml_device *d, const struct group *g, struct value *out)
{
	struct nvml_field fields[GROUP_MAX] = { 0 };
	int status = NVML_FUNCTION_NOT_FOUND;

	for (uint32_t i = 0; i < g->count; i++) {
		fields[i].id = g->queries[i].id;
		fields[i].scope = g->queries[i].scope;
	}
	if (nvml.DeviceGetFieldValues)
		status = nvml.DeviceGetFieldValues(d->handle, (int)g->count, fields);
	for (uint32_t i = 0; i < g->count; i++) {
		out[i].status = status ? status : field_value(&fields[i], &out[i].value);
		out[i].value *= MAX(g->queries[i].factor, 1u);
	}
}

/* --- GPU performance monitoring --- */

static int gpm_start(struct nvml_device *d)
{
	struct nvml_gpm_support support = { .version = NVML_GPM_VERSION };
	unsigned mig = 0, pending;
	int status;

	if (!nvml.GpmQueryDeviceSupport || !nvml.GpmSampleAlloc || !nvml.GpmSampleGet ||
	    !nvml.GpmMetricsGet)
		return NVML_FUNCTION_NOT_FOUND;
	/* A GPU in MIG mode has values for its instances only. */
	if (nvml.DeviceGetMigMode)
		nvml.DeviceGetMigMode(d->handle, &mig, &pending);
	status = mig ? NVML_NOT_SUPPORTED : nvml.GpmQueryDeviceSupport(d->handle, &support);
	if (!status && !support.supported)
		status = NVML_NOT_SUPPORTED;
	for (unsigned i = 0; i < 2 && !status; i++)
		status = nvml.GpmSampleAlloc(&d->gpm[i]);
	return status;
}

/* Takes a sample. A value covers the time between two samples, so the first reading has none. */
static int gpm_sample(struct nvml_device *d)
{
	nvml_gpm_sample oldest = d->gpm[0];
	int status = d->gpm_state == GPM_UNKNOWN ? gpm_start(d) : NVML_SUCCESS;

	if (d->gpm_state == GPM_UNKNOWN)
		d->gpm_state = status ? GPM_OFF : GPM_FIRST;
	if (status)
		return status;
	oldest = d->gpm[0];
	status = nvml.GpmSampleGet(d->handle, oldest);
	if (status)
		return status;
	d->gpm[0] = d->gpm[1];
	d->gpm[1] = oldest;
	if (d->gpm_state == GPM_READY)
		return NVML_SUCCESS;
	d->gpm_state = GPM_READY;
	return NVML_TIMEOUT;
}

static void read_gpm(struct nvml_device *d, const struct group *g, struct value *out)
{
	struct nvml_gpm_metrics m = { .version = NVML_GPM_VERSION, .count = g->count };
	int status = gpm_sample(d);

	m.samples[0] = d->gpm[0];
	m.samples[1] = d->gpm[1];
	for (uint32_t i = 0; i < g->count; i++)
		m.metrics[i].id = g->queries[i].id;
	if (!status)
		status = nvml.GpmMetricsGet(&m);
	for (uint32_t i = 0; i < g->count; i++) {
		double v = m.metrics[i].value;

		out[i].status = status ? status : m.metrics[i].status;
		if (!out[i].status && !(v >= 0 && v <= 1e6)) /* NaN, or out of range */
			out[i].status = NVML_TIMEOUT;
		else if (!out[i].status)
			out[i].value = (int64_t)(v * 10 + 0.5);
	}
}

/* --- the groups --- */

#define ONE(name, reader, ...)                                                                     \
	{                                                                                          \
		"NVML's " #name, METRIC_gpu_##name, 1, .read = reader, __VA_ARGS__                 \
	}
#define EVERY_MS(n) .interval_ns = (n)*NS_PER_MS
#define EVERY_S(n) .interval_ns = (n)*NS_PER_S
#define KIB 1024
/* clang-format off */
static const struct group groups[] = {
	{ "NVML's utilization", METRIC_gpu_utilization, 2, EVERY_MS(250), .read = read_utilization },
	ONE(sm_clock, read_sm_clock),
	ONE(memory_clock, read_memory_clock, EVERY_MS(500)),
	ONE(power, read_power),
	ONE(temperature, read_temperature, EVERY_MS(500)),
	ONE(memory_used, read_used, EVERY_MS(250)),
	ONE(energy, read_energy, EVERY_S(20), .is_sum = true),
	ONE(throttle_reasons, read_throttling),
	ONE(power_limit, read_limit, EVERY_S(10), .all = true),
	{ "NVML's memory temperature, PCIe and NVLink", METRIC_gpu_memory_temperature, 5, EVERY_S(1),
	  .all = true, .read = read_fields,
	  .queries = { { NVML_FIELD_MEMORY_TEMPERATURE },
			 { NVML_FIELD_PCIE_SENT }, { NVML_FIELD_PCIE_RECEIVED },
			 { NVML_FIELD_NVLINK_SENT, NVML_SCOPE_ALL_LINKS, KIB },
			 { NVML_FIELD_NVLINK_RECEIVED, NVML_SCOPE_ALL_LINKS, KIB } } },
	{ "NVML's limits and errors", METRIC_gpu_limited_by_power, 11, EVERY_S(10),
	  .all = true, .is_sum = true, .read = read_fields,
	  .queries = { { NVML_FIELD_LIMITED_BY_POWER }, { NVML_FIELD_LIMITED_BY_TEMPERATURE },
			 { NVML_FIELD_LIMITED_BY_SYNC_BOOST }, { NVML_FIELD_LIMITED_BY_BOARD },
			 { NVML_FIELD_LIMITED_BY_RELIABILITY },
			 { NVML_FIELD_ECC_CORRECTED }, { NVML_FIELD_ECC_UNCORRECTED },
			 { NVML_FIELD_RETIRED_CORRECTED }, { NVML_FIELD_RETIRED_UNCORRECTED },
			 { NVML_FIELD_REMAPPED_CORRECTED }, { NVML_FIELD_REMAPPED_UNCORRECTED } } },
	ONE(processes, read_processes, EVERY_S(1), .all = true),
	{ "NVML's GPM", METRIC_gpu_sm_active, 8, .all = true, .read = read_gpm,
	  .queries = { { NVML_GPM_SM_ACTIVE }, { NVML_GPM_SM_OCCUPANCY }, { NVML_GPM_TENSOR_ACTIVE },
			 { NVML_GPM_FP64_ACTIVE }, { NVML_GPM_FP32_ACTIVE }, { NVML_GPM_FP16_ACTIVE },
			 { NVML_GPM_INTEGER_ACTIVE }, { NVML_GPM_DRAM_ACTIVE } } },
};
/* clang-format on */
_Static_assert(ARRAY_SIZE(groups) <= NVML_GROUPS_MAX,
	       "each group has a pace in struct nvml_device");
_Static_assert(METRIC_GPU_END - METRIC_GPU_FIRST <= 64, "bits of nvml_device.off");

static uint64_t bit_of(uint32_t id)
{
	return UINT64_C(1) << (id - METRIC_GPU_FIRST);
}

/* Whether none of the group's metrics is available. */
static bool is_absent(const struct nvml_device *d, const struct group *g)
{
	uint64_t bits = ((UINT64_C(1) << g->count) - 1) * bit_of(g->first);

	return (d->absent & bits) == bits;
}

static bool is_permanent(int status)
{
	return status == NVML_INVALID_ARGUMENT || status == NVML_NOT_SUPPORTED ||
	       status == NVML_NO_PERMISSION || status == NVML_FUNCTION_NOT_FOUND ||
	       status == NVML_DEPRECATED;
}

static void emit_value(struct nvml_device *d, uint32_t id, uint64_t time_ns, const struct value *v,
		       const struct metric_sink *sink)
{
	if (d->absent & bit_of(id))
		return;
	if (v->status == NVML_SUCCESS) {
		d->seen |= bit_of(id);
		sink->value(sink->user, id, time_ns, v->value);
	} else if (is_permanent(v->status)) {
		d->absent |= bit_of(id);
		if (sink->absent)
			sink->absent(sink->user, id, nvml_status_text(v->status));
	}
}

static void read_group(struct nvml_device *d, const struct group *g, struct pace *pace,
		       const struct metric_sink *sink)
{
	uint64_t time_ns = clock_monotonic_ns();
	uint64_t cpu_ns = g->all ? clock_read_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
	struct value values[GROUP_MAX] = { 0 };

	if (sink->enter)
		sink->enter(g->name);
	g->read(d, g, values);
	if (sink->leave)
		sink->leave();
	if (g->all) /* the others are few, known to be cheap, and read at the requested rate */
		pace_add(pace, clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns, COST_SHARE);
	for (uint32_t i = 0; i < g->count; i++) {
		d->lost |= values[i].status == NVML_GPU_IS_LOST;
		emit_value(d, g->first + i, time_ns, &values[i], sink);
	}
}

/* --- errors --- */

static void register_events(struct nvml_device *d)
{
	d->events_registered = true;
	if (!nvml.EventSetCreate || !nvml.DeviceRegisterEvents || !nvml.EventSetWait_v2 ||
	    (!event_set && nvml.EventSetCreate(&event_set) != NVML_SUCCESS))
		return;
	any_events |=
		nvml.DeviceRegisterEvents(d->handle, NVML_EVENT_XID, event_set) == NVML_SUCCESS;
}

bool nvml_next_event(nvml_handle *device, int64_t *xid)
{
	struct nvml_event event = { 0 };

	if (!any_events || nvml.EventSetWait_v2(event_set, &event, 0) != NVML_SUCCESS ||
	    !(event.type & NVML_EVENT_XID))
		return false;
	*device = event.device;
	*xid = (int64_t)event.data;
	return true;
}

/* Two readings of a sum give a rate; if there is one at the end, that is enough. */
static bool is_due(const struct nvml_device *d, const struct group *g, struct pace *p,
		   uint64_t now_ns)
{
	if (!d->read_last || !g->is_sum)
		return pace_is_due(p, g->interval_ns, now_ns);
	return pace_is_due_after(p, p->last_ns == p->first_ns ? NS_PER_S : g->interval_ns, now_ns);
}

void nvml_device_read(struct nvml_device *d, enum nvml_choice choice, uint64_t now_ns,
		      const struct metric_sink *sink)
{
	if (!d->events_registered) {
		if (sink->enter)
			sink->enter("nvmlDeviceRegisterEvents");
		register_events(d);
		if (sink->leave)
			sink->leave();
	}
	for (size_t i = 0; i < ARRAY_SIZE(groups) && !d->lost; i++) {
		const struct group *g = &groups[i];

		if ((g->all && choice == NVML_BASIC) || is_absent(d, g) ||
		    !is_due(d, g, &d->paces[i], now_ns))
			continue;
		read_group(d, g, &d->paces[i], sink);
	}
}

void nvml_device_read_last(struct nvml_device *d, const struct metric_sink *sink)
{
	for (size_t i = 0; i < ARRAY_SIZE(groups) && !d->lost; i++)
		if (groups[i].is_sum && !is_absent(d, &groups[i]))
			read_group(d, &groups[i], &d->paces[i], sink);
}

/* --- loading, devices --- */

const char *nvml_status_text(int status)
{
	static char number[32];

	switch (status) {
	case NVML_INVALID_ARGUMENT:
		return "invalid argument";
	case NVML_NOT_SUPPORTED:
	case NVML_DEPRECATED:
		return "not supported";
	case NVML_NO_PERMISSION:
		return "no permission";
	case NVML_NOT_FOUND:
		return "not found";
	case NVML_DRIVER_NOT_LOADED:
		return "driver not loaded";
	case NVML_FUNCTION_NOT_FOUND:
		return "function not found";
	case NVML_GPU_IS_LOST:
		return "the GPU is lost";
	case NVML_VERSION_MISMATCH:
		return "the driver and its library have different versions";
	default:
		snprintf(number, sizeof(number), "status %d", status);
		return number;
	}
}

bool nvml_load(const struct metric_sink *calls, struct strbuf *why)
{
	void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL);
	int status;

	event_set = NULL;
	any_events = false;
	if (!library) {
		strbuf_adds(why, LIBRARY " cannot be loaded; it comes with NVIDIA's driver");
		return false;
	}
#define F(name, ...) *(void **)&nvml.name = dlsym(library, "nvml" #name);
	NVML_FUNCTIONS(F)
#undef F
	if (!nvml.Init_v2 || !nvml.DeviceGetHandleByPciBusId_v2) {
		strbuf_adds(why, LIBRARY " lacks nvmlInit_v2 or nvmlDeviceGetHandleByPciBusId_v2");
		return false;
	}
	if (calls->enter)
		calls->enter("nvmlInit_v2");
	status = nvml.Init_v2();
	if (calls->leave)
		calls->leave();
	if (status != NVML_SUCCESS)
		strbuf_addf(why, "nvmlInit_v2 failed: %s", nvml_status_text(status));
	return status == NVML_SUCCESS;
}

void nvml_unload(void)
{
	if (nvml.Shutdown)
		nvml.Shutdown();
}

unsigned nvml_device_count(void)
{
	unsigned count = 0;

	if (!nvml.DeviceGetCount_v2 || nvml.DeviceGetCount_v2(&count) != NVML_SUCCESS)
		return 0;
	return MIN(count, (unsigned)NVML_DEVICES_MAX);
}

int nvml_device_by_pci(struct nvml_device *d, const char *pci, const struct metric_sink *calls)
{
	int status;

	*d = (struct nvml_device){ 0 };
	if (calls->enter)
		calls->enter("nvmlDeviceGetHandleByPciBusId_v2");
	status = nvml.DeviceGetHandleByPciBusId_v2(pci, &d->handle);
	if (calls->leave)
		calls->leave();
	return status;
}

int nvml_device_by_index(struct nvml_device *d, unsigned index)
{
	*d = (struct nvml_device){ 0 };
	if (!nvml.DeviceGetHandleByIndex_v2)
		return NVML_FUNCTION_NOT_FOUND;
	return nvml.DeviceGetHandleByIndex_v2(index, &d->handle);
}

/* Converts to CUDA's format: "00000000:1A:00.0" to "0000:1a:00.0". */
static void copy_pci(char to[32], const char *id)
{
	size_t length = strnlen(id, 31);

	if (length == strlen("00000000:1A:00.0") && strncmp(id, "0000", 4) == 0) {
		id += 4;
		length -= 4;
	}
	for (size_t i = 0; i < length; i++)
		to[i] = (char)tolower((unsigned char)id[i]);
	to[length] = '\0';
}

void nvml_describe(const struct nvml_device *d, struct gpu_description *out)
{
	struct nvml_memory memory = { 0 };
	struct nvml_pci pci = { 0 };

	*out = (struct gpu_description){ .vendor = gpu_vendor_nvidia };
#define ASK(function, ...) (void)(nvml.function && nvml.function(__VA_ARGS__))
	ASK(DeviceGetName, d->handle, out->name, sizeof(out->name));
	ASK(DeviceGetUUID, d->handle, out->uuid, sizeof(out->uuid));
	ASK(DeviceGetPciInfo_v3, d->handle, &pci);
	ASK(DeviceGetMemoryInfo, d->handle, &memory);
	ASK(DeviceGetCudaComputeCapability, d->handle, &out->compute_major, &out->compute_minor);
	ASK(DeviceGetMaxClockInfo, d->handle, NVML_CLOCK_SM, &out->sm_clock_mhz);
	ASK(DeviceGetMaxClockInfo, d->handle, NVML_CLOCK_MEMORY, &out->memory_clock_mhz);
	ASK(SystemGetCudaDriverVersion_v2, &out->cuda_version);
#undef ASK
	copy_pci(out->pci, pci.id);
	out->name[sizeof(out->name) - 1] = out->uuid[sizeof(out->uuid) - 1] = '\0';
	out->memory_bytes = memory.total;
}

unsigned nvml_processes(const struct nvml_device *d, struct nvml_process *out, unsigned max)
{
	unsigned count = PROCESSES_USUAL;
	int status = NVML_INSUFFICIENT_SIZE;

	if (!nvml.DeviceGetComputeRunningProcesses_v3 || d->lost)
		return 0;
	/* NVML lists all processes or none: if there is no room, `count` has their number. */
	for (int i = 0; i < 2 && status == NVML_INSUFFICIENT_SIZE; i++) {
		unsigned room = MIN(count, PROCESSES_MAX) + PROCESSES_NEW;
		_cleanup_free_ struct nvml_process *all = calloc(room, sizeof(*all));

		if (!all)
			return 0;
		count = room;
		status = nvml.DeviceGetComputeRunningProcesses_v3(d->handle, &count, all);
		if (status == NVML_SUCCESS)
			memcpy(out, all, MIN(count, max) * sizeof(*all));
	}
	return status == NVML_SUCCESS ? MIN(count, max) : 0;
}

unsigned nvml_links(const struct nvml_device *d, struct nvml_link *out)
{
	unsigned count = 0;

	for (unsigned link = 0; link < NVML_LINKS_MAX && nvml.DeviceGetNvLinkState; link++) {
		struct nvml_link *l = &out[count];
		struct nvml_pci pci = { 0 };
		unsigned active = 0;
		int type = NVML_REMOTE_GPU;

		if (nvml.DeviceGetNvLinkState(d->handle, link, &active) != NVML_SUCCESS || !active)
			continue;
		*l = (struct nvml_link){ 0 };
		if (nvml.DeviceGetNvLinkVersion &&
		    nvml.DeviceGetNvLinkVersion(d->handle, link, &l->version) != NVML_SUCCESS)
			l->version = 0;
		l->to_switch = nvml.DeviceGetNvLinkRemoteDeviceType &&
			       nvml.DeviceGetNvLinkRemoteDeviceType(d->handle, link, &type) ==
				       NVML_SUCCESS &&
			       type == NVML_REMOTE_SWITCH;
		if (nvml.DeviceGetNvLinkRemotePciInfo_v2 &&
		    nvml.DeviceGetNvLinkRemotePciInfo_v2(d->handle, link, &pci) == NVML_SUCCESS)
			snprintf(l->pci, sizeof(l->pci), "%04x:%02x:%02x.0", pci.domain & 0xffffff,
				 pci.bus & 0xff, pci.device & 0xff);
		count++;
	}
	return count;
}

enum topology_way nvml_way(const struct nvml_device *a, const struct nvml_device *b)
{
	static const struct {
		int level;
		enum topology_way way;
	} ways[] = {
		{ 0, topology_way_internal }, { 10, topology_way_pix },  { 20, topology_way_pxb },
		{ 30, topology_way_phb },     { 40, topology_way_node }, { 50, topology_way_sys },
	};
	int level;

	if (!nvml.DeviceGetTopologyCommonAncestor ||
	    nvml.DeviceGetTopologyCommonAncestor(a->handle, b->handle, &level) != NVML_SUCCESS)
		return topology_way_unknown;
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
		if (ways[i].level == level)
			return ways[i].way;
	return topology_way_unknown;
}

int nvml_process_use(const struct nvml_device *d, uint64_t since_ns, struct nvml_process_use *out,
		     unsigned max)
{
	unsigned count = max;
	int status;

	if (!nvml.DeviceGetProcessUtilization || d->lost)
		return -1;
	status = nvml.DeviceGetProcessUtilization(d->handle, out, &count, since_ns / NS_PER_US);
	if (status == NVML_NOT_FOUND) /* nobody has worked */
		return 0;
	return status == NVML_SUCCESS ? (int)MIN(count, max) : -1;
}
