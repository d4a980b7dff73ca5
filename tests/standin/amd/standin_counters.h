/*
 * standin_counters.h: dispatch counting of the stand-in for ROCprofiler-SDK. GPUs have six
 * counters, of which those whose names begin with SQ_ have four instances each, and at most three
 * of these can be counted in one pass.
 */
#ifndef STANDIN_COUNTERS_H
#define STANDIN_COUNTERS_H

#include <stdio.h>

#include "capture/amd/amd_api.h"
#include "rocm_standin.h"

/* Asks the tool whose context counts. Returns the configuration it chooses; 0: none. */
uint64_t standin_counters_ask(uint64_t context, const struct amd_counted *dispatch);
/* The context that counts; 0: none. */
uint64_t standin_counters_context(void);
/* The work has ended: hands the values over, and writes them to the file of truth. */
void standin_counters_deliver(const struct amd_counted *dispatch, uint64_t config, FILE *truth);

#endif
