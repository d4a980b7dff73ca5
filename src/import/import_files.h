/*
 * import_files.h: importers of single files, which may be several in a folder: one for each rank or
 * host.
 */
#ifndef PITOT_IMPORT_IMPORT_FILES_H
#define PITOT_IMPORT_IMPORT_FILES_H

#include "import/importer.h"

struct import_files;

struct import_format {
	const char *name; /* "Chrome trace JSON" */
	const char *part; /* of the names of its files, such as ".json" */
	int (*sniff)(const struct input *in); /* as that of an importer */
	/* Returns -ENODATA for a file without any data, and goes on with others. */
	int (*read)(struct import_files *files, struct input *in, const char *path,
		    struct error *e);
};

struct import_files {
	const struct import_source *source;
	const struct import_format *format;
	const struct import_options *options;
	const char *directory;
	struct import_result *result;
	void *user;
	uint64_t total_bytes, done_bytes; /* done_bytes: of the files before */
};

/* Reads the file, or those of a folder that are of the format; the others are noted. */
int import_files(struct import_files *files, struct import_source *source, struct error *e);
void import_files_progress(struct import_files *files, const struct input *in);
/* Reads all of an input that has no more than `max` bytes. */
int import_read_all(struct import_files *files, struct input *in, const char *path, size_t max,
		    struct strbuf *out, struct error *e) MUST_USE;
/* Sniffs the file, or those in a folder whose names have the part. */
int import_files_sniff(const struct import_format *format, const struct import_source *source);

#endif
