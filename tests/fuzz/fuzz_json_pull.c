/* layer: base */
/*
 * Any bytes, in pieces of any size, as JSON: what is read is text, and what the reader of
 * whole objects accepts is accepted here, too, with the same members.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_pull.h"

struct rest {
	const uint8_t *bytes;
	size_t size, piece;
};

static ssize_t read_piece(void *user, void *bytes, size_t size)
{
	struct rest *r = user;

	size = MIN(MIN(size, r->size), r->piece);
	memcpy(bytes, r->bytes, size);
	r->bytes += size;
	r->size -= size;
	return (ssize_t)size;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct rest rest = { bytes, size, size ? bytes[0] % 7 + 1 : 1 };
	struct json_pull p = { .read = read_piece, .user = &rest };
	struct json_members m = JSON_MEMBERS((const char *)bytes, size);
	int pulled, read = 0;

	while ((pulled = json_pull_next(&p, NULL)) > 0) {
		if (strlen(strbuf_text(&p.key)) != p.key.length ||
		    strlen(strbuf_text(&p.text)) != p.text.length || p.depth > size)
			abort();
		if (pulled != JSON_PULL_VALUE || p.depth != 1 || read < 0 || m.over)
			continue;
		read = json_members_next(&m, NULL);
		if (read > 0 && !p.is_cut &&
		    (strcmp(strbuf_text(&p.key), strbuf_text(&m.key)) != 0 ||
		     strcmp(strbuf_text(&p.text), strbuf_text(&m.text)) != 0 || p.kind != m.kind))
			abort();
	}
	json_pull_release(&p);
	json_members_release(&m);
	return 0;
}
