/*
 * settings.h: what a session of the recorder may be asked for, each setting declared once. From this list come the struct,
 * the defaults, PITOT_OPTIONS (written by `pitot record`, read by libpitot.so), and the options of the command line.
 *
 *	PITOT_RECORDING	absolute path of the recording's directory; without it nothing is recorded
 *	PITOT_OPTIONS	"key=value;key=value"; an unknown key is ignored, so that versions can be mixed
 */
#ifndef PITOT_SCHEMA_SETTINGS_H
#define PITOT_SCHEMA_SETTINGS_H

#include <stdbool.h>

#include "base/strbuf.h"

enum setting_type {
	SETTING_FLAG,	/* 0 or 1 */
	SETTING_NUMBER, /* decimal */
	SETTING_CHOICE, /* index into the choices, by name in texts */
};

enum { SETTING_GRAPHS_NODE, SETTING_GRAPHS_LAUNCH, SETTING_GRAPHS_AUTO };
enum { SETTING_API_LAUNCHES, SETTING_API_ALL };
enum { SETTING_STACKS_NONE, SETTING_STACKS_NATIVE, SETTING_STACKS_PYTHON, SETTING_STACKS_ALL };
enum { SETTING_PRELOAD_0, SETTING_PRELOAD_1, SETTING_PRELOAD_ONCE };

#define SETTING_CPU_HZ_MAX 10000u

/* S(name, type, default, greatest value, choices separated by |, meaning) */
#define SETTINGS(S)                                                                                \
	S(graphs, CHOICE, SETTING_GRAPHS_NODE, 0, "node|launch|auto",                              \
	  "CUDA graphs: a record of every node, of every launch, or nodes as long as that is cheap") \
	S(sync, FLAG, 0, 1, NULL, "CUPTI's records of synchronizations and events (expensive)")    \
	S(memory, FLAG, 0, 1, NULL, "allocations and memory pools")                                \
	S(stacks, CHOICE, SETTING_STACKS_NONE, 0, "none|native|python|all",                        \
	  "call stacks of the recorded calls")                                                     \
	S(counters_ns, NUMBER, 500000000, UINT64_MAX, NULL,                                        \
	  "time between readings of the GPUs' counters; 0: none")                                  \
	S(api, CHOICE, SETTING_API_LAUNCHES, 0, "launches|all", "CUDA calls to record")            \
	S(cpu, NUMBER, 0, SETTING_CPU_HZ_MAX, NULL,                                                \
	  "CPU samples per second, by a timer inside the process; 0: none")                        \
	S(perf, NUMBER, 0, UINT64_MAX, NULL,                                                       \
	  "perf events sample too, in the pid namespace with this inode; 0: none do")              \
	S(preload, CHOICE, SETTING_PRELOAD_0, 0, "0|1|once",                                       \
	  "recording starts when the library is loaded; once: if LD_PRELOAD loaded it into a Python") \
	S(cuda, FLAG, 1, 1, NULL, "whether CUPTI is used")                                         \
	S(start_ns, NUMBER, 0, UINT64_MAX, NULL,                                                   \
	  "CLOCK_MONOTONIC that delay and duration count from; 0: the session's start")            \
	S(delay_ns, NUMBER, 0, UINT64_MAX, NULL, "nothing is recorded before start + delay")       \
	S(duration_ns, NUMBER, 0, UINT64_MAX, NULL,                                                \
	  "nothing is recorded after start + delay + duration; 0: no end")                         \
	S(max_bytes, NUMBER, 0, UINT64_MAX, NULL, "ceiling of this process's segments; 0: none")   \
	S(segment_bytes, NUMBER, 0, UINT64_MAX, NULL,                                              \
	  "size at which a new segment begins; 0: the writer's choice")                            \
	S(stacks_max, NUMBER, 0, UINT64_MAX, NULL,                                                 \
	  "distinct call stacks in a table before a new one begins; 0: the recorder's choice")

struct settings {
	char directory[4096]; /* of the recording; "": none */
#define S(name, ...) uint64_t name;
	SETTINGS(S)
#undef S
};

struct setting {
	const char *name;
	enum setting_type type;
	size_t offset; /* of the uint64_t in struct settings */
	uint64_t initial, most;
	const char *choices; /* SETTING_CHOICE: "one|two" */
	const char *meaning;
};

/* All settings, in the order of SETTINGS; *count: how many. */
const struct setting *settings_all(size_t *count);

void settings_defaults(struct settings *s);

/* Reads the environment over the defaults. false when it asks for no recording. Allocates nothing. */
bool settings_read(struct settings *s);

/* Parses a PITOT_OPTIONS text over what is in *s. A value that is not understood leaves the setting as it was. */
void settings_parse(struct settings *s, const char *text);

/* Appends PITOT_OPTIONS for *s: the settings that differ from their defaults. */
void settings_text(const struct settings *s, struct strbuf *out);

/* The window of delay and duration. UINT64_MAX as its end: none. */
uint64_t settings_window_start_ns(const struct settings *s);
uint64_t settings_window_end_ns(const struct settings *s);

#endif
