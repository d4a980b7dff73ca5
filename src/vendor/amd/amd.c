/* amd.c: what all layers know of AMD. */
#include "vendor/vendors.h"

#include "vendor/amd/rocm_sdk.h"

const struct vendor vendor_amd = {
	.name = "AMD",
	.pci_vendor = 0x1002,
	.injection = NAMES(NULL),
	.environment = rocm_environment,
	.names[VENDOR_BELOW_CALLS] = NAMES("librocprofiler", "libhsa-runtime64.so"),
	.names[VENDOR_RUNTIME] = NAMES("libamdhip64.so"),
	.names[VENDOR_LIBRARIES] =
		NAMES("libamd_comgr", "libhipblas", "libhipfft", "libhiprand", "libhipsolver",
		      "libhipsparse", "libMIOpen", "librccl", "librocblas", "librocfft",
		      "librocrand", "librocsolver", "librocsparse", "libroctx", "libroctracer"),
	.folders = NAMES("/opt/rocm"),
	.names[VENDOR_LAUNCHES] = NAMES("__hipLaunch", "hipLaunch", "hipExtLaunch",
					"hipModuleLaunch", "hipGraphLaunch"),
	.names[VENDOR_FUNCTIONS] =
		NAMES("hipMem", "hipMalloc", "hipFree", "hipDevice", "hipStream", "hipEvent"),
};
