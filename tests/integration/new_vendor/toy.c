/* toy.c: what all layers know of a maker of GPUs that only this test knows. */
#include "vendor/vendors.h"

const struct vendor vendor_toy = {
	.name = "Toy",
	.pci_vendor = 0x1234,
	.injection = NAMES("TOY_INJECTION"),
	.names[VENDOR_BELOW_CALLS] = NAMES("libtoydriver.so"),
	.names[VENDOR_RUNTIME] = NAMES("libtoy.so"),
	.names[VENDOR_LIBRARIES] = NAMES("libtoyblas"),
	.folders = NAMES(NULL),
	.names[VENDOR_LAUNCHES] = NAMES("toyLaunch"),
	.names[VENDOR_FUNCTIONS] = NAMES("toyMalloc"),
};
