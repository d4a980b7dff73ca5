/* layer: symbol */
/* Any text as the name of a symbol, and as the name of a kernel. */
#include "fuzz.h"

#include <stdlib.h>

#include "base/utf8.h"
#include "names/demangle.h"

/* What a terminal shows: UTF-8 without control characters, of a bounded length. */
static void check_short_name(const struct strbuf *s)
{
	size_t bad;

	for (size_t i = 0, n; i < s->length; i += n) {
		uint8_t c = (uint8_t)s->data[i];

		n = utf8_length(s->data + i, s->length - i, &bad);
		if (n == 0 || c < 0x20 || c == 0x7f)
			abort();
	}
	if (s->length > KERNEL_NAME_MAX)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct strbuf whole = STRBUF_INIT, brief = STRBUF_INIT;
	char *name = malloc(size + 1);

	if (!name)
		return 0;
	memcpy(name, bytes, size);
	name[size] = 0;
	if (demangle(name, &whole) ? whole.length > DEMANGLE_OUTPUT_MAX
				   : strcmp(strbuf_text(&whole), name) != 0)
		abort();
	kernel_name_short(name, &brief);
	check_short_name(&brief);
	strbuf_release(&whole);
	strbuf_release(&brief);
	free(name);
	return 0;
}
