/*
 * pb.h: appends protobuf fields to a growing buffer. Nested messages are opened and closed; their length is patched
 * in afterwards, in a varint padded to four bytes, so a message may be up to 2^28-1 bytes.
 */
#ifndef PITOT_BASE_PB_H
#define PITOT_BASE_PB_H

#include "base/strbuf.h"

void pb_varint(struct strbuf *b, uint32_t field, uint64_t value);	/* also bool and enum */
void pb_int(struct strbuf *b, uint32_t field, int64_t value);		/* int32 and int64: ten bytes when negative */
void pb_bytes(struct strbuf *b, uint32_t field, const void *bytes, size_t length);
size_t pb_open(struct strbuf *b, uint32_t field);	/* returns a token for pb_close */
void pb_close(struct strbuf *b, size_t token);

#endif
