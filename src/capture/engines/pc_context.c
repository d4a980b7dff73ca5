#include "capture/engines/pc_context.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "capture/cuda/records.h"
#include "capture/core/log.h"
#include "capture/core/vendor_thread.h"

#define SCRATCH_BYTES ((size_t)4 << 20)
#define SMALL_HARDWARE_BYTES ((size_t)64 << 20)
#define CALLS_MAX 64u /* of GetData per reading */
#define NOT_ISSUED "_not_issued"

#define PARAMETERS(type, ...)                                                                      \
	{                                                                                          \
		.size = CUpti_PCSampling##type##ParamsSize, __VA_ARGS__                            \
	}

/* --- setting up --- */

static void find_twins(struct pc_context *c)
{
	size_t suffix = strlen(NOT_ISSUED);

	for (size_t i = 0; i < PC_REASONS_MAX; i++) {
		size_t length = c->reasons[i] ? strlen(c->reasons[i]) : 0;

		if (length <= suffix || strcmp(c->reasons[i] + length - suffix, NOT_ISSUED) != 0)
			continue;
		for (size_t k = 0; k < PC_REASONS_MAX; k++)
			if (c->reasons[k] && strlen(c->reasons[k]) == length - suffix &&
			    memcmp(c->reasons[k], c->reasons[i], length - suffix) == 0)
				c->twins[i] = c->reasons[k];
	}
}

static CUptiResult name_reasons(struct pc_context *c, const struct cupti *cupti, size_t count)
{
	_cleanup_free_ char **texts = calloc(count, sizeof(*texts));
	_cleanup_free_ char *room = calloc(count, CUPTI_STALL_REASON_STRING_SIZE);
	CUpti_PCSamplingGetStallReasonsParams p =
		PARAMETERS(GetStallReasons, .ctx = c->handle, .numStallReasons = count,
			   .stallReasonIndex = c->indices, .stallReasons = texts);
	CUptiResult result;

	if (!texts || !room)
		return CUPTI_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < count; i++)
		texts[i] = room + i * CUPTI_STALL_REASON_STRING_SIZE;
	result = cupti->PCSamplingGetStallReasons(&p);
	for (size_t i = 0; result == CUPTI_SUCCESS && i < count; i++) {
		texts[i][CUPTI_STALL_REASON_STRING_SIZE - 1] = '\0';
		if (c->indices[i] < PC_REASONS_MAX)
			c->reasons[c->indices[i]] = pc_text(texts[i]);
	}
	if (result == CUPTI_SUCCESS) {
		c->reason_count = count;
		find_twins(c);
	}
	return result;
}

static CUptiResult find_reasons(struct pc_context *c, const struct cupti *cupti,
				const char **function)
{
	size_t count = 0;
	CUpti_PCSamplingGetNumStallReasonsParams p =
		PARAMETERS(GetNumStallReasons, .ctx = c->handle, .numStallReasons = &count);
	CUptiResult result;

	*function = "cuptiPCSamplingGetNumStallReasons";
	result = cupti->PCSamplingGetNumStallReasons(&p);
	if (result != CUPTI_SUCCESS)
		return result;
	if (count == 0 || count > PC_REASONS_MAX)
		return CUPTI_ERROR_NOT_SUPPORTED;
	*function = "cuptiPCSamplingGetStallReasons";
	return name_reasons(c, cupti, count);
}

static void point(CUpti_PCSamplingData *d, uint8_t *memory, size_t reasons)
{
	CUpti_PCSamplingPCData *pcs = (void *)memory;
	CUpti_PCSamplingStallReason *stalls = (void *)(pcs + PC_PCS);

	*d = (CUpti_PCSamplingData){ .size = sizeof(*d), .collectNumPcs = PC_PCS, .pPcData = pcs };
	for (size_t i = 0; i < PC_PCS; i++) {
		pcs[i].size = sizeof(pcs[i]);
		pcs[i].stallReason = stalls + i * reasons;
	}
}

static bool allocate(struct pc_context *c)
{
	size_t one = PC_PCS * (sizeof(CUpti_PCSamplingPCData) +
			       c->reason_count * sizeof(CUpti_PCSamplingStallReason));

	if (!c->memory)
		c->memory = calloc(2, one);
	if (!c->memory)
		return false;
	point(&c->now, c->memory, c->reason_count);
	point(&c->rest, (uint8_t *)c->memory + one, c->reason_count);
	return true;
}

#define ATTRIBUTE(name) CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_##name

/* `small`: the GPU's buffer is smaller than CUPTI's default. */
static CUptiResult configure(struct pc_context *c, const struct cupti *cupti, unsigned exponent,
			     bool small)
{
	CUpti_PCSamplingConfigurationInfo info[6] = {
		{ .attributeType = ATTRIBUTE(STALL_REASON),
		  .attributeData.stallReasonData = { c->reason_count, c->indices } },
		{ .attributeType = ATTRIBUTE(COLLECTION_MODE),
		  .attributeData
			  .collectionModeData = { CUPTI_PC_SAMPLING_COLLECTION_MODE_CONTINUOUS } },
		{ .attributeType = ATTRIBUTE(SAMPLING_DATA_BUFFER),
		  .attributeData.samplingDataBufferData = { &c->rest } },
		{ .attributeType = ATTRIBUTE(SCRATCH_BUFFER_SIZE),
		  .attributeData.scratchBufferSizeData = { SCRATCH_BYTES } },
		{ .attributeType = ATTRIBUTE(SAMPLING_PERIOD),
		  .attributeData.samplingPeriodData = { exponent } },
	};
	CUpti_PCSamplingConfigurationInfoParams p = {
		.size = CUpti_PCSamplingConfigurationInfoParamsSize,
		.ctx = c->handle,
		.numAttributes = 5,
		.pPCSamplingConfigurationInfo = info,
	};

	if (small) {
		info[p.numAttributes].attributeType = ATTRIBUTE(HARDWARE_BUFFER_SIZE);
		info[p.numAttributes++].attributeData.hardwareBufferSizeData.hardwareBufferSize =
			SMALL_HARDWARE_BYTES;
	}
	return cupti->PCSamplingSetConfigurationAttribute(&p);
}

static void read_period(struct pc_context *c, const struct cupti *cupti)
{
	CUpti_PCSamplingConfigurationInfo info = { .attributeType = ATTRIBUTE(SAMPLING_PERIOD) };
	CUpti_PCSamplingConfigurationInfoParams p = {
		.size = CUpti_PCSamplingConfigurationInfoParamsSize,
		.ctx = c->handle,
		.numAttributes = 1,
		.pPCSamplingConfigurationInfo = &info,
	};
	uint32_t exponent;

	if (cupti->PCSamplingGetConfigurationAttribute(&p) != CUPTI_SUCCESS)
		return;
	exponent = info.attributeData.samplingPeriodData.samplingPeriod;
	if (exponent && exponent < 64)
		c->period_cycles = UINT64_C(1) << exponent;
}

static void disable(struct pc_context *c, const struct cupti *cupti)
{
	CUpti_PCSamplingDisableParams p = PARAMETERS(Disable, .ctx = c->handle);

	cupti->PCSamplingDisable(&p);
}

static CUptiResult set_up(struct pc_context *c, const struct cupti *cupti, unsigned exponent,
			  const char **function)
{
	CUptiResult result = find_reasons(c, cupti, function);

	if (result != CUPTI_SUCCESS)
		return result;
	*function = "cuptiPCSamplingSetConfigurationAttribute";
	if (!allocate(c))
		return CUPTI_ERROR_OUT_OF_MEMORY;
	result = configure(c, cupti, exponent, false);
	return result == CUPTI_ERROR_OUT_OF_MEMORY ? configure(c, cupti, exponent, true) : result;
}

CUptiResult pc_context_start(struct pc_context *c, const struct cupti *cupti, unsigned exponent,
			     const char **function)
{
	CUpti_PCSamplingEnableParams p = PARAMETERS(Enable, .ctx = c->handle);
	CUptiResult result;

	*function = "cuptiPCSamplingEnable";
	result = cupti->PCSamplingEnable(&p);
	if (result != CUPTI_SUCCESS)
		return result;
	result = set_up(c, cupti, exponent, function);
	if (result == CUPTI_SUCCESS)
		read_period(c, cupti);
	else
		disable(c, cupti);
	c->since_ns = clock_monotonic_ns();
	return result;
}

/* --- readings --- */

static void add_sample(struct pc_context *c, const CUpti_PCSamplingPCData *pc, const char *function,
		       const char *reason, uint64_t samples)
{
	const struct pc_sample s = { .crc = pc->cubinCrc,
				     .offset = pc->pcOffset,
				     .function = function,
				     .reason = reason,
				     .samples = samples };

	if (samples && c->samples.count < PC_ROWS_MAX && vec_push(&c->samples, s) < 0)
		return; /* pc_readings_push() counts them as `other` */
}

/* Returns the samples of the reason's twin, which the reason's own samples include. */
static uint64_t not_issued(const struct pc_context *c, const CUpti_PCSamplingPCData *pc,
			   size_t count, const char *reason)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t index = pc->stallReason[i].pcSamplingStallReasonIndex;

		if (index < PC_REASONS_MAX && c->twins[index] == reason)
			return pc->stallReason[i].samples;
	}
	return 0;
}

static void add_pc(struct pc_context *c, const CUpti_PCSamplingPCData *pc)
{
	const char *function = pc->functionName ? pc_text(pc->functionName) : NULL;
	size_t count = MIN(pc->stallReasonCount, c->reason_count);

	for (size_t i = 0; function && i < count; i++) {
		uint32_t index = pc->stallReason[i].pcSamplingStallReasonIndex;
		uint64_t samples = pc->stallReason[i].samples, twin;

		if (index >= PC_REASONS_MAX || !c->reasons[index])
			continue;
		twin = c->twins[index] ? 0 : not_issued(c, pc, count, c->reasons[index]);
		add_sample(c, pc, function, c->reasons[index],
			   twin <= samples ? samples - twin : samples);
	}
}

static void empty(CUpti_PCSamplingData *d)
{
	d->totalSamples = d->droppedSamples = d->nonUsrKernelsTotalSamples = 0;
	d->totalNumPcs = d->remainingNumPcs = 0;
	d->hardwareBufferFull = 0;
}

static int compare_pointers(const void *a, const void *b)
{
	uintptr_t left = (uintptr_t) * (char *const *)a, right = (uintptr_t) * (char *const *)b;

	return left < right ? -1 : left > right;
}

/*
 * CUPTI's header says that the client frees the names, which records may share. CUPTI 13.0 keeps
 * them nevertheless and returns the same pointers in later readings.
 */
static void free_names(CUpti_PCSamplingData *d, size_t count)
{
	_cleanup_free_ char **sorted = malloc((count + 1) * sizeof(*sorted));
	size_t n = 0;

	for (size_t i = 0; sorted && i < count; i++)
		if (d->pPcData[i].functionName)
			sorted[n++] = d->pPcData[i].functionName;
	if (n)
		qsort(sorted, n, sizeof(*sorted), compare_pointers);
	for (size_t i = 0; i < n; i++)
		if (i + 1 == n || sorted[i] != sorted[i + 1])
			free(sorted[i]);
}

/* Adds the contents of a CUPTI buffer to the reading and empties the buffer. */
static void add_data(struct pc_context *c, const struct cupti *cupti, CUpti_PCSamplingData *d,
		     struct pc_reading *r)
{
	size_t count = MIN(d->totalNumPcs, PC_PCS);

	for (size_t i = 0; i < count; i++)
		add_pc(c, &d->pPcData[i]);
	r->total += d->totalSamples;
	r->dropped += d->droppedSamples;
	log_line("pc-sampling: context %u, %s: %llu samples, %llu dropped, %llu not of the "
		 "program, %zu PCs, %zu remain, %zu rows",
		 c->id, d == &c->rest ? "left" : "read", (unsigned long long)d->totalSamples,
		 (unsigned long long)d->droppedSamples,
		 (unsigned long long)d->nonUsrKernelsTotalSamples, d->totalNumPcs,
		 d->remainingNumPcs, c->samples.count);
	if (cupti->version < CUPTI_13_0)
		free_names(d, count);
	for (size_t i = 0; i < count; i++)
		d->pPcData[i].functionName = NULL;
	empty(d);
}

static CUptiResult get_data(struct pc_context *c, const struct cupti *cupti)
{
	CUpti_PCSamplingGetDataParams p =
		PARAMETERS(GetData, .ctx = c->handle, .pcSamplingData = &c->now);
	CUptiResult result;

	empty(&c->now);
	vendor_enter("cuptiPCSamplingGetData");
	result = cupti->PCSamplingGetData(&p);
	vendor_leave();
	if (c->in_window && (result == CUPTI_ERROR_OUT_OF_MEMORY || c->now.hardwareBufferFull))
		c->full++;
	return result;
}

static void read_all(struct pc_context *c, const struct cupti *cupti, struct pc_reading *r)
{
	for (unsigned i = 0; i < CALLS_MAX; i++) {
		CUptiResult result = get_data(c, cupti);
		bool more;

		if (result != CUPTI_SUCCESS && result != CUPTI_ERROR_OUT_OF_MEMORY) {
			log_line("pc-sampling: cuptiPCSamplingGetData: %d", (int)result);
			c->failures++;
			c->why = result;
			return;
		}
		c->failures = 0;
		more = c->now.remainingNumPcs && c->now.totalNumPcs;
		add_data(c, cupti, &c->now, r);
		if (result != CUPTI_SUCCESS || !more || c->samples.count >= PC_ROWS_MAX)
			return;
	}
}

static void begin_reading(struct pc_context *c, struct pc_reading *r)
{
	c->samples.count = 0;
	*r = (struct pc_reading){ .start_ns = c->since_ns,
				  .device = c->device,
				  .context = c->id,
				  .period_cycles = c->period_cycles };
}

static uint64_t end_reading(struct pc_context *c, struct pc_reading *r)
{
	c->since_ns = r->end_ns = clock_monotonic_ns();
	if (c->in_window && (r->total || r->dropped || c->samples.count))
		pc_readings_push(r, c->samples.data, c->samples.count);
	return r->total + c->samples.count;
}

static void read_everything(struct pc_context *c, const struct cupti *cupti, struct pc_reading *r)
{
	begin_reading(c, r);
	read_all(c, cupti, r);
	if (pc_context_has_rest(c))
		add_data(c, cupti, &c->rest, r);
}

uint64_t pc_context_read(struct pc_context *c, const struct cupti *cupti)
{
	struct pc_reading r;

	read_everything(c, cupti, &r);
	return end_reading(c, &r);
}

bool pc_context_has_rest(const struct pc_context *c)
{
	return c->rest.totalNumPcs != 0;
}

void pc_context_stop(struct pc_context *c, const struct cupti *cupti)
{
	struct pc_reading r;

	read_everything(c, cupti, &r);
	disable(c, cupti);
	add_data(c, cupti, &c->rest, &r);
	end_reading(c, &r);
}

void pc_context_release(struct pc_context *c)
{
	free(c->memory);
	vec_release(&c->samples);
	memset(c, 0, sizeof(*c));
}
