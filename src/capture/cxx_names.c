#include "capture/cxx_names.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

typedef char *demangler(const char *name, char *out, size_t *length, int *status);

bool cxx_demangle(const char *name, struct strbuf *out)
{
	demangler *f = (demangler *)(uintptr_t)dlsym(RTLD_DEFAULT, "__cxa_demangle");
	char *text = f && name[0] == '_' ? f(name, NULL, NULL, NULL) : NULL;

	if (text)
		strbuf_adds(out, text);
	free(text);
	return text != NULL;
}
