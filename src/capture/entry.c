/* entry.c: the only functions that libpitot.so exports. */
#include "pitot/pitot.h"

#include <errno.h>

#include "base/compiler.h"
#include "capture/nvtx/nvtx_source.h"
#include "capture/perfetto_live.h"
#include "capture/program.h"
#include "capture/late_start.h"
#include "capture/session.h"

/* A constructor because LD_PRELOAD names this library, in programs that may never use CUDA. */
__attribute__((constructor)) static void preloaded(void)
{
	late_start_loaded();
}

/*
 * Called by the CUDA driver during cuInit, because CUDA_INJECTION64_PATH names this library. Always
 * returns 1, which means "loaded".
 */
EXPORT int InitializeInjection(void);
EXPORT int InitializeInjection(void)
{
	session_start(SESSION_BY_CUDA);
	perfetto_live_start(SESSION_BY_CUDA);
	return 1;
}

static bool start_by_nvtx(void)
{
	bool records = session_start(SESSION_BY_NVTX);

	return perfetto_live_start(SESSION_BY_NVTX) || records;
}

/*
 * Called by NVTX at its first use, because NVTX_INJECTION64_PATH names this library. 0 means that
 * NVTX stays off.
 */
EXPORT int InitializeInjectionNvtx2(void *get_export_table);
EXPORT int InitializeInjectionNvtx2(void *get_export_table)
{
	return start_by_nvtx() && nvtx_source_attach(get_export_table);
}

/* Called by NVTX's extensions (payloads and others) with their own table. */
EXPORT int InitializeInjectionNvtxExtension(void *module);
EXPORT int InitializeInjectionNvtxExtension(void *module)
{
	return start_by_nvtx() && nvtx_source_attach_extension(module);
}

EXPORT const char *pitot_version(void)
{
	return PITOT_VERSION;
}

/* Describes why the last call of this thread failed. */
static __thread struct error failure;

static struct error *no_failure(void)
{
	failure.code = 0;
	failure.text[0] = '\0';
	return &failure;
}

EXPORT const char *pitot_error(void)
{
	return failure.text;
}

EXPORT struct pitot_session *pitot_start(const struct pitot_options *options)
{
	struct pitot_session *session = program_start(options, no_failure());

	if (!session)
		errno = -failure.code;
	return session;
}

EXPORT const char *pitot_path(const struct pitot_session *session)
{
	return program_path(session);
}

EXPORT int pitot_stop(struct pitot_session *session)
{
	no_failure();
	program_stop(session);
	return 0;
}

EXPORT int pitot_flush(struct pitot_session *session)
{
	(void)session; /* the collector seals for all sessions together */
	return program_flush(no_failure());
}

EXPORT int pitot_engine_begin(struct pitot_session *session, enum pitot_engine engine,
			      uint64_t delay_ns, uint64_t duration_ns)
{
	if ((unsigned)engine <= PITOT_ENGINE_TRACE)
		return error_set(no_failure(), -EINVAL,
				 "pitot_engine_begin cannot arm engine %u; name one beyond "
				 "PITOT_ENGINE_TRACE",
				 (unsigned)engine);
	return program_engine(session, engine, delay_ns, duration_ns, no_failure());
}

EXPORT int pitot_engine_end(struct pitot_session *session)
{
	return program_engine(session, PITOT_ENGINE_TRACE, 0, 0, no_failure());
}

EXPORT int pitot_init(const struct pitot_options *options)
{
	int r = program_init(options, no_failure());

	perfetto_live_start(SESSION_BY_PROGRAM);
	return r;
}

EXPORT void pitot_shutdown(void)
{
	no_failure();
	program_shutdown();
}

EXPORT int pitot_report(const char *path)
{
	return program_report_last(path, no_failure());
}

EXPORT int64_t pitot_upload(const struct pitot_upload_options *options)
{
	return program_upload_last(options, no_failure());
}
