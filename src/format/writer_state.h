/*
 * writer_state.h: what the parts of the writer share: writer.c, writer_references.c, writer_open.c.
 */
#ifndef PITOT_FORMAT_WRITER_STATE_H
#define PITOT_FORMAT_WRITER_STATE_H

#include "base/map.h"
#include "base/vec.h"
#include "format/block_build.h"
#include "format/id_space.h"
#include "format/loss_tally.h"
#include "format/segment_write.h"
#include "format/writer.h"

#define WRITER_ROWS_MAX 8192u /* of a block: twice as many save 2 % of the bytes, and take 2 MiB */
#define WRITER_BYTES_MAX                                                                           \
	(1u << 20) /* of a block's BYTES column, and of blocks that wait to be written */
#define WRITER_PENDING_MAX 128u /* blocks that wait to be written */
#define WRITER_FUNCTIONS_MAX 4096u
#define WRITER_CONFIGS_MAX 16384u /* of a generation */
#define STRING_EMPTY 0u /* id of "" */
#define STRING_UNKNOWN 1u /* id of "?" */
#define STRING_FIRST 2u

_Static_assert(sizeof(struct row_kernel_config) % 8 == 0, "is compared in words");
_Static_assert(WRITER_ROWS_MAX <= BLOCK_ROWS_MAX, "readers refuse more");

/* Rows that later segments need, too: the last one of each key. */
struct row_memory {
	uint8_t *items; /* u64 serial of the segment that has it, then the row */
	size_t count, capacity;
	struct map index; /* key → item */
};

/* A text that has been forgotten, but is needed. */
struct kept_text {
	struct interned text;
	uint32_t serial;
};

struct table_buffer {
	const struct table_schema *schema;
	struct row_memory memory;
	uint8_t *rows;
	size_t count, capacity;
	struct strbuf bytes; /* of BYTES values */
	uint64_t strings; /* columns of type STRING */
	int config_column, function_column, stack_column, node_column; /* or -1 */
	uint32_t last_reference, last_serial; /* what need not be looked up again */
};

struct pending_block {
	struct block_header header;
	size_t length;
};

struct api_function {
	uint32_t id, serial, name_length;
	const char *name; /* own copy */
	uint8_t kind;
};

struct writer {
	struct table_buffer tables[TABLE_MAX + 1];
	struct block_builder builder;
	struct strbuf out, scratch;
	struct pending_block pending[WRITER_PENDING_MAX];
	size_t pending_count;

	struct id_space strings, configs;
	uint32_t fixed_serials[STRING_FIRST];
	uint64_t config_mask[sizeof(struct row_kernel_config) /
			     8]; /* bytes that make it what it is */
	struct map function_index;
	struct api_function *functions;
	size_t function_count;
	struct arena function_names;
	writer_need_stack *need_stack;
	void *stack_context;

	struct segment_file file;
	char *directory, *prefix;
	uint32_t file_number; /* to try next */
	struct segment_identity identity;
	uint32_t serial; /* of the segment that rows go to: 1, 2 … */
	uint32_t repeated_serial; /* of the segment that has what is to be in each */
	uint32_t texts_base; /* of the generation of strings at whose beginning texts were kept */
	struct arena text_arena;
	VEC(struct kept_text) texts;
	struct map text_index; /* id → item of texts */
	size_t text_bytes;
	bool rotate; /* that segment is still to be created */
	unsigned hold; /* flushes for which it is not to be */
	uint64_t segment_bytes, max_bytes;
	uint32_t string_length_max;

	struct loss_tally lost; /* not yet in a row */
	struct loss_tally sealed_losses; /* in rows of blocks that are not written */
	int stopped; /* errno, 0 while writing works */
	bool max_bytes_reached;
	struct writer_stats stats;
};

/* Begins the segment that rows go to, and closes the one before. */
int writer_next_segment(struct writer *w, struct error *e) MUST_USE;
/* Copies a row to the buffer of a table that others refer to: these may be sealed at any moment. */
bool writer_push_referred(struct writer *w, enum table_id table, const void *row);
/* Sees to it that what a row refers to is in the segment before it. */
void writer_need_references(struct writer *w, struct table_buffer *t, const uint8_t *row);
/* writer_repeat.c */
/* Notes a row down that later segments need. */
void writer_remember(struct writer *w, enum table_id table, const uint8_t *row);
/* Writes what each segment has into the one that rows go to. */
void writer_repeat(struct writer *w);
/* Sees to it that a node of a CUDA graph is in the segment, with the one that it was cloned from. */
void writer_need_node(struct writer *w, uint64_t node);
/*
 * When a generation of strings has ended: keeps the texts of remembered rows and the names of configurations from being
 * forgotten with it, as many as a generation has room for.
 */
void writer_keep_texts(struct writer *w);
const struct interned *writer_kept_text(struct writer *w, uint32_t id, uint32_t **serial);
/* Before the segment is closed: losses that could not become rows get into its reserve. */
void writer_keep_losses(struct writer *w);
/* Counts a loss that happens now. */
void writer_lose_now(struct writer *w, enum loss_reason reason);

#endif
