#include "capture/nccl/nccl_nvtx.h"

#include <string.h>

#include "base/starts_with.h"
#include "capture/nccl/nccl_plugin.h"
#include "capture/nccl/nccl_registry.h"

/* How the payloads of all operations begin. */
struct operation {
	uint64_t hash;
	uint64_t bytes;
	int32_t other; /* root or peer; for some functions the reduction */
};
#define OPERATION_BYTES_MIN 16u

static void flush(struct ring *r)
{
	struct ring_launch launch = r->launch;

	if (launch.count != 1 || !nccl_is_launch(&launch))
		launch = (struct ring_launch){ 0 };
	for (uint32_t i = 0; i < r->nccl.pending; i++) {
		struct ring_event *event = r->nccl_pending[i];

		event->e = launch.correlation;
		event->flags |= launch.node ? NCCL_EVENT_CAPTURED : 0;
		event[2].a = launch.node;
		ring_push(r, event, NCCL_EVENT_SLOTS);
	}
	r->nccl.pending = 0;
}

static bool read_operation(const struct nvtx_payload_block *blocks, unsigned count,
			   struct operation *out)
{
	*out = (struct operation){ .other = -1 };
	if (!count || !blocks->data || blocks->size < OPERATION_BYTES_MIN ||
	    blocks->size == SIZE_MAX)
		return false;
	memcpy(out, blocks->data, MIN(blocks->size, offsetof(struct operation, other) + 4));
	return true;
}

static uint32_t communicator_of(uint64_t hash)
{
	uint32_t known = hash ? nccl_communicator_find(hash) : 0;

	return known || !hash
		       ? known
		       : nccl_communicator_add(&(struct nccl_communicator){ .hash = hash,
									    .ranks = NCCL_UNKNOWN,
									    .nodes = NCCL_UNKNOWN,
									    .rank = NCCL_UNKNOWN });
}

static void add(struct ring *r, uint8_t text, const struct operation *o)
{
	enum collective_function function = nccl_text_at(text)->function;
	bool is_peer = function == collective_function_send || function == collective_function_recv;
	struct ring_event *event;

	if (r->nccl.pending == RING_NCCL_PENDING) {
		r->launch.count = 0; /* the launch is still to come */
		flush(r);
	}
	if (!r->nccl.pending)
		r->launch = (struct ring_launch){ 0 };
	event = r->nccl_pending[r->nccl.pending++];
	memset(event, 0, NCCL_EVENT_SLOTS * sizeof(*event));
	event->kind = RING_COLLECTIVE;
	event->a = quick_clock_ns(&r->clock);
	event->c = communicator_of(o->hash);
	event->d = (uint32_t)o->other;
	event->b = nccl_count_operation(event->c, function, is_peer ? event->d : 0);
	event->flags = (uint8_t)(NCCL_EVENT_NVTX | (is_peer ? NCCL_EVENT_PEER : 0) |
				 (event->b != UINT64_MAX ? NCCL_EVENT_SEQUENCE : 0));
	event[1].a = o->bytes;
	event[1].c = text;
}

static void push(const char *name, const struct nvtx_payload_block *blocks, unsigned count)
{
	const char *call = starts_with(name, "nccl") ? name + 4 : "";
	struct operation operation;
	struct ring *r;
	uint8_t text;

	if (nccl_plugin_interface() || !nccl_plugin_records())
		return;
	r = ring_get();
	if (!r)
		return;
	if (!strcmp(call, "GroupStart"))
		r->nccl.depth++;
	r->nccl.ends_group = !strcmp(call, "GroupEnd");
	text = nccl_text_number(call);
	if (nccl_text_at(text)->function == collective_function_other ||
	    !read_operation(blocks, count, &operation))
		return;
	atomic_store(&ring_notes_launches, true);
	add(r, text, &operation);
}

static void pop(int level)
{
	struct ring *r = ring_of_thread;

	if (!r || level != 0)
		return;
	if (r->nccl.ends_group && r->nccl.depth)
		r->nccl.depth--;
	r->nccl.ends_group = false;
	if (!r->nccl.depth && r->nccl.pending)
		flush(r);
}

const struct nvtx_nccl_reader nccl_nvtx_reader = { push, pop };
