/*
 * importer.h: converts recordings of other tools. A new format is one file, which defines
 * <name>_sniff() and <name>_run(), and one line in IMPORTERS, from which help and errors come too.
 */
#ifndef PITOT_IMPORT_IMPORTER_H
#define PITOT_IMPORT_IMPORTER_H

#include <signal.h>

#include "base/strbuf.h"
#include "base/vec.h"
#include "import/input.h"
#include "schema/schema.h"

/* F(name, reads): members of struct importer. */
#define IMPORTERS(F)                                                                               \
	F(gpufl, "logs of gpufl: a folder of one session or of many, or a file such as "           \
		 "device.1.log.gz")                                                                \
	F(kineto, "Chrome trace JSON of torch.profiler (Kineto), Pitot, JAX or unitrace: a file "  \
		  "or a folder with one for each rank")                                            \
	F(nsys, "SQLite exports of Nsight Systems, which `nsys export --type sqlite` writes")      \
	F(rocpd, "databases of rocprofv3 (rocpd 3.x), such as 4242_results.db")                    \
	F(xspace, "XSpace files (*.xplane.pb) of JAX, TensorFlow and PyTorch/XLA, also of TPUs: "  \
		  "one or a folder with one for each host")                                        \
	F(sbt, "SBT files of TraceSmith (version 0.1), also such as were never completed")         \
	F(torch_memory, "memory snapshots of PyTorch (pickles of torch.cuda.memory) and its raw "  \
			"memory timelines (*.raw.json.gz)")                                        \
	F(ncu, "CSV of Nsight Compute, which `ncu --csv --page raw` or `--page details` prints")  \
	F(xctrace, "XML of Apple's Instruments, which `xctrace export --xpath` writes")            \
	F(xray, "logs of LLVM's XRay (xray-log.NAME.XXXXXX), basic and of the flight data recorder")

/* The process of a recording about which an import adds rows. Texts belong to the caller. */
struct import_target {
	uint32_t pid;
	const char *boot_id, *host;
	uint64_t unix_offset_ns; /* Unix time less the recording's */
};

struct import_options {
	/* NULL: the import is a recording of its own. Only torch_memory has others. */
	const struct import_target *into;
	void (*progress)(void *user, uint64_t done, uint64_t total); /* counts bytes; may be NULL */
	void *progress_user;
	const volatile sig_atomic_t *cancel; /* stops the import once nonzero; may be NULL */
};

/* A process of the recording that is a rank of a distributed program. */
struct import_part {
	char name[96]; /* of its file */
	int64_t rank, ranks; /* number, and how many there are; -1: unknown */
	uint64_t start_ns, end_ns;
};

struct import_result {
	uint64_t files, bytes, records; /* that were read */
	uint64_t sessions; /* processes of the recording */
	uint64_t rows[TABLE_END]; /* written, by table */
	uint64_t unknown; /* records that no table can represent */
	uint64_t damaged; /* unreadable lines and rows */
	uint64_t start_ns, end_ns; /* since the epoch */
	char name[64]; /* of the first program; "": unknown */
	VEC(struct import_part) parts;
	struct strbuf notes; /* lines: what was joined and left out, and what is suspicious */
};
void import_result_release(struct import_result *result);
void import_note(struct import_result *result, const char *format, ...) PRINTF_LIKE(2, 3);
/* Adds a part; its name is the end of a path. Returns 0 or -ENOMEM. */
int import_add_part(struct import_result *result, const char *path, int64_t rank, int64_t ranks,
		    uint64_t start_ns, uint64_t end_ns, struct error *e) MUST_USE;
/* Notes ranks that are there twice, that are missing, or that seem to be of several runs. */
void import_note_ranks(struct import_result *result);

/* What the user named: a folder, or else a file or a pipe. */
struct import_source {
	const char *path; /* "-": standard input */
	int folder; /* its descriptor (base/folder.h); -1 if it is none */
	struct input input; /* if it is no folder */
};

struct importer {
	const char *name;
	const char *reads; /* what it reads, in the user's words */
	/*
	 * Returns how sure it is that the source is of the format, from 0 (it is not) to 100; by
	 * the names in the folder, or by the head of the input, of which it reads nothing.
	 */
	int (*sniff)(const struct import_source *source);
	/*
	 * Writes segments into `directory`, which exists, and adds to the result. Returns 0,
	 * -ECANCELED after *cancel, -ENODATA if there is nothing of the format, or another negative
	 * code.
	 */
	int (*run)(struct import_source *source, const struct import_options *options,
		   const char *directory, struct import_result *result, struct error *e);
};

#define IMPORTER_DECLARE(name, reads)                                                              \
	int name##_sniff(const struct import_source *source);                                      \
	int name##_run(struct import_source *source, const struct import_options *options,         \
		       const char *directory, struct import_result *result, struct error *e);
IMPORTERS(IMPORTER_DECLARE)

/* The last entry has no name. */
extern const struct importer importers[];

/*
 * Opens what is at a path, or standard input if that is "-", and finds its importer by the content
 * unless *used is one. Returns 0, E_UNSUPPORTED if there is none, or another negative code; the
 * source is to be closed in any case.
 */
int import_open(struct import_source *source, const char *path, const volatile sig_atomic_t *cancel,
		const struct importer **used, struct error *e) MUST_USE;
void import_close(struct import_source *source);

#endif
