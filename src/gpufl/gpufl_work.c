/*
 * gpufl_work.c: GPU work: kernels with their details, copies, memsets, graph launches; also waits
 * and allocations.
 */
#include "gpufl/gpufl_sink_state.h"
#include "names/demangle.h"
#include "schema/theoretical_occupancy.h"

#define MISSING(row, table, column) ((row)->missing >> COLUMN_##table##_##column & 1)
#define VALUE(row, table, column) (MISSING(row, table, column) ? 0 : (row)->column)
/* Whether a row has both start and end, in order. */
#define IS_TIMED(row, table)                                                                       \
	(!MISSING(row, table, start_ns) && !MISSING(row, table, end_ns) &&                         \
	 (row)->end_ns >= (row)->start_ns)

#define DETAILS_MAX (1u << 20) /* of stored compact details */

/* What is known of the call of work whose call has not arrived. */
static const struct gpufl_call no_call = { .path = LABEL_UNKNOWN };

static const struct gpufl_call *call_of(const struct gpufl_sink *s, uint64_t correlation)
{
	return gpufl_call_find(s, correlation) ?: &no_call;
}

/* The fields of GPUFL_CALL. */
#define CALL(call) (call)->thread, (call)->start_ns, (call)->end_ns

static void extend_span(struct gpufl_sink *s, uint64_t end_ns)
{
	s->last_ns = MAX(s->last_ns, end_ns);
}

/* ---- kernels ---- */

/* Writes a share with six decimals. */
static void key_share(struct strbuf *out, const char *key, uint64_t part, uint64_t whole)
{
	uint64_t millionths = whole ? MIN((part * 2000000 + whole) / (2 * whole), 1000000) : 0;

	strbuf_addf(out, ",\"%s\":%u.%06u", key, (unsigned)(millionths / 1000000),
		    (unsigned)(millionths % 1000000));
}

static void add_occupancy(const struct gpufl_sink *s, uint32_t device,
			  const struct row_kernel_config *c, struct strbuf *out)
{
	/* In the format's order. */
	static const struct {
		const char *key;
		enum occupancy_limiter limiter;
	} parts[] = { { "reg_occupancy", OCCUPANCY_REGISTERS },
		      { "smem_occupancy", OCCUPANCY_SHARED },
		      { "warp_occupancy", OCCUPANCY_WARPS },
		      { "block_occupancy", OCCUPANCY_BLOCKS } };
	static const char *const names[OCCUPANCY_LIMITERS] = {
		[OCCUPANCY_WARPS] = "warps",
		[OCCUPANCY_REGISTERS] = "registers",
		[OCCUPANCY_SHARED] = "shared_mem",
		[OCCUPANCY_BLOCKS] = "blocks",
	};
	struct occupancy o = { 0 };
	bool known = device < GPUFL_DEVICES_MAX && s->has_device[device] &&
		     occupancy_of(&s->devices[device], c, &o) == 0;
	uint64_t warps = o.blocks ? o.warps / o.blocks : 0;

	key_share(out, "occupancy", o.warps, o.max_warps);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		key_share(out, parts[i].key, o.limits[parts[i].limiter] * warps, o.max_warps);
	strbuf_addf(out, ",\"limiting_resource\":\"%s\",\"max_active_blocks\":%u",
		    known ? names[o.limiter] : "", o.blocks);
}

/* Returns CUPTI's number. */
static unsigned cache_config(uint8_t config)
{
	return config ? config - 1u : 0;
}

/* Appends the part of kernel_detail that launches of a shape have in common. */
static void add_shape(const struct gpufl_sink *s, uint32_t device,
		      const struct row_kernel_config *c, struct strbuf *out)
{
	strbuf_addf(out, ",\"grid\":\"(%u,%u,%u)\",\"block\":\"(%u,%u,%u)\"", c->grid_x, c->grid_y,
		    c->grid_z, c->block_x, c->block_y, c->block_z);
	strbuf_addf(out, ",\"static_shared\":%u,\"local_bytes\":%u,\"const_bytes\":0",
		    c->static_shared_bytes, c->local_bytes_per_thread);
	add_occupancy(s, device, c, out);
	strbuf_addf(out,
		    ",\"local_mem_total_bytes\":%llu,\"local_mem_per_thread_bytes\":%u"
		    ",\"cache_config_requested\":%u,\"cache_config_executed\":%u"
		    ",\"shared_mem_executed_bytes\":%u,\"user_scope\":\"",
		    (unsigned long long)c->local_bytes_total, c->local_bytes_per_thread,
		    cache_config(c->cache_config_requested), cache_config(c->cache_config_executed),
		    VALUE(c, kernel_config, executed_shared_bytes));
}

struct bytes_value gpufl_kernel_name(struct gpufl_sink *s, struct bytes_value mangled)
{
	if (!mangled.length)
		mangled = (struct bytes_value){ "?", 1 };
	strbuf_clear(&s->scratch);
	demangle(mangled.data, &s->scratch);
	return (struct bytes_value){ strbuf_text(&s->scratch), (uint32_t)s->scratch.length };
}

/* Returns NULL if out of memory. */
static const struct gpufl_shape *shape_of(struct gpufl_sink *s, const struct row_kernel *k)
{
	static const struct row_kernel_config unknown;
	const struct row_kernel_config *c =
		definitions_row(&s->definitions, TABLE_kernel_config, k->config);
	uint64_t *slot = map_at(&s->shapes, (uint64_t)k->device << 32 | k->config, 0);
	struct gpufl_shape *shape;
	struct bytes_value name;
	char *detail;

	if (!slot || *slot)
		return slot ? (const void *)(uintptr_t)*slot : NULL;
	if (!c)
		c = &unknown;
	shape = arena_alloc(&s->arena, sizeof(*shape));
	if (!shape)
		return NULL;
	name = gpufl_kernel_name(s, gpufl_text(s, c->name));
	*shape = (struct gpufl_shape){ .kernel = gpufl_name(&s->log, DICTIONARY_kernel, name.data,
							    name.length),
				       .dynamic_shared = c->dynamic_shared_bytes,
				       .registers = c->registers };
	strbuf_clear(&s->scratch);
	add_shape(s, k->device, c, &s->scratch);
	detail = arena_strndup(&s->arena, strbuf_text(&s->scratch), s->scratch.length);
	if (!detail)
		return NULL;
	shape->detail = (struct bytes_value){ detail, (uint32_t)s->scratch.length };
	*slot = (uint64_t)(uintptr_t)shape;
	return shape;
}

/* Returns the label of the frames of a stack. */
static uint32_t stack_label(struct gpufl_sink *s, uint32_t stack)
{
	uint64_t *slot;

	if (!s->options.stack || !stack)
		return 0;
	slot = map_at(&s->stacks, stack, UINT64_MAX);
	if (!slot)
		return 0;
	if (*slot == UINT64_MAX) {
		strbuf_clear(&s->scratch);
		s->options.stack(s->options.user, stack, &s->scratch);
		*slot = gpufl_label(s, 0,
				    (struct bytes_value){ strbuf_text(&s->scratch),
							  (uint32_t)s->scratch.length });
	}
	return (uint32_t)*slot;
}

/* Returns a kernel's id and writes its detail; in compact form only of the first equal one. */
static uint64_t kernel_detail(struct gpufl_sink *s, const struct gpufl_shape *shape, uint32_t path,
			      uint32_t stack, struct strbuf *out)
{
	uint64_t id = ++s->next_id, *slot, key;

	if (s->options.compact) {
		if (s->details.count >= DETAILS_MAX)
			map_clear(&s->details);
		key = hash_u64((uint64_t)(uintptr_t)shape ^ hash_u64((uint64_t)path << 32 | stack));
		slot = map_at(&s->details, key, id);
		if (slot && *slot != id) {
			s->next_id--;
			return *slot;
		}
	}
	raw_reserve(out, s->detail_head.length + shape->detail.length);
	raw_add(out, s->detail_head.data, s->detail_head.length);
	text_u64(out, id);
	raw_add(out, shape->detail.data, shape->detail.length);
	gpufl_add_label(s, out, path);
	TEXT(out, "\",\"stack_trace\":\"");
	gpufl_add_label(s, out, stack);
	TEXT(out, "\"}\n");
	s->log.pending[GPUFL_DEVICE]++;
	return id;
}

static void write_kernel(struct gpufl_sink *s, const struct row_kernel *k,
			 const struct gpufl_call *call)
{
	const struct gpufl_shape *shape = IS_TIMED(k, kernel) ? shape_of(s, k) : NULL;
	bool queued = !MISSING(k, kernel, queued_ns);
	uint64_t id;

	s->log.lost += !shape && IS_TIMED(k, kernel);
	if (!shape)
		return;
	extend_span(s, k->end_ns);
	id = kernel_detail(s, shape, call->path, stack_label(s, call->stack),
			   &s->log.batches[queued ? BATCH_queued_kernel : BATCH_kernel].after);
#define KERNEL                                                                                     \
	shape->kernel, k->end_ns - k->start_ns, id, shape->dynamic_shared, shape->registers, 1,    \
		call->external_kind, call->external_id, CALL(call)
	if (queued)
		GPUFL_ROW(&s->log, queued_kernel, gpufl_time(s, k->start_ns), k, KERNEL,
			  gpufl_time(s, k->queued_ns));
	else
		GPUFL_ROW(&s->log, kernel, gpufl_time(s, k->start_ns), k, KERNEL);
#undef KERNEL
	gpufl_kernel_counters(s, k);
}

/* CUPTI may deliver a kernel before the launching call has returned. */
void gpufl_kernel(struct gpufl_sink *s, const struct row_kernel *k)
{
	const struct gpufl_call *call = gpufl_call_find(s, k->correlation);

	if (call || s->pending.count >= GPUFL_PENDING_MAX || vec_push(&s->pending, *k) < 0)
		write_kernel(s, k, call ? call : &no_call);
}

void gpufl_kernels_flush(struct gpufl_sink *s, bool all)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->pending.count; i++) {
		struct row_kernel k = s->pending.data[i];
		const struct gpufl_call *call = gpufl_call_find(s, k.correlation);

		if (all || call || i < s->pending_before_seal)
			write_kernel(s, &k, call ? call : &no_call);
		else
			s->pending.data[kept++] = k;
	}
	s->pending.count = s->pending_before_seal = kept;
}

/* ---- other work ---- */

void gpufl_memcpy(struct gpufl_sink *s, const struct row_memcpy *m)
{
	const struct gpufl_call *call = call_of(s, m->correlation);

	if (!IS_TIMED(m, memcpy))
		return;
	extend_span(s, m->end_ns);
	GPUFL_ROW(&s->log, memcpy, gpufl_time(s, m->start_ns), m, m->end_ns - m->start_ns,
		  CALL(call));
}

struct strbuf *gpufl_identified_line(struct gpufl_sink *s, enum gpufl_channel channel,
				     const char *type)
{
	struct strbuf *out = gpufl_line(&s->log, channel, type);

	raw_reserve(out, s->identity.length);
	raw_add(out, s->identity.data, s->identity.length);
	return out;
}

void gpufl_memset(struct gpufl_sink *s, const struct row_memset *m)
{
	const struct gpufl_call *call = call_of(s, m->correlation);
	struct strbuf *out;

	if (!IS_TIMED(m, memset))
		return;
	extend_span(s, m->end_ns);
	out = gpufl_identified_line(s, GPUFL_DEVICE, "memset_event");
	TEXT(out, ",\"name\":\"memset\",\"platform\":\"cuda\",\"device_id\":\"");
	text_u64(out, m->device);
	TEXT(out, "\",\"stream_id\":\"");
	text_u64(out, m->stream);
	TEXT(out, "\",\"stack_trace\":\"");
	gpufl_add_label(s, out, stack_label(s, call->stack));
	TEXT(out, "\",\"user_scope\":\"");
	gpufl_add_label(s, out, call->path);
	TEXT(out, "\",\"scope_depth\":0");
	TEXT_U64(out, "start_ns", gpufl_time(s, m->start_ns));
	TEXT_U64(out, "end_ns", gpufl_time(s, m->end_ns));
	TEXT_U64(out, "api_start_ns", call->start_ns);
	TEXT_U64(out, "api_exit_ns", call->end_ns);
	TEXT_U64(out, "corr_id", m->correlation);
	TEXT_U64(out, "bytes", m->bytes);
	TEXT_U64(out, "context_id", m->context);
	TEXT_U64(out, "graph_id", VALUE(m, memset, graph));
	TEXT_U64(out, "graph_node_id", VALUE(m, memset, graph_node));
	TEXT_U64(out, "thread_id", call->thread);
	TEXT(out, "}\n");
}

void gpufl_graph_launch(struct gpufl_sink *s, const struct row_graph_launch *g)
{
	const struct gpufl_call *call = call_of(s, g->correlation);
	struct strbuf *out;

	if (!IS_TIMED(g, graph_launch))
		return;
	extend_span(s, g->end_ns);
	out = gpufl_identified_line(s, GPUFL_SCOPE, "graph_launch_event");
	TEXT_U64(out, "start_ns", gpufl_time(s, g->start_ns));
	TEXT_U64(out, "end_ns", gpufl_time(s, g->end_ns));
	TEXT_U64(out, "duration_ns", g->end_ns - g->start_ns);
	TEXT_U64(out, "graph_id", g->graph);
	TEXT_U64(out, "device_id", g->device);
	TEXT_U64(out, "stream_id", g->stream);
	TEXT_U64(out, "corr_id", g->correlation);
	TEXT_U64(out, "thread_id", call->thread);
	TEXT_U64(out, "api_start_ns", call->start_ns);
	TEXT_U64(out, "api_exit_ns", call->end_ns);
	TEXT(out, "}\n");
}

/* ---- waits ---- */

/* Kinds of synchronizations have the format's numbers. */
static void add_wait(struct gpufl_sink *s, const struct row_synchronization *y)
{
	const struct gpufl_call *call = call_of(s, y->correlation);
	uint32_t stack = stack_label(s, call->stack);
	const struct interned *frames = &s->labels.items[stack];

	extend_span(s, y->end_ns);
	GPUFL_ROW(&s->log, synchronization, gpufl_time(s, y->start_ns), y, y->end_ns - y->start_ns,
		  stack ? gpufl_name(&s->log, DICTIONARY_function, frames->text, frames->length)
			: 0,
		  call->thread);
}

void gpufl_synchronization(struct gpufl_sink *s, const struct row_synchronization *y)
{
	if (IS_TIMED(y, synchronization) && y->kind != synchronization_kind_unknown)
		add_wait(s, y);
}

void gpufl_allocation(struct gpufl_sink *s, const struct row_allocation *a)
{
	const struct gpufl_call *call = call_of(s, a->correlation);

	if (MISSING(a, allocation, time_ns) || a->operation == memory_operation_unknown)
		return;
	extend_span(s, a->time_ns);
	GPUFL_ROW(&s->log, allocation, gpufl_time(s, a->time_ns), a, 0, CALL(call));
}

/* ---- calls ---- */

const struct gpufl_call *gpufl_call_find(const struct gpufl_sink *s, uint64_t correlation)
{
	uint64_t item;

	for (size_t i = 0; i < 2; i++)
		if (map_get(&s->calls.index[i], correlation, &item))
			return &s->calls.items[i].data[item];
	return NULL;
}

static void drop_older_calls(struct gpufl_calls *c)
{
	struct map index = c->index[1];
	struct gpufl_call *data = c->items[1].data;
	size_t capacity = c->items[1].capacity;

	c->index[1] = c->index[0];
	c->items[1].data = c->items[0].data;
	c->items[1].count = c->items[0].count;
	c->items[1].capacity = c->items[0].capacity;
	map_clear(&index);
	c->index[0] = index;
	c->items[0].data = data;
	c->items[0].count = 0;
	c->items[0].capacity = capacity;
}

/* Finds or adds the properties of a call. NULL if out of memory. */
static struct gpufl_call *add_call(struct gpufl_sink *s, uint64_t correlation)
{
	struct gpufl_calls *c = &s->calls;
	const struct gpufl_call *known = gpufl_call_find(s, correlation);
	struct gpufl_call call = { .path = LABEL_UNKNOWN };
	uint64_t *slot;

	if (known)
		call = *known;
	if (c->items[0].count >= c->max)
		drop_older_calls(c);
	slot = vec_reserve(&c->items[0], 1) < 0
		       ? NULL
		       : map_at(&c->index[0], correlation, c->items[0].count);
	s->log.lost += !slot;
	if (!slot)
		return NULL;
	if (*slot == c->items[0].count)
		c->items[0].data[c->items[0].count++] = call;
	return &c->items[0].data[*slot];
}

/* Returns what a blocking function waits for, by its name; 0: something else, or nothing. */
static uint8_t sync_type_of(const char *name)
{
	if (strstr(name, "EventSync"))
		return synchronization_kind_event;
	if (strstr(name, "StreamSync"))
		return synchronization_kind_stream;
	if (strstr(name, "DeviceSync") || strstr(name, "CtxSync") || strstr(name, "ThreadSync"))
		return synchronization_kind_context;
	return synchronization_kind_unknown;
}

void gpufl_api_function(struct gpufl_sink *s, const struct row_api_function *f)
{
	uint8_t kind =
		f->kind == api_kind_synchronize ? sync_type_of(gpufl_text(s, f->name).data) : 0;

	if (s->options.blocking_calls && kind && map_put(&s->functions, f->id, kind) < 0)
		s->log.lost++;
}

void gpufl_api_call(struct gpufl_sink *s, const struct row_api_call *c)
{
	struct gpufl_call *call = add_call(s, c->correlation);
	struct row_synchronization wait = { .start_ns = c->start_ns,
					    .end_ns = c->end_ns,
					    .correlation = c->correlation };
	uint64_t kind;

	if (call) {
		call->path = gpufl_scope_path(s, c->thread);
		call->stack = VALUE(c, api_call, stack);
		call->thread = c->thread;
		call->start_ns = gpufl_time(s, c->start_ns);
		call->end_ns = gpufl_time(s, c->end_ns);
	}
	if (c->end_ns < c->start_ns || !map_get(&s->functions, c->function, &kind))
		return;
	wait.kind = (uint8_t)kind;
	add_wait(s, &wait);
}

void gpufl_external(struct gpufl_sink *s, const struct row_external_correlation *x)
{
	struct gpufl_call *call = add_call(s, x->correlation);

	if (!call)
		return;
	call->external_kind = x->kind;
	call->external_id = x->id;
}
