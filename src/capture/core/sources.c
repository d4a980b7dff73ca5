/*
 * sources.c: the list of sources. A new source is a folder and a line here; those of a vendor of
 * GPUs stand in its line of vendor/vendors.h.
 */
#include "capture/core/source.h"

#define SOURCES_OF(vendor, sources) sources
/* In the order in which they are called. */
#define SOURCES(S)                                                                                 \
	S(nvtx) /* before the host: the names that the program gave its threads are better */      \
	S(app)                                                                                     \
	S(host)                                                                                    \
	S(stack)                                                                                   \
	S(cpu_timer)                                                                               \
	VENDORS(SOURCES_OF, S)                                                                     \
	S(counters) /* after the vendors: their flushes and clocks must not wait for GPU readings */

#ifdef PITOT_WITHOUT_CUDA
#define CUDA_SOURCES(S)
#else
/* The engines come before CUDA: they read their samples before CUPTI is flushed and detached. */
#define CUDA_SOURCES(S) S(pc_sampling) S(launch_engine) S(pm_sampling) S(cuda) S(nccl)
#endif

#define S(name) extern const struct source name##_source;
SOURCES(S)
#undef S

const struct source *const sources[] = {
#define S(name) &name##_source,
	SOURCES(S)
#undef S
		NULL,
};

void source_name_thread(struct writer *w, uint32_t tid, const char *last_name)
{
	FOR_EACH_SOURCE (s)
		if ((*s)->name_thread && (*s)->name_thread(w, tid, last_name))
			return;
}

ring_handler *source_handler(unsigned kind)
{
	FOR_EACH_SOURCE (s)
		for (unsigned i = 0; i < (*s)->handler_count; i++)
			if ((*s)->handlers[i].kind == kind)
				return (*s)->handlers[i].handle;
	return NULL;
}
