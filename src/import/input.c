#include "import/input.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#ifdef PITOT_HAVE_LZMA
#include <lzma.h>
#endif

#include "base/compiler.h"
#include "base/io.h"

#define RAW_BYTES ((size_t)64 << 10)
#define WAIT_MS 100

/* ---- decoders ---- */

/* Bytes that a decoder may consume, and room that it may fill; it advances both. */
struct piece {
	const uint8_t *in;
	size_t in_left;
	uint8_t *out;
	size_t out_left;
};

struct packing {
	const char *name, *magic;
	size_t magic_length;
	/* Begins a stream; *decoder is NULL before the first one. Returns 0 or a negative code. */
	int (*begin)(void **decoder);
	/* Returns 1 at the end of a stream, 0 within it, or a negative code. */
	int (*decode)(void *decoder, struct piece *p);
	void (*end)(void *decoder);
};

static int gzip_begin(void **decoder)
{
	if (*decoder)
		return inflateReset(*decoder) == Z_OK ? 0 : -ENOMEM;
	*decoder = calloc(1, sizeof(z_stream));
	return *decoder && inflateInit2((z_stream *)*decoder, 15 + 16) == Z_OK ? 0 : -ENOMEM;
}

static int gzip_decode(void *decoder, struct piece *p)
{
	z_stream *z = decoder;
	int rc;

	z->next_in = (Bytef *)(uintptr_t)p->in;
	z->avail_in = (uInt)p->in_left;
	z->next_out = p->out;
	z->avail_out = (uInt)MIN(p->out_left, (size_t)1 << 30);
	rc = inflate(z, Z_NO_FLUSH);
	p->in_left = z->avail_in;
	p->in = z->next_in;
	p->out_left -= (size_t)(z->next_out - p->out);
	p->out = z->next_out;
	return rc == Z_STREAM_END ? 1 : rc == Z_OK || rc == Z_BUF_ERROR ? 0 : E_FORMAT;
}

static void gzip_end(void *decoder)
{
	inflateEnd(decoder);
	free(decoder);
}

static int zstd_begin(void **decoder)
{
	if (!*decoder)
		*decoder = ZSTD_createDStream();
	return *decoder && !ZSTD_isError(ZSTD_initDStream(*decoder)) ? 0 : -ENOMEM;
}

static int zstd_decode(void *decoder, struct piece *p)
{
	ZSTD_inBuffer in = { p->in, p->in_left, 0 };
	ZSTD_outBuffer out = { p->out, p->out_left, 0 };
	size_t rc = ZSTD_decompressStream(decoder, &out, &in);

	p->in += in.pos;
	p->in_left -= in.pos;
	p->out += out.pos;
	p->out_left -= out.pos;
	return ZSTD_isError(rc) ? E_FORMAT : rc == 0;
}

static void zstd_end(void *decoder)
{
	ZSTD_freeDStream(decoder);
}

#ifdef PITOT_HAVE_LZMA
#define XZ_MEMORY_MAX ((uint64_t)128 << 20) /* for the dictionary; xz -9 needs 65 MiB */

static int xz_begin(void **decoder)
{
	if (!*decoder)
		*decoder = calloc(1, sizeof(lzma_stream)); /* as LZMA_STREAM_INIT is */
	return *decoder && lzma_stream_decoder(*decoder, XZ_MEMORY_MAX, 0) == LZMA_OK ? 0 : -ENOMEM;
}

static int xz_decode(void *decoder, struct piece *p)
{
	lzma_stream *z = decoder;
	lzma_ret rc;

	z->next_in = p->in;
	z->avail_in = p->in_left;
	z->next_out = p->out;
	z->avail_out = p->out_left;
	rc = lzma_code(z, LZMA_RUN);
	*p = (struct piece){ z->next_in, z->avail_in, z->next_out, z->avail_out };
	return rc == LZMA_STREAM_END ? 1 : rc == LZMA_OK || rc == LZMA_BUF_ERROR ? 0 : E_FORMAT;
}

static void xz_end(void *decoder)
{
	lzma_end(decoder);
	free(decoder);
}
#else
#define xz_begin NULL
#define xz_decode NULL
#define xz_end NULL
#endif

static const struct packing packings[] = {
	{ "gzip", "\x1f\x8b", 2, gzip_begin, gzip_decode, gzip_end },
	{ "zstd", "\x28\xb5\x2f\xfd", 4, zstd_begin, zstd_decode, zstd_end },
	{ "xz",
	  "\xfd"
	  "7zXZ",
	  6, xz_begin, xz_decode, xz_end },
};

/* ---- reading ---- */

static bool is_cancelled(const struct input *in)
{
	return in->cancel && *in->cancel;
}

/*
 * Waits for a pipe's writer. A read would go on after the signal that sets *cancel; the time limit
 * is for a signal that comes right before poll().
 */
static int wait_for_bytes(const struct input *in)
{
	struct pollfd p = { .fd = in->fd, .events = POLLIN };
	int ready = 0;

	while (!is_cancelled(in) && (ready == 0 || (ready < 0 && errno == EINTR)))
		ready = poll(&p, 1, WAIT_MS);
	return is_cancelled(in) ? -ECANCELED : 0;
}

/* Reads more after what is left, which moves to the front. An error of the file is its end. */
static int fill(struct input *in)
{
	ssize_t n;

	memmove(in->raw, in->raw + in->raw_at, in->raw_length - in->raw_at);
	in->raw_length -= in->raw_at;
	in->raw_at = 0;
	do {
		if (wait_for_bytes(in) < 0)
			return -ECANCELED;
		n = read(in->fd, in->raw + in->raw_length, RAW_BYTES - in->raw_length);
	} while (n < 0 && (errno == EINTR || errno == EAGAIN));
	in->raw_ended = n <= 0;
	in->is_truncated |= n < 0;
	in->raw_length += n > 0 ? (size_t)n : 0;
	in->raw_bytes += n > 0 ? (size_t)n : 0;
	return 0;
}

static bool is_packed(const struct input *in, const struct packing *p)
{
	return in->raw_length - in->raw_at >= p->magic_length &&
	       !memcmp(in->raw + in->raw_at, p->magic, p->magic_length);
}

/* Begins the next compressed stream, if there is one. */
static int begin_stream(struct input *in)
{
	int rc = 0;

	while (rc == 0 && !in->raw_ended && in->raw_length - in->raw_at < in->packing->magic_length)
		rc = fill(in);
	if (rc < 0)
		return rc;
	in->within = is_packed(in, in->packing);
	in->over = !in->within;
	return in->within ? in->packing->begin(&in->decoder) : 0;
}

static int decode(struct input *in, struct piece *p)
{
	size_t in_left = p->in_left, out_left = p->out_left;
	int rc = in->packing->decode(in->decoder, p);

	in->within = rc == 0;
	in->is_truncated |= rc < 0;
	in->over |= rc < 0;
	if (rc == 0 && in->raw_ended && p->in_left == in_left && p->out_left == out_left)
		in->over = in->is_truncated = true;
	return 0;
}

ssize_t input_read(void *input, void *bytes, size_t size)
{
	struct input *in = input;
	size_t head = MIN(in->head_length - in->head_at, size);
	uint8_t *out = bytes;
	int rc = 0;

	if (is_cancelled(in))
		return -ECANCELED;
	memcpy(out, in->text + in->head_at, head);
	in->head_at += head;
	for (size_t done = head; done < size && !in->over && rc == 0;) {
		struct piece p;

		if (in->packing && !in->within) {
			rc = begin_stream(in);
			continue;
		}
		if (in->raw_at == in->raw_length && !in->raw_ended)
			rc = fill(in);
		p = (struct piece){ in->raw + in->raw_at, in->raw_length - in->raw_at, out + done,
				    size - done };
		if (rc == 0 && in->packing) {
			rc = decode(in, &p);
		} else if (rc == 0) {
			size_t n = MIN(p.in_left, p.out_left);

			memcpy(p.out, p.in, n);
			p.in_left -= n;
			p.out_left -= n;
			in->over = in->raw_ended && !p.in_left;
		}
		in->raw_at = in->raw_length - p.in_left;
		done = size - p.out_left;
		head = done;
	}
	return rc < 0 ? rc : (ssize_t)head;
}

int input_open(struct input *in, int fd, const char *path, const volatile sig_atomic_t *cancel,
	       struct error *e)
{
	ssize_t n = 0;

	*in = (struct input){ .fd = fd, .cancel = cancel };
	if (fd < 0)
		return error_set(e, fd, "cannot read '%s': %s", path, error_code_text(fd));
	in->raw = malloc(RAW_BYTES);
	in->text = malloc(INPUT_HEAD_BYTES);
	if (!in->raw || !in->text)
		return error_set(e, -ENOMEM, "out of memory");
	while (n == 0 && !in->raw_ended && in->raw_length < 6) /* the longest magic */
		n = fill(in);
	for (size_t i = 0; i < ARRAY_SIZE(packings) && n == 0; i++)
		if (is_packed(in, &packings[i]))
			in->packing = &packings[i];
	if (in->packing && !in->packing->begin)
		return error_set(e, E_UNSUPPORTED,
				 "'%s' is compressed with %s, which this build of Pitot cannot "
				 "read: decompress it",
				 path, in->packing->name);
	if (n == 0)
		n = input_read(in, in->text, INPUT_HEAD_BYTES);
	in->head_length = n > 0 ? (size_t)n : 0;
	in->head_at = 0;
	in->head = (const char *)in->text;
	return n < 0 ? error_set(e, (int)n, "cannot read '%s': %s", path, error_code_text((int)n))
		     : 0;
}

bool input_is_database(const struct input *in)
{
	static const char magic[] = "SQLite format 3"; /* with its NUL */

	return in->head_length >= sizeof(magic) && !memcmp(in->head, magic, sizeof(magic));
}

static uint32_t big_endian(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       bytes[3];
}

/* Sets the size of a page and their number; 0: unknown, if that was not written last. */
static bool read_pages(const struct input *in, uint64_t *page, uint64_t *pages)
{
	const uint8_t *head = (const uint8_t *)in->head;

	if (!input_is_database(in) || in->head_length < 100)
		return false;
	*page = (uint32_t)head[16] << 8 | head[17];
	*page = *page == 1 ? 65536 : *page; /* which 16 bits cannot express */
	*pages = big_endian(head + 24) == big_endian(head + 92) ? big_endian(head + 28) : 0;
	return true;
}

bool input_is_cut_database(const struct input *in, uint64_t size, struct strbuf *what)
{
	uint64_t page, pages;

	if (!input_is_database(in) || in->packing)
		return false;
	if (!read_pages(in, &page, &pages)) {
		strbuf_adds(what, "cut off within its header of 100 bytes");
		return true;
	}
	if (size >= page * pages)
		return false;
	strbuf_addf(what,
		    "cut off on page %" PRIu64 " of %" PRIu64 ": it has %" PRIu64 " of %" PRIu64
		    " B",
		    size / page + 1, pages, size, page * pages);
	return true;
}

int input_make_seekable(struct input *in)
{
	_cleanup_free_ char *buffer = malloc(INPUT_HEAD_BYTES);
	const char *folder = getenv("TMPDIR");
	uint64_t page, pages, left = UINT64_MAX;
	struct stat st;
	ssize_t n = 0;
	int fd;

	if (!in->packing && fstat(in->fd, &st) == 0 && S_ISREG(st.st_mode))
		return 0;
	fd = open(folder && *folder ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0 || !buffer)
		n = fd < 0 ? -errno : -ENOMEM;
	if (read_pages(in, &page, &pages) && pages)
		left = page * pages; /* what follows is no part of the database */
	while (n >= 0 && left && (n = input_read(in, buffer, MIN(left, INPUT_HEAD_BYTES))) > 0) {
		left -= (uint64_t)n;
		if (io_write_all(fd, buffer, (size_t)n) < 0)
			n = -errno;
	}
	if (n < 0) {
		fd_close(&fd);
		return (int)n;
	}
	close(in->fd);
	in->fd = fd;
	if (in->decoder)
		in->packing->end(in->decoder);
	in->decoder = NULL;
	in->packing = NULL;
	return 0;
}

void input_close(struct input *in)
{
	if (in->decoder)
		in->packing->end(in->decoder);
	free(in->raw);
	free(in->text);
	fd_close(&in->fd);
	*in = (struct input){ .fd = -1 };
}
