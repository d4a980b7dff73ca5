/* layer: base */
/* Any bytes as a JSON object: what is read is text. */
#include "fuzz.h"

#include <stdlib.h>

#include "base/json_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct json_members m = JSON_MEMBERS((const char *)bytes, size);
	struct error e;

	while (json_members_next(&m, &e) > 0)
		if (strlen(strbuf_text(&m.key)) != m.key.length ||
		    strlen(strbuf_text(&m.text)) != m.text.length)
			abort();
	json_members_release(&m);
	return 0;
}
