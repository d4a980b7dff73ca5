/*
 * nccl_plugin.h: NCCL's profiler plug-in, which this library is itself: NCCL loads it because
 * NCCL_PROFILER_PLUGIN names it.
 *
 * A collective is three slots of the thread's ring. NCCL starts its event when it has been
 * enqueued. The launch that carries it is the one that the thread made between start and stop of
 * the KernelLaunch event before it. Interface 4 has no such event: there the launch is the thread's
 * last one of a kernel of NCCL, which precedes the event of its group.
 *
 * Collectives in a graph with network work are enqueued by the driver's threads, in each replay.
 * Therefore handles have the number of their group, by which these threads find the launch. They
 * are numbers and never pointers: those of another process mean nothing here.
 */
#ifndef PITOT_CAPTURE_NCCL_NCCL_PLUGIN_H
#define PITOT_CAPTURE_NCCL_NCCL_PLUGIN_H

#include "capture/core/ring.h"

#define NCCL_EVENT_SLOTS 3u

/* Flags of RING_COLLECTIVE. */
enum {
	NCCL_EVENT_SEQUENCE = 1, /* it has one */
	NCCL_EVENT_PEER = 2, /* d is the peer; else the root */
	NCCL_EVENT_CAPTURED = 4,
	NCCL_EVENT_NOT_CAPTURED = 8,
	NCCL_EVENT_REPLAY = 16, /* once for each replay of the graph that it was captured into */
	NCCL_EVENT_COPY = 32, /* by copy engines */
	NCCL_EVENT_NVTX = 64, /* nccl_nvtx.h */
};

/* Whether collectives are recorded from now on. Sets NCCL's masks of events. */
void nccl_plugin_record(bool on);
bool nccl_plugin_records(void);
/* Whether it is a launch of a kernel of NCCL. */
bool nccl_is_launch(const struct ring_launch *launch);
/* The interface that NCCL chose; 0: it has not loaded the plug-in. */
unsigned nccl_plugin_interface(void);
void nccl_plugin_after_fork(void);

#endif
