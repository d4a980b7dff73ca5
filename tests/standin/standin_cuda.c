/*
 * The stand-in libcuda.so.1: loads the injection library as the driver does, and answers from the
 * tape.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>

#include "base/map.h"
#include "standin.h"

#define ARGUMENTS(...) ((const uint64_t[]){ __VA_ARGS__ })
#define COUNT(...) (sizeof(ARGUMENTS(__VA_ARGS__)) / sizeof(uint64_t))
#define ANSWER(function, call, ...)                                                                \
	answered(function, call, ARGUMENTS(__VA_ARGS__), COUNT(__VA_ARGS__))

/* cuda.h defines these names as newer versions. */
#undef cuDeviceGetUuid
#undef cuDeviceTotalMem
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device);
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device);
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);

static CUresult answered(enum tape_function function, struct tape_call *call,
			 const uint64_t *arguments, size_t count)
{
	int forced;

	if (standin_fault(function, &forced))
		return (CUresult)forced;
	if (!standin_tape())
		return CUDA_ERROR_NO_DEVICE;
	return standin_answer(function, arguments, (unsigned)count, call)
		       ? (CUresult)call->result
		       : CUDA_ERROR_INVALID_VALUE;
}

static CUresult copy_out(CUresult r, const struct tape_call *call, void *out, size_t size)
{
	if (r != CUDA_SUCCESS)
		return r;
	if (call->output_length != size)
		return CUDA_ERROR_UNKNOWN;
	memcpy(out, call->output, size);
	return CUDA_SUCCESS;
}

static CUresult copy_text(CUresult r, const struct tape_call *call, char *out, int length)
{
	size_t n;

	if (r != CUDA_SUCCESS)
		return r;
	if (length <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	n = MIN(call->output_length, (size_t)length - 1);
	memcpy(out, call->output, n);
	out[n] = 0;
	return CUDA_SUCCESS;
}

static void load_injection(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *library = path && *path ? dlopen(path, RTLD_NOW) : NULL;
	int (*start)(void);

	if (!library)
		return;
	*(void **)&start = dlsym(library, "InitializeInjection");
	if (start)
		start();
}

EXPORT CUresult cuInit(unsigned flags)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)flags;
	if (!standin_tape())
		return CUDA_ERROR_NO_DEVICE;
	pthread_once(&once, load_injection);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorString(CUresult result, const char **text)
{
	switch (result) {
	case CUDA_SUCCESS:
		*text = "no error";
		return CUDA_SUCCESS;
	case CUDA_ERROR_INVALID_VALUE:
		*text = "invalid argument";
		return CUDA_SUCCESS;
	case CUDA_ERROR_NO_DEVICE:
		*text = "no CUDA-capable device is detected";
		return CUDA_SUCCESS;
	default:
		*text = NULL;
		return CUDA_ERROR_INVALID_VALUE;
	}
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
	struct tape_call call;
	CUresult r = answered(TAPE_cuDriverGetVersion, &call, NULL, 0);

	if (r == CUDA_ERROR_INVALID_VALUE) { /* not on the tape as a call; HELLO has it, too */
		*version = (int)tape_fact_number(standin_tape(), "driver.version");
		return *version ? CUDA_SUCCESS : r;
	}
	return copy_out(r, &call, version, sizeof(*version));
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
	struct tape_call call;

	return copy_out(answered(TAPE_cuDeviceGetCount, &call, NULL, 0), &call, count,
			sizeof(*count));
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	struct tape_call call;

	return copy_out(ANSWER(TAPE_cuDeviceGet, &call, (uint64_t)ordinal), &call, device,
			sizeof(*device));
}

EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
	struct tape_call call;

	return copy_text(ANSWER(TAPE_cuDeviceGetName, &call, (uint64_t)device), &call, name,
			 length);
}

/* Recordings at the same time have GPUs of their own; PITOT_STANDIN_MACHINE=tape: the tape's. */
static void make_own(CUuuid *uuid)
{
	const char *recording = getenv("PITOT_RECORDING"),
		   *machine = getenv("PITOT_STANDIN_MACHINE");
	uint64_t word, own = recording ? hash_bytes(recording, strlen(recording))
				       : hash_u64((uint64_t)getpid());

	if (machine && strcmp(machine, "tape") == 0)
		return;
	memcpy(&word, uuid->bytes + 8, sizeof(word));
	word ^= own;
	memcpy(uuid->bytes + 8, &word, sizeof(word));
}

EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	struct tape_call call;
	CUresult r = copy_out(ANSWER(TAPE_cuDeviceGetUuid, &call, (uint64_t)device), &call, uuid,
			      sizeof(*uuid));

	if (r == CUDA_SUCCESS)
		make_own(uuid);
	return r;
}

EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	return cuDeviceGetUuid_v2(uuid, device);
}

EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	struct tape_call call;

	return copy_out(
		ANSWER(TAPE_cuDeviceGetAttribute, &call, (uint64_t)attribute, (uint64_t)device),
		&call, value, sizeof(*value));
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	struct tape_call call;

	return copy_out(ANSWER(TAPE_cuDeviceTotalMem, &call, (uint64_t)device), &call, bytes,
			sizeof(*bytes));
}

EXPORT CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device)
{
	struct tape_call call;

	return copy_text(ANSWER(TAPE_cuDeviceGetPCIBusId, &call, (uint64_t)device), &call, id,
			 length);
}

EXPORT CUresult cuCtxSynchronize(void)
{
	int result;

	return standin_fault(STANDIN_CtxSynchronize, &result) ? (CUresult)result : CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
	const struct faults *faults = standin_faults();

	*total = faults->gpu_memory ?: (size_t)80 << 30;
	*available = faults->gpu_memory ? faults->gpu_memory_free : *total;
	return CUDA_SUCCESS;
}

/* Of all threads: that of the call that was played last. */
EXPORT CUresult cuCtxGetCurrent(CUcontext *context)
{
	*context = (CUcontext)atomic_load(&standin_current_context);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
	static atomic_uint_fast64_t asked;
	uint64_t every = standin_faults()->capturing_every;

	if (!stream)
		return CUDA_ERROR_INVALID_VALUE;
	*status = (every && (atomic_fetch_add(&asked, 1) + 1) % every == 0) || standin_capturing
			  ? CU_STREAM_CAPTURE_STATUS_ACTIVE
			  : CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}
