/*
 * settings.h: the settings of a session, each declared once. The lists below generate the struct,
 * the defaults, PITOT_OPTIONS (written by `pitot record`, read by libpitot.so), the options of
 * `pitot record` with their help, man page and completion, and the table in docs/record.md. Each
 * setting that is not internal also has a field named after its key in struct pitot_options.
 *
 *	PITOT_RECORDING	absolute path of the recording's directory; without it nothing is recorded
 *	PITOT_LAUNCHER	set with it by `pitot record`: who creates segments that a process of the
 *			command cannot create (format/segment_request.h)
 *	PITOT_GPUFL	absolute path of a folder for gpufl's logs, written beside the recording
 *	PITOT_SINKS	all sinks: "recording:DIR,gpufl:DIR"; the two variables above count first
 *	PITOT_OPTIONS	"key=value;key=value"; unknown keys are ignored, so that versions can be
 *			mixed. Values are 0 or 1, decimal numbers (of nanoseconds, bytes, …) and
 *			names of choices
 *	PITOT_GRAPHS …	one setting, named after its option, with a value as on the command line
 *	PITOT_CONFIG_FILE  a JSON file: an object of settings with the same names
 */
#ifndef PITOT_SCHEMA_SETTINGS_H
#define PITOT_SCHEMA_SETTINGS_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/folder.h"
#include "base/options.h"
#include "base/strbuf.h"
#include "schema/sink_names.h"

/*
 * E(VALUE, name, what it records in addition to the trace, why it cannot begin in a running process
 * or NULL): the engines that users choose, as SETTING_ENGINE_VALUE and --engine NAME. A new one
 * comes last; enum pitot_engine has it, too.
 */
#define SETTING_ENGINES_BEYOND_TRACE(E)                                                            \
	E(PC_SAMPLING, "pc-sampling", "stall reasons of kernels", SETTING_ENGINE_OLD_CONTEXTS)     \
	E(RANGE_PROFILER, "range-profiler", "hardware counters of chosen kernels", NULL)           \
	E(PM_SAMPLING, "pm-sampling", "hardware counters of the GPUs over time", NULL)             \
	E(SASS_METRICS, "sass-metrics", "counts per instruction of chosen kernels",                \
	  "CUPTI counts instructions only if that began before CUDA")                              \
	E(DEEP, "deep", "pc-sampling and sass-metrics", SETTING_ENGINE_OLD_CONTEXTS)
#define SETTING_ENGINE_OLD_CONTEXTS "it samples only CUDA contexts that were created after it"

enum {
	SETTING_ENGINE_MONITOR,
	SETTING_ENGINE_TRACE,
#define E(value, name, help, start) SETTING_ENGINE_##value,
	SETTING_ENGINES_BEYOND_TRACE(E)
#undef E
		SETTING_ENGINES, /* their number */
};
#define SETTING_ENGINE_HELP(value, name, help, start) "; " name ": " help
enum { SETTING_GRAPHS_LAUNCH, SETTING_GRAPHS_NODE };
enum { SETTING_API_LAUNCHES, SETTING_API_ALL };
enum { SETTING_STACKS_NONE, SETTING_STACKS_NATIVE, SETTING_STACKS_PYTHON, SETTING_STACKS_ALL };
enum { SETTING_OWN_PROFILER_KEEP, SETTING_OWN_PROFILER_SHARE };
enum { SETTING_SYSTEM_BASIC, SETTING_SYSTEM_ALL };
enum { SETTING_MEASURE_KERNEL, SETTING_MEASURE_GRAPH, SETTING_MEASURE_RANGE };
enum { SETTING_PRELOAD_NONE, SETTING_PRELOAD_PYTHON, SETTING_PRELOAD_ALL };

/* Names of the enum values above, indexed by value; each array ends with NULL. */
extern const char *const setting_engine_names[],
	*const setting_graphs_names[],
		*const setting_api_names[],
			*const setting_stacks_names[],
				*const setting_own_profiler_names[],
					*const setting_preload_names[],
						*const setting_system_names[],
						*const setting_memory_names[],
							*const setting_measure_names[];

/* How the values of two concurrent sessions combine into what the sources record. */
enum setting_join {
	SETTING_JOIN_OWN, /* each session has its own value */
	SETTING_JOIN_ENGINE, /* the value of the session that has the engine */
	SETTING_JOIN_MOST, /* the larger value */
	SETTING_JOIN_LEAST, /* the smaller value that is not 0; 0 means off */
	SETTING_JOIN_BITS, /* bitwise or */
};

#define SETTING_CPU_HZ_MAX 10000u

/*
 * S(key, TYPE, JOIN, default, members of struct option…). The members declare the command line
 * option. TYPE is FLAG, ENUM, U64, SIZE, DURATION or TEXT (OPTION_ of base/options.h), JOIN is one
 * of SETTING_JOIN_. The suffix of a key is the unit of its value in PITOT_OPTIONS.
 */
/* clang-format off */
#define SETTINGS_REQUESTED(S)                                                                                          \
	S(engine, ENUM, MOST, SETTING_ENGINE_TRACE, .name = "engine", .argument = "ENGINE", .choices = setting_engine_names,   \
	  .help = "what to record from the GPUs: monitor: NVML only, without CUPTI; trace (the default): also kernels, " \
		  "copies and calls; the others add to the trace" SETTING_ENGINES_BEYOND_TRACE(SETTING_ENGINE_HELP))              \
	S(delay_ns, DURATION, OWN, 0, .name = "delay", .argument = "TIME",                                                  \
	  .help = "start recording TIME after the command starts (10s, 250ms)")                                   \
	S(duration_ns, DURATION, OWN, 0, .name = "duration", .argument = "TIME", .positive = true,                          \
	  .help = "record for TIME, then let the command continue")                                                    \
	S(graphs, ENUM, MOST, SETTING_GRAPHS_NODE, .name = "graphs", .choices = setting_graphs_names,                        \
	  .help = "CUDA graphs: record every node, or one record per launch (cheaper; " \
		  "default node)")                               \
	S(api, ENUM, MOST, SETTING_API_LAUNCHES, .group = "CUDA", .name = "api", .choices = setting_api_names,                                \
	  .help = "CUDA calls to record: launches, copies and synchronizations, or all "           \
		  "(default launches)")                                                            \
	S(stacks, ENUM, BITS, SETTING_STACKS_ALL, .name = "stacks", .choices = setting_stacks_names,                         \
	  .help = "frames in the call stacks of recorded calls (default all)")                     \
	S(sync, FLAG, MOST, false, .group = "CUDA", .name = "sync", .negatable = true,                                                        \
	  .help = "also record synchronizations and events as CUPTI sees them (expensive)")                            \
	S(memory, FLAG, MOST, false, .group = "CUDA", .name = "memory", .negatable = true, .bare = "on", .choices = setting_memory_names, \
	  .help = "record allocations and memory pools; =torch: of `pitot record`, also what PyTorch's allocator hands out (needs eBPF)")     \
	S(counters_ns, DURATION, LEAST, 500 * NS_PER_MS, .group = "readings of GPUs and machine", .name = "counters", .argument = "TIME", .bare = "500ms", .negatable = true, .least = 20 * NS_PER_MS, .least_text = "20ms", \
	  .help = "interval between readings of the GPUs' utilization, clocks, power and memory, at least 20ms (default 500ms)")      \
	S(own_profiler, ENUM, MOST, SETTING_OWN_PROFILER_SHARE, .group = "CUDA", .name = "own-profiler", .choices = setting_own_profiler_names, \
	  .help = "if the command uses CUPTI itself, as torch.profiler does: share CUPTI with it, or keep CUPTI from it " \
		  "(default share)")                                                                            \
	S(system, ENUM, MOST, SETTING_SYSTEM_BASIC, .group = "readings of GPUs and machine", .name = "system", .choices = setting_system_names,                       \
	  .help = "what --counters reads: basic (cheap), or all: also the machine, and links, errors and unit utilization of GPUs (default basic)") \
	S(max_bytes, SIZE, OWN, 0, .name = "max-size", .argument = "SIZE",                                                  \
	  .help = "stop recording a process after SIZE, such as 10G (default: no limit)")                              \
	S(pc_period, U64, ENGINE, 0, .group = "engines", .name = "pc-period", .argument = "N", .most = 31,                                         \
	  .help = "--engine pc-sampling: sample every 2^N cycles, N from 5 to 31 (default 18)")                         \
	S(pm_interval_ns, DURATION, ENGINE, 500 * NS_PER_US, .group = "engines", .name = "pm-interval", .argument = "TIME",                             \
	  .help = "--engine pm-sampling: sampling interval, 20us to 1ms (default 500us)")                        \
	S(metrics, TEXT, ENGINE, "default", .group = "engines", .name = "metrics", .argument = "METRICS",                                       \
	  .help = "--engine range-profiler and pm-sampling: comma-separated metrics (see `pitot metrics`) and sets of metrics: default, " \
		  "memory, compute, tensor, roofline, sampling (default: default; of pm-sampling: sampling); " \
		  "--engine sass-metrics: default, and names of CUPTI's SASS metrics") \
	S(kernels, TEXT, ENGINE, "*", .group = "engines", .name = "kernels", .argument = "PATTERN",                                                \
	  .help = "--engine range-profiler and sass-metrics: measure kernels whose mangled name matches PATTERN or, if PATTERN has no " \
		  "* or ?, contains it (default *)")                                                                              \
	S(kernel_skip, U64, ENGINE, 0, .group = "engines", .name = "skip", .argument = "N",                                                        \
	  .help = "--engine range-profiler and sass-metrics: skip the first N launches of these kernels (default 0)")               \
	S(kernel_count, U64, ENGINE, 100, .group = "engines", .name = "count", .argument = "N",                                                   \
	  .help = "--engine range-profiler and sass-metrics: then measure N launches (default 100; 0: all)")                     \
	S(measure, ENUM, ENGINE, SETTING_MEASURE_KERNEL, .group = "engines", .name = "measure", .choices = setting_measure_names,                  \
	  .help = "--engine range-profiler: measure launches of kernels, or as a whole launches of CUDA graphs or ranges of the " \
		  "program (NVTX push and pop, scopes); for graph and range, --skip and --count apply to each graph or range "  \
		  "(default kernel)")                                                                                           \
	S(nvtx_include, TEXT, ENGINE, "", .group = "engines", .name = "nvtx", .argument = "PATTERN",                                               \
	  .help = "--engine range-profiler and sass-metrics: measure only launches inside NVTX push/pop ranges that match one of " \
		  "these comma-separated names or patterns; with --measure range, only matching ranges and scopes (default: all)") \
	S(sinks, TEXT, OWN, "", .group = "output", .name = "sinks", .argument = "SINK:WHERE[,...]",                               \
	  .help = "all that is written, with commas between" SINKS(SINK_HELP))

/* Settings of programs that record themselves; `pitot record` decides these by other options. */
#define SETTINGS_OF_PROGRAMS(S)                                                                                        \
	S(cpu, U64, MOST, 0, .most = SETTING_CPU_HZ_MAX,                                                                     \
	  .help = "CPU samples per second, by a timer inside the process; 0: none")                                            \
	S(counters_always, FLAG, MOST, true,                                                                                 \
	  .help = "read counters all the time, not only in windows of pitot_system_start")                                   \
	S(ring_bytes, SIZE, OWN, 0,                                                                                          \
	  .help = "keep only the newest so many bytes of the process's recording, on the disk; 0: everything")

/* Settings without an option: `pitot record` derives them, or tests and benchmarks set them. */
#define SETTINGS_INTERNAL(S)                                                                                           \
	S(start_ns, DURATION, OWN, 0, .help = "CLOCK_MONOTONIC that delay and duration count from; 0: the session's start") \
	S(perf, U64, OWN, 0, .help = "inode of the pid namespace in which perf events sample too; 0: none do")            \
	S(preload, ENUM, OWN, SETTING_PRELOAD_NONE, .choices = setting_preload_names,                                       \
	  .help = "programs in which loading the library starts recording")                                     \
	S(cuda, FLAG, MOST, true, .help = "whether GPU work is recorded")                                                           \
	S(kernel_ranges, TEXT, ENGINE, "", .help = "instead of skip and count: comma-separated SKIP+COUNT")   \
	S(nvtx_exclude, TEXT, ENGINE, "", .help = "no launches inside ranges that match one of these patterns")                                  \
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
 * Where a value comes from. A source with a higher number overrides lower ones, in whatever order
 * they are read.
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
#define SETTINGS_LAUNCHER_MAX 192

struct settings {
	char directory[SETTINGS_PATH_MAX]; /* the recording; "": none */
	struct folder_id folder; /* which folder that is; zeros: unknown */
	char launcher[SETTINGS_LAUNCHER_MAX]; /* of the directory; "": none */
	char log_path[SETTINGS_PATH_MAX]; /* folder of gpufl's logs; "": none */
	char name[128]; /* the program's own name for itself; "": none */
	bool disabled; /* the kill switch: nothing is recorded */
	uint8_t source[SETTINGS_COUNT]; /* enum setting_source */
#define S(key, type, ...) setting_##type key;
	SETTINGS(S)
#undef S
};

#define SETTING_INITIAL(key, type, join, initial, ...) .key = initial,
#define SETTINGS_INIT                                                                              \
	{                                                                                          \
		SETTINGS(SETTING_INITIAL)                                                          \
	}

/*
 * Sets a value unless a stronger source has set it. A FLAG is 0 or 1. An ENUM may be beyond its
 * choices: a value of a future version. A TEXT is the address of a string, which is copied.
 */
void settings_put(struct settings *s, enum setting_id id, uint64_t value,
		  enum setting_source source);

/* Merges *more into *to, by the JOIN of each setting. */
void settings_join(struct settings *to, const struct settings *more);
/* Whether both have the same engine, which measures the same. */
bool settings_measure_alike(const struct settings *a, const struct settings *b);

/*
 * Reads the environment into *s, then the configuration file: `file`, or if that is NULL the one
 * that the environment names. Below `pitot record` only the values that it wrote count, and the
 * kill switch of `file`, except for an `own` recording of the program, which ignores them and reads
 * the rest. Values that cannot be parsed are skipped; *e describes the first one, and its negative
 * code is returned, else 0. Allocates nothing if there is no file.
 */
int settings_read(struct settings *s, const char *file, bool own, struct error *e);

/*
 * Sets *out to the text of one key of a configuration file, of which NULL means the environment's:
 * a string, number, true or false, or the items of an array, separated by commas. Returns 1, 0 if
 * there is no such file or key, or a negative code.
 */
int settings_file_text(const char *file, const char *key, struct strbuf *out,
		       struct error *e) MUST_USE;

/* Whether `pitot record` wrote this PITOT_OPTIONS text, for its own recording. */
bool settings_are_by_record(const char *options);

/* Parses a PITOT_OPTIONS text into *s. Values that cannot be parsed change nothing. */
void settings_parse(struct settings *s, const char *text);

/* Finds a setting by the name of its option ('_' equals '-', case is ignored); -1: none. */
int settings_find(const char *name);
const struct option *settings_option(enum setting_id id);
/* Name of an ENUM's value, or NULL. */
const char *settings_choice(enum setting_id id, uint64_t value);
/*
 * As settings_put, but parses a text as on the command line. Errors call the setting `subject`.
 * Returns 0 or E_USAGE.
 */
int settings_set(struct settings *s, enum setting_id id, const char *text,
		 enum setting_source source, const char *subject, struct error *e);

/* One item of the setting `sinks`: NAME:WHERE. */
struct setting_sink {
	char name[16], where[OPTION_TEXT_MAX];
};

/*
 * Reads the next item of a list of sinks and moves *list behind it; false: there is none. A comma
 * belongs to a path, unless NAME: follows it.
 */
bool settings_next_sink(const char **list, struct setting_sink *out);
/* Sets *e: no sink has that name. Returns E_USAGE. */
int setting_unknown_sink(const char *name, struct error *e);
/*
 * Moves `recording:DIR` and `gpufl:DIR` from s->sinks to s->directory and s->log_path, unless these
 * are set. Returns 0, or E_USAGE also for a sink that does not exist; s->sinks is "" then.
 */
int settings_place_sinks(struct settings *s, struct error *e);

/* Whether there is anything to write. */
static inline bool settings_have_sink(const struct settings *s)
{
	return *s->directory || *s->log_path || *s->sinks;
}

static inline void settings_clear_sinks(struct settings *s)
{
	s->directory[0] = s->log_path[0] = s->sinks[0] = '\0';
}

/* Whether the profilers of GPUs' vendors are used. */
static inline bool settings_trace_gpus(const struct settings *s)
{
	return s->cuda && s->engine >= SETTING_ENGINE_TRACE;
}

/*
 * Appends the settings that have a source other than the default, with their source:
 * "graphs=launch (code), sync=1 (environment)".
 */
void settings_sources(const struct settings *s, struct strbuf *out);
/* Appends the settings that the code gave to *s and that have another value in *actual. */
void settings_differences(const struct settings *s, const struct settings *actual,
			  struct strbuf *out);
/* Returns the value of an ENUM in a text of settings_sources, or -1: the default. */
int settings_sources_choice(const char *text, enum setting_id id);
/* Returns the engine whose name is the first word of a text, or -1. */
int setting_engine_find(const char *text);

/* Why an engine cannot begin in a process that uses CUDA already; NULL: it can. */
const char *setting_engine_needs_start(int engine);

/* Appends PITOT_OPTIONS for *s: the settings that differ from their defaults. */
void settings_text(const struct settings *s, struct strbuf *out);

/* The window that delay and duration define; an end of UINT64_MAX means no end. */
uint64_t settings_window_start_ns(const struct settings *s);
uint64_t settings_window_end_ns(const struct settings *s);
/* Makes the window count from now and lie within another one. Returns false if nothing is left. */
bool settings_window_within(struct settings *s, const struct settings *outer, uint64_t now_ns);

#endif
