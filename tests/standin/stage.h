/* stage.h: records of the tape on their way into the recorder's buffers. */
#ifndef PITOT_TESTS_STANDIN_STAGE_H
#define PITOT_TESTS_STANDIN_STAGE_H

#include "standin.h"

/* Records as they will be given to the recorder, one behind the other. */
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
 * Appends one record of the tape, number `n` of its buffer, `size` bytes long there; nothing when
 * its kind is not enabled. There is room for size + RECORD_GROWTH_MAX bytes. 0 or -ENOMEM.
 */
int stage_record(struct stage *s, const uint8_t *record, uint32_t size, size_t n,
		 struct place *place) MUST_USE;

/* Puts the records in another order, always the same. */
void stage_shuffle(struct stage *s);

/* Says what there is, not what happened: once is enough, whatever --repeat says. */
bool record_is_description(uint32_t kind);
/* When a record ends, in CUPTI's time; UINT64_MAX for one that does not. */
uint64_t record_end(const uint8_t *record, size_t size);

/* Records that the recorder did not want. */
uint64_t stage_withheld(void);

#endif
