/* nvidia.c: what all layers know of NVIDIA. */
#include "vendor/vendors.h"

#include "arch/processor.h"

/*
 * A core file without these flags is as large as the GPU's memory. skip_abort is not one of them:
 * with it a program goes on after an exception, and every call says that nothing happened. Each
 * name of the folder has host, process and time; the pipe is where a byte makes the driver write a
 * core file of a kernel that hangs.
 */
static void core_files(struct strbuf *out, const char *folder)
{
	static const char *const settings[] = {
		"CUDA_ENABLE_COREDUMP_ON_EXCEPTION=1",
		"CUDA_ENABLE_LIGHTWEIGHT_COREDUMP=1",
		"CUDA_ENABLE_USER_TRIGGERED_COREDUMP=1",
		"CUDA_COREDUMP_GENERATION_FLAGS=skip_nonrelocated_elf_images,skip_global_memory,"
		"skip_shared_memory,skip_local_memory,skip_constbank_memory",
	};

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		strbuf_adds(out, settings[i]);
		strbuf_addc(out, '\0');
	}
	strbuf_addf(out, "CUDA_COREDUMP_FILE=%s/%%h.%%p.%%t.nvcudmp", folder);
	strbuf_addc(out, '\0');
	strbuf_addf(out, "CUDA_COREDUMP_PIPE=%s/%%h.%%p.pipe", folder);
	strbuf_addc(out, '\0');
}

const struct vendor vendor_nvidia = {
	.name = "NVIDIA",
	.pci_vendor = 0x10de,
	.injection = NAMES("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"),
	.plugins = NAMES("NCCL_PROFILER_PLUGIN"),
	.core_variables =
		NAMES("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "CUDA_ENABLE_CPU_COREDUMP_ON_EXCEPTION",
		      "CUDA_ENABLE_LIGHTWEIGHT_COREDUMP", "CUDA_ENABLE_USER_TRIGGERED_COREDUMP",
		      "CUDA_COREDUMP_GENERATION_FLAGS", "CUDA_COREDUMP_FILE", "CUDA_COREDUMP_PIPE"),
	.core_files = core_files,
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
