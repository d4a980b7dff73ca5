/*
 * nccl_abi.h: our own declarations of NCCL's profiler plug-in, interfaces 4 to 6 (NCCL 2.27 to
 * 2.30, and later ones, which convert). NCCL takes the newest that a plug-in exports. Texts are of
 * NCCL's read-only tables.
 */
#ifndef PITOT_CAPTURE_NCCL_NCCL_ABI_H
#define PITOT_CAPTURE_NCCL_NCCL_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bits of types of events. NCCL also starts the parents of events whose bits are set. */
enum {
	NCCL_GROUP = 1 << 0, /* behind the launch; before what it carries */
	NCCL_COLLECTIVE = 1 << 1,
	NCCL_PEER = 1 << 2,
	NCCL_GROUP_API = 1 << 8,
	NCCL_COLLECTIVE_API = 1 << 9,
	NCCL_PEER_API = 1 << 10,
	NCCL_KERNEL_LAUNCH = 1 << 11,
	NCCL_COPY_COLLECTIVE = 1 << 12, /* by copy engines, without a kernel */
};

/*
 * The descriptor of an event. Interface 4 has only collectives and peers of these, a type of one
 * byte, and 104 bytes in all; interface 6 begins copy_collective like collective, up to `datatype`.
 */
struct nccl_event {
	uint64_t type;
	void *parent;
	int32_t rank;
	union {
		struct {
			bool captured;
			int32_t depth;
		} group_api;
		struct {
			const char *function;
			size_t count;
			const char *datatype;
			int32_t root;
			void *stream;
			bool captured;
		} collective_api;
		struct {
			const char *function;
			size_t count;
			const char *datatype;
			void *stream;
			bool captured;
		} peer_api;
		struct {
			uint64_t sequence;
			const char *function;
			const void *send_buffer;
			void *receive_buffer;
			size_t count;
			int32_t root;
			const char *datatype;
			uint8_t channels, warps;
			const char *algorithm, *protocol;
		} collective;
		struct {
			const char *function;
			void *buffer;
			const char *datatype;
			size_t count;
			int32_t peer;
			uint8_t channels;
		} peer;
	};
};

#define NCCL_AT(field, offset)                                                                     \
	_Static_assert(offsetof(struct nccl_event, field) == (offset), #field)
NCCL_AT(parent, 8);
NCCL_AT(rank, 16);
NCCL_AT(group_api.captured, 24);
NCCL_AT(group_api.depth, 28);
NCCL_AT(collective_api.function, 24);
NCCL_AT(collective_api.count, 32);
NCCL_AT(collective_api.datatype, 40);
NCCL_AT(collective_api.root, 48);
NCCL_AT(collective_api.stream, 56);
NCCL_AT(collective_api.captured, 64);
NCCL_AT(peer_api.stream, 48);
NCCL_AT(peer_api.captured, 56);
NCCL_AT(collective.sequence, 24);
NCCL_AT(collective.function, 32);
NCCL_AT(collective.count, 56);
NCCL_AT(collective.root, 64);
NCCL_AT(collective.datatype, 72);
NCCL_AT(collective.channels, 80);
NCCL_AT(collective.algorithm, 88);
NCCL_AT(collective.protocol, 96);
NCCL_AT(peer.function, 24);
NCCL_AT(peer.datatype, 40);
NCCL_AT(peer.count, 48);
NCCL_AT(peer.peer, 56);
NCCL_AT(peer.channels, 60);
_Static_assert(sizeof(struct nccl_event) == 104, "what interface 4 has; later ones have more");

/* All functions return ncclSuccess (0); otherwise NCCL closes the plug-in. */
struct nccl_plugin {
	const char *name;
	void *init; /* by interface */
	int (*start_event)(void *context, void **handle, const struct nccl_event *event);
	int (*stop_event)(void *handle);
	int (*record_event_state)(void *handle, int state, const void *arguments);
	int (*finalize)(void *context);
};
_Static_assert(sizeof(struct nccl_plugin) == 48, "six words");

/*
 * init() of interface 4: context, mask, name, hash, nodes, ranks, rank, logger. Later ones have the
 * hash behind the context. The mask stays valid while NCCL is loaded, is the same for all
 * communicators, and is read again at each outermost group.
 */

#endif
