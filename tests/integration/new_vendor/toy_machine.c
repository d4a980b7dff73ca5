/* toy_machine.c: the one GPU of the toy vendor, which is as good as the environment says. */
#include "vendor/machine.h"

#include <errno.h>
#include <stdlib.h>

static void check_driver(struct check *c)
{
	if (getenv("TOY_DRIVER")) {
		check_found(c, CHECK_OK, "driver %s", getenv("TOY_DRIVER"));
		return;
	}
	check_found(c, CHECK_MISSING, "TOY_DRIVER is not set");
	check_advise(c, "set TOY_DRIVER to a version");
}

static const struct machine_check checks[] = {
	{ "driver", "everything on a GPU", true, check_driver },
};

static int gpus(struct gpus *out, struct error *e)
{
	struct gpu gpu = { .name = "Toy 1", .architecture = "wood", .memory_bytes = 1 << 20 };

	if (!getenv("TOY_DRIVER"))
		return error_set(e, E_UNSUPPORTED, "no toy driver");
	return vec_push(&out->list, gpu) < 0 ? -ENOMEM : 0;
}

static bool no_gpu_reason(char *out, size_t size)
{
	(void)out, (void)size;
	return false;
}

const struct vendor_machine vendor_machine_toy = {
	.checks = checks,
	.check_count = ARRAY_SIZE(checks),
	.gpus = gpus,
	.no_gpu_reason = no_gpu_reason,
};
