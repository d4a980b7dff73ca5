#include "names/module_name.h"

#include <string.h>

#include "base/path.h"

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
	static const char *const names[] = { "libcuda.so", "libcudart.so", "libcupti.so",
					     "libpitot.so" };
	const char *name = base_name(path);

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strncmp(name, names[i], strlen(names[i])))
			return true;
	return false;
}
