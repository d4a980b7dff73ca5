#include "vendor/nvidia/cuda_driver.h"

#define FUNCTION(member, symbol, parameters) { symbol, &d->member },

int cuda_driver_load_copies(struct cuda_driver *d, struct error *e)
{
	const struct libcuda_function functions[] = { CUDA_BASIC_FUNCTIONS(FUNCTION)
							      CUDA_TIMED_FUNCTIONS(FUNCTION) };
	int rc = libcuda_load(&d->base, e);

	return rc < 0 ? rc : libcuda_find(d->base.handle, functions, ARRAY_SIZE(functions), e);
}

int cuda_driver_open(struct cuda_driver *d, struct error *e)
{
	const struct libcuda_function functions[] = { CUDA_BASIC_FUNCTIONS(FUNCTION)
							      CUDA_WORK_FUNCTIONS(FUNCTION) };
	int rc = libcuda_load(&d->base, e);

	if (rc == 0)
		rc = libcuda_find(d->base.handle, functions, ARRAY_SIZE(functions), e);
	if (rc == 0)
		rc = libcuda_check(&d->base, "cuInit", d->base.init(0), e);
	if (rc == 0 && libcuda_device_count(&d->base) == 0)
		rc = error_set(e, E_UNSUPPORTED, "the driver shows no GPU");
	return rc;
}
