/* entry.c: the only functions that libpitot.so exports. */
#include "pitot/pitot.h"

#include "base/compiler.h"
#include "capture/nvtx/nvtx_source.h"
#include "capture/session.h"

/* LD_PRELOAD names this library, in programs that may never use CUDA. */
__attribute__((constructor)) static void preloaded(void)
{
	session_preloaded();
}

/* Called by the CUDA driver during cuInit, because CUDA_INJECTION64_PATH names this library. Always 1: "loaded". */
EXPORT int InitializeInjection(void);
EXPORT int InitializeInjection(void)
{
	session_start(SESSION_BY_CUDA);
	return 1;
}

/* Called by NVTX at its first use, because NVTX_INJECTION64_PATH names this library. 0 leaves NVTX switched off. */
EXPORT int InitializeInjectionNvtx2(void *get_export_table);
EXPORT int InitializeInjectionNvtx2(void *get_export_table)
{
	return session_start(SESSION_BY_NVTX) && nvtx_source_attach(get_export_table);
}

/* Called by NVTX's extensions (payloads and others) with their own table. */
EXPORT int InitializeInjectionNvtxExtension(void *module);
EXPORT int InitializeInjectionNvtxExtension(void *module)
{
	return session_start(SESSION_BY_NVTX) && nvtx_source_attach_extension(module);
}

EXPORT const char *pitot_version(void)
{
	return PITOT_VERSION;
}

EXPORT int pitot_init(void)
{
	return session_start(SESSION_BY_PROGRAM);
}

EXPORT void pitot_stop(void)
{
	session_stop();
}
