#include "names/module_name.h"

#include <string.h>

#include "base/path.h"
#include "base/starts_with.h"
#include "vendor/vendors.h"

void module_name(const char *path, struct strbuf *out)
{
	static const char deleted[] = " (deleted)"; /* appended in /proc/PID/maps */
	const char *name = base_name(path);
	size_t length = strlen(name), end = strlen(deleted);

	if (length > end && !strcmp(name + length - end, deleted))
		length -= end;
	strbuf_add(out, name, length);
}

bool is_vendor_module(const char *path)
{
	return vendor_is_runtime(path) || starts_with(base_name(path), "libpitot.so");
}
