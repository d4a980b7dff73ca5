/* layer: import */
/*
 * Any bytes as a window of gpufl's logs: what comes out is a recording, or nothing. The first byte
 * says which channel it is of, whether its name ends in .gz, and whether it is the file itself.
 */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "import/importer.h"

static void write_file(const char *path, const void *bytes, size_t size)
{
	FILE *f = fopen(path, "w");

	if (!f || fwrite(bytes, 1, size, f) != size || fclose(f) != 0)
		abort();
}

static void clear(const char *path)
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

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static const char *const names[] = { "device", "scope", "system", "app.kernel" };
	char logs[] = "/tmp/fuzz-import-XXXXXX", out[] = "/tmp/fuzz-imported-XXXXXX", path[128];
	struct import_options options = { .cancel = NULL };
	const struct importer *used = NULL;
	struct import_result result = { 0 };
	struct import_source source;
	struct error e = { 0 };
	int rc;

	if (!size)
		return 0;
	if (!mkdtemp(logs) || !mkdtemp(out))
		abort();
	snprintf(path, sizeof(path), "%s/%s.1.log%s", logs, names[bytes[0] % 4],
		 bytes[0] & 4 ? ".gz" : "");
	write_file(path, bytes + 1, size - 1);
	rc = import_open(&source, bytes[0] & 8 ? path : logs, NULL, &used, &e);
	if (rc < 0 && rc != E_UNSUPPORTED)
		abort();
	rc = importers[0].run(&source, &options, out, &result, &e);
	if (rc < 0 && rc != -ENODATA)
		abort();
	import_result_release(&result);
	import_close(&source);
	clear(logs);
	clear(out);
	return 0;
}
