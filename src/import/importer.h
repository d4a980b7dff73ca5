/*
 * importer.h: converts recordings of other tools. A new format is one file and one line in
 * IMPORTERS.
 */
#ifndef PITOT_IMPORT_IMPORTER_H
#define PITOT_IMPORT_IMPORTER_H

#include <signal.h>

#include "base/error.h"
#include "schema/schema.h"

/* F(name, read): members of struct importer. */
#define IMPORTERS(F) F(gpufl, gpufl_read)

struct import_options {
	void (*progress)(void *user, uint64_t done, uint64_t total); /* counts bytes; may be NULL */
	void *progress_user;
	const volatile sig_atomic_t *cancel; /* stops the import once nonzero; may be NULL */
};

struct import_result {
	uint64_t files, bytes, records; /* that were read */
	uint64_t sessions; /* processes of the recording */
	uint64_t rows[TABLE_END]; /* written, by table */
	uint64_t unknown; /* records that no table can represent */
	uint64_t damaged; /* unreadable lines and rows */
	uint64_t start_ns, end_ns; /* since the epoch */
	char name[64]; /* of the first program; "": unknown */
};

struct importer {
	const char *name;
	/*
	 * Writes segments into `directory`, which exists; result must be zeroed. Returns 0,
	 * -ECANCELED after *cancel, -ENODATA if there is nothing of the format, or another negative
	 * code.
	 */
	int (*read)(const char *path, const struct import_options *options, const char *directory,
		    struct import_result *result, struct error *e);
};

#define IMPORTER_READ(name, read)                                                                  \
	int read(const char *path, const struct import_options *options, const char *directory,    \
		 struct import_result *result, struct error *e);
IMPORTERS(IMPORTER_READ)

/* The last entry has no name. */
extern const struct importer importers[];

#endif
