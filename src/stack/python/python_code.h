/*
 * python_code.h: maps code objects to ids, with the names and line tables that they had when first
 * seen.
 *
 * A code object can be freed, and its address reused, long before the recording is read. So the
 * thread that meets one for the first time immediately copies its description into an arena; the id
 * is the position in the arena. The id is published after the copy, so whoever has it can read it.
 *
 * A lock-free table of fixed size leads from code objects to ids. A slot's key is a hash that
 * identifies the code object: address, address of the name, first line, and since 3.12 a number
 * that CPython assigns only once. Before 3.12 all of that can be equal for a later object, so
 * deallocations are watched there: the type's tp_dealloc is replaced by a function that empties the
 * object's slot and then calls the original. Nothing else of the interpreter is modified. Two
 * threads that meet a new object concurrently may assign it two ids with equal descriptions.
 */
#ifndef PITOT_STACK_PYTHON_PYTHON_CODE_H
#define PITOT_STACK_PYTHON_PYTHON_CODE_H

#include "stack/frame.h"
#include "stack/python/python_walk.h"

#define PYTHON_NAME_MAX 512		/* bytes of UTF-8; longer names are truncated */
#define PYTHON_FILE_MAX 1024		/* longer paths lose their beginning */
#define PYTHON_LINES_MAX (128 << 10)	/* bytes; code with a longer line table has no lines */

/* Recommended limits: code objects, a power of two; bytes of their names and line tables. */
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

/* Counted losses. Frames of code without an id have id 0. */
struct python_code_losses {
	uint64_t no_slot;	/* frames whose code found no free slot */
	uint64_t no_room;	/* frames whose code did not fit into the arena */
	uint64_t not_code;	/* frames whose object is not a code object */
	uint64_t bad_strings;	/* code whose name or file is not a plain string: empty */
	uint64_t cut_names;	/* code whose name or file was truncated */
	uint64_t no_lines;	/* code whose line table is too long, or not plain bytes */
};

/*
 * The table owns the strings. They are not terminated, and UTF-8 except for escaped bytes of paths.
 */
struct python_code {
	uint32_t first_line;
	const char *name;	/* qualified name; plain name before 3.11 */
	uint32_t name_length;
	const char *file;
	uint32_t file_length;
};

/*
 * Reserves memory for `slots` (a power of two) and `bytes`; pages are allocated on use. Returns
 * NULL without memory. To be freed only when no thread can walk any more.
 */
struct python_codes *python_codes_new(size_t slots, size_t bytes) MUST_USE;
void python_codes_free(struct python_codes *codes);

/*
 * Returns a new table for the same interpreter, whose ids follow those of this one, which stays
 * unchanged; NULL without memory or ids. Ids of at most two tables, this and the last one made from
 * it, may be in use.
 */
struct python_codes *python_codes_next(struct python_codes *codes) MUST_USE;
/* Whether the next table should be made. */
bool python_codes_nearly_full(const struct python_codes *codes);
/*
 * Releases the memory while threads may still use the table: they find no code, and new code gets
 * no id.
 */
void python_codes_forget(struct python_codes *codes);
/* Whether the id is in this table's range. */
bool python_codes_gives(const struct python_codes *codes, uint32_t id);

/*
 * Must be called before the first id: sets the CPython that the code objects belong to, and watches
 * their deallocation where needed. Only the table attached last is watched.
 */
void python_codes_attach(struct python_codes *codes, const struct python_runtime *runtime);

/*
 * Returns a counter that changes when a code object with an id is freed, where that is watched
 * (before 3.12). Anything remembered about earlier walks by address is then invalid.
 */
uint32_t python_codes_freed(const struct python_codes *codes);

/* Sets the ids of frames of the calling thread. Any thread; no lock, no allocation. */
void python_code_ids(struct python_codes *codes, struct python_frame *frames, unsigned count);

/*
 * Describes an id. Returns false for 0 and unknown ids. Any thread, also after a fork in the child.
 */
bool python_code_get(const struct python_codes *codes, uint32_t id, struct python_code *out);

/* Returns the line of an instruction; 0: none or unknown. Linear in the size of the line table. */
uint32_t python_line(const struct python_codes *codes, uint32_t id, uint32_t last);

/* Same, from the line table of a code object that begins at first_line. */
uint32_t python_table_line(enum python_lines kind, const uint8_t *table, size_t length,
			   uint32_t first_line, uint32_t last);

/*
 * Copies a str object as UTF-8, at most `max` bytes of whole characters, with `tail` from its end.
 * Returns the length; 0 also when it is not a compact str. *cut is set when characters were left
 * out.
 */
size_t python_text(const struct python_runtime *runtime, uintptr_t string, char *out, size_t max,
		   bool tail, bool *cut);

struct python_code_losses python_code_losses(const struct python_codes *codes);

#endif
