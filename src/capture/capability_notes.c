#include "capture/capability_notes.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "capture/log.h"
#include "format/rows.h"

static struct note {
	atomic_bool ready; /* the rest is complete */
	const char *name, *requested, *actual;
	enum capability_state state;
	char reason[480];
} notes[CAPABILITY_NOTES_MAX];

static atomic_uint count; /* claimed */
static unsigned written;

void capability_note(const char *name, enum capability_state state, const char *requested,
		     const char *actual, const char *format, ...)
{
	unsigned n = atomic_fetch_add(&count, 1);
	struct note *note = &notes[n % CAPABILITY_NOTES_MAX];
	va_list args;

	if (n >= CAPABILITY_NOTES_MAX) {
		atomic_fetch_sub(&count, 1);
		return;
	}
	note->name = name;
	note->requested = requested;
	note->actual = actual;
	note->state = state;
	va_start(args, format);
	vsnprintf(note->reason, sizeof(note->reason), format, args);
	va_end(args);
	log_line("%s: %s", name, note->reason);
	atomic_store_explicit(&note->ready, true, memory_order_release);
}

void capability_notes_write(struct writer *w)
{
	for (; written < CAPABILITY_NOTES_MAX; written++) {
		struct note *note = &notes[written];

		if (!atomic_load_explicit(&note->ready, memory_order_acquire))
			break;
		rows_capability(w, note->name, note->state, note->requested, note->actual,
				note->reason[0] ? note->reason : NULL);
	}
}

void capability_notes_after_fork(void)
{
	for (unsigned i = 0; i < CAPABILITY_NOTES_MAX; i++)
		atomic_store(&notes[i].ready, false);
	atomic_store(&count, 0);
	written = 0;
}
