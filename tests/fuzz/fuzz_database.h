/* fuzz_database.h: imports bytes as a file of a format. */
#ifndef PITOT_FUZZ_DATABASE_H
#define PITOT_FUZZ_DATABASE_H

#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "import/importer.h"

static inline void fuzz_clear(const char *path)
{
	DIR *d = opendir(path);
	char file[512];
	struct dirent *entry;

	while (d && (entry = readdir(d)))
		if (snprintf(file, sizeof(file), "%s/%s", path, entry->d_name) > 0)
			unlink(file);
	if (d)
		closedir(d);
	rmdir(path);
}

static inline int fuzz_database(const char *format, const uint8_t *bytes, size_t size)
{
	char out[] = "/tmp/fuzz-imported-XXXXXX", path[64];
	struct import_options options = { .cancel = NULL };
	struct import_result result = { 0 };
	const struct importer *used = importers;
	struct import_source source;
	struct error e = { 0 };
	int fd = memfd_create("fuzz", MFD_CLOEXEC), rc;

	while (strcmp(used->name, format) != 0)
		used++;
	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size || !mkdtemp(out))
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	rc = import_open(&source, path, NULL, &used, &e);
	if (rc >= 0 && used->sniff(&source) >= 0)
		rc = used->run(&source, &options, out, &result, &e);
	if (rc < 0 && !*e.text)
		abort();
	import_close(&source);
	close(fd);
	fuzz_clear(out);
	return 0;
}

#endif
