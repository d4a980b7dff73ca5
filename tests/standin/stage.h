/* stage.h: prepares records of the tape for the recorder's buffers. */
#ifndef PITOT_TESTS_STANDIN_STAGE_H
#define PITOT_TESTS_STANDIN_STAGE_H

#include "standin.h"

/* Records ready for the recorder, one after the other. */
struct stage {
	uint8_t *bytes;
	size_t used;
	VEC(struct piece {
		size_t offset;
		uint32_t size;
		size_t record; /* number in the tape's buffer */
	})
	pieces;
	int end_result;
};

void stage_release(struct stage *s);

/*
 * Appends record `n` of a buffer of the tape, which has `size` bytes, unless its kind is disabled.
 * There must be room for size + RECORD_GROWTH_MAX bytes. Returns 0 or -ENOMEM.
 */
int stage_record(struct stage *s, const uint8_t *record, uint32_t size, size_t n,
		 struct place *place) MUST_USE;

/* Shuffles the records, always in the same way. */
void stage_shuffle(struct stage *s);

/* Whether the kind describes something, which is delivered once, in spite of --repeat. */
bool record_is_description(uint32_t kind);
/* Returns the end of a record in CUPTI's time; UINT64_MAX if it has none. */
uint64_t record_end(const uint8_t *record, size_t size);

/* Returns the name of a kernel of the fault `storm`, the same one each time. */
const char *standin_storm_name(uint64_t number);
/* Returns the number of records of kinds that the recorder has not enabled. */
uint64_t stage_withheld(void);

#endif
