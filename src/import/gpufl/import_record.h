/*
 * import_record.h: a line of gpufl's logs as its members, and the rows of a batch as such records,
 * too: a column is a member, and start_ns and end_ns are added. Any bytes will do; a member of
 * another type than the one asked for is not there.
 */
#ifndef PITOT_IMPORT_GPUFL_IMPORT_RECORD_H
#define PITOT_IMPORT_GPUFL_IMPORT_RECORD_H

#include "base/json_read.h"
#include "schema/schema.h"

#define RECORD_FIELDS 64 /* more are not looked at */
#define RECORD_KEY_BYTES 32

struct record_field {
	char key[RECORD_KEY_BYTES];
	enum json_kind kind;
	size_t text; /* of a string, in record.texts */
	const char *value; /* of an array or an object */
	size_t value_length;
	bool has_number; /* and it is none of a row that has no number there */
	int64_t number; /* of more than 63 bits the lowest 64 */
	double real;
};

struct record {
	struct record_field fields[RECORD_FIELDS];
	size_t count;
	struct strbuf texts; /* each with its NUL */
	struct json_members members;
	enum table_id planned; /* by record_fill; 0: none */
	int8_t plan[RECORD_FIELDS]; /* column → field, or -1 */
};

/* The members of an object. 0 or a negative code: it is none, or *e says why. */
int record_read(struct record *r, const char *text, size_t length, struct error *e) MUST_USE;
void record_release(struct record *r);

/* NULL: it is missing. */
const struct record_field *record_find(const struct record *r, const char *key);
const char *record_text(const struct record *r, const char *key);
/* Also of a text that is a number. False: it is missing, or negative. */
bool record_u64(const struct record *r, const char *key, uint64_t *value);
/* 0 where it is missing, or larger than `most`. */
uint64_t record_number(const struct record *r, const char *key, uint64_t most);

/*
 * Fills a row of a table with what the record has for its columns; 0 is missing where that can be.
 * Texts are left out. Returns which columns were found, as bits.
 */
uint64_t record_fill(struct record *r, enum table_id table, void *row);

/* The items of a list that are objects, as records. */
struct record_list {
	struct json_members items;
	struct record item;
};
void record_list_begin(struct record_list *l, const struct record *r, const char *key);
bool record_list_next(struct record_list *l);
void record_list_end(struct record_list *l);

struct batch {
	struct record row; /* what batch_next has found */
	struct json_members rows;
	size_t columns;
	uint64_t base_ns;
};

/* 0 or a negative code. */
int batch_begin(struct batch *b, const struct record *r, struct error *e) MUST_USE;
/* 1, 0 after the last row, or a negative code. */
int batch_next(struct batch *b, struct error *e) MUST_USE;
void batch_end(struct batch *b);

#endif
