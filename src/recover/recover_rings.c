/* recover_rings.c: the events that were still in the threads' rings. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "capture/cuda/activity_rows.h"
#include "capture/nvtx/nvtx_event.h"
#include "capture/nvtx/nvtx_names.h"
#include "format/rows.h"
#include "recover/recover_state.h"
#include "stack/stack_tree.h"

/* Ids of the recorder's own nodes are far below. */
#define FIRST_NODE 0xc0000000u
#define NODES_MAX (1u << 20)

/* A ring in memory of our own; events are those from the ring's tail on, in order. */
struct ring_copy {
	struct ring ring;
	bool is_named;
	struct ring_event *events;
	uint64_t count;
};

struct ring_reader {
	struct recovery *r;
	struct ring_copy copy;
	struct stack_tree stacks;
	struct area_function *functions; /* AREA_FUNCTIONS_MAX */
	struct map communicators; /* numbers of those whose rows are written */
	bool has_scopes; /* the row of their domain is written */
};

/* --- stacks --- */

/* The names of Python's functions are in memory that died with the process. */
static void describe(void *context, struct writer *w, uint64_t frame, struct row_stack_node *row)
{
	(void)context, (void)w;
	*row = (struct row_stack_node){ .id = row->id,
					.parent = row->parent,
					.kind = row->kind,
					.address = frame >> 32 & 0x7fffffff };
	ROW_MISSING(row, stack_node, function, file, line);
}

static uint64_t stack_slots(const struct ring_event *event)
{
	return 1 + (uint64_t)(MIN(event->d, STACK_FRAMES_MAX) + 3) / 4;
}

static void read_stack(struct ring_reader *reader, const struct ring_event *event)
{
	uint64_t frames[STACK_FRAMES_MAX];
	unsigned count = MIN(event->d, STACK_FRAMES_MAX);

	memcpy(frames, event + 1, count * sizeof(*frames));
	if (!reader->stacks.stacks.count)
		reader->stacks.first_stack = event->c - event->c % (1u << 20);
	if (event->c <= reader->stacks.first_stack ||
	    event->c - reader->stacks.first_stack > 1u << 20 ||
	    stack_tree_add(&reader->stacks, reader->r->w, event->c, frames, count,
			   (enum stack_end)(event->e & 0xff)) < 0)
		reader->r->out->others++;
}

/* --- calls --- */

static void define_function(struct ring_reader *reader, uint32_t id)
{
	uint32_t api = id >> 16, callback = id & 0xffff;
	struct area_function none = { .kind = api_kind_other }, *f = &none;
	struct row_api_function row = { .id = id };

	if (api * AREA_CALLBACKS < AREA_FUNCTIONS_MAX && callback < AREA_CALLBACKS)
		f = &reader->functions[api * AREA_CALLBACKS + callback];
	f->name[sizeof(f->name) - 1] = '\0';
	row.kind = f->kind;
	row.waits_for = f->waits_for;
	ROW_MISSING_IF(&row, api_function, waits_for, !row.waits_for);
	row.name = rows_text(reader->r->w, *f->name ? f->name : "?");
	writer_api_function(reader->r->w, id, &row);
}

static void read_call(struct ring_reader *reader, const struct ring_event *event)
{
	struct recovery *r = reader->r;
	struct row_api_call row = api_call_row(event, event->flags ? event + 1 : NULL,
					       reader->copy.ring.tid, recovery_call(r, event->c));

	define_function(reader, event->d);
	writer_append(r->w, TABLE_api_call, &row);
	r->out->calls++;
}

/* --- NVTX and scopes --- */

/* Returns the string with that number, whose text is in the area; 0: it is unknown. */
static uint32_t named_string(const struct recovery *r, uint32_t number)
{
	struct area_nvtx_name name;

	if (number >= MIN(r->head.nvtx_names, NVTX_NAMES_MAX) ||
	    !recovery_read(r, AREA_NVTX, number * sizeof(name), &name, sizeof(name)) ||
	    name.what != NVTX_NAMED_STRING || name.length >= NVTX_NAME_BYTES_MAX)
		return 0;
	return recovery_string(r, AREA_NVTX, offsetof(struct area_nvtx, text) + name.offset,
			       name.length);
}

static void read_range(struct ring_reader *reader, const struct ring_event *event)
{
	struct recovery *r = reader->r;
	const struct ring_event *more = event->c & NVTX_EVENT_MORE ? event + 1 : NULL;
	struct row_nvtx row = nvtx_event_row(event, more, reader->copy.ring.tid);

	if (event->c & NVTX_EVENT_NAMED)
		row.message = named_string(r, event->d);
	else if (event->c & NVTX_EVENT_REGISTERED && more)
		row.message = named_string(r, more->c);
	else if (event->c & NVTX_EVENT_TEXT)
		row.message =
			writer_string(r->w, (const char *)(event + (more ? 2 : 1)), event->length);
	ROW_MISSING_IF(&row, nvtx, message, !row.message && !(event->c & NVTX_EVENT_TEXT));
	if (row.domain == NVTX_DOMAIN_SCOPES && !reader->has_scopes) {
		struct row_nvtx_domain domain = { .id = row.domain,
						  .name = rows_text(r->w, "pitot") };

		writer_append(r->w, TABLE_nvtx_domain, &domain);
		reader->has_scopes = true;
	}
	writer_append(r->w, TABLE_nvtx, &row);
	r->out->ranges++;
}

/* --- rings --- */

static void read_collective(struct ring_reader *reader, const struct ring_event *event)
{
	if (!recover_collective(reader->r, &reader->communicators, event, reader->copy.ring.tid))
		reader->r->out->unread_collectives++;
}

/* NCCL's calls in a group that has not been launched, as NVTX says it. */
static void read_pending(struct ring_reader *reader)
{
	const struct ring *ring = &reader->copy.ring;

	if (ring->state != RING_LIVE)
		return;
	for (uint32_t i = 0; i < MIN(ring->nccl.pending, RING_NCCL_PENDING); i++)
		read_collective(reader, ring->nccl_pending[i]);
}

static void name_thread(struct ring_reader *reader)
{
	struct ring *ring = &reader->copy.ring;
	struct row_thread row = { .tid = ring->tid, .time_ns = reader->r->now_ns };

	if (reader->copy.is_named)
		return;
	reader->copy.is_named = true;
	ring->name[sizeof(ring->name) - 1] = '\0';
	row.name = rows_text(reader->r->w, ring->name);
	writer_append(reader->r->w, TABLE_thread, &row);
}

static uint64_t slots_of(const struct ring_event *event)
{
	switch (event->kind) {
	case RING_API_CALL:
		return event->flags ? 2 : 1;
	case RING_NVTX:
		return nvtx_event_slots(event);
	case RING_STACK:
		return stack_slots(event);
	case RING_GRAPH_NODE:
		return 2;
	case RING_HIP_CALL:
		return 2;
	case RING_COLLECTIVE:
		return 3;
	case RING_HIP_WORK:
		return RING_HIP_WORK_SLOTS;
	case RING_SAMPLE:
		return MAX(event->flags, 1);
	default:
		return 1;
	}
}

static void read_event(struct ring_reader *reader, const struct ring_event *event)
{
	switch (event->kind) {
	case RING_API_CALL:
		name_thread(reader);
		read_call(reader, event);
		break;
	case RING_NVTX:
		name_thread(reader);
		read_range(reader, event);
		break;
	case RING_COLLECTIVE:
		name_thread(reader);
		read_collective(reader, event);
		break;
	case RING_STACK:
	case RING_NVTX_NAME:
		break;
	default:
		reader->r->out->others++;
	}
}

/* Stacks come first: calls of other threads may refer to them. */
static void read_events(struct ring_reader *reader, bool stacks)
{
	const struct ring_copy *copy = &reader->copy;

	for (uint64_t i = 0, slots; i < copy->count; i += slots) {
		const struct ring_event *event = &copy->events[i];

		slots = slots_of(event);
		if (slots > copy->count - i)
			return;
		if (!stacks)
			read_event(reader, event);
		else if (event->kind == RING_STACK)
			read_stack(reader, event);
	}
}

/* Copies ring i. Returns false if it has no events. */
static bool copy_ring(struct ring_reader *reader, unsigned i)
{
	const struct recovery *r = reader->r;
	struct ring_copy *copy = &reader->copy;
	uint64_t head, tail, first, base = i * AREA_RING_BYTES;

	if (!recovery_read(r, AREA_RINGS, i * sizeof(copy->ring), &copy->ring, sizeof(copy->ring)))
		return false;
	head = copy->ring.head;
	tail = copy->ring.tail;
	/* As a bool it must not have other values than 0 and 1. */
	copy->is_named = *(const uint8_t *)&copy->ring.named;
	if (r->mark.source == AREA_SOURCE_RING + i)
		tail = MAX(tail, r->mark.progress);
	if (head == tail || head - tail > RING_SLOTS)
		return false;
	copy->count = head - tail;
	first = MIN(copy->count, RING_SLOTS - tail % RING_SLOTS);
	return recovery_read(r, AREA_RING_MEMORY, base + tail % RING_SLOTS * sizeof(*copy->events),
			     copy->events, first * sizeof(*copy->events)) &&
	       recovery_read(r, AREA_RING_MEMORY, base, copy->events + first,
			     (copy->count - first) * sizeof(*copy->events));
}

/* The call in which the ring's thread waits for the GPU. */
static void read_wait(struct ring_reader *reader)
{
	const struct recovery *r = reader->r;
	const struct ring *ring = &reader->copy.ring;
	struct row_unfinished row = { .time_ns = r->now_ns,
				      .kind = unfinished_kind_call,
				      .start_ns = ring->wait.start_ns,
				      .correlation = recovery_call(r, ring->wait.correlation),
				      .function = ring->wait.function,
				      .thread = ring->tid,
				      .stack = ring->wait.stack };

	if (!row.start_ns || ring->state != RING_LIVE)
		return;
	ROW_MISSING_IF(&row, unfinished, stack, !row.stack);
	ROW_MISSING(&row, unfinished, config, device, context, stream, copy_kind, state,
		    system_call, reason, name);
	name_thread(reader);
	define_function(reader, row.function);
	writer_append(r->w, TABLE_unfinished, &row);
}

int recover_rings(struct recovery *r)
{
	struct ring_reader *reader = calloc(1, sizeof(*reader));
	int rc = -ENOMEM;

	if (!r->head.ring_bytes) {
		free(reader);
		return 0;
	}
	if (!reader)
		return rc;
	reader->r = r;
	reader->copy.events = malloc(RING_SLOTS * sizeof(*reader->copy.events));
	reader->functions = calloc(AREA_FUNCTIONS_MAX, sizeof(*reader->functions));
	stack_tree_init(&reader->stacks, NODES_MAX, describe, NULL);
	reader->stacks.first_node = FIRST_NODE;
	if (reader->copy.events && reader->functions &&
	    recovery_read(r, AREA_FUNCTIONS, 0, reader->functions,
			  AREA_FUNCTIONS_MAX * sizeof(*reader->functions)))
		rc = 0;
	for (unsigned pass = 0; rc == 0 && pass < 2 && !r->only_unfinished; pass++)
		for (unsigned i = 0; i < RINGS_MAX; i++)
			if (copy_ring(reader, i))
				read_events(reader, pass == 0);
	for (unsigned i = 0; rc == 0 && i < RINGS_MAX; i++)
		if (recovery_read(r, AREA_RINGS, i * sizeof(reader->copy.ring), &reader->copy.ring,
				  sizeof(reader->copy.ring))) {
			reader->copy.is_named = *(const uint8_t *)&reader->copy.ring.named;
			read_wait(reader);
			if (!r->only_unfinished)
				read_pending(reader);
			r->out->lost +=
				reader->copy.ring.lost -
				MIN(reader->copy.ring.lost, reader->copy.ring.lost_reported);
			if (reader->copy.ring.launched_count)
				rc = recover_launches_read(r, i);
		}
	map_release(&reader->communicators);
	stack_tree_release(&reader->stacks);
	free(reader->copy.events);
	free(reader->functions);
	free(reader);
	return rc;
}
