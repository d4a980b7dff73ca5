/*
 * import_record.h: decodes a line of gpufl's logs into its members, and the rows of a batch into
 * records of the same form: each column is a member, and start_ns and end_ns are added. Accepts any
 * bytes; a member of another type than the requested one counts as missing.
 */
#ifndef PITOT_IMPORT_GPUFL_IMPORT_RECORD_H
#define PITOT_IMPORT_GPUFL_IMPORT_RECORD_H

#include "base/json_read.h"
#include "schema/schema.h"

#define RECORD_FIELDS 64 /* further ones are ignored */
#define RECORD_KEY_BYTES 32

struct record_field {
	char key[RECORD_KEY_BYTES];
	enum json_kind kind;
	size_t text; /* of a string: offset in record.texts */
	const char *value; /* of an array or an object */
	size_t value_length;
	bool has_number; /* false also for a cell of a batch without a number */
	int64_t number; /* of numbers with more than 63 bits the lowest 64 */
	double real;
};

struct record {
	struct record_field fields[RECORD_FIELDS];
	size_t count;
	struct strbuf texts; /* each with its NUL */
	struct json_members members;
	enum table_id planned; /* table of `plan`, set by record_fill; 0: none */
	int8_t plan[RECORD_FIELDS]; /* column -> field, or -1 */
};

/* Decodes the members of an object. Returns 0, or a negative code if it is none. */
int record_read(struct record *r, const char *text, size_t length, struct error *e) MUST_USE;
void record_release(struct record *r);

/* Return NULL if the member is missing. */
const struct record_field *record_find(const struct record *r, const char *key);
const char *record_text(const struct record *r, const char *key);
/* Also accepts a text that is a number. Returns false if the member is missing or negative. */
bool record_u64(const struct record *r, const char *key, uint64_t *value);
/* Returns 0 if the member is missing or larger than `most`. */
uint64_t record_number(const struct record *r, const char *key, uint64_t most);

/*
 * Fills a row of a table from the record's members, except texts. Columns without a member are 0
 * and, if optional, marked as missing. Returns a bit for each column found.
 */
uint64_t record_fill(struct record *r, enum table_id table, void *row);

/* Iterates over the objects of a list as records. */
struct record_list {
	struct json_members items;
	struct record item;
};
void record_list_begin(struct record_list *l, const struct record *r, const char *key);
bool record_list_next(struct record_list *l);
void record_list_end(struct record_list *l);

struct batch {
	struct record row; /* result of batch_next */
	struct json_members rows;
	size_t columns;
	uint64_t base_ns;
};

/* Returns 0 or a negative code. */
int batch_begin(struct batch *b, const struct record *r, struct error *e) MUST_USE;
/* Returns 1, 0 after the last row, or a negative code. */
int batch_next(struct batch *b, struct error *e) MUST_USE;
void batch_end(struct batch *b);

#endif
