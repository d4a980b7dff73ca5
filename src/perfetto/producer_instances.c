/*
 * producer_instances.c: instances of data sources, their writers, and the path of a packet from the
 * queue into a chunk.
 *
 * A writer is a sequence of an instance. Its chunk is sent when it is full, when its slot is
 * needed, when the instance answers a flush or stop, and when the queue is empty. An answer is
 * queued behind the packets that it covers.
 *
 * The service takes the acknowledgement of a flush to cover all lower ids. An instance therefore
 * stores its oldest unanswered flush, and the id acknowledged is the last one before the oldest of
 * all instances.
 */
#include "perfetto/producer_state.h"

#include <string.h>

static void call_about(struct producer *p, enum ipc_method method, uint64_t id)
{
	struct ipc_call call = producer_call(p, method, false);

	proto_uint(&p->out, 1, id);
	producer_call_end(p, &call);
}

/* --- writers --- */

static bool writer_id_reserve(struct producer *p, struct trace_writer *w)
{
	for (uint32_t i = 0; i < WRITER_IDS; i++) {
		uint32_t id = (p->last_writer + 1 + i) % WRITER_IDS;
		uint64_t bit = UINT64_C(1) << id % 64;

		if (!id || p->writer_ids[id / 64] & bit)
			continue;
		p->writer_ids[id / 64] |= bit;
		p->last_writer = id;
		*w = (struct trace_writer){ .id = (uint16_t)id };
		return true;
	}
	return false;
}

static bool writer_register(struct producer *p, struct instance *s, struct trace_writer *w)
{
	struct ipc_call call;

	if (!writer_id_reserve(p, w))
		return false;
	call = producer_call(p, IPC_REGISTER_WRITER, false);
	proto_uint(&p->out, 1, w->id);
	proto_uint(&p->out, 2, s->target_buffer);
	producer_call_end(p, &call);
	return true;
}

static void writer_release(struct producer *p, struct trace_writer *w)
{
	p->writer_ids[w->id / 64] &= ~(UINT64_C(1) << w->id % 64);
	if (w->open)
		p->chunks[w->open - 1].instance = NULL;
	w->id = 0;
}

/* --- instances --- */

static struct instance *instance_find(struct producer *p, uint64_t id)
{
	for (size_t i = 0; i < PRODUCER_INSTANCES_MAX; i++)
		if (p->instances[i].open && p->instances[i].id == id)
			return &p->instances[i];
	return NULL;
}

/* Returns the instance's number, or 0 if there are too many. */
static uint32_t instance_open(struct producer *p, uint64_t id, uint32_t target_buffer)
{
	for (uint32_t i = 0; i < PRODUCER_INSTANCES_MAX; i++) {
		struct instance *s = &p->instances[i];
		uint32_t before = s->number ? s->number : i;

		if (s->open)
			continue;
		pthread_mutex_lock(&p->queue.lock);
		memset(s, 0, sizeof(*s));
		s->number = before + PRODUCER_INSTANCES_MAX;
		s->open = true;
		pthread_mutex_unlock(&p->queue.lock);
		s->id = id;
		s->target_buffer = target_buffer;
		p->instances_open++;
		return s->number;
	}
	return 0;
}

static void instance_close(struct producer *p, struct instance *s)
{
	pthread_mutex_lock(&p->queue.lock);
	s->open = false;
	pthread_mutex_unlock(&p->queue.lock);
	p->instances_open--;
}

void producer_close_instances(struct producer *p)
{
	for (size_t i = 0; i < PRODUCER_INSTANCES_MAX; i++) {
		struct instance *s = &p->instances[i];

		if (!s->open)
			continue;
		for (size_t k = 0; k < PRODUCER_SEQUENCES_MAX; k++)
			if (s->writers[k].id)
				writer_release(p, &s->writers[k]);
		instance_close(p, s);
	}
	p->flush_last = p->flush_acknowledged = 0;
}

/* --- flush and stop --- */

static void acknowledge(struct producer *p)
{
	uint64_t id = p->flush_last;
	struct ipc_call call;

	for (size_t i = 0; i < PRODUCER_INSTANCES_MAX; i++)
		if (p->instances[i].open && p->instances[i].flush_first)
			id = MIN(id, p->instances[i].flush_first - 1);
	if (id <= p->flush_acknowledged)
		return;
	p->flush_acknowledged = id;
	call = producer_call(p, IPC_COMMIT, false);
	proto_uint(&p->out, 3, id);
	producer_call_end(p, &call);
}

/* Sends the next pending request to the handler, unless it has not answered the previous one. */
static void instance_request(struct producer *p, struct instance *s)
{
	if (s->pending || atomic_load(&p->stopping))
		return;
	if (s->flush_first) {
		s->pending = PENDING_FLUSH;
		p->handler.flush(p->handler.user, s->number);
	} else if (s->stop_requested) {
		s->pending = PENDING_STOP;
		p->handler.stop(p->handler.user, s->number);
	}
}

static void instance_answered(struct producer *p, struct instance *s)
{
	enum pending pending = s->pending;

	s->pending = PENDING_NOTHING;
	if (pending == PENDING_FLUSH) {
		s->flush_first = s->flush_next;
		s->flush_next = 0;
	} else if (pending == PENDING_STOP) {
		call_about(p, IPC_STOPPED, s->id);
		instance_close(p, s);
	}
	acknowledge(p);
	if (s->open)
		instance_request(p, s);
}

/* --- commands --- */

/* An instance beyond the limit is reported as started, too, so that the session begins. */
static void start(struct producer *p, const struct ipc_command *c)
{
	uint32_t number;

	if (instance_find(p, c->instance))
		return;
	if (!perfetto_config_decode(&p->config, c->config.p, cursor_left(&c->config))) {
		p->broken = true;
		return;
	}
	number = instance_open(p, c->instance, p->config.target_buffer);
	if (number)
		p->handler.start(p->handler.user, number, &p->config);
	call_about(p, IPC_STARTED, c->instance);
}

static void stop(struct producer *p, const struct ipc_command *c)
{
	struct instance *s = instance_find(p, c->instance);

	if (!s) {
		call_about(p, IPC_STOPPED, c->instance);
		return;
	}
	s->stop_requested = true;
	instance_request(p, s);
}

static void flush(struct producer *p, struct ipc_command *c)
{
	struct instance *s;
	uint64_t id;

	if (c->flush <= p->flush_last)
		return; /* ids increase */
	if (p->flush_acknowledged == p->flush_last)
		p->flush_acknowledged = c->flush - 1;
	p->flush_last = c->flush;
	while (ipc_command_next(c, &id)) {
		s = instance_find(p, id);
		if (!s)
			continue;
		if (!s->flush_first)
			s->flush_first = c->flush;
		else if (s->pending == PENDING_FLUSH && !s->flush_next)
			s->flush_next = c->flush;
		instance_request(p, s);
	}
	acknowledge(p);
}

static void clear(struct producer *p, struct ipc_command *c)
{
	uint64_t id;

	while (ipc_command_next(c, &id)) {
		struct instance *s = instance_find(p, id);

		if (s && p->handler.clear)
			p->handler.clear(p->handler.user, s->number);
	}
}

void producer_command(struct producer *p, struct ipc_command *c)
{
	if (c->kind == IPC_SETUP_TRACING)
		p->may_commit = true;
	else if (atomic_load(&p->stopping))
		return;
	else if (c->kind == IPC_START)
		start(p, c);
	else if (c->kind == IPC_STOP)
		stop(p, c);
	else if (c->kind == IPC_FLUSH)
		flush(p, c);
	else if (c->kind == IPC_CLEAR)
		clear(p, c);
}

/* --- from the queue into chunks --- */

static void send_chunk(struct producer *p, struct open_chunk *open)
{
	struct ipc_call call = producer_call(p, IPC_COMMIT, false);
	size_t move = proto_open(&p->out, 1);

	chunk_end(&open->chunk);
	proto_uint(&p->out, 1, 0);
	proto_uint(&p->out, 2, 0);
	proto_uint(&p->out, 3, open->instance->target_buffer);
	proto_bytes(&p->out, 4, open->chunk.bytes, open->chunk.length);
	proto_close(&p->out, move);
	producer_call_end(p, &call);
	open->writer->open = 0;
	open->instance = NULL;
}

/* Returns the chunk that has been open for longest, of one instance or of all (NULL). */
static struct open_chunk *oldest_chunk(struct producer *p, const struct instance *s)
{
	struct open_chunk *oldest = NULL;

	for (size_t i = 0; i < OPEN_CHUNKS; i++) {
		struct open_chunk *open = &p->chunks[i];

		if (open->instance && (!s || open->instance == s) &&
		    (!oldest || open->since < oldest->since))
			oldest = open;
	}
	return oldest;
}

/* Opens a chunk for a writer. NULL: sent the oldest chunk instead, to make room. */
static struct open_chunk *open_chunk(struct producer *p, struct instance *s, struct trace_writer *w)
{
	for (size_t i = 0; i < OPEN_CHUNKS; i++) {
		struct open_chunk *open = &p->chunks[i];

		if (open->instance)
			continue;
		open->instance = s;
		open->writer = w;
		open->since = p->chunks_opened++;
		w->open = (uint8_t)(i + 1);
		chunk_begin(&open->chunk, w->id, w->next_chunk++);
		return open;
	}
	send_chunk(p, oldest_chunk(p, NULL));
	return NULL;
}

/* Moves the packet or its next part into its writer's chunk. Sends at most one chunk. */
static void move_packet(struct producer *p, struct instance *s, struct trace_writer *w)
{
	struct open_chunk *open = w->open ? &p->chunks[w->open - 1] : open_chunk(p, s, w);
	size_t length = open ? chunk_room_for(&open->chunk, p->left, p->is_continuation) : 0;

	if (!open)
		return;
	if (length) {
		packet_queue_remove(&p->queue,
				    chunk_add(&open->chunk, length, p->left, p->is_continuation),
				    length);
		p->left -= length;
		p->is_continuation = true;
		p->has_head = p->left;
	}
	if (p->has_head)
		send_chunk(p, open);
}

/* Drops a packet whose instance is gone, or for which no writer is left. */
static void drop_packet(struct producer *p, struct instance *s)
{
	pthread_mutex_lock(&p->queue.lock);
	if (s->number == p->head.instance && p->head.sequence)
		s->lost++;
	pthread_mutex_unlock(&p->queue.lock);
	packet_queue_skip(&p->queue, p->left);
	p->has_head = false;
}

/* Releases a writer of a stopping instance. Returns false if none is left. */
static bool release_next(struct producer *p, struct instance *s)
{
	struct trace_writer *w;

	while (s->pending == PENDING_STOP && s->released < PRODUCER_SEQUENCES_MAX) {
		w = &s->writers[s->released++];
		if (!w->id)
			continue;
		call_about(p, IPC_UNREGISTER_WRITER, w->id);
		writer_release(p, w);
		return true;
	}
	return false;
}

/* Handles the instance's answer after sending everything queued before it. */
static void handle_answer(struct producer *p, struct instance *s)
{
	struct open_chunk *open = oldest_chunk(p, s);

	if (open) {
		send_chunk(p, open);
	} else if (!release_next(p, s)) {
		p->has_head = false;
		instance_answered(p, s);
	}
}

static void read_head(struct producer *p)
{
	packet_queue_remove(&p->queue, &p->head, sizeof(p->head));
	p->has_head = true;
	p->is_continuation = false;
	p->left = p->head.length;
}

/* Sends at most one chunk. Returns false if the queue is empty. */
static bool drain_step(struct producer *p)
{
	struct instance *s;
	struct trace_writer *w;

	if (!p->has_head && !packet_queue_used(&p->queue))
		return false;
	if (!p->has_head)
		read_head(p);
	s = &p->instances[p->head.instance % PRODUCER_INSTANCES_MAX];
	w = &s->writers[(p->head.sequence - 1) % PRODUCER_SEQUENCES_MAX];
	if (s->number != p->head.instance || !s->open)
		drop_packet(p, s);
	else if (!p->head.sequence)
		handle_answer(p, s);
	else if (!w->id && !writer_register(p, s, w))
		drop_packet(p, s);
	else
		move_packet(p, s, w);
	return true;
}

/* Without open instances the queue is only emptied. */
static bool may_drain(const struct producer *p)
{
	return !p->broken && (p->may_commit || !p->instances_open) &&
	       p->out.length <= OUTPUT_CHUNKS;
}

void producer_drain(struct producer *p)
{
	struct open_chunk *open;

	while (may_drain(p))
		if (!drain_step(p))
			break;
	if (packet_queue_used(&p->queue) || p->has_head)
		return;
	while (may_drain(p) && (open = oldest_chunk(p, NULL)))
		send_chunk(p, open);
	atomic_store(&p->woken, false);
}

bool producer_drained(const struct producer *p)
{
	for (size_t i = 0; i < OPEN_CHUNKS; i++)
		if (p->chunks[i].instance)
			return false;
	return !p->has_head && !packet_queue_used(&p->queue);
}
