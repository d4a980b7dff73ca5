/*
 * nvtx_event.h: the layout of an NVTX event in a ring. Written by nvtx_calls.c, read by
 * nvtx_rows.c.
 *
 * RING_NVTX, one or more slots:
 *	slot 0	a time; b range (start, end, token, NVTX_EVENT_CARRIES) or payload (push, mark);
 *		c see below; d category, 0: none, or the number of a registered string
 *		(NVTX_EVENT_NAMED); e color; flags enum nvtx_kind, and above it the level of a push
 *		or pop; length bytes of text
 *	slot 1	with NVTX_EVENT_MORE only: a payload of a start; c number of the registered string
 *	then	the text, 32 bytes per slot
 * RING_NVTX_NAME, one empty slot: there are new names (nvtx_names.h).
 *
 * c has the domain in its low bits, and above it flags for the event's contents.
 */
#ifndef PITOT_CAPTURE_NVTX_NVTX_EVENT_H
#define PITOT_CAPTURE_NVTX_NVTX_EVENT_H

#include "capture/core/ring.h"
#include "schema/schema.h"

#define NVTX_EVENT_DOMAIN 0x000fffffu
#define NVTX_EVENT_PAYLOAD(c) ((c) >> 20 & 7) /* enum nvtx_payload */
#define NVTX_EVENT_PAYLOAD_SHIFT 20
#define NVTX_EVENT_MORE (1u << 23)
#define NVTX_EVENT_TEXT (1u << 24) /* text follows; it may be empty */
#define NVTX_EVENT_REGISTERED (1u << 25)
#define NVTX_EVENT_COLOR (1u << 26)
#define NVTX_EVENT_CUT (1u << 27) /* the text was truncated */
#define NVTX_EVENT_NAMED (1u << 28) /* d is a string's number, not a category */
#define NVTX_EVENT_CARRIES (1u << 29)

#define NVTX_EVENT_KIND(flags) ((flags)&7)
#define NVTX_EVENT_LEVEL(flags) ((flags) >> 3)
#define NVTX_EVENT_LEVEL_SHIFT 3
#define NVTX_EVENT_NO_LEVEL 31u /* unknown, none, or too high */

#define NVTX_EVENT_SLOTS_MAX (2 + RING_TEXT_MAX / sizeof(struct ring_event))

static inline uint32_t nvtx_event_text_slots(uint16_t length)
{
	return (length + (uint32_t)sizeof(struct ring_event) - 1) /
	       (uint32_t)sizeof(struct ring_event);
}

/* Returns the number of slots of an event. */
static inline uint32_t nvtx_event_slots(const struct ring_event *first)
{
	return 1 + (first->c & NVTX_EVENT_MORE ? 1 : 0) + nvtx_event_text_slots(first->length);
}

/* `more` is slot 1 with NVTX_EVENT_MORE, or NULL. The message is left to the caller. */
static inline struct row_nvtx nvtx_event_row(const struct ring_event *first,
					     const struct ring_event *more, uint32_t thread)
{
	uint8_t kind = NVTX_EVENT_KIND(first->flags), level = NVTX_EVENT_LEVEL(first->flags);
	bool has_range = kind == nvtx_kind_start || kind == nvtx_kind_end ||
			 kind == nvtx_kind_token || first->c & NVTX_EVENT_CARRIES,
	     has_level = kind == nvtx_kind_push || kind == nvtx_kind_pop;
	struct row_nvtx row = {
		.time_ns = first->a,
		.kind = kind,
		.thread = thread,
		.domain = first->c & NVTX_EVENT_DOMAIN,
		.range = first->b,
		.category = first->d,
		.color = first->e,
		.payload_kind = NVTX_EVENT_PAYLOAD(first->c),
		.payload = has_range && more ? more->a : first->b,
		.level = level,
	};

	ROW_MISSING_IF(&row, nvtx, range, !has_range);
	ROW_MISSING_IF(&row, nvtx, category, !first->d || first->c & NVTX_EVENT_NAMED);
	ROW_MISSING_IF(&row, nvtx, color, !(first->c & NVTX_EVENT_COLOR));
	if (!row.payload_kind) {
		ROW_MISSING(&row, nvtx, payload_kind);
		ROW_MISSING(&row, nvtx, payload);
	}
	ROW_MISSING_IF(&row, nvtx, level, !has_level || level == NVTX_EVENT_NO_LEVEL);
	return row;
}

/* Set while nobody needs events (nvtx_calls.c). */
extern atomic_bool nvtx_calls_off;
/* Number of calls by signal handlers that interrupted another call on their thread. */
extern atomic_uint_fast64_t nvtx_calls_refused;

struct nvtx_thread {
	/* inside the recorder: a signal handler's call on this thread must be refused */
	bool busy;
	uint16_t levels[RING_LEVEL_DOMAINS];
};
extern __thread struct nvtx_thread nvtx_thread
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/*
 * Guards access to the thread's ring and to the names. Returns false if refused, which is counted.
 */
static inline bool nvtx_enter(void)
{
	if (unlikely(nvtx_thread.busy)) {
		atomic_fetch_add_explicit(&nvtx_calls_refused, 1, memory_order_relaxed);
		return false;
	}
	nvtx_thread.busy = true;
	atomic_signal_fence(memory_order_seq_cst);
	return true;
}

static inline void nvtx_leave(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	nvtx_thread.busy = false;
}

#endif
