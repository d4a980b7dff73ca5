/*
 * capability_notes.h: what is found out on any thread about what can be recorded, for the collector
 * to make rows of `capability` from. A later note of a name replaces an earlier one for readers.
 */
#ifndef PITOT_CAPTURE_CAPABILITY_NOTES_H
#define PITOT_CAPTURE_CAPABILITY_NOTES_H

#include <stdbool.h>

#include "base/compiler.h"
#include "format/writer.h"

/*
 * Notes one capability; `requested` and `actual` must stay valid (literals) and may be NULL; format
 * "" for no reason. Any thread, no lock; while CAPABILITY_NOTES_MAX wait to be written a note is
 * dropped.
 */
#define CAPABILITY_NOTES_MAX 64u
void capability_note(const char *name, enum capability_state state, const char *requested,
		     const char *actual, const char *format, ...) PRINTF_LIKE(5, 6);

/* Makes rows of the notes since the last call. Collector's thread. */
void capability_notes_write(struct writer *w);

/*
 * How many notes there were, and the last of a name since `count`, if all is not well with it.
 * false: there is none. Any thread.
 */
unsigned capability_notes_count(void);
bool capability_notes_find(unsigned count, const char *name, char *reason, size_t room);

/* In the child of a fork: there are none. */
void capability_notes_after_fork(void);

#endif
