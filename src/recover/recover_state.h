/* recover_state.h: what the files of recover/ share. */
#ifndef PITOT_RECOVER_STATE_H
#define PITOT_RECOVER_STATE_H

#include "base/map.h"
#include "base/vec.h"
#include "capture/core/ring.h"
#include "capture/core/shared_area.h"
#include "capture/cuda/buffers.h"
#include "format/writer.h"
#include "recover/recover.h"

struct recovered_launch {
	uint32_t correlation;
	uint16_t kernel; /* number of launch_names.h */
	bool is_unread; /* its record may be behind one that could not be read */
};

struct recovery {
	int memory;
	struct area_head head;
	struct journal journal;
	struct journal_mark mark;
	struct writer *w;
	struct recovered *out;
	uint64_t now_ns;
	VEC(struct recovered_launch) launches;
	struct map launch_of; /* correlation -> its item */
	struct map launch_names; /* number of a name -> string */
	bool only_unfinished; /* the process lives, and writes everything else itself */
};

/* Reads bytes of a part. Returns false when they are not in it. */
bool recovery_read(const struct recovery *r, enum area_part part, uint64_t offset, void *to,
		   size_t bytes);
/* Returns the string of these bytes of a part; 0: they cannot be read. */
uint32_t recovery_string(const struct recovery *r, enum area_part part, uint64_t offset,
			 size_t bytes);
/* Returns the 64-bit id of a call of the last moments. */
uint64_t recovery_call(const struct recovery *r, uint32_t correlation);

/*
 * Appends the row of a collective's event, and that of its communicator if `written` does not have
 * it. Returns false if NCCL's texts or the communicator are not in the memory.
 */
bool recover_collective(struct recovery *r, struct map *written, const struct ring_event *event,
			uint32_t thread);

/* Both return 0 or -ENOMEM. */
int recover_rings(struct recovery *r) MUST_USE;
int recover_records(struct recovery *r) MUST_USE;

/* Reads what the ring's threads launched last, before records are read. Returns 0 or -ENOMEM. */
int recover_launches_read(struct recovery *r, unsigned ring) MUST_USE;
/* Marks the launches whose records may begin anywhere in these bytes. */
void recover_launches_search(struct recovery *r, const uint8_t *bytes, size_t size);
/* Returns the string with the name of a launch's kernel; 0: it is unknown. */
uint32_t recover_launch_name(struct recovery *r, uint32_t correlation);
void recover_launches_write(struct recovery *r);

#endif
