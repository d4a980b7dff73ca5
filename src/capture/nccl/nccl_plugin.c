#include "capture/nccl/nccl_plugin.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "base/safe_memory.h"
#include "capture/nccl/nccl_abi.h"
#include "capture/nccl/nccl_registry.h"

static atomic_bool is_on;
static atomic_uint process; /* the low bits of the process id; 0: not read yet */

/* --- NCCL's masks: one for each copy of NCCL in the process --- */

#define MASKS_MAX 4u

static const int wanted[] = {
	[4] = NCCL_COLLECTIVE | NCCL_PEER,
	[5] = NCCL_COLLECTIVE | NCCL_PEER | NCCL_GROUP_API | NCCL_COLLECTIVE_API | NCCL_PEER_API |
	      NCCL_KERNEL_LAUNCH,
	[6] = NCCL_COLLECTIVE | NCCL_PEER | NCCL_GROUP_API | NCCL_COLLECTIVE_API | NCCL_PEER_API |
	      NCCL_KERNEL_LAUNCH | NCCL_COPY_COLLECTIVE,
};

static struct {
	_Atomic(int *) mask;
	atomic_uint interface; /* 0: not set yet */
} masks[MASKS_MAX];
static atomic_uint interface_of_nccl;

/* Again if a session begins or ends meanwhile, on another thread. */
static void set_mask(unsigned i)
{
	int *mask = atomic_load(&masks[i].mask);
	bool on;

	do {
		on = atomic_load(&is_on);
		if (mask)
			__atomic_store_n(mask, on ? wanted[atomic_load(&masks[i].interface)] : 0,
					 __ATOMIC_RELAXED);
	} while (on != atomic_load(&is_on));
}

/* Masks are written when sessions begin and end, so their libraries must stay loaded. */
static bool keep_loaded(const int *mask)
{
	struct link_map *library;
	Dl_info info;

	return dladdr1(mask, &info, (void **)&library, RTLD_DL_LINKMAP) &&
	       (!library->l_name[0] /* the program */ ||
		dlopen(library->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE));
}

/* A mask that cannot be written later stays 0. Other threads may be reading it. */
static void add_mask(int *mask, unsigned interface)
{
	bool is_kept = false;

	for (unsigned i = 0; i < MASKS_MAX; i++) {
		int *known = atomic_load(&masks[i].mask);

		if (!known && (is_kept || (is_kept = keep_loaded(mask))) &&
		    atomic_compare_exchange_strong(&masks[i].mask, &known, mask))
			known = mask;
		if (known != mask)
			continue;
		atomic_store(&masks[i].interface, interface);
		set_mask(i);
		return;
	}
	__atomic_store_n(mask, 0, __ATOMIC_RELAXED);
}

void nccl_plugin_record(bool on)
{
	atomic_store(&is_on, on);
	for (unsigned i = 0; i < MASKS_MAX; i++)
		set_mask(i);
}

bool nccl_plugin_records(void)
{
	return atomic_load_explicit(&is_on, memory_order_relaxed);
}

unsigned nccl_plugin_interface(void)
{
	return atomic_load(&interface_of_nccl);
}

void nccl_plugin_after_fork(void)
{
	atomic_store(&process, 0);
	nccl_plugin_record(false);
}

/* --- handles --- */

enum handle_kind { HANDLE_GROUP = 1, HANDLE_CALL, HANDLE_LAUNCH };

/* Of calls in a group; the last one stands for all that exceed it. */
#define ORDINAL_MAX 4095u

struct handle {
	uint64_t kind : 3, captured : 1, ordinal : 12, group : 32, process : 16;
};
_Static_assert(sizeof(struct handle) == sizeof(void *), "a handle is a number");

static unsigned this_process(void)
{
	unsigned id = atomic_load_explicit(&process, memory_order_relaxed);

	if (unlikely(!id)) {
		id = 0x10000 | ((unsigned)getpid() & 0xffff);
		atomic_store(&process, id);
	}
	return id & 0xffff;
}

static void *handle_of(enum handle_kind kind, uint32_t group, uint32_t ordinal, bool captured)
{
	struct handle h = { .kind = kind,
			    .captured = captured,
			    .ordinal = MIN(ordinal, ORDINAL_MAX),
			    .group = group,
			    .process = this_process() & 0xffff };
	void *out;

	memcpy(&out, &h, sizeof(out));
	return out;
}

/* Returns a handle of kind 0 for what is none of that kind and of this process. */
static struct handle handle_read(const void *from, enum handle_kind kind)
{
	struct handle h;

	memcpy(&h, &from, sizeof(h));
	return h.kind == kind && h.process == this_process() ? h : (struct handle){ 0 };
}

/* --- launches --- */

#define GROUPS 65536u /* groups whose launches other threads find, also in a graph's replays */

static struct {
	/* group << 32 | correlation; 0 in the low half: several launches, or none is known */
	atomic_uint_fast64_t launch;
	atomic_uint_fast64_t node;
} groups[GROUPS];
static atomic_uint last_group;

static void launch_begin(struct ring *r, uint32_t group)
{
	r->launch = (struct ring_launch){ 0 };
	r->nccl.group = group;
	r->nccl.launch = (struct ring_launch){ 0 };
}

/* What the thread launched since launch_begin(). */
static void launch_end(struct ring *r, uint32_t group)
{
	uint64_t first = (uint64_t)group << 32 | r->launch.correlation, known;

	if (r->nccl.group != group || !r->launch.correlation)
		return;
	r->nccl.launch = r->launch;
	known = atomic_load(&groups[group % GROUPS].launch);
	atomic_store(&groups[group % GROUPS].node, r->launch.node);
	atomic_store(&groups[group % GROUPS].launch,
		     known >> 32 == group ? (uint64_t)group << 32 : first);
}

/* The module of an old launch may have been unloaded. */
bool nccl_is_launch(const struct ring_launch *launch)
{
	char name[16];

	return launch->correlation && launch->kernel &&
	       memory_copy(name, (uintptr_t)launch->kernel, sizeof(name)) &&
	       memmem(name, sizeof(name), "nccl", 4);
}

/* Interface 4: a launch of something else says that another thread launched the group. */
static void launch_before_group(struct ring *r)
{
	r->nccl.group = 0;
	r->nccl.launch = nccl_is_launch(&r->launch) ? r->launch : (struct ring_launch){ 0 };
	r->launch = (struct ring_launch){ 0 };
}

static struct ring_launch launch_of(const struct ring *r, struct handle call, bool *on_thread)
{
	uint64_t launch;

	*on_thread = r->nccl.group == call.group; /* 0: interface 4 */
	if (*on_thread)
		return r->nccl.launch;
	launch = atomic_load(&groups[call.group % GROUPS].launch);
	if (launch >> 32 != call.group)
		return (struct ring_launch){ 0 };
	return (struct ring_launch){ .correlation = (uint32_t)launch,
				     .node = atomic_load(&groups[call.group % GROUPS].node) };
}

/* --- events --- */

static uint32_t texts(const char *function, const char *datatype, const char *algorithm,
		      const char *protocol)
{
	return nccl_text_number(function) | (uint32_t)nccl_text_number(datatype) << 8 |
	       (uint32_t)nccl_text_number(algorithm) << 16 |
	       (uint32_t)nccl_text_number(protocol) << 24;
}

static void push(const void *context, const void *parent, struct ring_event *event)
{
	struct handle call = handle_read(parent, HANDLE_CALL);
	struct ring *r = ring_get();
	struct ring_launch launch;
	bool on_thread;

	if (!r)
		return;
	launch = launch_of(r, call, &on_thread);
	event->a = quick_clock_ns(&r->clock);
	event->c = (uint32_t)(uintptr_t)context;
	event->e = launch.correlation;
	event->kind = RING_COLLECTIVE;
	if (call.kind ? call.captured : launch.node != 0)
		event->flags |= NCCL_EVENT_CAPTURED | (on_thread ? 0 : NCCL_EVENT_REPLAY);
	else if (call.kind)
		event->flags |= NCCL_EVENT_NOT_CAPTURED;
	if (call.ordinal < ORDINAL_MAX)
		memcpy(&event[1].b, &call, sizeof(event[1].b));
	event[2].a = launch.node;
	ring_push(r, event, NCCL_EVENT_SLOTS);
	ring_count_call(r, event->a);
}

static void push_collective(void *context, const struct nccl_event *e, bool by_copies)
{
	struct ring_event event[NCCL_EVENT_SLOTS] = { {
		.b = e->collective.sequence,
		.d = (uint32_t)e->collective.root,
		.flags = NCCL_EVENT_SEQUENCE,
	} };

	event[1].a = e->collective.count;
	if (by_copies) { /* the descriptor has something else behind the data type */
		event->flags |= NCCL_EVENT_COPY;
		event[1].c = texts(e->collective.function, e->collective.datatype, NULL, NULL);
	} else {
		event[1].c = texts(e->collective.function, e->collective.datatype,
				   e->collective.algorithm, e->collective.protocol);
		event[1].d = e->collective.channels;
	}
	push(context, e->parent, event);
}

static void push_peer(void *context, const struct nccl_event *e)
{
	uint32_t numbers = texts(e->peer.function, e->peer.datatype, NULL, NULL);
	struct ring_event event[NCCL_EVENT_SLOTS] = { {
		.b = nccl_count_operation((uint32_t)(uintptr_t)context,
					  nccl_text_at((uint8_t)numbers)->function,
					  (uint32_t)e->peer.peer),
		.d = (uint32_t)e->peer.peer,
		.flags = NCCL_EVENT_PEER,
	} };

	if (event->b != UINT64_MAX)
		event->flags |= NCCL_EVENT_SEQUENCE;
	event[1].a = e->peer.count;
	event[1].c = numbers;
	event[1].d = e->peer.channels;
	push(context, e->parent, event);
}

static void *call_handle(const struct nccl_event *e, bool captured)
{
	struct handle group = handle_read(e->parent, HANDLE_GROUP);
	struct ring *r = ring_get();

	return r && group.kind
		       ? handle_of(HANDLE_CALL, (uint32_t)group.group, r->nccl.calls++, captured)
		       : NULL;
}

static void *group_handle(void)
{
	struct ring *r = ring_get();

	if (!r)
		return NULL;
	r->nccl.calls = 0;
	return handle_of(HANDLE_GROUP, atomic_fetch_add(&last_group, 1) + 1, 0, false);
}

static void *launch_handle(const struct nccl_event *e)
{
	struct handle group = handle_read(e->parent, HANDLE_GROUP);
	struct ring *r = ring_get();

	if (!r || !group.kind)
		return NULL;
	launch_begin(r, (uint32_t)group.group);
	return handle_of(HANDLE_LAUNCH, (uint32_t)group.group, 0, false);
}

static int start_event(void *context, void **handle, const struct nccl_event *e, uint64_t type)
{
	*handle = NULL;
	if (!atomic_load_explicit(&is_on, memory_order_relaxed))
		return 0;
	switch (type) {
	case NCCL_GROUP_API:
		*handle = group_handle();
		break;
	case NCCL_COLLECTIVE_API:
		*handle = call_handle(e, e->collective_api.captured);
		break;
	case NCCL_PEER_API:
		*handle = call_handle(e, e->peer_api.captured);
		break;
	case NCCL_KERNEL_LAUNCH:
		*handle = launch_handle(e);
		break;
	case NCCL_COLLECTIVE:
	case NCCL_COPY_COLLECTIVE:
		push_collective(context, e, type == NCCL_COPY_COLLECTIVE);
		break;
	case NCCL_PEER:
		push_peer(context, e);
		break;
	default:
		break;
	}
	return 0;
}

/* The type of interface 4 has one byte, and what follows it is undefined. */
static int start_event_v4(void *context, void **handle, const struct nccl_event *e)
{
	uint8_t type = *(const uint8_t *)e;
	struct ring *r = type == NCCL_GROUP && atomic_load(&is_on) ? ring_get() : NULL;

	if (r)
		launch_before_group(r);
	return start_event(context, handle, e, type);
}

static int start_event_v5(void *context, void **handle, const struct nccl_event *e)
{
	return start_event(context, handle, e, e->type);
}

static int stop_event(void *handle)
{
	struct handle launch = handle_read(handle, HANDLE_LAUNCH);

	if (launch.kind && ring_of_thread)
		launch_end(ring_of_thread, (uint32_t)launch.group);
	return 0;
}

static int record_event_state(void *handle, int state, const void *arguments)
{
	(void)handle;
	(void)state;
	(void)arguments;
	return 0;
}

/* Communicators stay known: rings may have events of them. */
static int finalize(void *context)
{
	(void)context;
	return 0;
}

static int init(unsigned interface, void **context, int *mask, const char *name,
		struct nccl_communicator c)
{
	if (name)
		strncpy(c.name, name, sizeof(c.name) - 1);
	atomic_store(&interface_of_nccl, interface);
	atomic_store(&ring_notes_launches, true);
	*context = (void *)(uintptr_t)nccl_communicator_add(&c);
	add_mask(mask, interface);
	return 0;
}

static struct nccl_communicator communicator(uint64_t hash, int nodes, int ranks, int rank)
{
	return (struct nccl_communicator){ .hash = hash,
					   .nodes = (uint32_t)nodes,
					   .ranks = (uint32_t)ranks,
					   .rank = (uint32_t)rank };
}

static int init_v4(void **context, int *mask, const char *name, uint64_t hash, int nodes, int ranks,
		   int rank, const void *logger)
{
	(void)logger;
	return init(4, context, mask, name, communicator(hash, nodes, ranks, rank));
}

static int init_v5(void **context, uint64_t hash, int *mask, const char *name, int nodes, int ranks,
		   int rank, const void *logger)
{
	(void)logger;
	return init(5, context, mask, name, communicator(hash, nodes, ranks, rank));
}

static int init_v6(void **context, uint64_t hash, int *mask, const char *name, int nodes, int ranks,
		   int rank, const void *logger)
{
	(void)logger;
	return init(6, context, mask, name, communicator(hash, nodes, ranks, rank));
}

#define INTERFACE(version, start)                                                                  \
	EXPORT extern const struct nccl_plugin ncclProfiler_v##version;                            \
	const struct nccl_plugin ncclProfiler_v##version = {                                       \
		"pitot", init_v##version, start, stop_event, record_event_state, finalize          \
	}
INTERFACE(4, start_event_v4);
INTERFACE(5, start_event_v5);
INTERFACE(6, start_event_v5);
