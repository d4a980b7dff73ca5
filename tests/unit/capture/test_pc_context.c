/*
 * test_pc_context.c: reading a context's samples from a CUPTI that has more of them than a reading
 * takes, or whose buffer was full; and the queue of readings.
 */
#include "capture/engines/pc_context.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/cuda/records.h"
#include "capture/engines/pc_contexts.h"
#include "support/cmocka_tests.h"

#define REASONS 8u
#define CONTEXT ((CUcontext)0x10)

static struct {
	unsigned calls;
	uint64_t pcs; /* that are left */
	CUptiResult result;
	bool full;
	bool names_are_ours; /* the first two PCs share theirs */
} gpu;

static CUptiResult enable(CUpti_PCSamplingEnableParams *p)
{
	return p->ctx == CONTEXT ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

static CUptiResult disable(CUpti_PCSamplingDisableParams *p)
{
	(void)p;
	return CUPTI_SUCCESS;
}

static CUptiResult count_reasons(CUpti_PCSamplingGetNumStallReasonsParams *p)
{
	*p->numStallReasons = REASONS;
	return CUPTI_SUCCESS;
}

static CUptiResult name_reasons(CUpti_PCSamplingGetStallReasonsParams *p)
{
	for (uint32_t i = 0; i < REASONS; i++) {
		p->stallReasonIndex[i] = i;
		snprintf(p->stallReasons[i], CUPTI_STALL_REASON_STRING_SIZE, "reason_%u", i);
	}
	return CUPTI_SUCCESS;
}

static CUptiResult configure(CUpti_PCSamplingConfigurationInfoParams *p)
{
	(void)p;
	return CUPTI_SUCCESS;
}

static CUptiResult read_period(CUpti_PCSamplingConfigurationInfoParams *p)
{
	p->pPCSamplingConfigurationInfo->attributeData.samplingPeriodData.samplingPeriod = 12;
	return CUPTI_SUCCESS;
}

/* Each PC has one sample of each reason. */
static CUptiResult get_data(CUpti_PCSamplingGetDataParams *p)
{
	CUpti_PCSamplingData *d = p->pcSamplingData;

	gpu.calls++;
	d->hardwareBufferFull = gpu.full;
	d->totalNumPcs = gpu.result == CUPTI_SUCCESS ? MIN(gpu.pcs, d->collectNumPcs) : 0;
	gpu.pcs -= d->totalNumPcs;
	d->remainingNumPcs = gpu.pcs;
	d->totalSamples = d->totalNumPcs * REASONS;
	for (size_t i = 0; i < d->totalNumPcs; i++) {
		if (!gpu.names_are_ours)
			d->pPcData[i].functionName = (char *)(uintptr_t) "kernel";
		else
			d->pPcData[i].functionName =
				i == 1 ? d->pPcData[0].functionName : strdup("kernel");
		d->pPcData[i].stallReasonCount = REASONS;
		for (uint32_t k = 0; k < REASONS; k++)
			d->pPcData[i].stallReason[k] = (CUpti_PCSamplingStallReason){ k, 1 };
	}
	return gpu.result;
}

static struct cupti cupti = {
	.version = CUPTI_13_0,
	.PCSamplingEnable = enable,
	.PCSamplingDisable = disable,
	.PCSamplingGetNumStallReasons = count_reasons,
	.PCSamplingGetStallReasons = name_reasons,
	.PCSamplingSetConfigurationAttribute = configure,
	.PCSamplingGetConfigurationAttribute = read_period,
	.PCSamplingGetData = get_data,
};

static struct pc_context *start(void)
{
	static struct pc_context c;
	const char *function;

	memset(&gpu, 0, sizeof(gpu));
	c = (struct pc_context){ .handle = CONTEXT, .id = 1, .in_window = true };
	assert_int_equal(pc_context_start(&c, &cupti, 12, &function), CUPTI_SUCCESS);
	assert_int_equal(c.period_cycles, 4096);
	return &c;
}

static uint64_t placed(const struct pc_reading *r)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < r->count; i++)
		sum += r->samples[i].samples;
	return sum;
}

/* A reading ends with its rows full; the rest comes with the next, and none is lost. */
static void test_more_than_a_reading(void **state)
{
	struct pc_context *c = start();
	uint64_t pcs = 2 * PC_ROWS_MAX / REASONS + 100, total = 0;
	unsigned readings = 0;
	struct pc_reading *r;

	(void)state;
	gpu.pcs = pcs;
	for (; pc_context_read(c, &cupti); readings++) {
		assert_true(c->samples.count <= PC_ROWS_MAX);
		r = pc_readings_take();
		assert_int_equal(r->other, 0);
		assert_int_equal(placed(r), r->total);
		total += r->total;
		free(r);
	}
	assert_int_equal(readings, 3);
	assert_int_equal(total, pcs * REASONS);
	assert_int_equal(pc_readings_lost(), 0);
	pc_context_release(c);
}

/* Either says it; outside of a window nobody misses the samples. */
static void test_a_full_buffer(void **state)
{
	struct pc_context *c = start();

	(void)state;
	gpu.full = true;
	pc_context_read(c, &cupti);
	assert_int_equal(c->full, 1);
	gpu.full = false;
	gpu.result = CUPTI_ERROR_OUT_OF_MEMORY;
	pc_context_read(c, &cupti);
	assert_int_equal(c->full, 2);
	assert_int_equal(c->failures, 0);
	c->in_window = false;
	pc_context_read(c, &cupti);
	assert_int_equal(c->full, 2);
	pc_context_release(c);
}

/* Before CUPTI 13.0: each name is freed once; AddressSanitizer finds the others. */
static void test_names_that_are_ours(void **state)
{
	struct pc_context *c = start();

	(void)state;
	cupti.version = CUPTI_12_8;
	gpu.names_are_ours = true;
	gpu.pcs = 5;
	assert_int_not_equal(pc_context_read(c, &cupti), 0);
	free(pc_readings_take());
	pc_context_release(c);
	cupti.version = CUPTI_13_0;
}

/* Readings that nobody takes: their samples are counted as lost, and each still adds up. */
static void test_too_many_readings(void **state)
{
	struct pc_context *c = start();
	uint64_t before = pc_readings_lost(), other = 0, total = 0;
	struct pc_reading *r;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		gpu.pcs = PC_ROWS_MAX / REASONS;
		pc_context_read(c, &cupti);
	}
	while ((r = pc_readings_take())) {
		assert_int_equal(r->total, (uint64_t)PC_ROWS_MAX);
		assert_int_equal(placed(r) + r->other, r->total);
		other += r->other;
		total += r->total;
		free(r);
	}
	assert_int_equal(total, 4 * (uint64_t)PC_ROWS_MAX);
	assert_true(other > 0 && other % PC_ROWS_MAX == 0 && other < total);
	assert_int_equal(pc_readings_lost() - before, other);
	pc_context_release(c);
}

/* --- calls that load code --- */

static void *load_without_an_end(void *unused)
{
	pc_contexts_module_call(true, 7);
	return unused;
}

static bool can_read(void)
{
	uint64_t sampled;

	return pc_contexts_read(NULL, true, PC_READ_ALL, &sampled);
}

static void *read_elsewhere(void *can)
{
	*(bool *)can = can_read();
	return NULL;
}

/* Readings wait for them, but not for a call whose thread has ended or that is over. */
static void test_calls_that_load_code(void **state)
{
	pthread_t thread;
	bool can = true;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, load_without_an_end, NULL), 0);
	pthread_join(thread, NULL);
	assert_true(can_read());
	pc_contexts_module_call(true, 8); /* its end is not seen */
	pc_contexts_module_call(true, 9);
	assert_int_equal(pthread_create(&thread, NULL, read_elsewhere, &can), 0);
	pthread_join(thread, NULL);
	assert_false(can);
	pc_contexts_module_call(false, 9);
	assert_int_equal(pthread_create(&thread, NULL, read_elsewhere, &can), 0);
	pthread_join(thread, NULL);
	assert_true(can);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_more_than_a_reading),
		cmocka_unit_test(test_a_full_buffer),
		cmocka_unit_test(test_names_that_are_ours),
		cmocka_unit_test(test_too_many_readings),
		cmocka_unit_test(test_calls_that_load_code),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
