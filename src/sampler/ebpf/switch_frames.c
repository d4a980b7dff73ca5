#include "sampler/ebpf/ebpf_state.h"

#include <string.h>

#include "base/compiler.h"
#include "symbol/kernel_symbols.h"

#define FUNCTION "__schedule"
#define OWN_FRAMES 2u /* the BPF program and its caller */

struct switch_function switch_function_find(const char *path)
{
	struct switch_function found = { 0 };
	struct kernel_symbols k = { 0 };

	if (kernel_symbols_open(&k, path, NULL) >= 0)
		for (size_t i = 0; i + 1 < k.functions.count; i++)
			if (!k.functions.data[i].module &&
			    strcmp(k.functions.data[i].name, FUNCTION) == 0)
				found = (struct switch_function){ k.functions.data[i].start,
								  k.functions.data[i + 1].start };
	kernel_symbols_release(&k);
	return found;
}

unsigned switch_tracer_frames(const struct switch_function *f, const uint64_t *frames,
			      unsigned count)
{
	/* Frames are return addresses, which may be the end of the function. */
	for (unsigned i = 0; i < count; i++)
		if (frames[i] > f->start && frames[i] <= f->end)
			return i;
	return MIN(OWN_FRAMES, count);
}
