/*
 * flatbuffer.h: writes FlatBuffers, in which Arrow IPC has its metadata: tables of numbered fields,
 * vectors and texts. Places are those in the buffer. Distances lead forward, so that what is
 * referred to is appended after what refers to it, and then linked.
 */
#ifndef PITOT_EXPORT_FLATBUFFER_H
#define PITOT_EXPORT_FLATBUFFER_H

#include "base/strbuf.h"

/*
 * Appends a table, whose fields are 0. `sizes` has the bytes of each field as digits 1, 2, 4 and 8;
 * 4 is also a reference, 0 an absent field.
 */
size_t fb_table(struct strbuf *b, const char *sizes);
/* The place of a field that is there. */
size_t fb_field(const struct strbuf *b, size_t table, unsigned field);
void fb_set(struct strbuf *b, size_t table, unsigned field, const void *value, size_t size);
/* Appends a vector of zeros, whose first item is 4 bytes behind its place, at a multiple of 8. */
size_t fb_vector(struct strbuf *b, size_t count, size_t item_bytes);
size_t fb_text(struct strbuf *b, const char *text);
/* Lets the 4 bytes at a place refer to another one. */
void fb_link(struct strbuf *b, size_t from, size_t to);

#endif
