/* entry.c: the only functions that libpitot.so exports. */
#include "pitot/pitot.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "capture/attach_server.h"
#include "capture/nvtx/nvtx_source.h"
#include "capture/sinks/perfetto_live.h"
#include "capture/program.h"
#include "capture/core/session.h"

/* A constructor because LD_PRELOAD names this library, in programs that may never use CUDA. */
__attribute__((constructor)) static void preloaded(void)
{
	clock_use_libc();
	program_library();
	session_loaded();
	attach_server_loaded();
}

/*
 * Called by the CUDA driver during cuInit, because CUDA_INJECTION64_PATH names this library. Always
 * returns 1, which means "loaded".
 */
EXPORT int InitializeInjection(void);
EXPORT int InitializeInjection(void)
{
	session_start(SESSION_BY_nvidia);
	perfetto_live_start(SESSION_BY_nvidia);
	return 1;
}

/* NVTX asks only once: a prepared process may be recorded later. */
static bool start_by_nvtx(void)
{
	bool records = session_start(SESSION_BY_NVTX);

	return perfetto_live_start(SESSION_BY_NVTX) || records || attach_server_is_on();
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

/* --- failures --- */

/*
 * The text of why the thread's last call failed; NULL: it did not. A thread-specific value and not
 * a thread-local variable: those of a library that is loaded late come out of some 1,600 bytes that
 * all libraries of the process share, and further libraries fail to load when these are used up.
 */
static pthread_key_t failure;
static bool has_failure;

static char no_memory[] = "out of memory";

static void free_text(void *text)
{
	if (text != no_memory)
		free(text);
}

static void make_failure(void)
{
	has_failure = pthread_key_create(&failure, free_text) == 0;
}

/* Makes the error, which may be none, the one that pitot_error() describes. */
static void set_failure(const struct error *e)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	char *text = NULL;

	pthread_once(&once, make_failure);
	if (!has_failure)
		return;
	if (*e->text && !(text = strdup(e->text)))
		text = no_memory;
	free_text(pthread_getspecific(failure));
	if (pthread_setspecific(failure, text) != 0)
		free_text(text);
}

static int result(int r, const struct error *e)
{
	set_failure(e);
	return r;
}

EXPORT const char *pitot_error(void)
{
	const char *text = has_failure ? pthread_getspecific(failure) : NULL;

	return text ? text : "";
}

/* --- calls --- */

EXPORT struct pitot_session *pitot_start(const struct pitot_options *options)
{
	struct error e = { 0 };
	struct pitot_session *session = program_start(options, &e);

	set_failure(&e);
	if (!session)
		errno = -e.code;
	return session;
}

EXPORT const char *pitot_path(const struct pitot_session *session)
{
	return program_path(session);
}

EXPORT int pitot_stop(struct pitot_session *session)
{
	struct error e = { 0 };

	return result(program_stop(session, &e), &e);
}

EXPORT int pitot_flush(struct pitot_session *session)
{
	struct error e = { 0 };

	(void)session; /* the collector seals for all sessions together */
	return result(program_flush(&e), &e);
}

EXPORT int pitot_dump(const char *path, uint64_t last_ns)
{
	struct error e = { 0 };

	return result(program_dump(path, last_ns, &e), &e);
}

EXPORT int pitot_idle(void)
{
	struct error e = { 0 };
	int rc = attach_server_start();

	if (rc < 0)
		error_errno(&e, -rc, "cannot wait for recordings");
	return result(rc, &e);
}

EXPORT int pitot_engine_begin(struct pitot_session *session, enum pitot_engine engine,
			      uint64_t delay_ns, uint64_t duration_ns)
{
	struct error e = { 0 };

	if ((unsigned)engine <= PITOT_ENGINE_TRACE)
		error_set(&e, -EINVAL,
			  "pitot_engine_begin cannot arm engine %u; name one beyond "
			  "PITOT_ENGINE_TRACE",
			  (unsigned)engine);
	return result(e.code ? e.code : program_engine(session, engine, delay_ns, duration_ns, &e),
		      &e);
}

EXPORT int pitot_engine_end(struct pitot_session *session)
{
	struct error e = { 0 };

	return result(program_engine(session, PITOT_ENGINE_TRACE, 0, 0, &e), &e);
}

EXPORT int pitot_config(const char *file, const char *key, char *value, size_t size)
{
	struct error e = { 0 };

	return result(program_config(file, key, value, size, &e), &e);
}

EXPORT int pitot_init(const struct pitot_options *options)
{
	struct error e = { 0 };
	int r = result(program_init(options, &e), &e);

	perfetto_live_start(SESSION_BY_PROGRAM);
	return r;
}

EXPORT void pitot_shutdown(void)
{
	struct error e = { 0 };

	program_shutdown(&e);
	set_failure(&e);
}

EXPORT int pitot_report(const char *path)
{
	struct error e = { 0 };

	return result(program_report_last(path, &e), &e);
}

EXPORT int64_t pitot_upload(const struct pitot_upload_options *options)
{
	struct error e = { 0 };
	int64_t records = program_upload_last(options, &e);

	set_failure(&e);
	return records;
}
