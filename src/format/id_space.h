/*
 * id_space.h: ids for byte strings that are never given twice within a session, in bounded memory.
 *
 * Two generations of interners: when the current one is full it becomes the previous one, whose
 * predecessor is forgotten. A string of the previous generation that is asked for again gets a new
 * id. Each id carries the serial number of the segment that it was last written to.
 */
#ifndef PITOT_FORMAT_ID_SPACE_H
#define PITOT_FORMAT_ID_SPACE_H

#include "base/map.h"

struct id_generation {
	struct interner texts;
	uint32_t base; /* id of the first text */
	uint32_t *serials; /* of the segment that a text was last written to; 0: none */
	size_t capacity;
};

struct id_space {
	struct id_generation current, previous;
	size_t bytes_max, count_max; /* of one generation; bytes with all that belongs to a text */
};

void id_space_init(struct id_space *s, uint32_t first_id, size_t bytes_max, size_t count_max);
void id_space_release(struct id_space *s);
/* Id of the text, or -ENOMEM. */
int64_t id_space_add(struct id_space *s, const void *text, size_t length) MUST_USE;
/* The text of an id, or NULL if it is forgotten. *serial points to its segment's number. */
const struct interned *id_space_find(const struct id_space *s, uint32_t id, uint32_t **serial);

#endif
