/*
 * symbolizer.h: maps addresses in a recorded process to functions, files and lines.
 *
 * A file is used only if it is the one that was mapped: it has the recorded build id or, if none
 * was recorded, has none and has not changed since. Files that could not be used are reported with
 * the reason. If two modules had an address at different times, the time decides; without a time,
 * the address remains unknown. Not safe for concurrent use.
 */
#ifndef PITOT_SYMBOL_SYMBOLIZER_H
#define PITOT_SYMBOL_SYMBOLIZER_H

#include "symbol/image.h"
#include "symbol/file_copies.h"
#include "symbol/symbol_module.h"

struct symbolizer_options {
	/* in order of preference; /usr/lib/debug is searched after them */
	const char *const *debug_folders;
	size_t debug_folder_count;
	const struct file_copies *file_copies; /* copies; must outlive the symbolizer; NULL: none */
	struct debuginfod *servers; /* for debug files; must outlive the symbolizer; NULL: none */
	bool no_lines;
};

enum symbol_source {
	SOURCE_NONE, /* unknown code, without function bounds */
	SOURCE_BOUNDS, /* unknown code, but the start of its function is known */
	SOURCE_SYMBOLS, /* the file's own symbols */
	SOURCE_DEBUG_FILE, /* debug file or MiniDebugInfo */
	SOURCE_PERF_MAP,
	SOURCE_KERNEL,
	SOURCE_EARLIER, /* for answers that callers have already; never set by the symbolizer */
	SOURCE_COUNT,
};

/* Texts are owned by the symbolizer. */
struct symbol_frame {
	const char *function; /* demangled; NULL: unknown */
	const char *file; /* NULL: unknown */
	uint32_t line; /* 0: unknown */
};

struct symbol_answer {
	struct symbol_frame frames[SOURCE_FRAMES_MAX]; /* the function, then inlined functions */
	unsigned count; /* at least 1 */
	enum symbol_source source;
	const char *module; /* path of the module; NULL: none */
	bool has_start;
	uint64_t function_start; /* ELF address; without a file, the address itself */
};

/* Results for a module in which addresses were looked up. */
struct symbol_module_report {
	const char *path;
	const char *reason; /* why names are missing; "": none are */
	bool has_no_file; /* because the file was not found, or is another one now */
	uint64_t addresses[SOURCE_COUNT]; /* number looked up, by source of the name */
	uint64_t with_line;
};

struct symbolizer;

int symbolizer_new(const struct symbolizer_options *options, struct symbolizer **out,
		   struct error *e) MUST_USE;
void symbolizer_free(struct symbolizer *s);
/* Adds a process; copies what it needs. Returns its number, or -ENOMEM. */
int symbolizer_add_process(struct symbolizer *s, const struct symbol_process *p) MUST_USE;
/*
 * Announces an address that will be looked up, without a time. Of a file with announced addresses
 * only what these need is read, and others have no names: announce all of them, in all processes,
 * before the first one is looked up. Returns 0 or -ENOMEM.
 */
int symbolizer_want(struct symbolizer *s, int process, uint64_t address,
		    enum address_kind kind) MUST_USE;
/* Looks up an address of a process; time_ns (CLOCK_MONOTONIC) 0: unknown. Returns 0 or -ENOMEM. */
int symbolizer_find(struct symbolizer *s, int process, uint64_t address, enum address_kind kind,
		    uint64_t time_ns, struct symbol_answer *answer);
/* Looks up an address of the operating system's kernel below a process. Returns 0 or -ENOMEM. */
int symbolizer_find_kernel(struct symbolizer *s, int process, uint64_t address,
			   struct symbol_answer *answer);
/*
 * Returns a report for each module in which an address was looked up; the last but one is for the
 * operating system's kernel, the last for addresses in no module. Valid until the next lookup.
 */
const struct symbol_module_report *symbolizer_reports(struct symbolizer *s, size_t *count);

#endif
