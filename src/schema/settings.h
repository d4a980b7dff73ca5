/*
 * settings.h: what a session of the recorder may be asked for, each setting declared once. From
 * these two lists come the struct, the defaults, PITOT_OPTIONS (written by `pitot record`, read by
 * libpitot.so), the options of `pitot record` with their help, man page and completion, and the
 * table in docs/record.md. Each that is not internal has a field of its key in struct
 * pitot_options.
 *
 *	PITOT_RECORDING	absolute path of the recording's directory; without it nothing is recorded
 *	PITOT_GPUFL	absolute path of a folder for gpufl's logs, written beside the recording
 *	PITOT_OPTIONS	"key=value;key=value"; an unknown key is ignored, so that versions can be
 *			mixed. Values are 0 or 1, decimal numbers (of nanoseconds, bytes, …) and
 *			names of choices
 *	PITOT_GRAPHS …	a setting by the name of its option, with a value as on the command line
 *	PITOT_CONFIG_FILE  a JSON object of settings by those names
 */
#ifndef PITOT_SCHEMA_SETTINGS_H
#define PITOT_SCHEMA_SETTINGS_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/strbuf.h"

enum {
	SETTING_ENGINE_MONITOR,
	SETTING_ENGINE_TRACE,
	SETTING_ENGINE_PC_SAMPLING,
	SETTING_ENGINE_RANGE_PROFILER,
	SETTING_ENGINE_PM_SAMPLING,
	SETTING_ENGINE_SASS_METRICS,
	SETTING_ENGINE_DEEP, /* PC_SAMPLING and SASS_METRICS */
};
enum { SETTING_GRAPHS_LAUNCH, SETTING_GRAPHS_AUTO, SETTING_GRAPHS_NODE };
enum { SETTING_API_LAUNCHES, SETTING_API_ALL };
enum { SETTING_STACKS_NONE, SETTING_STACKS_NATIVE, SETTING_STACKS_PYTHON, SETTING_STACKS_ALL };
enum { SETTING_OWN_PROFILER_KEEP, SETTING_OWN_PROFILER_SHARE, SETTING_OWN_PROFILER_YIELD };
enum { SETTING_SYSTEM_BASIC, SETTING_SYSTEM_ALL };
enum { SETTING_MEASURE_KERNEL, SETTING_MEASURE_GRAPH, SETTING_MEASURE_RANGE };
enum { SETTING_PRELOAD_NONE, SETTING_PRELOAD_PYTHON, SETTING_PRELOAD_ALL };

/* Their names by value; NULL at the end. */
extern const char *const setting_engine_names[], *const setting_graphs_names[],
	*const setting_api_names[], *const setting_stacks_names[],
	*const setting_own_profiler_names[], *const setting_preload_names[],
	*const setting_system_names[], *const setting_measure_names[];

enum setting_join {
	SETTING_JOIN_OWN, /* each has its own */
	SETTING_JOIN_ENGINE, /* that of the session which has the engine that both get */
	SETTING_JOIN_MOST,
	SETTING_JOIN_LEAST, /* but 0, which is none */
	SETTING_JOIN_BITS,
};

#define SETTING_CPU_HZ_MAX 10000u

/*
 * S(key, TYPE, JOIN, default, member of struct option…): the members say its option on the command
 * line. TYPE is FLAG, ENUM, U64, SIZE, DURATION or TEXT (OPTION_ of base/options.h). A key ends in
 * the unit that its value has in PITOT_OPTIONS. JOIN (SETTING_JOIN_) says what two sessions want
 * together.
 */
/* clang-format off */
#define SETTINGS_REQUESTED(S)                                                                                          \
	S(engine, ENUM, MOST, SETTING_ENGINE_TRACE, .name = "engine", .argument = "ENGINE", .choices = setting_engine_names,   \
	  .help = "what the GPUs are watched by: monitor: NVML alone, without CUPTI; trace: CUPTI's trace, too; and beside it, " \
		  "pc-sampling: where kernels wait; range-profiler: hardware counters of chosen kernels; "      \
		  "pm-sampling: those of GPUs over time; "                                                                         \
		  "sass-metrics: what instructions of chosen kernels do; deep: pc-sampling and sass-metrics (default trace)")                                                      \
	S(delay_ns, DURATION, OWN, 0, .name = "delay", .argument = "TIME",                                                  \
	  .help = "start recording TIME after the command was started (10s, 250ms)")                                   \
	S(duration_ns, DURATION, OWN, 0, .name = "duration", .argument = "TIME", .positive = true,                          \
	  .help = "record for TIME, then let the command continue")                                                    \
	S(graphs, ENUM, MOST, SETTING_GRAPHS_NODE, .name = "graphs", .choices = setting_graphs_names,                        \
	  .help = "CUDA graphs: record every node, or one record per launch (cheaper); "           \
		  "auto: nodes where they are cheap (default node)")                               \
	S(api, ENUM, MOST, SETTING_API_LAUNCHES, .name = "api", .choices = setting_api_names,                                \
	  .help = "CUDA calls to record: launches, copies and synchronizations, or all "           \
		  "(default launches)")                                                            \
	S(stacks, ENUM, BITS, SETTING_STACKS_ALL, .name = "stacks", .choices = setting_stacks_names,                         \
	  .help = "frames in the call stacks of recorded calls (default all)")                     \
	S(sync, FLAG, MOST, false, .name = "sync", .negatable = true,                                                        \
	  .help = "record synchronizations and events as CUPTI sees them, too (expensive)")                            \
	S(memory, FLAG, MOST, false, .name = "memory", .negatable = true, .help = "record allocations and memory pools")     \
	S(counters_ns, DURATION, LEAST, 500 * NS_PER_MS, .name = "counters", .argument = "TIME", .bare = "500ms", .negatable = true, \
	  .help = "interval between readings of the GPUs' utilization, clocks, power and memory (default 500ms)")      \
	S(own_profiler, ENUM, MOST, SETTING_OWN_PROFILER_SHARE, .name = "own-profiler", .choices = setting_own_profiler_names, \
	  .help = "a profiler that the command has itself, such as torch.profiler: share CUPTI with it, "                       \
		  "yield CUPTI to it while it is active, or keep it to ourselves (default share)")                                                                            \
	S(system, ENUM, MOST, SETTING_SYSTEM_BASIC, .name = "system", .choices = setting_system_names,                       \
	  .help = "what --counters reads: basic is cheap, all has the machine, and of GPUs links, errors and use of units")     \
	S(max_bytes, SIZE, OWN, 0, .name = "max-size", .argument = "SIZE",                                                  \
	  .help = "stop recording a process after SIZE, such as 10G (default: no limit)")                              \
	S(pc_period, U64, ENGINE, 0, .name = "pc-period", .argument = "N", .most = 31,                                         \
	  .help = "--engine pc-sampling: a sample every 2^N cycles, 5 to 31 (default 0: 2^18)")                         \
	S(pm_interval_ns, DURATION, ENGINE, 500 * NS_PER_US, .name = "pm-interval", .argument = "TIME",                             \
	  .help = "--engine pm-sampling: time between two samples, 20us to 1ms (default 500us)")                        \
	S(metrics, TEXT, ENGINE, "default", .name = "metrics", .argument = "METRICS",                                       \
	  .help = "--engine range-profiler and pm-sampling: what is measured: default, memory, compute, tensor, roofline, sampling, " \
		  "and names of metrics (`pitot metrics`), with commas between them (default default; of pm-sampling: sampling); "    \
		  "of sass-metrics: default, and names of CUPTI's SASS metrics") \
	S(kernels, TEXT, ENGINE, "*", .name = "kernels", .argument = "PATTERN",                                                \
	  .help = "--engine range-profiler and sass-metrics: kernels whose mangled name matches or, of a text without * and ?, has it " \
		  "in it (default *)")                                                                              \
	S(kernel_skip, U64, ENGINE, 0, .name = "skip", .argument = "N",                                                        \
	  .help = "--engine range-profiler and sass-metrics: leave out the first N launches of these kernels (default 0)")               \
	S(kernel_count, U64, ENGINE, 100, .name = "count", .argument = "N",                                                   \
	  .help = "--engine range-profiler and sass-metrics: then measure N launches (default 100; 0: all)")                     \
	S(measure, ENUM, ENGINE, SETTING_MEASURE_KERNEL, .name = "measure", .choices = setting_measure_names,                  \
	  .help = "--engine range-profiler: measure launches of kernels, launches of CUDA graphs, or ranges of the "            \
		  "program (NVTX push and pop, scopes) as a whole; with graph and range, --skip and --count are of each "       \
		  "graph or range (default kernel)")                                                                            \
	S(nvtx_include, TEXT, ENGINE, "", .name = "nvtx", .argument = "PATTERN",                                               \
	  .help = "--engine range-profiler and sass-metrics: only launches inside NVTX ranges (push, pop) with one of these "   \
		  "names or patterns, with commas between; with --measure range, these ranges and scopes (default: all)")

/* What a program asks for that records itself; `pitot record` has a way of its own. */
#define SETTINGS_OF_PROGRAMS(S)                                                                                        \
	S(cpu, U64, MOST, 0, .most = SETTING_CPU_HZ_MAX,                                                                     \
	  .help = "CPU samples per second, by a timer inside the process; 0: none")                                            \
	S(counters_always, FLAG, MOST, true,                                                                                 \
	  .help = "readings of counters all the time, not only while a window of pitot_system_start is open")

/*
 * What `pitot record` decides by itself, or what tests and measurements set: no options of the
 * command line.
 */
#define SETTINGS_INTERNAL(S)                                                                                           \
	S(start_ns, DURATION, OWN, 0, .help = "CLOCK_MONOTONIC that delay and duration count from; 0: the session's start") \
	S(perf, U64, OWN, 0, .help = "perf events sample too, in the pid namespace with this inode; 0: none do")            \
	S(preload, ENUM, OWN, SETTING_PRELOAD_NONE, .choices = setting_preload_names,                                       \
	  .help = "programs in which recording starts when the library is loaded")                                     \
	S(cuda, FLAG, MOST, true, .help = "whether CUPTI is used")                                                           \
	S(kernel_ranges, TEXT, ENGINE, "", .help = "instead of skip and count: several, each SKIP+COUNT, with commas between")   \
	S(nvtx_exclude, TEXT, ENGINE, "", .help = "and none inside ranges with one of these")                                  \
	S(segment_bytes, SIZE, OWN, 0, .help = "size at which a new segment begins; 0: the writer's choice")                \
	S(stacks_max, U64, OWN, 0,                                                                                          \
	  .help = "distinct call stacks in a table before a new one begins; 0: the recorder's choice")
/* clang-format on */

#define SETTINGS(S) SETTINGS_REQUESTED(S) SETTINGS_OF_PROGRAMS(S) SETTINGS_INTERNAL(S)

typedef bool setting_FLAG;
typedef int setting_ENUM;
typedef char setting_TEXT[OPTION_TEXT_MAX];
typedef uint64_t setting_U64, setting_SIZE, setting_DURATION;

/*
 * Where a value is from. One of a higher number overrides those of lower ones, whatever is read
 * first.
 */
enum setting_source {
	SETTING_BY_DEFAULT,
	SETTING_BY_PROGRAM, /* the program's own defaults */
	SETTING_BY_FILE,
	SETTING_BY_ENVIRONMENT,
	SETTING_BY_RECORD, /* `pitot record` */
	SETTING_BY_CODE,
};

enum setting_id {
#define S(key, ...) SETTING_ID_##key,
	SETTINGS(S)
#undef S
	SETTINGS_COUNT,
};

#define SETTINGS_PATH_MAX 4096

struct settings {
	char directory[SETTINGS_PATH_MAX]; /* of the recording; "": none */
	char log_path[SETTINGS_PATH_MAX]; /* of gpufl's logs, beside the recording; "": none */
	char name[128]; /* what the program calls itself; "": nothing */
	bool disabled; /* the kill switch: nothing is to be recorded */
	uint8_t source[SETTINGS_COUNT]; /* enum setting_source */
#define S(key, type, ...) setting_##type key;
	SETTINGS(S)
#undef S
};

#define SETTING_INITIAL(key, type, join, initial, ...) .key = initial,
#define SETTINGS_INIT { SETTINGS(SETTING_INITIAL) }

/*
 * Sets a value unless it has one of a stronger source. A flag's is 0 or 1; an ENUM's, beyond its
 * choices, one of those to come; a TEXT's is the address of a text, which is copied.
 */
void settings_give(struct settings *s, enum setting_id id, uint64_t value,
		   enum setting_source source);

/* Makes *to what it and *more want together of the sources. */
void settings_join(struct settings *to, const struct settings *more);
/* Whether both want the same engine, and the same measured by it. */
bool settings_measure_alike(const struct settings *a, const struct settings *b);

/*
 * Reads the environment over *s, and the configuration file that `file` (may be NULL) or else the
 * environment names. Of an environment that `pitot record` has made only what that says counts;
 * `own`: only the rest does, because the recording is another one. What cannot be understood is
 * left out, and *e says what that was first. Returns 0 or its negative code. Without a file nothing
 * is allocated.
 */
int settings_read(struct settings *s, const char *file, bool own, struct error *e);

/* Whether a PITOT_OPTIONS text was written by `pitot record`, for its recording. */
bool settings_are_by_record(const char *options);

/*
 * Parses a PITOT_OPTIONS text over what is in *s. A value that is not understood leaves the setting
 * as it was.
 */
void settings_parse(struct settings *s, const char *text);

/* The setting whose option has that name ('_' is '-', in any case), or -1. */
int settings_find(const char *name);
const struct option *settings_option(enum setting_id id);
/* Name of an ENUM's value; NULL: it has none. */
const char *settings_choice(enum setting_id id, uint64_t value);
/*
 * As settings_give, of a text as on the command line. `subject` is what errors call the setting.
 * 0 or E_USAGE.
 */
int settings_set(struct settings *s, enum setting_id id, const char *text,
		 enum setting_source source, const char *subject, struct error *e);

/* Whether CUPTI is to be used. */
/* Whether there is a place to record into: a recording, or gpufl's logs alone. */
static inline bool settings_have_sink(const struct settings *s)
{
	return *s->directory || *s->log_path;
}

static inline bool settings_use_cupti(const struct settings *s)
{
	return s->cuda && s->engine >= SETTING_ENGINE_TRACE;
}

/*
 * Appends the settings that are not by default, and where they are from: "graphs=launch (code),
 * sync=1 (environment)".
 */
void settings_sources(const struct settings *s, struct strbuf *out);

/* Appends PITOT_OPTIONS for *s: the settings that differ from their defaults. */
void settings_text(const struct settings *s, struct strbuf *out);

/* The window of delay and duration. UINT64_MAX as its end: none. */
uint64_t settings_window_start_ns(const struct settings *s);
uint64_t settings_window_end_ns(const struct settings *s);

#endif
