/* tape_reader.h: a tape in memory: its records in order, its texts, and decoded payloads. */
#ifndef PITOT_TESTS_STANDIN_TAPE_READER_H
#define PITOT_TESTS_STANDIN_TAPE_READER_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/vec.h"
#include "tape/tape_writer.h"

struct tape_record {
	enum tape_type type;
	uint32_t thread;
	uint64_t time;
	const uint8_t *payload;
	size_t length;
};

struct tape_text {
	const char *text; /* NULL: no such id; else NUL-terminated */
	size_t length;
};

struct tape {
	VEC(struct tape_record) records;
	VEC(struct tape_text) texts; /* [id - 1] */
	VEC(struct tape_fact) facts; /* of HELLO */
	VEC(uint8_t *) chunks; /* decompressed; records point into them */
	struct arena arena;
	uint64_t raw_bytes;
	uint32_t threads; /* highest number of a thread + 1 */
	bool complete; /* ends with END */
	char damage[128]; /* why reading stopped before the file's end, or "" */
};

/*
 * Reads a whole tape, or a damaged one up to there; `damage` has the reason. Returns 0, -errno,
 * E_FORMAT when it is not a tape, or E_LIMIT. The tape must be released in any case.
 */
int tape_load(const char *path, struct tape *t, struct error *e) MUST_USE;
int tape_parse(const uint8_t *bytes, size_t length, struct tape *t, struct error *e) MUST_USE;
void tape_release(struct tape *t);

/* Return a fact of HELLO; "" or 0 if it is missing. */
const char *tape_fact_text(const struct tape *t, const char *key);
uint64_t tape_fact_number(const struct tape *t, const char *key);

/* Returns the text of an id; NULL for 0 and unknown ids. */
const char *tape_text_of(const struct tape *t, uint64_t id);

struct tape_string {
	uint64_t id, pointer;
};

/* CALLBACK, with the fields of its domain. */
struct tape_event {
	uint32_t domain, cbid;
	uint32_t site, context_uid, correlation;
	uint64_t function, symbol, message; /* ids of texts */
	uint64_t context, stream;
	bool returned;
	int return_value, result;
	enum tape_descriptor descriptor;
	uint64_t numbers[7]; /* of the descriptor */
	const uint8_t *cubin; /* of a module, numbers[1] bytes; NULL: not on the tape */
	uint64_t parameters[TAPE_PARAMETERS_MAX];
	unsigned parameter_count;
	bool empty; /* only domain and id */
};

struct tape_delivery {
	struct tape_buffer buffer; /* runs: NULL, they are below */
	struct cursor runs;
	size_t runs_left;
};

struct tape_thread {
	uint64_t tid;
	char name[64];
};

/* Decode a record of that type. false: damaged payload. Pointers are into the tape. */
bool tape_get_string(const struct tape_record *r, struct tape_string *out);
bool tape_get_thread(const struct tape_record *r, struct tape_thread *out);
bool tape_get_call(const struct tape_record *r, struct tape_call *out);
bool tape_get_event(const struct tape_record *r, struct tape_event *out);
bool tape_get_request(const struct tape_record *r, uint64_t *size, uint64_t *max_records);
bool tape_get_delivery(const struct tape_record *r, struct tape_delivery *out);
/* *text is not NUL-terminated; call->text is NULL. */
bool tape_get_nvtx(const struct tape_record *r, struct tape_nvtx *call, struct tape_text *text);
/* Texts are not NUL-terminated. */
bool tape_get_nccl(const struct tape_record *r, struct tape_nccl *call);

/* Gets the next run of a delivery; false at the end. The runs never exceed the buffer. */
bool tape_next_run(struct tape_delivery *d, struct tape_run *run);

#endif
