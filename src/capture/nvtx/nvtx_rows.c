#include "capture/nvtx/nvtx_source.h"

#include <string.h>

#include "base/clock.h"
#include "capture/nvtx/nvtx_event.h"
#include "capture/nvtx/nvtx_names.h"
#include "format/rows.h"

/* Used by the collector's thread, except in after_fork. */
static struct {
	bool window;
	uint64_t closed_ns; /* when the window closed; earlier events may still be in the rings */
	bool scopes_named; /* the row of their domain has been written */
	uint32_t names_written;
	uint32_t inherited; /* number of names that the parent's threads gave before the fork */
	uint64_t names_refused, calls_refused; /* reported */
	uint64_t cut, cut_since_ns; /* texts cut since the last loss row */
} self;

static void open_window(bool on)
{
	if (self.window && !on)
		self.closed_ns = clock_monotonic_ns();
	self.window = on;
	atomic_store_explicit(&nvtx_calls_off, !on, memory_order_relaxed);
}

static void after_fork(void)
{
	nvtx_names_after_fork();
	memset(&self, 0, sizeof(self));
	self.inherited = nvtx_names_count();
	self.names_refused = nvtx_names_refused();
	self.calls_refused = atomic_load(&nvtx_calls_refused);
	atomic_store_explicit(&nvtx_calls_off, true, memory_order_relaxed);
}

static void count_cut(uint64_t time_ns)
{
	if (self.cut++ == 0)
		self.cut_since_ns = time_ns;
}

static void write_losses(struct writer *w)
{
	uint64_t names = nvtx_names_refused() - self.names_refused;
	uint64_t calls = atomic_load_explicit(&nvtx_calls_refused, memory_order_relaxed) -
			 self.calls_refused;
	uint64_t now;

	if (!self.cut && !names && !calls)
		return;
	now = clock_monotonic_ns();
	rows_loss(w, loss_reason_string_limit, self.cut, MIN(self.cut_since_ns, now), now,
		  "truncated texts of NVTX and scopes");
	rows_loss(w, loss_reason_string_limit, names, now, now,
		  "names of NVTX and scopes beyond the limit");
	rows_loss(w, loss_reason_unknown, calls, now, now,
		  "NVTX and scope calls in signal handlers that interrupted an NVTX call");
	self.cut = 0;
	self.names_refused += names;
	self.calls_refused += calls;
}

static void write_thread(struct writer *w, const struct nvtx_name *name)
{
	struct row_thread row = {
		.tid = name->id,
		.name = writer_string(w, name->text, name->length),
		.time_ns = name->time_ns,
	};

	writer_append(w, TABLE_thread, &row);
}

static void write_name(struct writer *w, const struct nvtx_name *name, bool inherited)
{
	struct row_nvtx_domain domain = { .id = name->domain };
	struct row_nvtx_category category = { .domain = name->domain, .id = name->id };

	if (name->cut)
		count_cut(name->time_ns);
	switch (name->what) {
	case NVTX_NAMED_DOMAIN:
		domain.name = writer_string(w, name->text, name->length);
		writer_append(w, TABLE_nvtx_domain, &domain);
		break;
	case NVTX_NAMED_CATEGORY:
		category.name = writer_string(w, name->text, name->length);
		writer_append(w, TABLE_nvtx_category, &category);
		break;
	case NVTX_NAMED_THREAD:
		if (!inherited)
			write_thread(w, name);
		break;
	default:
		break;
	}
}

/* The names that an event refers to were added before its push, so they are listed by now. */
static void write_names(struct writer *w)
{
	uint32_t count = nvtx_names_count();

	for (; self.names_written < count; self.names_written++)
		write_name(w, nvtx_names_at(self.names_written),
			   self.names_written < self.inherited);
}

static bool name_thread(struct writer *w, uint32_t tid, const char *last_name)
{
	const struct nvtx_name *name = nvtx_names_of_thread(tid);

	(void)last_name;
	if (!name || nvtx_names_number(name) < self.inherited)
		return false;
	write_thread(w, name);
	return true;
}

static uint32_t message_id(struct writer *w, const struct ring *r, uint64_t position,
			   const struct ring_event *first, bool *missing)
{
	char text[NVTX_EVENT_SLOTS_MAX * sizeof(struct ring_event)];

	*missing = false;
	if (first->c & (NVTX_EVENT_REGISTERED | NVTX_EVENT_NAMED)) {
		uint32_t number =
			first->c & NVTX_EVENT_NAMED ? first->d : ring_slot(r, position + 1)->c;
		const struct nvtx_name *string = nvtx_names_at(number);

		if (string && string->what == NVTX_NAMED_STRING)
			return writer_string(w, string->text, string->length);
	}
	if (first->c & NVTX_EVENT_TEXT) {
		uint32_t slots = nvtx_event_text_slots(first->length);

		position += first->c & NVTX_EVENT_MORE ? 2 : 1;
		for (uint32_t i = 0; i < slots; i++)
			memcpy(text + i * sizeof(*first), ring_slot(r, position + i),
			       sizeof(*first));
		return writer_string(w, text, first->length);
	}
	*missing = true;
	return 0;
}

static void write_event(struct writer *w, const struct ring *r, uint64_t position,
			const struct ring_event *first)
{
	const struct ring_event *more =
		first->c & NVTX_EVENT_MORE ? ring_slot(r, position + 1) : NULL;
	struct row_nvtx row = nvtx_event_row(first, more, r->tid);
	bool no_message;

	row.message = message_id(w, r, position, first, &no_message);
	ROW_MISSING_IF(&row, nvtx, message, no_message);
	if (row.domain == NVTX_DOMAIN_SCOPES && !self.scopes_named) {
		struct row_nvtx_domain domain = { .id = row.domain, .name = rows_text(w, "pitot") };

		writer_append(w, TABLE_nvtx_domain, &domain);
		self.scopes_named = true;
	}
	writer_append(w, TABLE_nvtx, &row);
	if (first->c & NVTX_EVENT_CUT)
		count_cut(first->a);
}

static uint64_t on_event(struct writer *w, const struct ring *r, uint64_t position)
{
	const struct ring_event *first = ring_slot(r, position);
	uint64_t slots = 1;

	write_names(w);
	if (first->kind == RING_NVTX) {
		slots = nvtx_event_slots(first);
		if (self.window || first->a < self.closed_ns)
			write_event(w, r, position, first);
		else
			atomic_store_explicit(&nvtx_calls_off, true, memory_order_relaxed);
	}
	if (atomic_load_explicit(&r->head, memory_order_relaxed) - position <= slots)
		write_losses(w);
	return slots;
}

static void start(const struct source_start *how)
{
	open_window(how->open);
}

/* A new recording has none of the names. */
static void begin(struct writer *w, const struct source_start *how)
{
	(void)w;
	(void)how;
	nvtx_names_share();
	self.names_written = 0;
	self.scopes_named = false;
}

static void window(const struct settings *settings, struct writer *w)
{
	(void)w;
	open_window(settings != NULL);
}

/* Stops new events; events in the rings still become rows. */
static void stop(struct writer *w)
{
	(void)w;
	atomic_store_explicit(&nvtx_calls_off, true, memory_order_relaxed);
}

static void stopped(struct writer *w)
{
	(void)w;
	open_window(false);
}

const struct source nvtx_source = {
	.name = "nvtx",
	.start = start,
	.begin = begin,
	.window = window,
	.stop = stop,
	.stopped = stopped,
	.after_fork = after_fork,
	.name_thread = name_thread,
	.handlers = { { RING_NVTX, on_event }, { RING_NVTX_NAME, on_event } },
	.handler_count = 2,
};
