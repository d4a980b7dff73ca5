/*
 * input.h: the bytes of a file or a pipe, decompressed: gzip, zstd and xz are recognized by their
 * first bytes. Several compressed streams in a row are one text; what else follows one is ignored.
 */
#ifndef PITOT_IMPORT_INPUT_H
#define PITOT_IMPORT_INPUT_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/strbuf.h"

#define INPUT_HEAD_BYTES ((size_t)64 << 10)

struct input {
	int fd;
	const volatile sig_atomic_t *cancel; /* ends the reading once nonzero; NULL: nothing does */
	uint64_t raw_bytes; /* read so far, as they are in the file */
	bool is_truncated; /* it ended within a compressed stream, or that was damaged */
	const char *head; /* first bytes of the text, also read by input_read */
	size_t head_length;

	/* Private: */
	const struct packing *packing; /* NULL: none */
	void *decoder;
	uint8_t *raw, *text; /* text: memory of the head */
	size_t raw_at, raw_length, head_at;
	bool raw_ended, within, over; /* within: a compressed stream */
};

/*
 * Takes a descriptor, or the negative code of its failed opening, and reads the head. Returns 0,
 * E_UNSUPPORTED for xz in a build without liblzma, or another negative code; the input is to be
 * closed in any case. `path` is for errors.
 */
int input_open(struct input *in, int fd, const char *path, const volatile sig_atomic_t *cancel,
	       struct error *e) MUST_USE;
/* Reads `size` bytes, less only at the end. Returns their number, -ECANCELED or -ENOMEM. */
ssize_t input_read(void *in, void *bytes, size_t size) MUST_USE;
/* Whether it begins as a SQLite database. */
bool input_is_database(const struct input *in);
/*
 * Whether a file of that size is a database that ends before its last page; appends where. A
 * compressed one is not known before it is unpacked.
 */
bool input_is_cut_database(const struct input *in, uint64_t size, struct strbuf *what);
/*
 * Databases are read at any place. If the input is compressed or a pipe, its bytes move to a file
 * without a name in $TMPDIR, which is the input from then on. Returns 0 or a negative code.
 */
int input_make_seekable(struct input *in) MUST_USE;
void input_close(struct input *in);

#endif
