#include "format/attach_request.h"

#include <string.h>

static bool is_text(const char *text, size_t size)
{
	return memchr(text, '\0', size) != NULL;
}

bool attach_request_is_valid(const struct attach_request *r, size_t size)
{
	return size == sizeof(*r) && r->magic == ATTACH_MAGIC &&
	       is_text(r->launcher, sizeof(r->launcher)) &&
	       is_text(r->directory, sizeof(r->directory)) &&
	       is_text(r->options, sizeof(r->options));
}
