#include "upload/upload_key.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"

#define KEY_BYTES_MAX 4096
#define BLANKS " \t\r\n"

static void trim(struct strbuf *key)
{
	size_t blanks = strspn(strbuf_text(key), BLANKS);

	while (key->length && strchr(BLANKS, key->data[key->length - 1]))
		key->data[--key->length] = '\0';
	if (!blanks || !key->length)
		return;
	key->length -= blanks;
	memmove(key->data, key->data + blanks, key->length + 1);
}

int upload_key_read(const char *path, struct strbuf *key, struct error *e)
{
	const char *own = getenv("PITOT_API_KEY"), *gpufl = getenv("GPUFL_API_KEY");
	int rc;

	if (!path) {
		strbuf_adds(key, own && *own ? own : gpufl ? gpufl : "");
		return key->failed ? error_set(e, -ENOMEM, "out of memory") : 0;
	}
	rc = io_read_stream(path, KEY_BYTES_MAX, key);
	if (rc < 0)
		return error_set(e, rc, "cannot read the key from '%s': %s", path,
				 error_code_text(rc));
	trim(key);
	return key->length ? 0 : error_set(e, E_USAGE, "'%s' has no key", path);
}

void upload_key_forget(struct strbuf *key)
{
	if (key->data)
		explicit_bzero(key->data, key->capacity);
	strbuf_release(key);
}
