/* layer: symbol */
/* Any text as /proc/kallsyms. */
#include "fuzz.h"

#include <stdlib.h>

#include "symbol/kernel_symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct kernel_symbols k;

	if (kernel_symbols_parse(&k, (const char *)bytes, size) < 0)
		return 0;
	for (size_t i = 0; i < k.functions.count; i++) {
		const struct kernel_function *f = &k.functions.data[i];

		if (!*f->name || (f->module && strlen(f->module) > size) ||
		    (i && f[-1].start >= f->start) || kernel_symbols_find(&k, f->start) != f)
			abort();
	}
	kernel_symbols_find(&k, 0);
	kernel_symbols_find(&k, UINT64_MAX);
	kernel_symbols_release(&k);
	return 0;
}
