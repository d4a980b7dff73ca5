/* nvidia.c: what all layers know of NVIDIA. */
#include "vendor/vendors.h"

#include "arch/processor.h"

const struct vendor vendor_nvidia = {
	.name = "NVIDIA",
	.pci_vendor = 0x10de,
	.injection = NAMES("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"),
	.plugins = NAMES("NCCL_PROFILER_PLUGIN"),
	.names[VENDOR_BELOW_CALLS] = NAMES("libcupti.so", "libcuda.so"),
	.names[VENDOR_RUNTIME] = NAMES("libcudart.so"),
	.names[VENDOR_LIBRARIES] =
		NAMES("libcublas", "libcudnn", "libcudss", "libcufft", "libcufile", "libcuspar",
		      "libcurand", "libcusolv", "libcutensor", "libcutlass", "libcuda", "libcupti",
		      "libnccl", "libnpp", "libnv"),
	.folders = NAMES("/usr/local/cuda", "/cuda/include/",
			 "/targets/" ARCH_CUDA_TARGET "/include/"),
	.names[VENDOR_LAUNCHES] =
		NAMES("libcudart_static_", "__cudaLaunch", "__device_stub__", "cudaLaunch",
		      "cudaGraphLaunch", "cuLaunch", "cuGraphLaunch"),
	.names[VENDOR_FUNCTIONS] =
		NAMES("cudaMem", "cudaMalloc", "cudaFree", "cudaDevice", "cudaStream", "cudaEvent"),
};
