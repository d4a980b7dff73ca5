/*
 * tape_writer.h: puts records on a tape (bytes: tape_format.h). Any thread may call; a lock keeps
 * records whole and in order. Nothing fails towards the caller: after a write error or without
 * memory the tape ends where it is.
 */
#ifndef PITOT_TESTS_STANDIN_TAPE_WRITER_H
#define PITOT_TESTS_STANDIN_TAPE_WRITER_H

#include <stdbool.h>

#include "tape/tape_format.h"

struct tape_writer;

/* NULL without memory. A writer that is not on a tape ignores what it is given. */
struct tape_writer *tape_writer_new(void);
void tape_writer_free(struct tape_writer *w);

/* Starts a tape in fd, which it takes over. 0, or -errno, and then fd is closed. */
int tape_writer_start(struct tape_writer *w, int fd) MUST_USE;
bool tape_writer_running(const struct tape_writer *w);
/* Writes what is there to the file. NULL allowed. */
void tape_writer_flush(struct tape_writer *w);
/* Writes END and closes the file; time: CLOCK_MONOTONIC ns. */
void tape_writer_finish(struct tape_writer *w, uint64_t time);
/* In the child of a fork, whose parent held the lock: leaves the tape to the parent. */
void tape_writer_forget(struct tape_writer *w);

/* Around fork(): no other thread is inside the writer in between. */
void tape_writer_lock(struct tape_writer *w);
void tape_writer_unlock(struct tape_writer *w);

/* What a record starts with. */
struct tape_mark {
	uint32_t thread;
	uint64_t time;
};

struct tape_fact {
	const char *key, *value;
};

/* One call of a function of the tables. */
struct tape_call {
	enum tape_function function;
	int64_t result;
	uint64_t duration_ns;
	unsigned argument_count;
	uint64_t arguments[TAPE_ARGUMENTS_MAX];
	const void *output;
	size_t output_length;
};

/* A call of NVTX's function `id` (position in the callback table `module`) with its arguments. */
struct tape_nvtx {
	unsigned module, id; /* NVTX_CB_MODULE_… and NVTX_CBID_… */
	unsigned domain; /* 0: the default domain; others count up as they are first created */
	unsigned long long range;
	const char *text; /* message or name, or NULL */
	unsigned category, color;
	int payload_kind; /* enum nvtx_payload */
	unsigned long long payload;
};

struct tape_run {
	uint32_t size, count;
};

/* A buffer that CUPTI delivered. The runs give the sizes of the records from the start on. */
struct tape_buffer {
	uint64_t context;
	uint32_t stream;
	size_t size;
	int end_result;
	const struct tape_run *runs;
	size_t run_count;
	const uint8_t *bytes;
	size_t valid;
};

void tape_put_hello(struct tape_writer *w, struct tape_mark at, const struct tape_fact *facts,
		    size_t count);
void tape_put_thread(struct tape_writer *w, struct tape_mark at, uint64_t tid, const char *name);
void tape_put_call(struct tape_writer *w, struct tape_mark at, const struct tape_call *call);
/* data: what CUPTI passes to a callback of that domain and id. */
void tape_put_callback(struct tape_writer *w, struct tape_mark at, CUpti_CallbackDomain domain,
		       CUpti_CallbackId cbid, const void *data);
void tape_put_request(struct tape_writer *w, struct tape_mark at, size_t size, size_t max_records);
void tape_put_buffer(struct tape_writer *w, struct tape_mark at, const struct tape_buffer *buffer);
void tape_put_nvtx(struct tape_writer *w, struct tape_mark at, const struct tape_nvtx *call);

/* A number for a thread that shows up: 1, 2, 3 … */
uint32_t tape_new_thread(struct tape_writer *w);

#endif
