/*
 * elf_contents.c: contents of sections, with decompression. Separate from elf_file.c so that the
 * recorder links no decompressor.
 */
#include <elf.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "base/bytes.h"
#include "elf/elf_file.h"

#define PLAIN_MAX ((uint64_t)8 << 30) /* bytes of a decompressed section */
#define RATIO_MAX 256u /* largest compression ratio accepted; 10 is usual */

static bool inflate_whole(struct elf_bytes from, uint8_t *to, uint64_t size)
{
	z_stream z = { 0 };
	uint64_t left = size, in = from.size;
	int rc = Z_OK;

	if (inflateInit(&z) != Z_OK)
		return false;
	z.next_in = (Bytef *)(uintptr_t)from.data;
	z.next_out = to;
	/* zlib counts in 32 bits. */
	while (rc == Z_OK) {
		uInt out_now = (uInt)MIN(left, 1u << 30), in_now = (uInt)MIN(in, 1u << 30);

		z.avail_out = out_now;
		z.avail_in = in_now;
		rc = inflate(&z, Z_NO_FLUSH);
		left -= out_now - z.avail_out;
		in -= in_now - z.avail_in;
		if (rc == Z_OK && out_now == z.avail_out && in_now == z.avail_in)
			break;
	}
	inflateEnd(&z);
	return rc == Z_STREAM_END && left == 0;
}

static struct elf_bytes decompress(struct elf_section *s, struct elf_bytes packed)
{
	Elf64_Chdr header;
	bool good = false;

	if (s->plain || !packed.data || packed.size < sizeof(header))
		return (struct elf_bytes){ s->plain, s->plain_size };
	memcpy(&header, packed.data, sizeof(header));
	packed.data += sizeof(header);
	packed.size -= sizeof(header);
	if (header.ch_size == 0 || header.ch_size > PLAIN_MAX ||
	    header.ch_size / RATIO_MAX > packed.size)
		return (struct elf_bytes){ NULL, 0 };
	s->plain = malloc(header.ch_size);
	if (!s->plain)
		return (struct elf_bytes){ NULL, 0 };
	if (header.ch_type == ELFCOMPRESS_ZLIB)
		good = inflate_whole(packed, s->plain, header.ch_size);
	else if (header.ch_type == 2) /* ELFCOMPRESS_ZSTD, which older <elf.h> lack */
		good = ZSTD_decompress(s->plain, header.ch_size, packed.data, packed.size) ==
		       header.ch_size;
	if (!good) {
		free(s->plain);
		s->plain = NULL;
		s->type = SHT_NOBITS; /* prevents another attempt */
		return (struct elf_bytes){ NULL, 0 };
	}
	s->plain_size = header.ch_size;
	return (struct elf_bytes){ s->plain, s->plain_size };
}

struct elf_bytes elf_contents(const struct elf_file *f, struct elf_section *s)
{
	struct elf_bytes bytes = elf_raw_contents(f, s);

	if (!elf_load(f, bytes))
		bytes = (struct elf_bytes){ NULL, 0 };
	return s && s->flags & SHF_COMPRESSED ? decompress(s, bytes) : bytes;
}

struct elf_bytes elf_named_contents(const struct elf_file *f, const char *name)
{
	return elf_contents(f, elf_section(f, name));
}

bool elf_debuglink(const struct elf_file *f, const char **name, uint32_t *crc)
{
	struct elf_bytes s = elf_named_contents(f, ".gnu_debuglink");
	const char *text = elf_string(s, 0);
	size_t at = text ? (strlen(text) + 4) & ~(size_t)3 : 0;

	if (!text || !*text || strchr(text, '/') || at + 4 > s.size)
		return false;
	*name = text;
	*crc = load_u32(s.data + at);
	return true;
}

bool elf_debugaltlink(const struct elf_file *f, const char **path, struct elf_bytes *build_id)
{
	struct elf_bytes s = elf_named_contents(f, ".gnu_debugaltlink");
	const char *text = elf_string(s, 0);
	size_t at = text ? strlen(text) + 1 : 0;

	if (!text || !*text || at >= s.size || s.size - at > BUILD_ID_MAX)
		return false;
	*path = text;
	*build_id = (struct elf_bytes){ s.data + at, s.size - at };
	return true;
}
