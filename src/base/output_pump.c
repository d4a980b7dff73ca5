/*
 * output_pump.c: a ring of pieces with growing numbers: written <= worked <= submitted. The caller
 * fills the piece `submitted`. Any thread executes the next step(): it writes the first piece if
 * that is ready and nobody else is writing, or else compresses the first piece not yet begun.
 *
 * With gzip all pieces form one stream with one member, which every reader supports. Each piece is
 * deflated separately, with the end of the previous piece as its dictionary, and ends at a byte
 * boundary (Z_SYNC_FLUSH).
 */
#include "base/output_pump.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <zlib.h>

#include "base/bytes.h"
#include "base/io.h"

#define DICTIONARY_BYTES ((size_t)32 << 10) /* deflate's window */
#define THREADS_MAX 8
#define GZIP_LEVEL 3 /* higher levels cost time and hardly shrink traces */
#define WINDOW_BITS (-15) /* the largest window, raw deflate */
#define MEMORY_LEVEL 9

struct piece {
	struct strbuf bytes;
	unsigned char *compressed; /* gzip */
	size_t compressed_size, compressed_length;
	unsigned char dictionary[DICTIONARY_BYTES];
	size_t dictionary_length;
	z_stream z;
	uint32_t crc;
	bool has_z, is_last;
	bool ready; /* to be written */
};

struct output_pump {
	bool gzip;
	atomic_int err; /* errno of the first failure */
	pthread_mutex_t lock; /* for all members below, but not for the piece being processed */
	pthread_cond_t changed;
	pthread_t threads[THREADS_MAX];
	unsigned thread_count;
	bool tried_threads, writing, stop;
	uint64_t written, worked, submitted;
	size_t piece_count;
	struct piece *pieces;
	int fd; /* used by the thread that has set `writing` */
	uint32_t crc; /* of the uncompressed bytes written */
	uint64_t length;
};

static const unsigned char gzip_header[10] = { 0x1f, 0x8b, Z_DEFLATED, 0, 0, 0, 0, 0, 0, 3 };

static struct piece *piece_at(const struct output_pump *p, uint64_t number)
{
	return &p->pieces[number % p->piece_count];
}

static void fail(struct output_pump *p, int err)
{
	int none = 0;

	atomic_compare_exchange_strong(&p->err, &none, err);
}

struct output_pump *output_pump_new(int fd, bool gzip)
{
	struct output_pump *p = calloc(1, sizeof(*p));
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	if (!p)
		return NULL;
	p->fd = fd;
	p->gzip = gzip;
	p->piece_count = gzip ? (size_t)MIN(MAX(processors, 1), THREADS_MAX) + 2 : 3;
	p->pieces = calloc(p->piece_count, sizeof(*p->pieces));
	if (!p->pieces) {
		free(p);
		return NULL;
	}
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
	return p;
}

static int prepare_deflate(struct piece *piece)
{
	size_t bound;

	if (!piece->has_z && deflateInit2(&piece->z, GZIP_LEVEL, Z_DEFLATED, WINDOW_BITS,
					  MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
		return ENOMEM;
	piece->has_z = true;
	deflateReset(&piece->z);
	bound = deflateBound(&piece->z, piece->bytes.length) + 16; /* and the marker */
	if (bound > piece->compressed_size) {
		free(piece->compressed);
		piece->compressed = malloc(bound);
		piece->compressed_size = piece->compressed ? bound : 0;
	}
	return piece->compressed ? 0 : ENOMEM;
}

/* Returns 0 or an errno. */
static int compress_piece(struct piece *piece)
{
	z_stream *z = &piece->z;
	int err, status;

	if (piece->bytes.length > UINT32_MAX)
		return EFBIG;
	err = prepare_deflate(piece);
	if (err)
		return err;
	if (piece->dictionary_length)
		deflateSetDictionary(z, piece->dictionary, (uInt)piece->dictionary_length);
	z->next_in = (unsigned char *)piece->bytes.data;
	z->avail_in = (uInt)piece->bytes.length;
	z->next_out = piece->compressed;
	z->avail_out = (uInt)MIN(piece->compressed_size, UINT32_MAX);
	status = deflate(z, piece->is_last ? Z_FINISH : Z_SYNC_FLUSH);
	piece->compressed_length = (size_t)(z->next_out - piece->compressed);
	piece->crc = (uint32_t)crc32_z(0, (unsigned char *)piece->bytes.data, piece->bytes.length);
	return status == (piece->is_last ? Z_STREAM_END : Z_OK) && !z->avail_in ? 0 : EIO;
}

static int write_compressed(struct output_pump *p, const struct piece *piece)
{
	unsigned char trailer[8];
	int rc = 0;

	if (!p->length)
		rc = io_write_all(p->fd, gzip_header, sizeof(gzip_header));
	if (rc >= 0)
		rc = io_write_all(p->fd, piece->compressed, piece->compressed_length);
	p->crc = (uint32_t)crc32_combine(p->crc, piece->crc, (z_off_t)piece->bytes.length);
	p->length += piece->bytes.length;
	store_u32(trailer, p->crc);
	store_u32(trailer + 4, (uint32_t)p->length);
	if (rc >= 0 && piece->is_last)
		rc = io_write_all(p->fd, trailer, sizeof(trailer));
	return rc;
}

static void write_piece(struct output_pump *p, struct piece *piece)
{
	int rc = 0;

	if (!atomic_load(&p->err))
		rc = p->gzip ? write_compressed(p, piece)
			     : io_write_all(p->fd, piece->bytes.data, piece->bytes.length);
	if (rc < 0)
		fail(p, -rc);
}

/*
 * Executes one step. Called with the lock, which is released during the work. Returns false when
 * there is nothing to do.
 */
static bool step(struct output_pump *p)
{
	struct piece *piece = piece_at(p, p->written);

	if (p->written < p->worked && piece->ready && !p->writing) {
		p->writing = true;
		pthread_mutex_unlock(&p->lock);
		write_piece(p, piece);
		pthread_mutex_lock(&p->lock);
		p->writing = false;
		p->written++;
	} else if (p->worked < p->submitted) {
		piece = piece_at(p, p->worked++);
		pthread_mutex_unlock(&p->lock);
		if (p->gzip && !atomic_load(&p->err)) {
			int err = compress_piece(piece);

			if (err)
				fail(p, err);
		}
		pthread_mutex_lock(&p->lock);
		piece->ready = true;
	} else {
		return false;
	}
	pthread_cond_broadcast(&p->changed);
	return true;
}

static void *work(void *pump)
{
	struct output_pump *p = pump;

	pthread_mutex_lock(&p->lock);
	while (!p->stop)
		if (!step(p))
			pthread_cond_wait(&p->changed, &p->lock);
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* The threads get no signals but SIGPIPE, which reports that the reader of a pipe is gone. */
static void start_threads(struct output_pump *p)
{
	size_t wanted = p->gzip ? p->piece_count - 2 : 1;
	sigset_t all, before;

	sigfillset(&all);
	sigdelset(&all, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	while (p->thread_count < wanted &&
	       pthread_create(&p->threads[p->thread_count], NULL, work, p) == 0)
		p->thread_count++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	p->tried_threads = true;
}

/* Waits until at most `limit` submitted pieces are not yet written. */
static void wait_written(struct output_pump *p, uint64_t limit)
{
	while (p->submitted - p->written > limit)
		if (p->thread_count)
			pthread_cond_wait(&p->changed, &p->lock);
		else
			step(p);
}

/* Submits the filled piece, and prepares the next one. */
static void submit(struct output_pump *p, bool is_last)
{
	struct piece *piece = piece_at(p, p->submitted), *next;

	if (piece->bytes.failed)
		fail(p, ENOMEM);
	if (!p->tried_threads && !is_last)
		start_threads(p);
	pthread_mutex_lock(&p->lock);
	piece->is_last = is_last;
	piece->ready = false;
	p->submitted++;
	pthread_cond_broadcast(&p->changed);
	wait_written(p, is_last ? 0 : p->piece_count - 1);
	pthread_mutex_unlock(&p->lock);
	if (is_last)
		return;
	next = piece_at(p, p->submitted);
	strbuf_clear(&next->bytes);
	next->dictionary_length = MIN(piece->bytes.length, DICTIONARY_BYTES);
	if (p->gzip && next->dictionary_length)
		memcpy(next->dictionary,
		       piece->bytes.data + piece->bytes.length - next->dictionary_length,
		       next->dictionary_length);
}

void output_pump_write(struct output_pump *p, const void *bytes, size_t length)
{
	const char *from = bytes;

	while (length && !atomic_load_explicit(&p->err, memory_order_relaxed)) {
		struct strbuf *s = &piece_at(p, p->submitted)->bytes;
		size_t n = MIN(length, OUTPUT_PIECE_BYTES - s->length);

		strbuf_add(s, from, n);
		from += n;
		length -= n;
		if (s->length == OUTPUT_PIECE_BYTES || s->failed)
			submit(p, false);
	}
}

void output_pump_move(struct output_pump *p, struct strbuf *s)
{
	struct strbuf *own = &piece_at(p, p->submitted)->bytes, taken = *s;

	if (!s->length)
		return;
	if (own->length) {
		submit(p, false);
		own = &piece_at(p, p->submitted)->bytes;
	}
	*s = *own;
	*own = taken;
	submit(p, false);
}

int output_pump_error(const struct output_pump *p)
{
	return atomic_load_explicit(&p->err, memory_order_relaxed);
}

int output_pump_end(struct output_pump *p)
{
	submit(p, true);
	return atomic_load(&p->err);
}

void output_pump_free(struct output_pump *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < p->thread_count; i++)
		pthread_join(p->threads[i], NULL);
	for (size_t i = 0; i < p->piece_count; i++) {
		strbuf_release(&p->pieces[i].bytes);
		free(p->pieces[i].compressed);
		if (p->pieces[i].has_z)
			deflateEnd(&p->pieces[i].z);
	}
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->changed);
	free(p->pieces);
	free(p);
}
