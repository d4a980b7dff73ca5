/*
 * tape_writer.h: writes records to a tape (format: tape_format.h). Thread-safe; a lock keeps
 * records complete and in order. Callers see no errors: after a write error or without memory the
 * tape ends.
 */
#ifndef PITOT_TESTS_STANDIN_TAPE_WRITER_H
#define PITOT_TESTS_STANDIN_TAPE_WRITER_H

#include <stdbool.h>

#include "base/strbuf.h"
#include "tape/tape_format.h"

struct tape_writer;

/* Returns NULL without memory. A writer without a tape ignores what it is given. */
struct tape_writer *tape_writer_new(void);
void tape_writer_free(struct tape_writer *w);

/* Starts a tape in fd and takes ownership of it. Returns 0, or -errno after closing fd. */
int tape_writer_start(struct tape_writer *w, int fd) MUST_USE;
bool tape_writer_running(const struct tape_writer *w);
/* Writes buffered records to the file. w may be NULL. */
void tape_writer_flush(struct tape_writer *w);
/* Writes END and closes the file; time: CLOCK_MONOTONIC ns. */
void tape_writer_finish(struct tape_writer *w, uint64_t time);
/* For the child of a fork whose parent held the lock: leaves the tape to the parent. */
void tape_writer_forget(struct tape_writer *w);

/* Around fork(): keeps other threads out of the writer. */
void tape_writer_lock(struct tape_writer *w);
void tape_writer_unlock(struct tape_writer *w);

/* The start of a record. */
struct tape_mark {
	uint32_t thread;
	uint64_t time;
};

struct tape_fact {
	const char *key, *value;
};

/* A call of a function of the tables. */
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
	unsigned domain; /* 0: the default domain; others are numbered in order of creation */
	unsigned long long range;
	const char *text; /* message or name, or NULL */
	unsigned category, color;
	int payload_kind; /* enum nvtx_payload */
	unsigned long long payload;
};

/* A call of NCCL into its profiler plug-in, with what its kind of call has (tape_format.h). */
struct tape_nccl {
	unsigned interface, communicator;
	enum tape_nccl_call call;
	uint64_t hash; /* INIT; its name is texts[0] */
	unsigned nodes, ranks, rank;
	uint64_t type, handle, parent, state;
	const uint8_t *descriptor; /* from TAPE_NCCL_AT on */
	size_t descriptor_bytes;
	struct {
		unsigned offset;
		const char *text;
		size_t length;
	} texts[TAPE_NCCL_TEXTS];
	unsigned text_count;
};

struct tape_run {
	uint32_t size, count;
};

/* A buffer delivered by CUPTI. The runs are the sizes of its records, in order. */
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
/* data: the argument of a callback of that domain and id. */
void tape_put_callback(struct tape_writer *w, struct tape_mark at, CUpti_CallbackDomain domain,
		       CUpti_CallbackId cbid, const void *data);
void tape_put_request(struct tape_writer *w, struct tape_mark at, size_t size, size_t max_records);
void tape_put_buffer(struct tape_writer *w, struct tape_mark at, const struct tape_buffer *buffer);
void tape_put_nvtx(struct tape_writer *w, struct tape_mark at, const struct tape_nvtx *call);
void tape_put_nccl(struct tape_writer *w, struct tape_mark at, const struct tape_nccl *call);

/* Append to an output: n, and s (tape_format.h). text may be NULL. */
void tape_put_number(struct strbuf *s, uint64_t v);
void tape_put_text(struct strbuf *s, const char *text);

/* Returns a number for a new thread: 1, 2, 3 … */
uint32_t tape_new_thread(struct tape_writer *w);

#endif
