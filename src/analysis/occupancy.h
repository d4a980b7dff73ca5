/* occupancy.h: theoretical occupancy (schema/theoretical_occupancy.h) from rows of a trace. */
#ifndef PITOT_ANALYSIS_OCCUPANCY_H
#define PITOT_ANALYSIS_OCCUPANCY_H

#include "schema/theoretical_occupancy.h"
#include "trace/trace.h"

/* The tables must be loaded. 0 or a negative code; E_UNSUPPORTED also for TRACE_NO_ROW. */
int occupancy_of_rows(const struct trace *t, uint32_t device_row, uint32_t config_row,
		      struct occupancy *out);

#endif
