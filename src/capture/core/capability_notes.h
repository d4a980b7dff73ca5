/*
 * capability_notes.h: notes, from any thread, about what can be recorded; the collector turns them
 * into rows of `capability`. For readers, a later note with the same name replaces an earlier one.
 */
#ifndef PITOT_CAPTURE_CAPABILITY_NOTES_H
#define PITOT_CAPTURE_CAPABILITY_NOTES_H

#include "base/compiler.h"
#include "format/writer.h"

/*
 * Adds a note; `requested` and `actual` must stay valid (literals) and may be NULL; format "" means
 * no reason. May be called on any thread, without lock; if CAPABILITY_NOTES_MAX notes are waiting
 * to be written, the note is dropped.
 */
#define CAPABILITY_NOTES_MAX 64u
void capability_note(enum feature name, enum capability_state state, const char *requested,
		     const char *actual, const char *format, ...) PRINTF_LIKE(5, 6);

/* Writes rows for the notes since the last call. Called on the collector's thread. */
void capability_notes_write(struct writer *w);

/* Called in the child of a fork: forgets all notes. */
void capability_notes_after_fork(void);

#endif
