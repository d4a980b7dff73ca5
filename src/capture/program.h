/*
 * program.h: recordings that the program itself starts: the implementation of the functions of
 * include/pitot/pitot.h. All functions require a zeroed *e; `e` must not be NULL.
 */
#ifndef PITOT_CAPTURE_PROGRAM_H
#define PITOT_CAPTURE_PROGRAM_H

#include "base/error.h"
#include "pitot/pitot.h"
#include "schema/settings.h"

/*
 * Merges the options, the environment and the configuration file into *settings, which must hold
 * the defaults. `own`: the recording is not the environment's. Returns 0, or a negative code if one
 * of the three cannot be understood.
 */
int program_settings(const struct pitot_options *options, bool own, struct settings *settings,
		     struct error *e) MUST_USE;

/* Implements pitot_config. */
int program_config(const char *file, const char *key, char *value, size_t size,
		   struct error *e) MUST_USE;

/* Implements pitot_start; NULL: *e says why. */
struct pitot_session *program_start(const struct pitot_options *options, struct error *e) MUST_USE;
const char *program_path(const struct pitot_session *session);
int program_stop(struct pitot_session *session, struct error *e);
int program_flush(struct error *e) MUST_USE;
int program_dump(const char *path, uint64_t last_ns, struct error *e) MUST_USE;
/* Implements pitot_engine_begin and, with PITOT_ENGINE_TRACE, pitot_engine_end. */
int program_engine(struct pitot_session *session, enum pitot_engine engine, uint64_t delay_ns,
		   uint64_t duration_ns, struct error *e) MUST_USE;
int program_init(const struct pitot_options *options, struct error *e) MUST_USE;
/* Failures are only described. */
void program_shutdown(struct error *e);

/*
 * Absolute path of libpitot.so, or "". Must be called once while it is loaded: its name may be
 * relative to the folder that the program is in then. The program pitot is looked for beside it.
 */
const char *program_library(void);

/* Implement pitot_report and pitot_upload for what is in `directory` (program_run.c). */
int program_report(const char *directory, const char *path, struct error *e) MUST_USE;
int64_t program_upload(const char *directory, const struct pitot_upload_options *options,
		       struct error *e) MUST_USE;
/* The same for the last recording started; upload only if the options have no path. */
int program_report_last(const char *path, struct error *e) MUST_USE;
int64_t program_upload_last(const struct pitot_upload_options *options, struct error *e) MUST_USE;

#endif
