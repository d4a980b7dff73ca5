/* triggered.h: when rules held (table trigger), by time. */
#ifndef PITOT_ANALYSIS_TRIGGERED_H
#define PITOT_ANALYSIS_TRIGGERED_H

#include "schema/schema.h"

struct triggered {
	struct row_trigger *items;
	size_t count;
};

#endif
