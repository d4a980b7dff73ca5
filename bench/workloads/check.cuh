// What the workloads do about an error of CUDA.
#pragma once

#include <cstdio>
#include <cstdlib>

#include <cuda_runtime.h>

#define CHECK(call)                                                                                \
	do {                                                                                       \
		cudaError_t err_ = (call);                                                         \
		if (err_ != cudaSuccess) {                                                         \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(err_));              \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)
