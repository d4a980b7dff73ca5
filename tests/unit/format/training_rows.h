/*
 * training_rows.h: rows that resemble what a GPU says, for measuring and for tests of size.
 *
 * train: a step of 1656 kernels, again and again. Durations are log-normal over the step (1.5 to 40
 * us) and vary by 5 % from step to step; launches are 6 to 12 us apart; correlation ids rise by 1
 * to 7, the same way in every step. graph: replays of a graph of 300 nodes: one correlation id a
 * replay, durations that vary by a few tens of ns. GPU times tick every 32 ns and went through a
 * conversion with a slope, so that they are no multiples of anything.
 */
#ifndef PITOT_TEST_TRAINING_ROWS_H
#define PITOT_TEST_TRAINING_ROWS_H

#include <math.h>

#include "schema/schema.h"

#define TRAIN_STEP 1656u
#define GRAPH_NODES 300u

struct training {
	uint64_t state; /* of the random numbers */
	uint32_t base_ns[TRAIN_STEP], gap_ns[TRAIN_STEP], call_ns[TRAIN_STEP];
	uint32_t config[TRAIN_STEP], function[TRAIN_STEP];
	uint8_t step[TRAIN_STEP]; /* of the correlation id */
	unsigned position;
	uint64_t correlation, host_ns, gpu_ns; /* gpu_ns: end of the last kernel */
};

static inline uint64_t training_random(struct training *t)
{
	uint64_t z = t->state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* Of a standard normal distribution. */
static inline double training_normal(struct training *t)
{
	double a = ((double)(training_random(t) >> 11) + 1) / 9007199254740993.0;
	double b = (double)(training_random(t) >> 11) / 9007199254740992.0;

	return sqrt(-2 * log(a)) * cos(6.283185307179586 * b);
}

static inline uint64_t training_tick(uint64_t ns)
{
	return (uint64_t)((double)(ns / 32 * 32) * 1.0000037);
}

static inline void training_init(struct training *t, uint64_t seed)
{
	static const uint32_t functions[] = { 0x200d3, 0x200d3, 0x200d3, 0x200d3,
					      0x200d3, 0x1029a, 0x201ae };

	*t = (struct training){ .state = seed,
				.correlation = 100,
				.host_ns = UINT64_C(912345678901234) };
	for (unsigned i = 0; i < TRAIN_STEP; i++) {
		double us = 6 * exp(0.8 * training_normal(t));

		t->base_ns[i] = (uint32_t)(1000 * (us < 1.5 ? 1.5 : us > 40 ? 40 : us));
		t->gap_ns[i] = 6000 + (uint32_t)(training_random(t) % 6000);
		t->call_ns[i] = 2000 + (uint32_t)(training_random(t) % 1500);
		t->config[i] = (uint32_t)(training_random(t) % 300);
		t->function[i] = functions[training_random(t) % ARRAY_SIZE(functions)];
		t->step[i] = (uint8_t)(1 + training_random(t) % 7);
	}
	t->gpu_ns = t->host_ns;
}

static inline void training_kernel_fixed(struct row_kernel *k)
{
	*k = (struct row_kernel){
		.context = 1, .stream = 7, .channel = 9, .channel_type = channel_type_compute
	};
	ROW_MISSING(k, kernel, queued_ns);
	ROW_MISSING(k, kernel, submitted_ns);
	ROW_MISSING(k, kernel, device_launched);
}

static inline void training_call_fixed(struct row_api_call *c)
{
	*c = (struct row_api_call){ .thread = 1234567 };
	ROW_MISSING(c, api_call, result);
	ROW_MISSING(c, api_call, stack);
}

/* The next kernel with its launch. */
static inline void training_next(struct training *t, struct row_kernel *k, struct row_api_call *c)
{
	unsigned i = t->position++ % TRAIN_STEP;
	uint64_t start;

	t->host_ns += t->gap_ns[i] + (uint64_t)(400 * fabs(training_normal(t)));
	t->correlation += t->step[i];
	training_call_fixed(c);
	c->start_ns = t->host_ns;
	c->end_ns = t->host_ns + t->call_ns[i] + (uint64_t)(200 * fabs(training_normal(t)));
	c->function = t->function[i];
	c->correlation = t->correlation;

	start = t->gpu_ns + 1000 + (uint64_t)(100 * fabs(training_normal(t)));
	if (start < c->end_ns + 2000)
		start = c->end_ns + 2000 + (uint64_t)(300 * fabs(training_normal(t)));
	t->gpu_ns = start + (uint64_t)(t->base_ns[i] * exp(0.05 * training_normal(t)));
	training_kernel_fixed(k);
	ROW_MISSING(k, kernel, graph);
	ROW_MISSING(k, kernel, graph_node);
	k->start_ns = training_tick(start);
	k->end_ns = training_tick(t->gpu_ns);
	k->config = t->config[i];
	k->correlation = t->correlation;
}

/* The next node of a replayed graph; true: *c is the launch of its replay. */
static inline bool training_next_node(struct training *t, struct row_kernel *k,
				      struct row_api_call *c)
{
	unsigned i = t->position++ % GRAPH_NODES;
	uint64_t start;

	if (i == 0) {
		t->host_ns = t->gpu_ns + 20000;
		t->gpu_ns = t->host_ns + 9000 + training_random(t) % 2000;
		t->correlation += 3;
		training_call_fixed(c);
		c->start_ns = t->host_ns;
		c->end_ns = t->host_ns + 7000 + training_random(t) % 2000;
		c->function = 0x20137;
		c->correlation = t->correlation;
	}
	start = t->gpu_ns + 900 + (uint64_t)(40 * fabs(training_normal(t)));
	t->gpu_ns = start + t->base_ns[i] + (uint64_t)(30 * fabs(training_normal(t)));
	training_kernel_fixed(k);
	k->start_ns = training_tick(start);
	k->end_ns = training_tick(t->gpu_ns);
	k->config = t->config[i];
	k->correlation = t->correlation;
	k->graph = 5;
	k->graph_node = UINT64_C(5) << 32 | (i + 17);
	return i == 0;
}

#endif
