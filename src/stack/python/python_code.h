/*
 * python_code.h: code objects as ids, with the names and line tables that they had when they were
 * first seen.
 *
 * A code object can be freed, and its address used again, long before the recording is read. So
 * the thread that meets one for the first time copies what there is to say of it into an arena, at
 * once; an id says where in the arena that is. Whoever has an id can read it, for it is given out
 * after that.
 *
 * From code objects to ids leads a lock-free table of fixed size. A slot's key is a hash of what
 * tells code objects apart: address, address of the name, first line, and from 3.12 on a number
 * that CPython gives to one code object only. Before 3.12 all of that can be the same for a later
 * object, so there the deallocation of code objects is watched: the type's tp_dealloc is replaced
 * by a function that empties the object's slot and then calls the original. Nothing else of the
 * interpreter is written to. Two threads that meet a new object at the same time may give it two
 * ids, which say the same.
 */
#ifndef PITOT_STACK_PYTHON_PYTHON_CODE_H
#define PITOT_STACK_PYTHON_PYTHON_CODE_H

#include "stack/frame.h"
#include "stack/python/python_walk.h"

#define PYTHON_NAME_MAX 512		/* bytes of UTF-8; longer names are cut */
#define PYTHON_FILE_MAX 1024		/* longer paths lose their beginning */
#define PYTHON_LINES_MAX (128 << 10)	/* bytes; code with a longer line table has no lines */

/* Recommended ceilings: code objects, a power of two, and bytes of their names and line tables. */
#define PYTHON_CODES_SLOTS (1u << 17)
#define PYTHON_CODES_BYTES (16u << 20)

/*
 * A frame as in frame.h: bit 63, the code's id in bits 62..32, the last instruction in bits 31..0.
 */
static inline uint64_t python_frame_encode(uint32_t id, uint32_t last)
{
	return FRAME_PYTHON | (uint64_t)(id & 0x7fffffff) << 32 | last;
}

static inline uint32_t python_frame_code(uint64_t frame)
{
	return (uint32_t)(frame >> 32) & 0x7fffffff;
}

static inline uint32_t python_frame_last(uint64_t frame)
{
	return (uint32_t)frame;
}

struct python_codes;

/* Losses, counted. Frames of code without an id have id 0. */
struct python_code_losses {
	uint64_t no_slot;	/* frames whose code found no free slot */
	uint64_t no_room;	/* frames whose code did not fit into the arena */
	uint64_t not_code;	/* frames whose object is not a code object */
	uint64_t bad_strings;	/* code whose name or file is no plain string: empty here */
	uint64_t cut_names;	/* code whose name or file was cut */
	uint64_t no_lines;	/* code whose line table was too long, or not plain bytes */
};

/*
 * The strings belong to the table, are not terminated, and are UTF-8 but for escaped bytes of
 * paths.
 */
struct python_code {
	uint32_t first_line;
	const char *name;	/* qualified name; plain name before 3.11 */
	uint32_t name_length;
	const char *file;
	uint32_t file_length;
};

/*
 * Reserves memory for `slots` (a power of two) and `bytes`; pages are used as they fill. NULL: no
 * memory. To be freed only when no thread can walk any more.
 */
struct python_codes *python_codes_new(size_t slots, size_t bytes) MUST_USE;
void python_codes_free(struct python_codes *codes);

/*
 * An empty table for the same interpreter, whose ids come after those of this one, which stays as
 * it is. NULL: no memory, or no ids. At most two tables, this one and the last that was made of it,
 * may have ids that are used.
 */
struct python_codes *python_codes_next(struct python_codes *codes) MUST_USE;
/* Most of it is used: time for the next. */
bool python_codes_nearly_full(const struct python_codes *codes);
/*
 * Gives the memory back, though a thread may still be using it: it finds no code, and new code gets
 * no id.
 */
void python_codes_forget(struct python_codes *codes);
/* Whether the id is one that this table gives. */
bool python_codes_gives(const struct python_codes *codes, uint32_t id);

/*
 * Before the first id: says which CPython the code objects are of, and has their deallocation
 * watched where that is needed. It is watched for one table at a time, the last that was attached.
 */
void python_codes_attach(struct python_codes *codes, const struct python_runtime *runtime);

/*
 * Changes when a code object that had an id was freed, where that is watched (before 3.12): what
 * was remembered of earlier walks by addresses alone is void.
 */
uint32_t python_codes_freed(const struct python_codes *codes);

/* Sets the ids of frames of the calling thread. Any thread; no lock, no allocation. */
void python_code_ids(struct python_codes *codes, struct python_frame *frames, unsigned count);

/*
 * What an id stands for; false for 0 and beyond the last. Any thread, and after a fork in the
 * child.
 */
bool python_code_get(const struct python_codes *codes, uint32_t id, struct python_code *out);

/* Line of an instruction; 0: none, or not known. Takes time in proportion to the line table. */
uint32_t python_line(const struct python_codes *codes, uint32_t id, uint32_t last);

/* The same from a table, of a code object that begins at first_line. */
uint32_t python_table_line(enum python_lines kind, const uint8_t *table, size_t length,
			   uint32_t first_line, uint32_t last);

/*
 * Copies a str object as UTF-8, at most `max` bytes of whole characters, from its end if `tail`.
 * Returns the length, which is 0 also for what is no compact str. *cut is set when some was left
 * out.
 */
size_t python_text(const struct python_runtime *runtime, uintptr_t string, char *out, size_t max,
		   bool tail, bool *cut);

struct python_code_losses python_code_losses(const struct python_codes *codes);

#endif
