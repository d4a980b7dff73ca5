/*
 * nccl_nvtx.h: NCCL's operations by its NVTX ranges, where NCCL has not loaded the profiler
 * plug-in: another one is in its place, or NCCL is older than 2.27. The payload of a range has the
 * communicator's hash, the bytes, and a root or peer.
 *
 * An operation waits in its thread's ring until its outermost range or group ends, because that
 * launches its kernel. If several kernels were launched, which of them carries it is unknown.
 */
#ifndef PITOT_CAPTURE_NCCL_NCCL_NVTX_H
#define PITOT_CAPTURE_NCCL_NCCL_NVTX_H

#include "capture/nvtx/nvtx_calls.h"

extern const struct nvtx_nccl_reader nccl_nvtx_reader;

#endif
