#include "capture/nvtx/nvtx_calls.h"

#include <errno.h>
#include <string.h>

#include "capture/app/app_additions.h"
#include "capture/nvtx/nvtx_choice.h"
#include "capture/nvtx/nvtx_event.h"
#include "schema/schema.h"

struct call {
	enum nvtx_kind kind;
	uint32_t domain;
	int level; /* of a push or pop, or negative */
	uint64_t range;
	struct nvtx_attributes a;
};

atomic_bool nvtx_calls_off = true;
atomic_uint_fast64_t nvtx_calls_refused;
static atomic_uint_fast64_t last_range;

_Atomic(const struct nvtx_nccl_reader *) nvtx_nccl_reader;
static atomic_uint nccl_domain; /* 0: NCCL has not been used */

__thread struct nvtx_thread nvtx_thread;

/* --- the program's arguments --- */

struct nvtx_attributes nvtx_attributes_read(const void *from)
{
	struct nvtx_attributes a = { 0 };
	uint16_t size;

	if (!from)
		return a;
	memcpy(&size, (const char *)from + offsetof(struct nvtx_attributes, size), sizeof(size));
	memcpy(&a, from, MIN((size_t)size, sizeof(a)));
	if (size < sizeof(a))
		a.message_type = NVTX_MESSAGE_NONE;
	if (size < offsetof(struct nvtx_attributes, message_type))
		a.payload_type = nvtx_payload_none;
	if (size < offsetof(struct nvtx_attributes, payload_type))
		a.color_type = 0;
	if (size < offsetof(struct nvtx_attributes, color_type))
		a.category = 0;
	if (a.payload_type != NVTX_PAYLOAD_BLOCKS)
		a.blocks = 0;
	if (a.payload_type < nvtx_payload_none || a.payload_type > nvtx_payload_f32)
		a.payload_type = nvtx_payload_none;
	if (a.payload_type >= nvtx_payload_u32)
		a.payload &= UINT32_MAX;
	return a;
}

struct nvtx_attributes nvtx_message_only(enum nvtx_message type, const void *text)
{
	return (struct nvtx_attributes){ .message_type = type, .message = text };
}

uint32_t nvtx_domain_of(const void *handle)
{
	const struct nvtx_name *domain =
		handle ? nvtx_names_check(handle, NVTX_NAMED_DOMAIN) : NULL;

	return domain ? domain->domain : 0;
}

/* Copies a message's text. Returns its bytes, or -1 if there is none. */
static ssize_t text_of(int type, const void *text, char *out, size_t room, bool *cut)
{
	const struct nvtx_name *string;

	*cut = false;
	if (!text)
		return -1;
	switch (type) {
	case NVTX_MESSAGE_TEXT:
		return (ssize_t)nvtx_text_copy(out, room, text, cut);
	case NVTX_MESSAGE_WIDE:
		return (ssize_t)nvtx_text_narrow(out, room, text, cut);
	case NVTX_MESSAGE_REGISTERED:
		string = nvtx_names_check(text, NVTX_NAMED_STRING);
		return string ? (ssize_t)nvtx_text_copy(out, room, string->text, cut) : -1;
	default:
		return -1;
	}
}

/* --- recording --- */

/* Adds the message to the event in slot 0. Returns the number of slots. */
static uint32_t put_message(struct ring_event *slots, const struct nvtx_attributes *a, uint32_t n)
{
	const struct nvtx_name *string;
	ssize_t length;
	bool cut;

	if (a->message_type == NVTX_MESSAGE_REGISTERED) {
		string = nvtx_names_check(a->message, NVTX_NAMED_STRING);
		if (!string)
			return n;
		slots[0].c |= NVTX_EVENT_MORE | NVTX_EVENT_REGISTERED;
		slots[1].c = nvtx_names_number(string);
		return 2;
	}
	length = text_of(a->message_type, a->message, (char *)&slots[n], RING_TEXT_MAX, &cut);
	if (length < 0)
		return n;
	slots[0].c |= NVTX_EVENT_TEXT | (cut ? NVTX_EVENT_CUT : 0);
	slots[0].length = (uint16_t)length;
	return n + nvtx_event_text_slots(slots[0].length);
}

static void put_event(const struct call *c)
{
	struct ring_event slots[NVTX_EVENT_SLOTS_MAX];
	bool has_range = c->kind == nvtx_kind_start || c->kind == nvtx_kind_end;
	bool is_of_stack = c->kind == nvtx_kind_push || c->kind == nvtx_kind_pop;
	uint32_t level = MIN((uint32_t)c->level, NVTX_EVENT_NO_LEVEL), n = 1;
	struct ring *r = ring_get();

	if (!r)
		return;
	if (is_of_stack)
		additions_leave_range(r);
	slots[0] = (struct ring_event){
		.a = quick_clock_ns(&r->clock),
		.b = has_range ? c->range : c->a.payload,
		.c = c->domain | (uint32_t)c->a.payload_type << NVTX_EVENT_PAYLOAD_SHIFT,
		.d = c->a.category,
		.e = c->a.color,
		.kind = RING_NVTX,
		.flags = (uint8_t)(c->kind | level << NVTX_EVENT_LEVEL_SHIFT),
	};
	if (c->a.color_type == NVTX_COLOR_TYPE_ARGB)
		slots[0].c |= NVTX_EVENT_COLOR;
	slots[1] = (struct ring_event){ .a = c->a.payload };
	if (has_range && c->a.payload_type) {
		slots[0].c |= NVTX_EVENT_MORE;
		n = 2;
	}
	n = put_message(slots, &c->a, n);
	ring_push(r, slots, n);
	if (is_of_stack)
		additions_enter_range(r, slots[0].a);
	ring_count_call(r, slots[0].a);
}

static void record(const struct call *c)
{
	int saved = errno;

	if (!nvtx_enter())
		return;
	if (likely(!atomic_load_explicit(&nvtx_calls_off, memory_order_relaxed)))
		put_event(c);
	nvtx_leave();
	errno = saved;
}

/* --- calls, for every kind of message --- */

void nvtx_mark(uint32_t domain, struct nvtx_attributes a)
{
	struct call c = { .kind = nvtx_kind_mark, .domain = domain, .a = a };

	record(&c);
}

void nvtx_start_as(uint32_t domain, uint64_t range, struct nvtx_attributes a)
{
	struct call c = { .kind = nvtx_kind_start, .domain = domain, .range = range, .a = a };

	record(&c);
}

uint64_t nvtx_start(uint32_t domain, struct nvtx_attributes a)
{
	uint64_t range = atomic_fetch_add_explicit(&last_range, 1, memory_order_relaxed) + 1;

	nvtx_start_as(domain, range, a);
	return range;
}

void nvtx_end(uint32_t domain, uint64_t range)
{
	struct call c = { .kind = nvtx_kind_end, .domain = domain, .range = range };

	record(&c);
}

static NOINLINE void watch_begin(const struct nvtx_watch *watch, const struct call *c)
{
	char text[RING_TEXT_MAX + 1];
	bool cut;
	ssize_t length = text_of(c->a.message_type, c->a.message, text, RING_TEXT_MAX, &cut);

	text[MAX(length, 0)] = '\0';
	watch->begin(c->domain, (uint32_t)c->level, text);
}

static NOINLINE void tell_push(const struct call *c)
{
	const struct nvtx_nccl_reader *reader = atomic_load(&nvtx_nccl_reader);
	const struct nvtx_name *name = c->a.message_type == NVTX_MESSAGE_REGISTERED
					       ? nvtx_names_check(c->a.message, NVTX_NAMED_STRING)
					       : NULL;

	if (!reader || !name || !nvtx_enter())
		return;
	reader->push(name->text, (const struct nvtx_payload_block *)(uintptr_t)c->a.payload,
		     (unsigned)MAX(c->a.blocks, 0));
	nvtx_leave();
}

static NOINLINE void tell_pop(int level)
{
	const struct nvtx_nccl_reader *reader = atomic_load(&nvtx_nccl_reader);

	if (!reader || !nvtx_enter())
		return;
	reader->pop(level);
	nvtx_leave();
}

static inline bool is_nccl(uint32_t domain)
{
	return unlikely(domain &&
			domain == atomic_load_explicit(&nccl_domain, memory_order_relaxed));
}

int nvtx_push(uint32_t domain, struct nvtx_attributes a)
{
	struct call c = { .kind = nvtx_kind_push, .domain = domain, .a = a };
	const struct nvtx_watch *watch = nvtx_watch_get();

	c.level = domain < RING_LEVEL_DOMAINS ? nvtx_thread.levels[domain] : NVTX_NO_LEVEL;
	if (unlikely(watch) && c.level >= 0)
		watch_begin(watch, &c);
	record(&c);
	if (is_nccl(domain))
		tell_push(&c);
	if (c.level >= 0 && c.level < UINT16_MAX)
		nvtx_thread.levels[domain]++;
	return c.level;
}

int nvtx_pop(uint32_t domain)
{
	struct call c = { .kind = nvtx_kind_pop, .domain = domain };
	const struct nvtx_watch *watch = nvtx_watch_get();

	c.level = domain < RING_LEVEL_DOMAINS ? nvtx_thread.levels[domain] - 1 : NVTX_NO_LEVEL;
	record(&c);
	if (is_nccl(domain))
		tell_pop(c.level);
	if (c.level >= 0) {
		if (unlikely(watch))
			watch->end(domain, (uint32_t)c.level);
		nvtx_thread.levels[domain]--;
	}
	return c.level;
}

struct naming {
	enum nvtx_named what;
	uint32_t domain, id;
	enum nvtx_message type;
	const void *text;
};

/* Announces a new name to the collector; strings can wait until an event needs them. */
static void announce(void)
{
	struct ring_event event = { .kind = RING_NVTX_NAME };
	struct ring *r =
		atomic_load_explicit(&nvtx_calls_off, memory_order_relaxed) ? NULL : ring_get();

	if (r)
		ring_push(r, &event, 1);
}

static const struct nvtx_name *name_guarded(const struct naming *n)
{
	char text[RING_TEXT_MAX];
	bool cut;
	ssize_t length = text_of((int)n->type, n->text, text, sizeof(text), &cut);
	const struct nvtx_name *item;

	if (length < 0)
		return NULL;
	item = nvtx_names_add(n->what, n->domain, n->id, text, (size_t)length, cut);
	if (item && n->what == NVTX_NAMED_DOMAIN && !strcmp(item->text, "NCCL"))
		atomic_store(&nccl_domain, item->domain);
	if (item && n->what != NVTX_NAMED_STRING)
		announce();
	return item;
}

void *nvtx_name_in(enum nvtx_named what, const void *domain, uint32_t id, enum nvtx_message type,
		   const void *text)
{
	struct naming n = { what, nvtx_domain_of(domain), id, type, text };
	const struct nvtx_name *item;
	int saved = errno;

	if (!nvtx_enter())
		return NULL;
	item = name_guarded(&n);
	nvtx_leave();
	errno = saved;
	return (void *)(uintptr_t)item;
}
