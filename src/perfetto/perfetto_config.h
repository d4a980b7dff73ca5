/*
 * perfetto_config.h: decodes the DataSourceConfig with which a Perfetto session configures a data
 * source.
 */
#ifndef PITOT_PERFETTO_PERFETTO_CONFIG_H
#define PITOT_PERFETTO_PERFETTO_CONFIG_H

#include <stdbool.h>

#include "base/compiler.h"

#define PERFETTO_TEXT_MAX 128 /* including its NUL */
#define PERFETTO_LIST_MAX 64

struct perfetto_texts {
	uint32_t count;
	char items[PERFETTO_LIST_MAX][PERFETTO_TEXT_MAX];
};

enum perfetto_name_base {
	PERFETTO_MANGLED_KERNEL_NAME,
	PERFETTO_DEMANGLED_KERNEL_NAME,
	PERFETTO_FUNCTION_NAME
};

struct perfetto_name_filter {
	char glob[PERFETTO_TEXT_MAX];
	enum perfetto_name_base base;
};

/* Kernels to measure, by launch number: `count` kernels after the first `skip`. */
struct perfetto_range {
	uint32_t skip, count; /* count UINT32_MAX: all others */
};

struct perfetto_config {
	char source[PERFETTO_TEXT_MAX];
	uint32_t target_buffer;

	/* gpu_counter_config */
	bool instrumented; /* instrumented_sampling or instrumented_sampling_config is present */
	uint64_t counter_period_ns;
	struct perfetto_texts counter_names; /* names and globs */
	uint32_t counter_id_count;
	uint32_t counter_ids[PERFETTO_LIST_MAX];
	uint32_t name_filter_count;
	struct perfetto_name_filter name_filters[PERFETTO_LIST_MAX];
	uint32_t range_count;
	struct perfetto_range ranges[PERFETTO_LIST_MAX];
	struct perfetto_texts nvtx_include, nvtx_exclude; /* globs */

	uint32_t samples_per_s; /* perf_event_config's timebase; 0: not set */

	/* track_event_config */
	struct perfetto_texts enabled_categories, disabled_categories;

	uint32_t ignored_items; /* items too long, or too many for a list above */
};

/*
 * Decodes a DataSourceConfig; unknown fields are skipped. Returns false if the bytes are not a
 * protobuf message.
 */
bool perfetto_config_decode(struct perfetto_config *config, const void *bytes,
			    size_t length) MUST_USE;

#endif
