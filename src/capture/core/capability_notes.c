#include "capture/core/capability_notes.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "capture/core/log.h"
#include "format/rows.h"

static struct note {
	atomic_bool ready; /* the other fields are complete */
	enum feature name;
	const char *requested, *actual;
	enum capability_state state;
	char reason[480];
} notes[CAPABILITY_NOTES_MAX];

/* numbers of notes so far; a note's slot is free again once the note was written */
static atomic_uint claimed, written;

void capability_note(enum feature name, enum capability_state state, const char *requested,
		     const char *actual, const char *format, ...)
{
	unsigned n = atomic_load(&claimed);
	struct note *note;
	va_list args;

	do
		if (n - atomic_load(&written) >= CAPABILITY_NOTES_MAX)
			return;
	while (!atomic_compare_exchange_weak(&claimed, &n, n + 1));
	note = &notes[n % CAPABILITY_NOTES_MAX];
	note->name = name;
	note->requested = requested;
	note->actual = actual;
	note->state = state;
	va_start(args, format);
	vsnprintf(note->reason, sizeof(note->reason), format, args);
	va_end(args);
	log_line("%s: %s", feature_name(name), note->reason);
	atomic_store_explicit(&note->ready, true, memory_order_release);
}

void capability_notes_write(struct writer *w)
{
	for (;;) {
		struct note *note = &notes[atomic_load(&written) % CAPABILITY_NOTES_MAX];

		if (!atomic_load_explicit(&note->ready, memory_order_acquire))
			break;
		rows_capability(w, note->name, note->state, note->requested, note->actual,
				note->reason[0] ? note->reason : NULL);
		atomic_store(&note->ready, false);
		atomic_fetch_add(&written, 1);
	}
}

void capability_notes_after_fork(void)
{
	for (unsigned i = 0; i < CAPABILITY_NOTES_MAX; i++)
		atomic_store(&notes[i].ready, false);
	atomic_store(&claimed, 0);
	atomic_store(&written, 0);
}
