/* xz_data.h: decompression of .gnu_debugdata. */
#ifndef PITOT_SYMBOL_XZ_DATA_H
#define PITOT_SYMBOL_XZ_DATA_H

#include "base/error.h"

#define XZ_PLAIN_MAX ((size_t)256 << 20) /* bytes, decompressed */

/*
 * Decompresses an .xz stream into *out, which the caller frees. Returns 0; E_UNSUPPORTED in a build
 * without liblzma; E_FORMAT; E_LIMIT; -ENOMEM.
 */
int xz_decompress(const uint8_t *bytes, size_t size, uint8_t **out, size_t *out_size,
		  struct error *e) MUST_USE;

#endif
