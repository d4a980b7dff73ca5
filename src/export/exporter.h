/*
 * exporter.h: the export formats. A new format is one file and one line in EXPORTERS.
 */
#ifndef PITOT_EXPORT_EXPORTER_H
#define PITOT_EXPORT_EXPORTER_H

#include <signal.h>

#include "export/file_format.h"
#include "trace/trace.h"

/*
 * F(name, suffixes, splits, has_rank, has_samples, is_folder, write): members of
 * struct exporter.
 */
#define EXPORTERS(F)                                                                               \
	F(perfetto, ".perfetto-trace .pftrace .perfetto .perfetto-trace.gz .pftrace.gz", true,     \
	  false, true, false, perfetto_write)                                                      \
	F(json, ".json .json.gz", false, true, false, false, chrome_json_write)                    \
	F(html, ".html", false, false, true, false, html_write)                                    \
	F(gpufl, ".gpufl", false, false, false, true, gpufl_write)                                 \
	F(parquet, ".parquet", false, false, true, true, parquet_write)                            \
	F(arrow, ".arrow", false, false, true, true, arrow_write)                                  \
	F(csv, ".csv", false, false, true, true, csv_write)                                        \
	F(sqlite, ".sqlite .db", false, false, true, false, sqlite_write)                          \
	F(sbt, ".sbt", false, false, false, false, sbt_write)                                      \
	F(dot, ".dot .gv", false, false, false, false, dot_write)

struct export_options {
	uint64_t since_ns, until_ns; /* CLOCK_MONOTONIC; only events that start in [since, until) */
	const char *kernel; /* only kernels whose name matches, and their launches; NULL: all */
	/* only GPU work and calls inside matching scopes, see scope_paths_match; NULL: all */
	const char *scope;
	uint32_t rank; /* rank in a distributed job, for formats that have one */
	bool overwrite; /* replace an existing file */
	bool critical_path; /* perfetto, html: also what bounded the window */
	bool no_stacks; /* leave out call stacks and CPU samples */
	bool partition; /* parquet: files by job, host and rank */
	bool compact; /* gpufl: equal launches share one kernel_detail */
	uint64_t session_salt; /* gpufl: not 0: sessions are others than those of the process */
	const char *shown_path; /* gpufl: folder that the logs name as theirs; NULL: the path */
	/* start another file before this size, in formats that can; 0: the format's own limit */
	uint64_t split_bytes;
	/* counts events; may be NULL */
	void (*progress)(void *user, uint64_t done, uint64_t total);
	void *progress_user;
	/* once nonzero, stops the export and removes what was written; may be NULL */
	const volatile sig_atomic_t *cancel;
};

#define EXPORT_ALL                                                                                 \
	{                                                                                          \
		.until_ns = UINT64_MAX                                                             \
	}

struct export_result {
	unsigned files;
	unsigned left; /* other files of the format that were in the folder, and still are */
	uint64_t bytes; /* of all files */
	uint64_t written[TABLE_END]; /* rows by table; for nvtx, ranges and marks */
	uint64_t untimed[TABLE_END]; /* left out: start or end is missing */
	uint64_t unpaired; /* left out: ends of NVTX ranges without a beginning */
	uint64_t crowded; /* left out: more overlapping slices than a track can show */
	uint64_t arrows; /* from calls to the work they launched */
	/* written although its launch is not in the recording */
	uint64_t unlinked;
};

struct exporter {
	struct file_format file;
	bool splits; /* honors split_bytes */
	bool has_rank; /* honors rank */
	bool has_samples; /* shows CPU samples and time off the CPU */
	/* path is created, or gets a further session; overwrite replaces an identical one */
	bool is_folder;
	/*
	 * Writes a recording to path, or to standard output if path is "-"; result must be zeroed.
	 * The file gets its name only when it is complete. Returns 0, -ECANCELED after *cancel,
	 * -ENODATA (and no file) if there is nothing to write but losses, or another negative code.
	 * Formats of tables have the process at least.
	 */
	int (*write)(struct trace *t, const struct export_options *options, const char *path,
		     struct export_result *result, struct error *e);
};

#define EXPORTER_WRITE(name, suffixes, splits, has_rank, has_samples, is_folder, write)            \
	int write(struct trace *t, const struct export_options *options, const char *path,         \
		  struct export_result *result, struct error *e);
EXPORTERS(EXPORTER_WRITE)

/* The last entry has no name. */
extern const struct exporter exporters[];

/* Finds a format by a file name's suffix, such as ".json.gz". Returns NULL if none fits. */
const struct exporter *exporter_by_path(const char *path);

uint64_t export_result_events(const struct export_result *result);

#endif
