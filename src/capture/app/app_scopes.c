/*
 * app_scopes.c: scopes and marks of pitot/scope.h. They are pushes, pops and marks of the table
 * nvtx in a separate domain, so that every reader of ranges reads scopes. A begin and an end take
 * one slot each in the thread's ring: names are numbers of strings of nvtx_names.h; names for which
 * that has no room are pushed like NVTX texts.
 *
 * clock_gettime() would cost 16 to 21 ns per begin or end (see quick_clock.h).
 */
#include "pitot/pitot.h"

#include <string.h>

#include "capture/app/app_additions.h"
#include "capture/nvtx/nvtx_calls.h"
#include "capture/nvtx/nvtx_choice.h"
#include "capture/nvtx/nvtx_event.h"
#include "schema/schema.h"

/*
 * Names that a program makes up as it runs ("step 17") must not fill the registry, which NVTX's
 * domains need too.
 */
#define NAMES_MAX (NVTX_NAMES_MAX / 2)
#define NAME_BYTES_MAX (NVTX_NAME_BYTES_MAX / 2 / NAMES_MAX)

/*
 * An entry of ring->scopes and a token have the same layout: the number of the scope's name (0:
 * none) in the low bits; once the scope has a token, the token's number above, and bit TOKEN.
 */
#define TOKEN (UINT64_C(1) << 63)
#define TOKEN_NAME 0x1ffffu
#define TOKEN_SHIFT 17
_Static_assert(NVTX_NAMES_MAX <= TOKEN_NAME, "a name's number is within a token");

static atomic_uint_fast64_t last_token;

static inline bool is_off(void)
{
	return atomic_load_explicit(&nvtx_calls_off, memory_order_relaxed);
}

static inline uint16_t *level_of_thread(void)
{
	return &nvtx_thread.levels[NVTX_DOMAIN_SCOPES];
}

static inline struct ring_event event_of(enum nvtx_kind kind, uint32_t level)
{
	return (struct ring_event){
		.c = NVTX_DOMAIN_SCOPES,
		.kind = RING_NVTX,
		.flags =
			(uint8_t)(kind | MIN(level, NVTX_EVENT_NO_LEVEL) << NVTX_EVENT_LEVEL_SHIFT),
	};
}

/*
 * Inlined so that the event is built in the ring: copying bytes that were just stored one by one
 * waits for those stores, which costs 4 ns.
 */
ALWAYS_INLINE bool put(struct ring *r, struct ring_event *event)
{
	bool pushed;

	event->a = quick_clock_ns(&r->clock);
	pushed = ring_push(r, event, 1);
	ring_count_call(r, event->a);
	return pushed;
}

ALWAYS_INLINE void put_range(struct ring *r, struct ring_event *event)
{
	additions_leave_range(r);
	put(r, event);
	additions_enter_range(r, event->a);
}

static inline void descend(void)
{
	uint16_t *level = level_of_thread();

	if (likely(*level < UINT16_MAX))
		++*level;
}

static NOINLINE void watch_begin(uint32_t name)
{
	const struct nvtx_watch *watch = nvtx_watch_get();
	const struct nvtx_name *item = name ? nvtx_names_at(name - 1) : NULL;

	if (watch && item)
		watch->begin(NVTX_DOMAIN_SCOPES, *level_of_thread(), item->text);
}

/* `c` and `b` are fields of the event; `open` becomes the entry of ring->scopes. */
static inline void begin(uint32_t name, uint32_t c, uint64_t b, uint64_t open)
{
	uint16_t *level = level_of_thread();
	struct ring *r;

	if (unlikely(nvtx_watch_get()))
		watch_begin(name);
	if (nvtx_enter()) {
		struct ring_event event = event_of(nvtx_kind_push, *level);

		event.b = b;
		event.c |= c | (name ? NVTX_EVENT_NAMED : 0);
		event.d = name ? name - 1 : 0;
		r = ring_get();
		if (r && *level < RING_SCOPES)
			r->scopes[*level] = open;
		if (r)
			put_range(r, &event);
		nvtx_leave();
	}
	descend();
}

/* Finds known names without a lock. 0: the text must travel in the ring. */
static uint32_t find_number(const char *text)
{
	size_t length = strnlen(text, NAME_BYTES_MAX + 1);
	const struct nvtx_name *name;

	if (length > NAME_BYTES_MAX)
		return 0;
	name = nvtx_names_string(text, length);
	if (unlikely(!name) && nvtx_names_count() < NAMES_MAX && !nvtx_thread.busy)
		name = nvtx_name_in(NVTX_NAMED_STRING, NULL, 0, NVTX_MESSAGE_TEXT, text);
	return name ? nvtx_names_number(name) + 1 : 0;
}

/*
 * Compares the text with the last one seen at its address, usually a literal's, before hashing it:
 * 2 ns instead of 20.
 */
static inline uint32_t number_of(const char *text)
{
	static atomic_uint numbers[256];
	atomic_uint *guess =
		&numbers[((uintptr_t)text ^ (uintptr_t)text >> 8) % ARRAY_SIZE(numbers)];
	uint32_t number = atomic_load_explicit(guess, memory_order_relaxed);
	const struct nvtx_name *name = nvtx_names_at(number - 1);

	if (likely(name && strcmp(name->text, text) == 0))
		return number;
	number = find_number(text);
	atomic_store_explicit(guess, number, memory_order_relaxed);
	return number;
}

static NOINLINE void begin_with_text(const char *text, enum nvtx_payload payload_kind,
				     uint64_t payload)
{
	struct nvtx_attributes a = nvtx_message_only(NVTX_MESSAGE_TEXT, text);
	uint16_t level = *level_of_thread();

	if (level < RING_SCOPES && ring_of_thread)
		ring_of_thread->scopes[level] = 0;
	a.payload_type = (int32_t)payload_kind;
	a.payload = payload;
	nvtx_push(NVTX_DOMAIN_SCOPES, a);
}

/* Not inlined, like end(): a call while nothing is recorded then saves no registers. */
static NOINLINE void begin_text(const char *text, enum nvtx_payload payload_kind, uint64_t payload)
{
	uint32_t name = text ? number_of(text) : 0;

	if (likely(name || !text))
		begin(name, (uint32_t)payload_kind << NVTX_EVENT_PAYLOAD_SHIFT, payload, name);
	else
		begin_with_text(text, payload_kind, payload);
}

static NOINLINE void begin_number(uint32_t name)
{
	begin(name, 0, 0, MIN(name, TOKEN_NAME));
}

void pitot_scope_begin(const char *name)
{
	if (is_off())
		descend();
	else
		begin_text(name, nvtx_payload_none, 0);
}

void pitot_scope_begin_runs(const char *name, uint32_t repeat, uint32_t warmup)
{
	if (is_off())
		descend();
	else
		begin_text(name, nvtx_payload_runs, repeat | (uint64_t)warmup << 32);
}

void pitot_scope_begin_name(uint32_t name)
{
	if (is_off())
		descend();
	else
		begin_number(name);
}

uint32_t pitot_name(const char *name)
{
	const struct nvtx_name *item =
		nvtx_name_in(NVTX_NAMED_STRING, NULL, 0, NVTX_MESSAGE_TEXT, name);

	return item ? nvtx_names_number(item) + 1 : 0;
}

static NOINLINE void end(uint16_t *level)
{
	const struct nvtx_watch *watch;
	struct ring *r;

	if (nvtx_enter()) {
		struct ring_event event = event_of(nvtx_kind_pop, *level - 1u);

		r = ring_get();
		if (r)
			put_range(r, &event);
		nvtx_leave();
	}
	--*level;
	watch = nvtx_watch_get();
	if (unlikely(watch))
		watch->end(NVTX_DOMAIN_SCOPES, *level);
}

void pitot_scope_end(void)
{
	uint16_t *level = level_of_thread();

	if (!*level)
		return;
	if (is_off())
		--*level;
	else
		end(level);
}

/* Returns the same token for the same scope, because a pool requests one for each task. */
static uint64_t token_of(struct ring *r, uint32_t level)
{
	struct ring_event event = event_of(nvtx_kind_token, 0);
	uint64_t token = r->scopes[level];

	if (token & TOKEN)
		return token;
	token |= TOKEN | (atomic_fetch_add_explicit(&last_token, 1, memory_order_relaxed) + 1)
				 << TOKEN_SHIFT;
	event.b = token;
	if (!put(r, &event))
		return 0;
	r->scopes[level] = token;
	return token;
}

static NOINLINE uint64_t find_token(void)
{
	uint32_t level = *level_of_thread();
	uint64_t token = 0;
	struct ring *r;

	if (!level || level > RING_SCOPES || !nvtx_enter())
		return 0;
	r = ring_get();
	if (r)
		token = token_of(r, level - 1);
	nvtx_leave();
	return token;
}

uint64_t pitot_scope_token(void)
{
	return is_off() ? 0 : find_token();
}

void pitot_scope_carry(uint64_t token)
{
	if (token & TOKEN && !is_off())
		begin(token & TOKEN_NAME, NVTX_EVENT_CARRIES, token, token);
	else
		descend();
}

uint64_t pitot_scope_start(const char *name)
{
	return is_off()
		       ? 0
		       : nvtx_start(NVTX_DOMAIN_SCOPES, nvtx_message_only(NVTX_MESSAGE_TEXT, name));
}

void pitot_scope_finish(uint64_t id)
{
	if (id && !is_off())
		nvtx_end(NVTX_DOMAIN_SCOPES, id);
}

static NOINLINE void mark(const char *text)
{
	nvtx_mark(NVTX_DOMAIN_SCOPES, nvtx_message_only(NVTX_MESSAGE_TEXT, text));
}

void pitot_mark(const char *text)
{
	if (!is_off())
		mark(text);
}
