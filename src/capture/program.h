/*
 * program.h: recordings that the program starts by itself: what is behind the functions of
 * include/pitot/pitot.h. Each of them wants a zeroed *e, which is never NULL.
 */
#ifndef PITOT_CAPTURE_PROGRAM_H
#define PITOT_CAPTURE_PROGRAM_H

#include "base/error.h"
#include "pitot/pitot.h"
#include "schema/settings.h"

/*
 * *settings, which hold the defaults, become what the options, the environment and the
 * configuration file say together. `own`: the recording is not the environment's. 0 or a negative
 * code: something in any of them cannot be understood.
 */
int program_settings(const struct pitot_options *options, bool own, struct settings *settings,
		     struct error *e) MUST_USE;

/* As pitot_start; *e says why not. */
struct pitot_session *program_start(const struct pitot_options *options, struct error *e) MUST_USE;
const char *program_path(const struct pitot_session *session);
void program_stop(struct pitot_session *session);
int program_flush(struct error *e) MUST_USE;
/* As pitot_engine_begin and, with PITOT_ENGINE_TRACE, pitot_engine_end. */
int program_engine(struct pitot_session *session, enum pitot_engine engine, uint64_t delay_ns,
		   uint64_t duration_ns, struct error *e) MUST_USE;
int program_init(const struct pitot_options *options, struct error *e) MUST_USE;
void program_shutdown(void);

/* As pitot_report and pitot_upload, of what there is in `directory`. program_run.c */
int program_report(const char *directory, const char *path, struct error *e) MUST_USE;
int64_t program_upload(const char *directory, const struct pitot_upload_options *options,
		       struct error *e) MUST_USE;
/* Of the recording that was started last; upload: where the options have no path. */
int program_report_last(const char *path, struct error *e) MUST_USE;
int64_t program_upload_last(const struct pitot_upload_options *options, struct error *e) MUST_USE;

#endif
