/*
 * chunks.h: packets of one writer as chunks, the unit in which Perfetto's service takes them.
 *
 * A chunk has a header of 8 bytes: u32 id, rising by one in a writer; u16 writer; u16 with the
 * number of packets in the lower 10 bits and flags above. Then each packet, or the fragment of one,
 * behind its length. A packet that no chunk can hold fills the end of one chunk and continues in
 * the next.
 */
#ifndef PITOT_PERFETTO_CHUNKS_H
#define PITOT_PERFETTO_CHUNKS_H

#include "base/bytes.h"

#define CHUNK_HEADER 8
#define CHUNK_BYTES 64000 /* older services have 16 bits for it and a header of their own */
#define CHUNK_PACKETS 1023 /* 10 bits */

enum chunk_flags { CHUNK_CONTINUED = 1 << 10, CHUNK_CONTINUES = 2 << 10 };

struct chunk {
	size_t length; /* 0: not begun */
	uint16_t packets; /* with flags */
	uint8_t bytes[CHUNK_BYTES];
};

void chunk_begin(struct chunk *c, uint16_t writer, uint32_t id);

/*
 * How many of the next `left` bytes of a packet go into the chunk, as one fragment; 0: none, and
 * the chunk is to be sent first. begun: a part of the packet is in the chunk before.
 */
size_t chunk_fits(const struct chunk *c, size_t left, bool begun);

/* Room for these bytes, which the caller fills. `left` and `begun` as above. */
uint8_t *chunk_add(struct chunk *c, size_t length, size_t left, bool begun);

/* Completes the header. */
void chunk_end(struct chunk *c);

#endif
