#include "capture/nvtx/nvtx_source.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "capture/nvtx/nvtx_abi.h"
#include "capture/nvtx/nvtx_event.h"
#include "capture/nvtx/nvtx_names.h"
#include "capture/nvtx/nvtx_text.h"
#include "capture/tape/tape.h"

#define LEVEL_DOMAINS 16u /* domains whose levels of nesting are counted */
#define COST_EVERY 64u /* calls of which one is measured */

/* Which function was called, for the tape. */
#define CORE(name) (NVTX_MODULE_CORE << 16 | NVTX_CORE_##name)
#define CORE2(name) (NVTX_MODULE_CORE2 << 16 | NVTX_CORE2_##name)

struct call {
	enum nvtx_kind kind;
	unsigned site;
	uint32_t domain;
	uint64_t range;
	struct nvtx_attributes a;
};

atomic_bool nvtx_calls_off;
static atomic_uint_fast64_t last_range;

static __thread struct {
	bool busy; /* inside the recorder: a signal handler that calls NVTX now must not get in */
	uint16_t levels[LEVEL_DOMAINS];
} self __attribute__((tls_model("initial-exec")));

static bool enter(void)
{
	if (self.busy)
		return false;
	self.busy = true;
	atomic_signal_fence(memory_order_seq_cst);
	return true;
}

static void leave(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	self.busy = false;
}

/* --- what the program hands over --- */

/* What `size` does not cover is not read, and is as if the program had not set it. */
static struct nvtx_attributes attributes(const void *from)
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
	if (a.payload_type < nvtx_payload_none || a.payload_type > nvtx_payload_f32)
		a.payload_type = nvtx_payload_none;
	if (a.payload_type >= nvtx_payload_u32)
		a.payload &= UINT32_MAX;
	return a;
}

static struct nvtx_attributes message(enum nvtx_message type, const void *text)
{
	return (struct nvtx_attributes){ .message_type = type, .message = text };
}

static uint32_t domain_of(const void *handle)
{
	const struct nvtx_name *domain =
		handle ? nvtx_names_check(handle, NVTX_NAMED_DOMAIN) : NULL;

	return domain ? domain->domain : 0;
}

/* Copies a message's text. Returns its bytes, or -1 when there is none. */
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

static void note_on_tape(const struct call *c)
{
	char text[RING_TEXT_MAX + 1];
	bool cut;
	ssize_t length = text_of(c->a.message_type, c->a.message, text, RING_TEXT_MAX, &cut);
	struct tape_nvtx t = {
		.module = c->site >> 16,
		.id = c->site & 0xffff,
		.domain = c->domain,
		.range = c->range,
		.text = length < 0 ? NULL : text,
		.category = c->a.category,
		.color = c->a.color_type == NVTX_COLOR_ARGB ? c->a.color : 0,
		.payload_kind = c->a.payload_type,
		.payload = c->a.payload_type ? c->a.payload : 0,
	};

	if (length >= 0)
		text[length] = '\0';
	tape_nvtx(&t);
}

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

static void count_cost(struct ring *r, uint64_t start_ns)
{
	uint64_t calls = atomic_load_explicit(&r->calls, memory_order_relaxed) + 1;
	uint64_t sampled = atomic_load_explicit(&r->sampled_calls, memory_order_relaxed) + 1;
	uint64_t ns;

	atomic_store_explicit(&r->calls, calls, memory_order_relaxed);
	if (likely(calls % COST_EVERY))
		return;
	ns = atomic_load_explicit(&r->sampled_ns, memory_order_relaxed) + clock_monotonic_ns() -
	     start_ns;
	atomic_store_explicit(&r->sampled_ns, ns, memory_order_relaxed);
	atomic_store_explicit(&r->sampled_calls, sampled, memory_order_relaxed);
}

static void put_event(const struct call *c)
{
	struct ring_event slots[NVTX_EVENT_SLOTS_MAX];
	bool has_range = c->kind == nvtx_kind_start || c->kind == nvtx_kind_end;
	struct ring *r = ring_get();
	uint32_t n = 1;

	if (!r)
		return;
	slots[0] = (struct ring_event){
		.a = clock_monotonic_ns(),
		.b = has_range ? c->range : c->a.payload,
		.c = c->domain | (uint32_t)c->a.payload_type << NVTX_EVENT_PAYLOAD_SHIFT,
		.d = c->a.category,
		.e = c->a.color,
		.kind = RING_NVTX,
		.flags = (uint8_t)c->kind,
	};
	if (c->a.color_type == NVTX_COLOR_ARGB)
		slots[0].c |= NVTX_EVENT_COLOR;
	slots[1] = (struct ring_event){ .a = c->a.payload };
	if (has_range && c->a.payload_type) {
		slots[0].c |= NVTX_EVENT_MORE;
		n = 2;
	}
	n = put_message(slots, &c->a, n);
	ring_push(r, slots, n);
	count_cost(r, slots[0].a);
}

static void record(const struct call *c)
{
	int saved = errno;

	if (!enter())
		return;
	if (likely(!atomic_load_explicit(&nvtx_calls_off, memory_order_relaxed)))
		put_event(c);
	if (unlikely(tape_running()))
		note_on_tape(c);
	leave();
	errno = saved;
}

/* --- the calls, whatever their message is --- */

static void mark(unsigned site, uint32_t domain, struct nvtx_attributes a)
{
	struct call c = { .kind = nvtx_kind_mark, .site = site, .domain = domain, .a = a };

	record(&c);
}

static uint64_t start(unsigned site, uint32_t domain, struct nvtx_attributes a)
{
	uint64_t range = atomic_fetch_add_explicit(&last_range, 1, memory_order_relaxed) + 1;
	struct call c = {
		.kind = nvtx_kind_start, .site = site, .domain = domain, .range = range, .a = a
	};

	record(&c);
	return range;
}

static void end(unsigned site, uint32_t domain, uint64_t range)
{
	struct call c = { .kind = nvtx_kind_end, .site = site, .domain = domain, .range = range };

	record(&c);
}

/* The level of the range that begins, from 0. */
static int push(unsigned site, uint32_t domain, struct nvtx_attributes a)
{
	struct call c = { .kind = nvtx_kind_push, .site = site, .domain = domain, .a = a };

	record(&c);
	if (domain >= LEVEL_DOMAINS)
		return NVTX_NO_LEVEL;
	if (self.levels[domain] == UINT16_MAX)
		return UINT16_MAX;
	return self.levels[domain]++;
}

/* The level of the range that ends, or negative when there is none. */
static int pop(unsigned site, uint32_t domain)
{
	struct call c = { .kind = nvtx_kind_pop, .site = site, .domain = domain };

	record(&c);
	if (domain >= LEVEL_DOMAINS)
		return NVTX_NO_LEVEL;
	if (self.levels[domain] == 0)
		return -1;
	return --self.levels[domain];
}

struct naming {
	unsigned site;
	enum nvtx_named what;
	uint32_t domain, id;
	enum nvtx_message type;
	const void *text;
};

/* Tells the collector; strings can wait until an event needs them. */
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
	struct call c = { .site = n->site, .domain = n->domain };

	if (length < 0)
		return NULL;
	item = nvtx_names_add(n->what, n->domain, n->id, text, (size_t)length, cut);
	if (item && n->what != NVTX_NAMED_STRING)
		announce();
	if (item && unlikely(tape_running())) {
		c.a = message(n->type, n->text);
		if (n->what == NVTX_NAMED_DOMAIN)
			c.domain = item->domain;
		if (n->what == NVTX_NAMED_CATEGORY)
			c.a.category = n->id;
		if (n->what == NVTX_NAMED_THREAD)
			c.range = n->id;
		note_on_tape(&c);
	}
	return item;
}

/* Notes a name down; what it returns is a handle for the program. NULL: no text, or no room. */
static void *name(const struct naming *n)
{
	const struct nvtx_name *item;
	int saved = errno;

	if (!enter())
		return NULL;
	item = name_guarded(n);
	leave();
	errno = saved;
	return (void *)(uintptr_t)item;
}

static void *name_in(unsigned site, enum nvtx_named what, const void *domain, uint32_t id,
		     enum nvtx_message type, const void *text)
{
	struct naming n = { site, what, domain_of(domain), id, type, text };

	return name(&n);
}

/* --- module CORE: the default domain --- */

static void mark_ex(const void *a)
{
	mark(CORE(MARK_EX), 0, attributes(a));
}

static void mark_a(const char *text)
{
	mark(CORE(MARK_A), 0, message(NVTX_MESSAGE_TEXT, text));
}

static void mark_w(const void *text)
{
	mark(CORE(MARK_W), 0, message(NVTX_MESSAGE_WIDE, text));
}

static uint64_t start_ex(const void *a)
{
	return start(CORE(START_EX), 0, attributes(a));
}

static uint64_t start_a(const char *text)
{
	return start(CORE(START_A), 0, message(NVTX_MESSAGE_TEXT, text));
}

static uint64_t start_w(const void *text)
{
	return start(CORE(START_W), 0, message(NVTX_MESSAGE_WIDE, text));
}

static void end_range(uint64_t range)
{
	end(CORE(END), 0, range);
}

static int push_ex(const void *a)
{
	return push(CORE(PUSH_EX), 0, attributes(a));
}

static int push_a(const char *text)
{
	return push(CORE(PUSH_A), 0, message(NVTX_MESSAGE_TEXT, text));
}

static int push_w(const void *text)
{
	return push(CORE(PUSH_W), 0, message(NVTX_MESSAGE_WIDE, text));
}

static int pop_range(void)
{
	return pop(CORE(POP), 0);
}

static void category_a(uint32_t id, const char *text)
{
	name_in(CORE(CATEGORY_A), NVTX_NAMED_CATEGORY, NULL, id, NVTX_MESSAGE_TEXT, text);
}

static void category_w(uint32_t id, const void *text)
{
	name_in(CORE(CATEGORY_W), NVTX_NAMED_CATEGORY, NULL, id, NVTX_MESSAGE_WIDE, text);
}

static void thread_a(uint32_t tid, const char *text)
{
	name_in(CORE(THREAD_A), NVTX_NAMED_THREAD, NULL, tid, NVTX_MESSAGE_TEXT, text);
}

static void thread_w(uint32_t tid, const void *text)
{
	name_in(CORE(THREAD_W), NVTX_NAMED_THREAD, NULL, tid, NVTX_MESSAGE_WIDE, text);
}

static const nvtx_function core_functions[NVTX_CORE_COUNT] = {
	[NVTX_CORE_MARK_EX] = (nvtx_function)mark_ex,
	[NVTX_CORE_MARK_A] = (nvtx_function)mark_a,
	[NVTX_CORE_MARK_W] = (nvtx_function)mark_w,
	[NVTX_CORE_START_EX] = (nvtx_function)start_ex,
	[NVTX_CORE_START_A] = (nvtx_function)start_a,
	[NVTX_CORE_START_W] = (nvtx_function)start_w,
	[NVTX_CORE_END] = (nvtx_function)end_range,
	[NVTX_CORE_PUSH_EX] = (nvtx_function)push_ex,
	[NVTX_CORE_PUSH_A] = (nvtx_function)push_a,
	[NVTX_CORE_PUSH_W] = (nvtx_function)push_w,
	[NVTX_CORE_POP] = (nvtx_function)pop_range,
	[NVTX_CORE_CATEGORY_A] = (nvtx_function)category_a,
	[NVTX_CORE_CATEGORY_W] = (nvtx_function)category_w,
	[NVTX_CORE_THREAD_A] = (nvtx_function)thread_a,
	[NVTX_CORE_THREAD_W] = (nvtx_function)thread_w,
};

/* --- module CORE2: domains --- */

static void domain_mark_ex(const void *domain, const void *a)
{
	mark(CORE2(MARK_EX), domain_of(domain), attributes(a));
}

static uint64_t domain_start_ex(const void *domain, const void *a)
{
	return start(CORE2(START_EX), domain_of(domain), attributes(a));
}

static void domain_end(const void *domain, uint64_t range)
{
	end(CORE2(END), domain_of(domain), range);
}

static int domain_push_ex(const void *domain, const void *a)
{
	return push(CORE2(PUSH_EX), domain_of(domain), attributes(a));
}

static int domain_pop(const void *domain)
{
	return pop(CORE2(POP), domain_of(domain));
}

static void domain_category_a(const void *domain, uint32_t id, const char *text)
{
	name_in(CORE2(CATEGORY_A), NVTX_NAMED_CATEGORY, domain, id, NVTX_MESSAGE_TEXT, text);
}

static void domain_category_w(const void *domain, uint32_t id, const void *text)
{
	name_in(CORE2(CATEGORY_W), NVTX_NAMED_CATEGORY, domain, id, NVTX_MESSAGE_WIDE, text);
}

/* A string is the same in every domain: its text is all there is to it. */
static void *string_a(const void *domain, const char *text)
{
	return name_in(CORE2(STRING_A), NVTX_NAMED_STRING, domain, 0, NVTX_MESSAGE_TEXT, text);
}

static void *string_w(const void *domain, const void *text)
{
	return name_in(CORE2(STRING_W), NVTX_NAMED_STRING, domain, 0, NVTX_MESSAGE_WIDE, text);
}

/* Without room for another domain its events count as the default domain's: NULL is the default domain's handle. */
static void *domain_a(const char *text)
{
	return name_in(CORE2(DOMAIN_A), NVTX_NAMED_DOMAIN, NULL, 0, NVTX_MESSAGE_TEXT, text);
}

static void *domain_w(const void *text)
{
	return name_in(CORE2(DOMAIN_W), NVTX_NAMED_DOMAIN, NULL, 0, NVTX_MESSAGE_WIDE, text);
}

/* Handles stay good: other threads may be using them. */
static void domain_destroy(const void *domain)
{
	(void)domain;
}

/* Of resources, threads' names are taken. */
static void *resource_create(const void *domain, const void *from)
{
	static char handle; /* nothing is known about a resource afterwards */
	struct nvtx_resource resource = { 0 };

	if (!from)
		return NULL;
	memcpy(&resource, from, offsetof(struct nvtx_resource, identifier_type));
	if (resource.size < sizeof(resource))
		return &handle;
	memcpy(&resource, from, sizeof(resource));
	if (resource.identifier_type == NVTX_RESOURCE_THREAD && resource.identifier <= UINT32_MAX)
		name_in(CORE2(RESOURCE_CREATE), NVTX_NAMED_THREAD, domain,
			(uint32_t)resource.identifier, (enum nvtx_message)resource.message_type,
			resource.message);
	return &handle;
}

static void resource_destroy(const void *handle)
{
	(void)handle;
}

static void initialize(const void *reserved)
{
	(void)reserved;
}

static const nvtx_function core2_functions[NVTX_CORE2_COUNT] = {
	[NVTX_CORE2_MARK_EX] = (nvtx_function)domain_mark_ex,
	[NVTX_CORE2_START_EX] = (nvtx_function)domain_start_ex,
	[NVTX_CORE2_END] = (nvtx_function)domain_end,
	[NVTX_CORE2_PUSH_EX] = (nvtx_function)domain_push_ex,
	[NVTX_CORE2_POP] = (nvtx_function)domain_pop,
	[NVTX_CORE2_RESOURCE_CREATE] = (nvtx_function)resource_create,
	[NVTX_CORE2_RESOURCE_DESTROY] = (nvtx_function)resource_destroy,
	[NVTX_CORE2_CATEGORY_A] = (nvtx_function)domain_category_a,
	[NVTX_CORE2_CATEGORY_W] = (nvtx_function)domain_category_w,
	[NVTX_CORE2_STRING_A] = (nvtx_function)string_a,
	[NVTX_CORE2_STRING_W] = (nvtx_function)string_w,
	[NVTX_CORE2_DOMAIN_A] = (nvtx_function)domain_a,
	[NVTX_CORE2_DOMAIN_W] = (nvtx_function)domain_w,
	[NVTX_CORE2_DOMAIN_DESTROY] = (nvtx_function)domain_destroy,
	[NVTX_CORE2_INITIALIZE] = (nvtx_function)initialize,
};

/* --- the payload extension: ranges without what their payloads say --- */

static void payload_mark(const void *domain, const void *data, size_t count)
{
	(void)data, (void)count;
	mark(CORE2(MARK_EX), domain_of(domain), attributes(NULL));
}

static int payload_push(const void *domain, const void *data, size_t count)
{
	(void)data, (void)count;
	return push(CORE2(PUSH_EX), domain_of(domain), attributes(NULL));
}

static int payload_pop(const void *domain, const void *data, size_t count)
{
	(void)data, (void)count;
	return pop(CORE2(POP), domain_of(domain));
}

static uint64_t payload_start(const void *domain, const void *data, size_t count)
{
	(void)data, (void)count;
	return start(CORE2(START_EX), domain_of(domain), attributes(NULL));
}

static void payload_end(const void *domain, uint64_t range, const void *data, size_t count)
{
	(void)data, (void)count;
	end(CORE2(END), domain_of(domain), range);
}

static uint8_t domain_is_enabled(const void *domain)
{
	(void)domain;
	return 1;
}

static const nvtx_function payload_functions[] = {
	[NVTX_PAYLOAD_SLOT_MARK] = (nvtx_function)payload_mark,
	[NVTX_PAYLOAD_SLOT_PUSH] = (nvtx_function)payload_push,
	[NVTX_PAYLOAD_SLOT_POP] = (nvtx_function)payload_pop,
	[NVTX_PAYLOAD_SLOT_START] = (nvtx_function)payload_start,
	[NVTX_PAYLOAD_SLOT_END] = (nvtx_function)payload_end,
	[NVTX_PAYLOAD_SLOT_DOMAIN_ENABLED] = (nvtx_function)domain_is_enabled,
};

/* --- attaching --- */

static bool install(const struct nvtx_callbacks *callbacks, enum nvtx_module module,
		    const nvtx_function *ours, unsigned count)
{
	nvtx_function **table = NULL;
	unsigned size = 0;

	if (!callbacks->get_table((int)module, &table, &size) || !table)
		return false;
	for (unsigned i = 1; i < MIN(size, count); i++)
		if (table[i])
			*table[i] = ours[i];
	return true;
}

int nvtx_source_attach(void *get_export_table)
{
	nvtx_get_export_table get = (nvtx_get_export_table)get_export_table;
	const struct nvtx_callbacks *callbacks = get ? get(NVTX_EXPORT_CALLBACKS) : NULL;
	const struct nvtx_version_info *version = get ? get(NVTX_EXPORT_VERSION) : NULL;

	if (!callbacks || callbacks->struct_size < sizeof(*callbacks) || !callbacks->get_table)
		return 0;
	if (version && version->struct_size >= sizeof(*version) && version->set_tool_version)
		version->set_tool_version(NVTX_ABI_VERSION);
	if (!install(callbacks, NVTX_MODULE_CORE, core_functions, NVTX_CORE_COUNT))
		return 0;
	install(callbacks, NVTX_MODULE_CORE2, core2_functions, NVTX_CORE2_COUNT);
	return 1;
}

int nvtx_source_attach_extension(void *extension)
{
	const struct nvtx_extension *e = extension;
	const struct nvtx_extension_segment *segment;

	if (!e || e->struct_size < sizeof(*e))
		return 0;
	if (e->module != NVTX_EXTENSION_PAYLOAD)
		return 1;
	segment = e->segments;
	if (!e->segment_count || !segment || !segment->slots)
		return 0;
	for (size_t i = 0; i < MIN(segment->slot_count, ARRAY_SIZE(payload_functions)); i++)
		if (payload_functions[i])
			segment->slots[i] = (intptr_t)payload_functions[i];
	return 1;
}
