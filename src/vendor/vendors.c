#include "vendor/vendors.h"

#include "base/path.h"
#include "base/starts_with.h"

#define VENDOR_ROW(name, sources) extern const struct vendor vendor_##name;
VENDORS(VENDOR_ROW, )
#undef VENDOR_ROW

const struct vendor *const vendors[VENDOR_COUNT] = {
#define VENDOR_ROW(name, sources) &vendor_##name,
	VENDORS(VENDOR_ROW, )
#undef VENDOR_ROW
};

/* Whether a text begins with a name of these kinds, of any vendor. */
static bool has_name(const char *text, enum vendor_names first, enum vendor_names last)
{
	FOR_EACH_VENDOR(v)
	for (enum vendor_names kind = first; kind <= last; kind++)
		if (starts_with_one(text, (*v)->names[kind]))
			return true;
	return false;
}

bool vendor_is_below_calls(const char *path)
{
	return has_name(base_name(path), VENDOR_BELOW_CALLS, VENDOR_BELOW_CALLS);
}

bool vendor_is_runtime(const char *path)
{
	return has_name(base_name(path), VENDOR_BELOW_CALLS, VENDOR_RUNTIME);
}

bool vendor_is_library(const char *path)
{
	return has_name(base_name(path), VENDOR_BELOW_CALLS, VENDOR_LIBRARIES);
}

bool vendor_is_launch(const char *function)
{
	return has_name(function, VENDOR_LAUNCHES, VENDOR_LAUNCHES);
}

bool vendor_is_function(const char *function)
{
	return has_name(function, VENDOR_LAUNCHES, VENDOR_FUNCTIONS);
}

bool vendor_is_folder(const char *path)
{
	FOR_EACH_VENDOR(v)
	for (const char *const *part = (*v)->folders; *part; part++)
		if (strstr(path, *part))
			return true;
	return false;
}
