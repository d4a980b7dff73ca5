/*
 * The profiler plug-in of NCCL (NCCL_PROFILER_PLUGIN): writes what NCCL tells it, of the events on
 * the host alone. Interfaces 4 to 6, that is, NCCL from 2.27 on, which looks for the newest first.
 * Layouts are those of NCCL's plug-in guide: the type (8 bits in interface 4), the parent's handle
 * at 8, the rank at 16, then what the type has. Callbacks come on any thread, also within a capture
 * and from a host function of a graph: they only write.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "tape/tape_session.h"

enum {
	EVENT_COLLECTIVE = 2,
	EVENT_PEER = 4,
	EVENT_COLLECTIVE_API = 512,
	EVENT_PEER_API = 1024,
};

#define HOST_EVENTS_V4 0x7
#define HOST_EVENTS_V5 0xf07 /* and the calls of groups, collectives and peers, and launches */
#define HOST_EVENTS_V6 0x1f07 /* and collectives by copy engines */

static atomic_uint communicators;
static atomic_uint_fast64_t handles;

static size_t descriptor_bytes(unsigned interface)
{
	return interface == 4 ? 104 : 112;
}

/* The offsets of pointers to texts: function, type of data, algorithm, protocol. */
static unsigned text_offsets(uint64_t type, const unsigned **offsets)
{
	static const unsigned collective[] = { 32, 72, 88, 96 }, others[] = { 24, 40 };

	*offsets = type == EVENT_COLLECTIVE ? collective : others;
	if (type == EVENT_COLLECTIVE)
		return ARRAY_SIZE(collective);
	return type == EVENT_PEER || type == EVENT_COLLECTIVE_API || type == EVENT_PEER_API
		       ? ARRAY_SIZE(others)
		       : 0;
}

static void put(const struct tape_nccl *call)
{
	if (tape_running())
		tape_put_nccl(tape_writer(), tape_here(), call);
}

/* The context of a communicator is its number. */
static int init(unsigned interface, void **context, int *mask, const char *name, uint64_t hash,
		const int numbers[3])
{
	static const int masks[] = {
		[4] = HOST_EVENTS_V4, [5] = HOST_EVENTS_V5, [6] = HOST_EVENTS_V6
	};
	struct tape_nccl call = {
		.interface = interface,
		.communicator = atomic_fetch_add(&communicators, 1) + 1,
		.call = TAPE_NCCL_INIT,
		.hash = hash,
		.nodes = (unsigned)numbers[0],
		.ranks = (unsigned)numbers[1],
		.rank = (unsigned)numbers[2],
		.texts[0].text = name,
	};

	tape_begin();
	put(&call);
	__atomic_store_n(mask, masks[interface], __ATOMIC_RELAXED);
	*context = (void *)(uintptr_t)call.communicator;
	return 0;
}

static int start(unsigned interface, const void *context, void **handle, const uint8_t *descriptor)
{
	struct tape_nccl call = {
		.interface = interface,
		.communicator = (unsigned)(uintptr_t)context,
		.call = TAPE_NCCL_START,
		.type = interface == 4 ? *descriptor : load_u64(descriptor),
		.handle = atomic_fetch_add(&handles, 1) + 1,
		.parent = load_u64(descriptor + 8),
		.descriptor = descriptor + TAPE_NCCL_AT,
		.descriptor_bytes = descriptor_bytes(interface) - TAPE_NCCL_AT,
	};
	const unsigned *offsets;

	call.text_count = text_offsets(call.type, &offsets);
	for (unsigned i = 0; i < call.text_count; i++) {
		call.texts[i].offset = offsets[i];
		call.texts[i].text = (const char *)(uintptr_t)load_u64(descriptor + offsets[i]);
	}
	put(&call);
	*handle = (void *)(uintptr_t)call.handle;
	return 0;
}

static int end(enum tape_nccl_call what, unsigned interface, const void *context,
	       const void *handle, int state)
{
	struct tape_nccl call = {
		.interface = interface,
		.communicator = (unsigned)(uintptr_t)context,
		.call = what,
		.handle = (uintptr_t)handle,
		.state = (uint64_t)state,
	};

	put(&call);
	return 0;
}

struct plugin {
	const char *name;
	void *init;
	int (*start)(void *context, void **handle, const void *descriptor);
	int (*stop)(void *handle);
	int (*state)(void *handle, int state, const void *arguments);
	int (*finalize)(void *context);
};

/* What the interfaces have in common. */
#define INTERFACE(n)                                                                               \
	static int start_v##n(void *context, void **handle, const void *descriptor)                \
	{                                                                                          \
		return start(n, context, handle, descriptor);                                      \
	}                                                                                          \
                                                                                                   \
	static int stop_v##n(void *handle)                                                         \
	{                                                                                          \
		return end(TAPE_NCCL_STOP, n, NULL, handle, 0);                                    \
	}                                                                                          \
                                                                                                   \
	static int state_v##n(void *handle, int state, const void *arguments)                      \
	{                                                                                          \
		(void)arguments;                                                                   \
		return end(TAPE_NCCL_STATE, n, NULL, handle, state);                               \
	}                                                                                          \
                                                                                                   \
	static int finalize_v##n(void *context)                                                    \
	{                                                                                          \
		return end(TAPE_NCCL_FINALIZE, n, context, NULL, 0);                               \
	}                                                                                          \
                                                                                                   \
	EXPORT struct plugin ncclProfiler_v##n;                                                    \
	EXPORT struct plugin ncclProfiler_v##n = {                                                 \
		"pitot-tape", (void *)init_v##n, start_v##n, stop_v##n, state_v##n, finalize_v##n  \
	};

static int init_v4(void **context, int *mask, const char *name, uint64_t hash, int nodes, int ranks,
		   int rank, const void *logger)
{
	(void)logger;
	return init(4, context, mask, name, hash, (const int[]){ nodes, ranks, rank });
}

static int init_v5(void **context, uint64_t hash, int *mask, const char *name, int nodes, int ranks,
		   int rank, const void *logger)
{
	(void)logger;
	return init(5, context, mask, name, hash, (const int[]){ nodes, ranks, rank });
}

static int init_v6(void **context, uint64_t hash, int *mask, const char *name, int nodes, int ranks,
		   int rank, const void *logger)
{
	(void)logger;
	return init(6, context, mask, name, hash, (const int[]){ nodes, ranks, rank });
}

INTERFACE(4)
INTERFACE(5)
INTERFACE(6)
