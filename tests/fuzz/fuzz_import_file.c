/* layer: import */
/*
 * Any bytes as a file for an importer: what comes out is a recording, or nothing. The importer is
 * the one that recognizes them, or else is chosen by the first byte. If its highest bit is set,
 * every beginning of the bytes is tried as well, except in a fuzzer, which cuts them itself.
 */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "import/importer.h"

#ifdef PITOT_FUZZING
#define CUTS 0
#else
#define CUTS 128
#endif

static void clear(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *entry;

	while (d && (entry = readdir(d)))
		unlinkat(dirfd(d), entry->d_name, 0);
	if (d)
		closedir(d);
	rmdir(path);
}

/* Returns the score of an importer, or runs it if `run`. */
static int import(const struct importer *importer, const uint8_t *bytes, size_t size, bool run)
{
	char out[] = "/tmp/fuzz-imported-XXXXXX";
	int fd = memfd_create("input", MFD_CLOEXEC);
	struct import_options options = { .cancel = NULL };
	struct import_source source = { .path = "input", .folder = -1 };
	struct import_result result = { 0 };
	struct error e = { 0 };
	int rc, score = 0;

	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) != 0 ||
	    !mkdtemp(out))
		abort();
	if (input_open(&source.input, fd, "input", NULL, &e) == 0) {
		score = importer->sniff(&source);
		rc = run ? importer->run(&source, &options, out, &result, &e) : 0;
		if (rc < 0 && (rc != e.code || !*e.text))
			abort();
	}
	import_result_release(&result);
	import_close(&source);
	clear(out);
	return score;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const struct importer *used = NULL;
	size_t count = 0;
	int best = 0;

	if (!size)
		return 0;
	for (; importers[count].name; count++) {
		int score = import(&importers[count], bytes + 1, size - 1, false);

		used = score > best ? &importers[count] : used;
		best = MAX(best, score);
	}
	if (!used)
		used = &importers[(bytes[0] & 127) % count];
	for (size_t length = bytes[0] & CUTS ? 0 : size - 1; length < size; length++)
		import(used, bytes + 1, length, true);
	return 0;
}
