/*
 * chunks.h: packs the packets of one trace writer into chunks, the unit that Perfetto's service
 * accepts.
 *
 * A chunk begins with a header of 8 bytes: u32 id, consecutive within a writer; u16 writer; u16
 * with the number of packets in the lower 10 bits and flags above. Packets or fragments of packets
 * follow, each preceded by its length. A packet too large for one chunk fills the end of a chunk
 * and continues in the next.
 */
#ifndef PITOT_PERFETTO_CHUNKS_H
#define PITOT_PERFETTO_CHUNKS_H

#include "base/bytes.h"

#define CHUNK_HEADER 8
#define CHUNK_BYTES 64000 /* older services store it in 16 bits and add their own header */
#define CHUNK_PACKETS 1023 /* 10 bits */

enum chunk_flags { CHUNK_CONTINUED = 1 << 10, CHUNK_CONTINUES = 2 << 10 };

struct chunk {
	size_t length; /* 0: no chunk is open */
	uint16_t packets; /* with flags */
	uint8_t bytes[CHUNK_BYTES];
};

void chunk_begin(struct chunk *c, uint16_t writer, uint32_t id);

/*
 * Returns how many of a packet's remaining `left` bytes fit into the chunk as one fragment; 0:
 * none, so the chunk must be sent first. is_continuation: an earlier chunk has part of the packet.
 */
size_t chunk_room_for(const struct chunk *c, size_t left, bool is_continuation);

/* Reserves `length` bytes, which the caller fills. `left` and `is_continuation` as above. */
uint8_t *chunk_add(struct chunk *c, size_t length, size_t left, bool is_continuation);

/* Completes the header. */
void chunk_end(struct chunk *c);

#endif
