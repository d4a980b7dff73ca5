/* fuzz_main.c: runs a fuzzer over every file of the given folders, as an ordinary test. */
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/io.h"
#include "fuzz.h"

#define INPUT_MAX (64u << 20)

static int run_file(const char *path)
{
	struct strbuf bytes = STRBUF_INIT;
	uint8_t *copy;
	int r = io_read_file(path, INPUT_MAX, &bytes);

	/* A copy of exactly the size, so that a sanitizer sees a read past its end. */
	copy = r < 0 ? NULL : malloc(bytes.length ? bytes.length : 1);
	if (!copy) {
		fprintf(stderr, "cannot read '%s'\n", path);
	} else {
		memcpy(copy, bytes.data, bytes.length);
		LLVMFuzzerTestOneInput(copy, bytes.length);
	}
	strbuf_release(&bytes);
	free(copy);
	return copy ? 0 : -1;
}

/* Number of files that were run, or -1. */
static int run_folder(const char *folder)
{
	DIR *d = opendir(folder);
	struct dirent *entry;
	int count = 0;

	while (d && count >= 0 && (entry = readdir(d))) {
		char path[4096];
		struct stat st;

		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
			continue;
		count = run_file(path) < 0 ? -1 : count + 1;
	}
	if (d)
		closedir(d);
	return count;
}

int main(int argc, char **argv)
{
	int total = 0;

	for (int i = 1; i < argc; i++) {
		int count = run_folder(argv[i]);

		if (count < 0)
			return 1;
		total += count;
	}
	if (total == 0) {
		fprintf(stderr, "no input in the given folders\n");
		return 1;
	}
	printf("%d inputs\n", total);
	return 0;
}
