/* toy_source.c: the recorder's half of the toy vendor: it notes its kernel when its GPU is used. */
#include "capture/core/source.h"

static void begin(struct writer *w, const struct source_start *start)
{
	struct row_device gpu = { .id = 0, .name = 0 };

	if (start->vendors & VENDOR_BIT(toy))
		writer_append(w, TABLE_device, &gpu);
}

const struct source toy_source = { .name = "toy", .begin = begin };
