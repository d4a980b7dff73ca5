/*
 * recover.h: adds what a process has left in its memory (capture/core/shared_area.h) to its
 * recording, after the process has died or executed another program.
 *
 * The result is another segment of the process's session, with ordinary rows: those of the journal
 * that are in no segment, calls and ranges that were still in the threads' rings, and GPU work that
 * CUPTI had recorded. A row of `capability` says how much that is, and rows of `loss` what could
 * not be read.
 *
 * The memory is another process's, perhaps another user's, and may contain anything. It is read,
 * never mapped; nothing in it is trusted.
 */
#ifndef PITOT_RECOVER_RECOVER_H
#define PITOT_RECOVER_RECOVER_H

#include "base/error.h"
#include "base/folder.h"

/* A record of unknown size: what is behind it in its buffer cannot be read. */
struct unknown_record {
	uint32_t kind, size; /* size 0: unknown kind; else it would reach behind the buffer */
	uint64_t offset, left; /* in the buffer; bytes of the buffer from there on that are not 0 */
	uint64_t before; /* records in front of it */
	bool is_begun_kernel;
	bool is_delivered; /* CUPTI had completed the buffer */
};

struct recovered {
	uint32_t pid; /* as the process saw it */
	uint64_t rows; /* of the journal */
	uint64_t calls, ranges; /* of the rings */
	uint64_t collectives, unread_collectives; /* of NCCL, of the rings */
	uint64_t records; /* of GPU work */
	uint64_t incomplete; /* records of work that had not ended */
	uint64_t begun; /* kernel records that CUPTI had begun; of which launches is unknown */
	uint64_t others; /* events and records of kinds that are not read here */
	uint64_t unknown; /* buffers with records of unknown size, which end there */
	struct unknown_record first_unknown;
	uint64_t lost; /* rows and events for which there was no room */
};

/* Whether the descriptor is memory of this version's recorder, which cannot shrink. */
bool recover_is_area(int memory);

/* Whether the process has ended without order, and left something. */
bool recover_has_rest(int memory);

/* Tells the recorder of a process that lives that nothing more of it is wanted. */
void recover_end_recording(int memory);

/*
 * Adds the segment to the recording in `directory`. Returns 1; 0: nothing was left, because the
 * process ended in order or had not begun a recording; or a negative code.
 */
int recover_area(int memory, const char *directory, const struct folder_id *folder,
		 struct recovered *out, struct error *e) MUST_USE;
/*
 * Adds a segment with what is under way in a process that lives (table unfinished). The folder has
 * the process's segments already, so that no string's number occurs twice. Returns like
 * recover_area.
 */
int recover_unfinished(int memory, const char *directory, const struct folder_id *folder,
		       struct error *e) MUST_USE;

#endif
