/*
 * inject.h: how libpitot.so gets into the command: which file it is, and the environment that makes the CUDA
 * driver and NVTX load it (src/capture/settings.h is the other side).
 */
#ifndef PITOT_RECORD_INJECT_H
#define PITOT_RECORD_INJECT_H

#include <stdbool.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "record/request.h"

/*
 * Path of libpitot.so, to be freed: $PITOT_LIBRARY; beside the executable; in ../lib relative to it. NULL when it is
 * nowhere; the error says where it was looked for.
 */
char *record_find_library(struct error *e) MUST_USE;

/* Path of libpitot-preload.so beside libpitot.so, to be freed; NULL: it is not there. */
char *record_find_preload(const char *library) MUST_USE;

/* What another tool has in CUDA_INJECTION64_PATH or NVTX_INJECTION64_PATH: NULL, or the variable's name. */
const char *record_foreign_injection(const char **value);

/* Into which programs the dynamic loader brings it from their start (src/preload): none, each Python, or all that can have it. */
enum record_preload { RECORD_PRELOAD_NONE, RECORD_PRELOAD_PYTHON, RECORD_PRELOAD_ALL };

/* What the recorder inside is told besides the settings that were asked for (recorder_settings.def). */
struct recorder_facts {
	uint64_t start_ns; /* CLOCK_MONOTONIC of the recording's start */
	unsigned cpu_hz; /* of a timer inside the process; 0: none */
	uint64_t perf_namespace; /* beside perf events (src/capture/settings.h); 0: alone */
	enum record_preload preload;
	bool no_cuda;
};

/* Appends the text of PITOT_OPTIONS. */
void recorder_options(const struct record_request *request, const struct recorder_facts *facts, struct strbuf *out);

struct record_injection {
	const char *library, *directory, *options;
	bool cuda; /* let the driver and NVTX load it */
	const char *preload; /* path of libpitot-preload.so, if that is to be in the command; else NULL */
};

/* Appends "NAME=VALUE" and a NUL for each variable that the command gets; see spawn_prepare. */
void record_environment(const struct record_injection *injection, struct strbuf *out);

#endif
