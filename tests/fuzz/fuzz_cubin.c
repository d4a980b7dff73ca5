/* layer: symbol */
/*
 * Any bytes as device code. The corpus is made by tests/fuzz/seeds_cubin. Functions are those of
 * the corpus, by their symbols, their sections and their own names.
 */
#include "fuzz.h"

#include <stdlib.h>

#include "symbol/cubin.h"

#define CODE_BYTES 0x400
#define STEP 8

static void check_frames(const struct source_frame *frames, int count)
{
	if (count < 0 || count > SOURCE_FRAMES_MAX)
		abort();
	for (int i = 0; i < count; i++)
		if ((frames[i].function && strlen(frames[i].function) > SIZE_MAX / 2) ||
		    (frames[i].file && strlen(frames[i].file) > SIZE_MAX / 2))
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static const char *const names[] = { "_Z6smoothPfPKfi", "_Z5scaleIfEvPT_i", "_Z6gatherPKfi",
					     "" };
	static struct source_frame frames[SOURCE_FRAMES_MAX];
	struct elf_file file;
	struct cubin *cubin;

	if (elf_file_open_bytes(bytes, size, &file, NULL) < 0 ||
	    cubin_open(&file, &cubin, NULL) < 0)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct cubin_function f;

		if (!cubin_find_function(cubin, names[i], &f))
			continue;
		if (strlen(cubin_kernel(cubin, &f)) > size)
			abort();
		for (uint64_t at = 0; at < CODE_BYTES; at += STEP)
			check_frames(frames, cubin_find_frames(cubin, &f, at, frames));
		check_frames(frames, cubin_find_frames(cubin, &f, UINT64_MAX, frames));
	}
	cubin_free(cubin);
	return 0;
}
