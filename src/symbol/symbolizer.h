/*
 * symbolizer.h: from an address in a recorded process to functions, files and lines.
 *
 * A file is used only if it is the one that was mapped: of the recorded build id, or, where there
 * was none, without one and not changed since. Files that could not be used are reported, with the
 * reason. Where two modules had an address at different times, the time decides; without a time the
 * address stays unknown. Not safe for concurrent use.
 */
#ifndef PITOT_SYMBOL_SYMBOLIZER_H
#define PITOT_SYMBOL_SYMBOLIZER_H

#include "symbol/image.h"
#include "symbol/file_copies.h"

/* A file mapped executable, as table `module` has it. */
struct symbol_module {
	const char *path;
	const char *build_id; /* hexadecimal; "" if the code has none */
	uint64_t start, end; /* addresses */
	uint64_t load_bias; /* address minus ELF address */
	uint64_t loaded_ns; /* CLOCK_MONOTONIC */
	int64_t loaded_unix_ns; /* CLOCK_REALTIME; 0: unknown */
};

struct symbol_process {
	uint32_t pid;
	const char *directory; /* that relative paths begin at; "" if unknown */
	/* It ran on this machine since it was booted: /proc/PID and perf's map may be its own. */
	bool is_here;
	/* CLOCK_REALTIME of its start; 0: unknown. An older map is of another process. */
	int64_t start_unix_ns;
	const struct symbol_module *modules; /* copied, with their texts */
	size_t module_count;
};

struct symbolizer_options {
	/* in order of preference; /usr/lib/debug comes after them */
	const char *const *debug_folders;
	size_t debug_folder_count;
	const struct file_copies *kept; /* of programs that have ended; outlive it; NULL: none */
	struct debuginfod *servers; /* for debug files; outlive it; NULL: none */
	bool no_lines;
};

enum symbol_source {
	SOURCE_NONE, /* nothing is known, not even where the function begins */
	SOURCE_BOUNDS, /* unknown code, but of a function whose start is known */
	SOURCE_SYMBOLS, /* the file's own symbols */
	SOURCE_DEBUG_FILE, /* separate symbols, or MiniDebugInfo */
	SOURCE_PERF_MAP,
	SOURCE_KERNEL,
	SOURCE_EARLIER, /* for callers that have answers of their own: never the symbolizer's */
	SOURCE_COUNT,
};

/* Texts belong to the symbolizer. */
struct symbol_frame {
	const char *function; /* demangled; NULL: unknown */
	const char *file; /* NULL: unknown */
	uint32_t line; /* 0: unknown */
};

struct symbol_answer {
	struct symbol_frame
		frames[SOURCE_FRAMES_MAX]; /* the function, then those inlined into it */
	unsigned count; /* at least 1 */
	enum symbol_source source;
	const char *module; /* its path; NULL: none */
	bool has_start;
	uint64_t function_start; /* ELF address; without a file: address */
};

/* What was found of a module in which addresses were looked up. */
struct symbol_module_report {
	const char *path;
	const char *reason; /* why there are no, or fewer, names; "" if nothing is amiss */
	uint64_t addresses[SOURCE_COUNT]; /* looked up, by the source of their names */
	uint64_t with_line;
};

struct symbolizer;

int symbolizer_new(const struct symbolizer_options *options, struct symbolizer **out,
		   struct error *e) MUST_USE;
void symbolizer_free(struct symbolizer *s);
/* Adds a process. Returns its number, or -ENOMEM. */
int symbolizer_add_process(struct symbolizer *s, const struct symbol_process *p) MUST_USE;
/* Looks up an address of a process; time_ns (CLOCK_MONOTONIC) 0: unknown. 0 or -ENOMEM. */
int symbolizer_find(struct symbolizer *s, int process, uint64_t address, enum address_kind kind,
		    uint64_t time_ns, struct symbol_answer *answer);
/* Looks up an address in the operating system's kernel that a process ran on. 0 or -ENOMEM. */
int symbolizer_find_kernel(struct symbolizer *s, int process, uint64_t address,
			   struct symbol_answer *answer);
/*
 * One for each module in which an address was looked up; the last is for addresses in no module,
 * the one before it for the operating system's kernel. Valid until the next look-up.
 */
const struct symbol_module_report *symbolizer_reports(struct symbolizer *s, size_t *count);

#endif
