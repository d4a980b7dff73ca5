#include "standin_counters.h"

#include <string.h>

#include "rocm_standin.h"

#define PUBLIC __attribute__((visibility("default")))
#define COUNT(list) (sizeof(list) / sizeof(*(list)))
#define EXCEEDS 38 /* ROCPROFILER_STATUS_ERROR_EXCEEDS_HW_LIMIT */
#define INVALID 2
#define INSTANCES 4u
#define SQ_MAX 3u

static const struct {
	const char *name, *description;
} counters[] = {
	{ "GRBM_COUNT", "cycles" },
	{ "GRBM_GUI_ACTIVE", "cycles in which the GPU was active" },
	{ "SQ_WAVES", "waves launched" },
	{ "SQ_BUSY_CYCLES", "cycles in which a shader engine was busy" },
	{ "SQ_INSTS_VALU", "vector instructions" },
	{ "SQ_INSTS_SALU", "scalar instructions" },
};

/* A counter's id: GPU + 1, then its number + 1; an instance's has the instance above. */
#define ID(gpu, i) (((gpu) + UINT64_C(1)) << 8 | ((i) + 1))
#define NUMBER(id) (((id)&0xff) - 1)

static struct config {
	uint64_t agent, counters[COUNT(counters)];
	size_t count;
} configs[64];
static size_t config_count;

static struct {
	uint64_t context;
	amd_on_dispatch *dispatched;
	amd_on_values *counted;
	void *dispatched_data, *counted_data;
} service;

static unsigned instances_of(uint64_t counter)
{
	return strncmp(counters[NUMBER(counter)].name, "SQ_", 3) == 0 ? INSTANCES : 1;
}

uint64_t standin_counters_context(void)
{
	return service.context;
}

uint64_t standin_counters_ask(uint64_t context, const struct amd_counted *dispatch)
{
	uint64_t config = 0, user = 0;

	if (context == service.context)
		service.dispatched(*dispatch, &config, &user, service.dispatched_data);
	return config;
}

/* Of the dispatch and the counter, so that a value in the wrong place is noticed. */
static double value_of(const struct amd_counted *d, uint64_t counter, unsigned instance)
{
	return (double)(d->dispatch * 1000 + NUMBER(counter) * 100) + instance + 0.25;
}

void standin_counters_deliver(const struct amd_counted *d, uint64_t config, FILE *truth)
{
	struct amd_counter_value values[COUNT(counters) * INSTANCES];
	const struct config *c = &configs[config - 1];
	size_t count = 0;

	for (size_t i = 0; i < c->count; i++) {
		double sum = 0;

		for (unsigned k = 0; k < instances_of(c->counters[i]); k++) {
			struct amd_counter_value *v = &values[count++];

			*v = (struct amd_counter_value){ .id = c->counters[i] | (uint64_t)k << 32,
							 .value = value_of(d, c->counters[i], k),
							 .dispatch = d->dispatch,
							 .agent = d->agent };
			sum += v->value;
		}
		if (truth)
			fprintf(truth,
				"{\"what\": \"value\", \"correlation\": %lu, \"name\": \"%s\", "
				"\"value\": %.2f}\n",
				d->correlation.internal, counters[NUMBER(c->counters[i])].name,
				sum);
	}
	service.counted(*d, values, count, 0, service.counted_data);
}

#define FAIL_IF_ASKED(name)                                                                        \
	do {                                                                                       \
		if (standin_status_of(#name))                                                      \
			return standin_status_of(#name);                                           \
	} while (0)
#define FUNCTION(name, ...)                                                                        \
	PUBLIC int rocprofiler_##name(__VA_ARGS__);                                                \
	PUBLIC int rocprofiler_##name(__VA_ARGS__)

FUNCTION(iterate_agent_supported_counters, uint64_t agent, amd_on_counters *callback, void *data)
{
	FAIL_IF_ASKED(iterate_agent_supported_counters);
	uint64_t ids[COUNT(counters)];

	if (agent < STANDIN_AGENT(0) || agent >= STANDIN_AGENT(STANDIN_GPUS))
		return INVALID;
	for (size_t i = 0; i < COUNT(counters); i++)
		ids[i] = ID(agent - STANDIN_AGENT(0), i);
	return callback(agent, ids, COUNT(ids), data);
}

FUNCTION(query_counter_info, uint64_t counter, int version, void *info)
{
	FAIL_IF_ASKED(query_counter_info);
	struct amd_counter *out = info;

	if (version || NUMBER(counter) >= COUNT(counters))
		return INVALID;
	*out = (struct amd_counter){ .id = counter,
				     .name = counters[NUMBER(counter)].name,
				     .description = counters[NUMBER(counter)].description,
				     .block = "",
				     .expression = "" };
	return AMD_SUCCESS;
}

/* *config may be one to extend, which stays as it is. */
FUNCTION(create_counter_config, uint64_t agent, uint64_t *list, size_t count, uint64_t *config)
{
	FAIL_IF_ASKED(create_counter_config);
	struct config made = { .agent = agent };
	unsigned of_sq = 0;

	if (*config)
		made = configs[*config - 1];
	if (made.agent != agent || config_count == COUNT(configs))
		return INVALID;
	for (size_t i = 0; i < count && made.count < COUNT(made.counters); i++)
		made.counters[made.count++] = list[i];
	for (size_t i = 0; i < made.count; i++)
		of_sq += instances_of(made.counters[i]) > 1;
	if (of_sq > SQ_MAX)
		return EXCEEDS;
	configs[config_count] = made;
	*config = ++config_count;
	return AMD_SUCCESS;
}

FUNCTION(configure_callback_dispatch_counting_service, uint64_t context,
	 amd_on_dispatch *dispatched, void *dispatched_data, amd_on_values *counted,
	 void *counted_data)
{
	FAIL_IF_ASKED(configure_callback_dispatch_counting_service);
	service.context = context;
	service.dispatched = dispatched;
	service.dispatched_data = dispatched_data;
	service.counted = counted;
	service.counted_data = counted_data;
	return AMD_SUCCESS;
}

FUNCTION(query_record_counter_id, uint64_t instance, uint64_t *counter)
{
	FAIL_IF_ASKED(query_record_counter_id);
	*counter = instance & 0xffffffff;
	return AMD_SUCCESS;
}
