/*
 * sbt_file.h: reads and writes TraceSmith's files, SBT 0.1: a header with the offsets of sections
 * of metadata, GPUs, events and strings, whose records have no lengths of their own. Therefore what
 * follows a record that cannot be read is lost. A file that was never completed has no offsets: its
 * sections are found one by one. Files are in memory as a whole, because the strings come last and
 * the header counts the events.
 */
#ifndef PITOT_FORMAT_SBT_FILE_H
#define PITOT_FORMAT_SBT_FILE_H

#include "base/bytes.h"
#include "base/error.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "base/vec.h"
#include "schema/sbt_format.h"

struct sbt_text {
	const char *bytes;
	size_t length;
};

struct sbt_metadata {
	struct sbt_text name, command, host;
	uint64_t start_ns, end_ns, pid;
};

struct sbt_event {
	uint8_t type, flags;
	uint32_t device, stream, thread;
	uint64_t time_ns, duration_ns, correlation;
	uint64_t name; /* number of a string, which need not be there */
	uint32_t kernel[8]; /* grid, block, shared memory, registers */
	uint64_t memory[3]; /* source, destination, bytes */
	uint64_t frame_count;
	struct cursor frames; /* that were read: sbt_next_frame() */
};

struct sbt_frame {
	uint64_t address, function, file, line; /* function, file: numbers of strings */
};

struct sbt_reader {
	const char *path; /* for errors */
	const uint8_t *bytes;
	size_t size;
	/* Gets each event in the file's order, may change it, and returns 0 or a negative code. */
	int (*add)(void *user, struct sbt_event *event);
	void *user;

	/* What sbt_read() has found: */
	struct sbt_metadata metadata;
	struct cursor devices; /* of sbt_next_device() */
	uint64_t device_count, time_ns;
	VEC(struct sbt_text) strings; /* also while events are added */
	char broken[160]; /* why not all of it could be read; "": all was */
};

/*
 * Reads a file. Returns 0, E_FORMAT or E_UNSUPPORTED for a header that cannot be, -ENOMEM, or what
 * add() has returned.
 */
int sbt_read(struct sbt_reader *s, struct error *e) MUST_USE;
void sbt_reader_release(struct sbt_reader *s);
/* NULL if there is no such string. */
const struct sbt_text *sbt_string(const struct sbt_reader *s, uint64_t number);
struct sbt_frame sbt_next_frame(struct cursor *frames);

struct sbt_device {
	uint32_t id;
	struct sbt_text name, vendor;
	uint64_t values[ARRAY_SIZE(sbt_device_columns)]; /* 0: unknown */
};
/* Returns false after the last one, or where the section is damaged. */
bool sbt_next_device(struct sbt_reader *s, struct sbt_device *device);

/* Appends to `out`; what has no memory makes sbt_finish() fail. */
struct sbt_writer {
	struct strbuf out;
	struct interner strings;
	uint64_t offsets[4]; /* metadata, strings, GPUs, events */
	uint64_t events, last_ns;
};

void sbt_begin(struct sbt_writer *w, const struct sbt_metadata *metadata);
/* Begins the section of `count` GPUs, which are to follow. */
void sbt_begin_devices(struct sbt_writer *w, size_t count);
void sbt_put_device(struct sbt_writer *w, const struct sbt_device *device);
/* Returns the number of a string. */
uint64_t sbt_number(struct sbt_writer *w, const char *text, size_t length);
/* Appends an event, in the order of time; its frames are to follow, the innermost one first. */
void sbt_put_event(struct sbt_writer *w, const struct sbt_event *event);
void sbt_put_frame(struct sbt_writer *w, const struct sbt_frame *frame);
/* Completes the file in `out`. Returns 0, E_LIMIT or -ENOMEM. */
int sbt_finish(struct sbt_writer *w, struct error *e) MUST_USE;
void sbt_writer_release(struct sbt_writer *w);

#endif
