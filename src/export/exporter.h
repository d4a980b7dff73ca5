/*
 * exporter.h: the formats that a recording can be written in. A new one is a file, and a line in
 * EXPORTERS.
 */
#ifndef PITOT_EXPORT_EXPORTER_H
#define PITOT_EXPORT_EXPORTER_H

#include <signal.h>

#include "export/file_format.h"
#include "trace/trace.h"

/*
 * F(name, suffixes, description, splits, has_rank, has_samples, is_folder, write): members of
 * struct exporter.
 */
#define EXPORTERS(F)                                                                               \
	F(perfetto, ".perfetto-trace .pftrace .perfetto .perfetto-trace.gz .pftrace.gz",           \
	  "Perfetto protobuf, for ui.perfetto.dev and trace processor", true, false, true, false,  \
	  perfetto_write)                                                                          \
	F(json, ".json .json.gz",                                                                  \
	  "Chrome trace JSON as PyTorch's profiler writes it, for HTA, Perfetto, "                 \
	  "chrome://tracing",                                                                      \
	  false, true, false, false, chrome_json_write)                                            \
	F(html, ".html", "page with a timeline that stands alone, for any browser", false, false,  \
	  false, false, html_write)                                                                \
	F(gpufl, ".gpufl", "folder of gpufl's logs, for its analyzer, report, viz and agent",      \
	  false, false, false, true, gpufl_write)

struct export_options {
	uint64_t since_ns,
		until_ns; /* CLOCK_MONOTONIC: only events that start in since <= t < until */
	const char *kernel; /* only kernels whose name matches, and their launches; NULL: all */
	/* only GPU work and calls inside of such scopes, see scope_paths_match; NULL: all */
	const char *scope;
	uint32_t rank; /* of a distributed job, where the format says so */
	bool overwrite; /* replace an existing file */
	bool no_stacks; /* leave out call stacks and CPU samples */
	bool compact; /* gpufl: one kernel_detail for equal launches */
	const char *shown_path; /* gpufl: what the logs name as their folder; NULL: the path */
	/* begin another file before this size, where the format can; 0: its own limit */
	uint64_t split_bytes;
	void (*progress)(void *user, uint64_t done, uint64_t total); /* events; may be NULL */
	void *progress_user;
	const volatile sig_atomic_t
		*cancel; /* stop and remove what was written once it is not 0; may be NULL */
};

#define EXPORT_ALL                                                                                 \
	{                                                                                          \
		.until_ns = UINT64_MAX                                                             \
	}

struct export_result {
	unsigned files;
	uint64_t bytes; /* of all files */
	uint64_t written[TABLE_END]; /* rows by table; of nvtx: ranges and marks */
	uint64_t untimed[TABLE_END]; /* left out because start or end is missing */
	uint64_t unpaired; /* left out: ends of NVTX ranges without their beginning */
	uint64_t crowded; /* left out: more overlapping slices than a track can show */
	uint64_t arrows; /* from calls to the work they launched */
	/* work whose launch is not in the recording; it is written all the same */
	uint64_t unlinked;
};

struct exporter {
	struct file_format file;
	bool splits; /* minds split_bytes */
	bool has_rank; /* minds rank */
	bool has_samples; /* shows CPU samples and times off the CPU */
	/*
	 * what it writes: path is made, or gets a further session; overwrite replaces an equal one
	 */
	bool is_folder;
	/*
	 * Writes a recording to path, or to standard output when it is "-"; result is zeroed
	 * before. The file has its name only when it is complete. 0, -ECANCELED after *cancel,
	 * -ENODATA and no file when there is no event to write, or another negative code.
	 */
	int (*write)(struct trace *t, const struct export_options *options, const char *path,
		     struct export_result *result, struct error *e);
};

#define EXPORTER_WRITE(name, suffixes, description, splits, has_rank, has_samples, is_folder,      \
		       write)                                                                      \
	int write(struct trace *t, const struct export_options *options, const char *path,         \
		  struct export_result *result, struct error *e);
EXPORTERS(EXPORTER_WRITE)

/* Ends with an entry without a name. */
extern const struct exporter exporters[];

/* By the end of a file name, ".gz" included where the format takes it. NULL when no suffix fits. */
const struct exporter *exporter_by_path(const char *path);

uint64_t export_result_events(const struct export_result *result);

#endif
