/*
 * calibration.h: what recording adds to calls on this machine, and what graphs cost on it, as
 * `pitot calibrate` measured it and `pitot what-if` uses it: a file of the user's cache folder,
 * which `pitot record` copies into recordings.
 *
 * The file says for which host, GPU, driver and version of Pitot it is good. It is untrusted.
 */
#ifndef PITOT_SYSTEM_CALIBRATION_H
#define PITOT_SYSTEM_CALIBRATION_H

#include "base/error.h"
#include "base/strbuf.h"
#include "format/writer.h"

#define CALIBRATION_TEXT_MAX 256
/* Of a time: it was not measured, or the file is older. */
#define CALIBRATION_UNKNOWN UINT64_MAX

struct calibration {
	char version[CALIBRATION_TEXT_MAX]; /* of Pitot */
	char host[CALIBRATION_TEXT_MAX], gpu[CALIBRATION_TEXT_MAX]; /* names */
	uint64_t driver_version; /* as in table device */
	uint64_t rounds;
	uint64_t launch_ns, launch_spread_ns; /* to a launching call; +/- this */
	uint64_t synchronize_ns, synchronize_spread_ns; /* to one that waits for work */
	/* The others may be unknown. _bare_ns: the time itself, without recording. */
	uint64_t graph_launch_ns, graph_launch_spread_ns, graph_launch_bare_ns; /* of one node */
	uint64_t node_call_ns, node_call_spread_ns, node_call_bare_ns; /* each further one */
	uint64_t node_gap_ns, node_gap_spread_ns, node_gap_bare_ns; /* by the GPU's timer */
	uint64_t node_latency_ns, node_latency_spread_ns; /* by recorded times, but bare */
	uint64_t eager_ns, eager_spread_ns, eager_bare_ns; /* of a launch */
	uint64_t replay_floor_ns, timer_step_ns;
};

/* Numbers: X(name, the most that is possible); they are always known. */
#define CALIBRATION_NUMBERS(X)                                                                     \
	X(driver_version, UINT32_MAX)                                                              \
	X(rounds, UINT32_MAX)                                                                      \
	X(launch_ns, NS_PER_S)                                                                     \
	X(launch_spread_ns, NS_PER_S)                                                              \
	X(synchronize_ns, NS_PER_S)                                                                \
	X(synchronize_spread_ns, NS_PER_S)
/* Times that can be unknown: X(name); at most NS_PER_S. */
#define CALIBRATION_OPTIONAL(X)                                                                    \
	X(graph_launch_ns)                                                                         \
	X(graph_launch_spread_ns)                                                                  \
	X(graph_launch_bare_ns)                                                                    \
	X(node_call_ns)                                                                            \
	X(node_call_spread_ns)                                                                     \
	X(node_call_bare_ns)                                                                       \
	X(node_gap_ns)                                                                             \
	X(node_gap_spread_ns)                                                                      \
	X(node_gap_bare_ns)                                                                        \
	X(node_latency_ns)                                                                         \
	X(node_latency_spread_ns)                                                                  \
	X(eager_ns)                                                                                \
	X(eager_spread_ns)                                                                         \
	X(eager_bare_ns)                                                                           \
	X(replay_floor_ns)                                                                         \
	X(timer_step_ns)

/* Makes it empty: 0, "" and unknown. */
static inline void calibration_init(struct calibration *c)
{
	*c = (struct calibration){ .rounds = 0 };
#define UNKNOWN(name) c->name = CALIBRATION_UNKNOWN;
	CALIBRATION_OPTIONAL(UNKNOWN)
#undef UNKNOWN
}

/* Appends one JSON object and a newline; docs/calibrate.md describes its keys. */
void calibration_json(const struct calibration *c, struct strbuf *out);
/* E_FORMAT: the bytes are something else, or a value is impossible. */
int calibration_parse(struct calibration *c, const char *bytes, size_t length,
		      struct error *e) MUST_USE;

/* Appends the path of the file, also on failure to read or write it. */
int calibration_read(struct calibration *c, struct strbuf *path, struct error *e) MUST_USE;
int calibration_write(const struct calibration *c, struct strbuf *path, struct error *e) MUST_USE;

/* Appends it to a recording. */
void calibration_write_row(const struct calibration *c, struct writer *w);

#endif
