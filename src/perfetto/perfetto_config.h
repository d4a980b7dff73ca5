/*
 * perfetto_config.h: what a session of Perfetto asks of a data source: its DataSourceConfig,
 * decoded.
 */
#ifndef PITOT_PERFETTO_PERFETTO_CONFIG_H
#define PITOT_PERFETTO_PERFETTO_CONFIG_H

#include <stdbool.h>

#include "base/compiler.h"

#define PERFETTO_TEXT_MAX 128 /* with its NUL */
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

/* Kernels that are measured, by their number: `count` of them, behind the first `skip`. */
struct perfetto_range {
	uint32_t skip, count; /* count UINT32_MAX: all others */
};

struct perfetto_config {
	char source[PERFETTO_TEXT_MAX];
	uint32_t target_buffer;

	/* gpu_counter_config */
	bool instrumented; /* instrumented_sampling, or its configuration */
	uint64_t counter_period_ns;
	struct perfetto_texts counter_names; /* names and globs */
	uint32_t counter_id_count;
	uint32_t counter_ids[PERFETTO_LIST_MAX];
	uint32_t name_filter_count;
	struct perfetto_name_filter name_filters[PERFETTO_LIST_MAX];
	uint32_t range_count;
	struct perfetto_range ranges[PERFETTO_LIST_MAX];
	struct perfetto_texts nvtx_include, nvtx_exclude; /* globs */

	uint32_t samples_per_s; /* perf_event_config, in its timebase; 0: not said */

	/* track_event_config */
	struct perfetto_texts enabled_categories, disabled_categories;

	uint32_t left_out; /* items that are too long, or too many for a list above */
};

/*
 * Decodes a DataSourceConfig; fields that are not above are skipped. false: the bytes are no
 * protobuf message.
 */
bool perfetto_config_decode(struct perfetto_config *config, const void *bytes,
			    size_t length) MUST_USE;

#endif
