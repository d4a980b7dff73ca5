#include "replay/cuda_driver.h"

#include <dlfcn.h>
#include <string.h>

int cuda_check(const struct cuda_driver *d, const char *what, int result, struct error *e)
{
	const char *text = NULL;

	if (!result)
		return 0;
	d->base.get_error_string(result, &text);
	return error_set(e, E_UNSUPPORTED, "%s: %s (error %d)", what, text ? text : "unknown",
			 result);
}

int cuda_driver_open(struct cuda_driver *d, struct error *e)
{
	const struct {
		const char *name;
		void *function;
	} functions[] = {
#define CUDA_FUNCTION(member, symbol, parameters) { symbol, &d->member },
		CUDA_FUNCTIONS(CUDA_FUNCTION)
#undef CUDA_FUNCTION
	};
	int rc = libcuda_load(&d->base, e);

	for (size_t i = 0; i < ARRAY_SIZE(functions) && rc == 0; i++) {
		void *found = dlsym(d->base.handle, functions[i].name);

		if (!found)
			return error_set(e, E_UNSUPPORTED,
					 "libcuda.so.1 has no %s: the driver is too old",
					 functions[i].name);
		*(void **)functions[i].function = found;
	}
	if (rc < 0)
		return rc;
	rc = cuda_check(d, "cuInit", d->base.init(0), e);
	if (rc == 0 && libcuda_device_count(&d->base) == 0)
		rc = error_set(e, E_UNSUPPORTED, "the driver shows no GPU");
	return rc;
}
