/* sources.c: the sources there are. A new one is a folder and a line here. */
#include "capture/source.h"

extern const struct source host_source, stack_source, cpu_timer_source, cuda_source, nvtx_source,
	nvml_source;

const struct source *const sources[] = {
	&nvtx_source, /* before the host: names that the program gave its threads are better */
	&host_source, &stack_source, &cpu_timer_source,
#ifndef PITOT_WITHOUT_CUDA
	&cuda_source, &nvml_source,
#endif
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
