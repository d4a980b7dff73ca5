/*
 * PC sampling of the stand-in libcupti.so.13. Each kernel launch has 48 samples: at three PCs of
 * its function, and 3 elsewhere. All functions are in one module with made-up code, which is loaded
 * at the first sampled launch. If the tape has samples of a GPU, these come instead, each once, at
 * or after its place of the tape.
 */
#include "stage.h"
#include "standin_cupti.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cupti_pcsampling.h>

#include "base/map.h"

#define CONTEXTS_MAX 8
#define FUNCTIONS_MAX 20480
#define PERIOD 20 /* 2^20 cycles, by default */
#define ELSEWHERE 3
#define PREFIX "smsp__pcsamp_warps_issue_stalled_"

/* Clients must not rely on indexes from 0. */
#define FIRST_INDEX 7

enum { SELECTED, LONG, LONG_NOT_ISSUED, BARRIER, REASONS };

static const char *const reasons[REASONS] = {
	[SELECTED] = "smsp__pcsamp_warps_issue_selected",
	[LONG] = PREFIX "long_scoreboard",
	[LONG_NOT_ISSUED] = PREFIX "long_scoreboard_not_issued",
	[BARRIER] = PREFIX "barrier",
};

static const struct {
	uint64_t offset;
	unsigned samples[REASONS];
} pcs[] = {
	{ 0x10, { [SELECTED] = 10 } },
	{ 0x20, { [LONG] = 30, [LONG_NOT_ISSUED] = 20 } },
	{ 0x130, { [BARRIER] = 5 } },
};
#define PC_SAMPLES 45 /* of each kernel, excluding the twin's */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct sampled {
	CUcontext handle;
	bool enabled, configured;
	uint32_t period;
	CUpti_PCSamplingData *rest;
	uint64_t total; /* not delivered yet */
	struct {
		const char *name;
		uint64_t launches[ARRAY_SIZE(pcs)]; /* by PC: not delivered yet */
	} functions[FUNCTIONS_MAX];
} contexts[CONTEXTS_MAX];

static uint8_t cubin[3000];
static bool is_loaded;
static uint64_t launches;

#define FAULT(function)                                                                            \
	do {                                                                                       \
		int forced_;                                                                       \
		if (standin_fault(function, &forced_))                                             \
			return (CUptiResult)forced_;                                               \
	} while (0)

/* Samples of a GPU: the reading that is being delivered. */
static struct {
	size_t from; /* the next record */
	struct cursor pcs;
	uint64_t left; /* PCs */
} taped;

static bool is_taped(void)
{
	return standin_answers(TAPE_cuptiPCSamplingGetData);
}

static struct sampled *find(CUcontext handle)
{
	for (size_t i = 0; i < CONTEXTS_MAX; i++)
		if (contexts[i].handle == handle)
			return &contexts[i];
	return NULL;
}

/* --- the program --- */

static void give(struct sampled *c, CUpti_PCSamplingData *out);

/* When a module is unloaded, pending samples go into the client's buffer. Called with the lock. */
static void end_range(struct sampled *c)
{
	if (c->rest->totalNumPcs == 0)
		give(c, c->rest);
}

static void call_module(CUcontext context, CUpti_CallbackId id)
{
	CUpti_ModuleResourceData module = { 1, sizeof(cubin), (const char *)cubin };
	CUpti_ResourceData data = { .context = context, .resourceDescriptor = &module };

	if (wants_callback(CUPTI_CB_DOMAIN_RESOURCE, id))
		call_recorder(CUPTI_CB_DOMAIN_RESOURCE, id, &data);
}

void standin_load_cubin(CUcontext context)
{
	for (size_t i = 0; i < sizeof(cubin); i++)
		cubin[i] = (uint8_t)(i * 7 + i / 256);
	memcpy(cubin, "\177ELF", 4);
	call_module(context, CUPTI_CBID_RESOURCE_MODULE_LOADED);
}

static void count(struct sampled *c, const char *symbol)
{
	uint64_t storm = MIN(standin_faults()->storm, FUNCTIONS_MAX);
	size_t first = storm ? (launches - 1) % storm : 0;

	symbol = storm ? standin_storm_name(first) : symbol;
	for (size_t i = first; i < FUNCTIONS_MAX; i++) {
		if (c->functions[i].name && strcmp(c->functions[i].name, symbol) != 0)
			continue;
		c->functions[i].name = symbol;
		for (size_t k = 0; k < ARRAY_SIZE(pcs); k++)
			c->functions[i].launches[k]++;
		c->total += PC_SAMPLES + ELSEWHERE;
		return;
	}
}

void pc_sampling_launch(CUcontext context, const char *symbol)
{
	uint64_t every = standin_faults()->pc_unload_every;
	bool loads = false, unloads = false;
	struct sampled *c;

	if (!symbol || is_taped())
		return;
	pthread_mutex_lock(&lock);
	c = find(context);
	if (c && c->configured) {
		launches++;
		unloads = every && launches % every == 0;
		loads = !is_loaded || unloads;
		is_loaded = true;
		if (unloads)
			end_range(c);
	}
	pthread_mutex_unlock(&lock);
	if (unloads)
		call_module(context, CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING);
	if (loads)
		standin_load_cubin(context);
	pthread_mutex_lock(&lock);
	if (c && c->configured)
		count(c, symbol);
	pthread_mutex_unlock(&lock);
}

/* --- CUPTI's functions --- */

/* On a GPU one of them hung the program when called outside of context creation and destruction. */
static void allow_in(const char *function, bool allowed)
{
	if (allowed)
		return;
	fprintf(stderr, "stand-in: %s where it may hang (callback %u)\n", function,
		standin_in_callback);
	abort();
}

bool pc_sampling_is_on(void)
{
	bool sampled = false;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < CONTEXTS_MAX; i++)
		sampled |= contexts[i].enabled;
	pthread_mutex_unlock(&lock);
	return sampled;
}

void pc_sampling_unsubscribe(void)
{
	allow_in("cuptiUnsubscribe while contexts are sampled", !pc_sampling_is_on());
}

EXPORT CUptiResult cuptiGetDeviceId(CUcontext context, uint32_t *device)
{
	(void)context;
	*device = 0;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetCubinCrc(CUpti_GetCubinCrcParams *p)
{
	const uint8_t *bytes = p->cubin;
	uint64_t crc = UINT64_C(0xcbf29ce484222325);
	struct tape_call answer;

	FAULT(STANDIN_GetCubinCrc);
	if (p->size != CUpti_GetCubinCrcParamsSize || !bytes || !p->cubinSize)
		return CUPTI_ERROR_INVALID_PARAMETER;
	for (size_t i = 0; i < p->cubinSize; i++)
		crc = (crc ^ bytes[i]) * UINT64_C(0x100000001b3);
	p->cubinCrc = (uint32_t)crc; /* as on a GPU */
	crc = hash_bytes(p->cubin, p->cubinSize);
	if (standin_answer(TAPE_cuptiGetCubinCrc, &crc, 1, &answer) &&
	    answer.output_length == sizeof(uint64_t))
		p->cubinCrc = load_u64(answer.output);
	return CUPTI_SUCCESS;
}

uint32_t standin_cubin_crc(void)
{
	CUpti_GetCubinCrcParams p = { .size = CUpti_GetCubinCrcParamsSize,
				      .cubinSize = sizeof(cubin),
				      .cubin = cubin };

	cuptiGetCubinCrc(&p);
	return (uint32_t)p.cubinCrc;
}

EXPORT CUptiResult cuptiPCSamplingEnable(CUpti_PCSamplingEnableParams *p)
{
	CUptiResult r = CUPTI_ERROR_INVALID_OPERATION;
	struct sampled *c;

	allow_in("cuptiPCSamplingEnable",
		 standin_in_callback == CUPTI_CBID_RESOURCE_CONTEXT_CREATED);
	FAULT(STANDIN_PCSamplingEnable);
	if (p->size != CUpti_PCSamplingEnableParamsSize || !p->ctx)
		return CUPTI_ERROR_INVALID_PARAMETER;
	pthread_mutex_lock(&lock);
	c = find(p->ctx);
	if (!c)
		c = find(NULL);
	if (c && !c->enabled) {
		memset(c, 0, sizeof(*c));
		c->handle = p->ctx;
		c->enabled = true;
		c->period = PERIOD;
		r = CUPTI_SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

static bool is_enabled(CUcontext context)
{
	struct sampled *c;
	bool enabled;

	pthread_mutex_lock(&lock);
	c = find(context);
	enabled = c && c->enabled;
	pthread_mutex_unlock(&lock);
	return enabled;
}

/* Returns their number. p may be NULL. */
static size_t give_taped_reasons(const CUpti_PCSamplingGetStallReasonsParams *p)
{
	struct tape_call answer;
	struct cursor c;
	size_t n = 0;

	if (!standin_answer(TAPE_cuptiPCSamplingGetStallReasons, NULL, 0, &answer))
		return 0;
	c = cursor_of(answer.output, answer.output_length);
	for (; cursor_left(&c); n++) {
		uint32_t index = (uint32_t)cursor_varint(&c);
		const char *name = standin_keep_text(&c);

		if (!p)
			continue;
		p->stallReasonIndex[n] = index;
		snprintf(p->stallReasons[n], CUPTI_STALL_REASON_STRING_SIZE, "%s", name);
	}
	return n;
}

EXPORT CUptiResult cuptiPCSamplingGetNumStallReasons(CUpti_PCSamplingGetNumStallReasonsParams *p)
{
	FAULT(STANDIN_PCSamplingGetNumStallReasons);
	if (p->size != CUpti_PCSamplingGetNumStallReasonsParamsSize)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*p->numStallReasons = is_enabled(p->ctx) ? REASONS : 0;
	if (is_taped() && is_enabled(p->ctx))
		*p->numStallReasons = give_taped_reasons(NULL);
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiPCSamplingGetStallReasons(CUpti_PCSamplingGetStallReasonsParams *p)
{
	FAULT(STANDIN_PCSamplingGetStallReasons);
	if (p->size != CUpti_PCSamplingGetStallReasonsParamsSize || p->numStallReasons < REASONS)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (is_taped())
		give_taped_reasons(p);
	for (uint32_t i = 0; i < REASONS && !is_taped(); i++) {
		p->stallReasonIndex[i] = FIRST_INDEX + i;
		snprintf(p->stallReasons[i], CUPTI_STALL_REASON_STRING_SIZE, "%s", reasons[i]);
	}
	return CUPTI_SUCCESS;
}

static CUptiResult set(struct sampled *c, const CUpti_PCSamplingConfigurationInfo *info)
{
	switch ((int)info->attributeType) {
	case CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_PERIOD:
		c->period = info->attributeData.samplingPeriodData.samplingPeriod;
		return c->period >= 5 && c->period <= 31 ? CUPTI_SUCCESS
							 : CUPTI_ERROR_INVALID_PARAMETER;
	case CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_DATA_BUFFER:
		c->rest = info->attributeData.samplingDataBufferData.samplingDataBuffer;
		return c->rest && c->rest->size == sizeof(*c->rest) && c->rest->pPcData
			       ? CUPTI_SUCCESS
			       : CUPTI_ERROR_INVALID_PARAMETER;
	case CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_COLLECTION_MODE:
		return info->attributeData.collectionModeData.collectionMode ==
				       CUPTI_PC_SAMPLING_COLLECTION_MODE_CONTINUOUS
			       ? CUPTI_SUCCESS
			       : CUPTI_ERROR_NOT_SUPPORTED;
	case CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_STALL_REASON:
	case CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SCRATCH_BUFFER_SIZE:
	case CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_HARDWARE_BUFFER_SIZE:
		return CUPTI_SUCCESS;
	default:
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
}

EXPORT CUptiResult
cuptiPCSamplingSetConfigurationAttribute(CUpti_PCSamplingConfigurationInfoParams *p)
{
	CUptiResult r = CUPTI_SUCCESS;
	struct sampled *c;

	FAULT(STANDIN_PCSamplingSetConfigurationAttribute);
	pthread_mutex_lock(&lock);
	c = find(p->ctx);
	if (!c || !c->enabled)
		r = CUPTI_ERROR_INVALID_OPERATION;
	for (size_t i = 0; r == CUPTI_SUCCESS && i < p->numAttributes; i++)
		r = set(c, &p->pPCSamplingConfigurationInfo[i]);
	if (r == CUPTI_SUCCESS)
		c->configured = c->rest != NULL;
	pthread_mutex_unlock(&lock);
	return r;
}

EXPORT CUptiResult
cuptiPCSamplingGetConfigurationAttribute(CUpti_PCSamplingConfigurationInfoParams *p)
{
	struct tape_call answer;
	struct sampled *c;
	uint32_t period;

	FAULT(STANDIN_PCSamplingGetConfigurationAttribute);
	pthread_mutex_lock(&lock);
	c = find(p->ctx);
	period = c ? c->period : 0;
	if (standin_answer(TAPE_cuptiPCSamplingGetConfigurationAttribute, NULL, 0, &answer) &&
	    answer.output_length == sizeof(period))
		period = load_u32(answer.output);
	for (size_t i = 0; c && i < p->numAttributes; i++)
		if (p->pPCSamplingConfigurationInfo[i].attributeType ==
		    CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_PERIOD)
			p->pPCSamplingConfigurationInfo[i]
				.attributeData.samplingPeriodData.samplingPeriod = period;
	pthread_mutex_unlock(&lock);
	return c ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_OPERATION;
}

static char *name_of(const char *name)
{
	return standin_faults()->pc_own_names ? strdup(name) : (char *)(uintptr_t)name;
}

static void give_pc(CUpti_PCSamplingPCData *out, size_t pc, const char *name, uint32_t function,
		    uint64_t times)
{
	CUpti_GetCubinCrcParams crc = { .size = CUpti_GetCubinCrcParamsSize,
					.cubinSize = sizeof(cubin),
					.cubin = cubin };

	if (out->size != sizeof(*out))
		abort();
	cuptiGetCubinCrc(&crc);
	out->cubinCrc = crc.cubinCrc;
	out->pcOffset = pcs[pc].offset;
	out->functionIndex = function;
	out->functionName = name_of(name);
	out->stallReasonCount = 0;
	for (uint32_t r = 0; r < REASONS; r++)
		if (pcs[pc].samples[r])
			out->stallReason[out->stallReasonCount++] = (CUpti_PCSamplingStallReason){
				FIRST_INDEX + r, (uint32_t)(pcs[pc].samples[r] * times)
			};
}

static bool next_reading(CUpti_PCSamplingData *out)
{
	struct tape_call answer;

	if (!standin_next_answer(TAPE_cuptiPCSamplingGetData, &taped.from, &answer))
		return false;
	taped.pcs = cursor_of(answer.output, answer.output_length);
	out->totalSamples += cursor_varint(&taped.pcs);
	out->droppedSamples += cursor_varint(&taped.pcs);
	out->nonUsrKernelsTotalSamples += cursor_varint(&taped.pcs);
	out->hardwareBufferFull |= cursor_varint(&taped.pcs) != 0;
	taped.left = cursor_varint(&taped.pcs);
	return true;
}

static void give_taped_pc(CUpti_PCSamplingPCData *out)
{
	uint64_t count;

	out->cubinCrc = cursor_varint(&taped.pcs);
	out->pcOffset = cursor_varint(&taped.pcs);
	out->functionIndex = (uint32_t)cursor_varint(&taped.pcs);
	out->functionName = name_of(standin_keep_text(&taped.pcs));
	count = cursor_varint(&taped.pcs);
	for (out->stallReasonCount = 0; out->stallReasonCount < count && !taped.pcs.failed;) {
		uint32_t index = (uint32_t)cursor_varint(&taped.pcs);

		out->stallReason[out->stallReasonCount++] =
			(CUpti_PCSamplingStallReason){ index, (uint32_t)cursor_varint(&taped.pcs) };
	}
}

static void give_taped(CUpti_PCSamplingData *out, uint64_t most)
{
	out->totalNumPcs = out->remainingNumPcs = 0;
	out->totalSamples = out->droppedSamples = out->nonUsrKernelsTotalSamples = 0;
	while (taped.left || next_reading(out)) {
		if (taped.left && out->totalNumPcs == most) {
			out->remainingNumPcs = taped.left;
			return;
		}
		for (; taped.left && out->totalNumPcs < most; taped.left--)
			give_taped_pc(&out->pPcData[out->totalNumPcs++]);
	}
}

/* Called with the lock. */
static void give(struct sampled *c, CUpti_PCSamplingData *out)
{
	uint64_t most = standin_faults()->pc_most;

	if (most == 0 || most > out->collectNumPcs)
		most = out->collectNumPcs;
	if (is_taped()) {
		give_taped(out, most);
		return;
	}
	out->totalNumPcs = out->remainingNumPcs = 0;
	out->droppedSamples = c->total ? standin_faults()->pc_dropped : 0;
	out->totalSamples = c->total + out->droppedSamples;
	out->nonUsrKernelsTotalSamples = c->total / (PC_SAMPLES + ELSEWHERE) * ELSEWHERE;
	c->total = 0;
	for (uint32_t i = 0; i < FUNCTIONS_MAX && c->functions[i].name; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(pcs); k++) {
			uint64_t *times = &c->functions[i].launches[k];

			if (!*times)
				continue;
			if (out->totalNumPcs == most) {
				out->remainingNumPcs++;
				continue;
			}
			give_pc(&out->pPcData[out->totalNumPcs++], k, c->functions[i].name, i,
				*times);
			*times = 0;
		}
	}
}

EXPORT CUptiResult cuptiPCSamplingGetData(CUpti_PCSamplingGetDataParams *p)
{
	CUpti_PCSamplingData *out = p->pcSamplingData;
	struct sampled *c;
	int forced;

	if (standin_fault(STANDIN_PCSamplingGetData, &forced)) {
		out->hardwareBufferFull = forced == CUPTI_ERROR_OUT_OF_MEMORY;
		return (CUptiResult)forced;
	}
	if (p->size != CUpti_PCSamplingGetDataParamsSize || out->size != sizeof(*out))
		return CUPTI_ERROR_INVALID_PARAMETER;
	pthread_mutex_lock(&lock);
	c = find(p->ctx);
	if (c && c->configured)
		give(c, out);
	pthread_mutex_unlock(&lock);
	return c && c->configured ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_OPERATION;
}

/* Unread samples go into the client's buffer. */
EXPORT CUptiResult cuptiPCSamplingDisable(CUpti_PCSamplingDisableParams *p)
{
	struct sampled *c;

	allow_in("cuptiPCSamplingDisable",
		 standin_in_callback == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING ||
			 standin_in_callback == CUPTI_CBID_RESOURCE_CONTEXT_CREATED);
	FAULT(STANDIN_PCSamplingDisable);
	pthread_mutex_lock(&lock);
	c = find(p->ctx);
	if (c && c->configured)
		end_range(c);
	if (c)
		memset(c, 0, sizeof(*c));
	pthread_mutex_unlock(&lock);
	return c ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_OPERATION;
}
