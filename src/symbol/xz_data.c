/* xz_data.c: bounds the memory and output of liblzma. */
#include "symbol/xz_data.h"

#include <errno.h>

#ifdef PITOT_HAVE_LZMA
#include <lzma.h>

#define MEMORY_MAX ((uint64_t)128 << 20) /* for the dictionary; xz -9 needs 65 MiB */
#define PIECE ((size_t)1 << 20)

/* Enlarges the buffer, which the caller frees in any case. */
static int grow(lzma_stream *z, uint8_t **buffer, size_t *room)
{
	size_t used = *room - z->avail_out, more = *room ? 2 * *room : PIECE;
	uint8_t *bigger = more <= XZ_PLAIN_MAX ? realloc(*buffer, more) : NULL;

	if (!bigger)
		return more <= XZ_PLAIN_MAX ? -ENOMEM : E_LIMIT;
	*buffer = bigger;
	z->next_out = bigger + used;
	z->avail_out = more - used;
	*room = more;
	return 0;
}

static int decode(lzma_stream *z, uint8_t **buffer, size_t *room)
{
	lzma_ret status = LZMA_OK;

	while (status == LZMA_OK) {
		int rc = z->avail_out ? 0 : grow(z, buffer, room);

		if (rc < 0)
			return rc;
		status = lzma_code(z, LZMA_FINISH);
	}
	if (status == LZMA_MEM_ERROR)
		return -ENOMEM;
	if (status == LZMA_MEMLIMIT_ERROR)
		return E_LIMIT;
	return status == LZMA_STREAM_END ? 0 : E_FORMAT;
}

int xz_decompress(const uint8_t *bytes, size_t size, uint8_t **out, size_t *out_size,
		  struct error *e)
{
	lzma_stream z = LZMA_STREAM_INIT;
	_cleanup_free_ uint8_t *buffer = NULL;
	size_t room = 0;
	int rc;

	if (lzma_stream_decoder(&z, MEMORY_MAX, 0) != LZMA_OK)
		return error_set(e, -ENOMEM, "out of memory");
	z.next_in = bytes;
	z.avail_in = size;
	rc = decode(&z, &buffer, &room);
	lzma_end(&z);
	if (rc < 0)
		return error_set(e, rc, "cannot decompress MiniDebugInfo: %s", error_code_text(rc));
	*out_size = room - z.avail_out;
	*out = buffer;
	buffer = NULL;
	return 0;
}

#else

int xz_decompress(const uint8_t *bytes, size_t size, uint8_t **out, size_t *out_size,
		  struct error *e)
{
	(void)bytes, (void)size, (void)out, (void)out_size;
	return error_set(e, E_UNSUPPORTED,
			 "this build cannot read MiniDebugInfo: it has no liblzma");
}

#endif
