/*
 * pitot.h: the public C API of libpitot.so, Pitot's recorder.
 *
 * A program need not be linked with Pitot: `pitot record` injects the library. Linking with it lets
 * a program start and stop recordings by itself:
 *
 *	struct pitot_options options = { .size = sizeof(options), .directory = "run.pitot" };
 *	struct pitot_session *session = pitot_start(&options);
 *	…
 *	pitot_stop(session);
 *
 * All functions may be called from any thread, at any time, also from a library's constructor and
 * after the first CUDA call; none of them prints, exits or blocks for longer than its comment says.
 * Functions that return int return a negative errno when they fail, and pitot_error() says why.
 */
#ifndef PITOT_PITOT_H
#define PITOT_PITOT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PITOT_API __attribute__((visibility("default")))

/* "major.minor.patch" of the library. Static storage. */
PITOT_API const char *pitot_version(void);

/* --- what to record --- */

/*
 * Of all of them 0 is "not given": the environment, the configuration file and the defaults decide.
 */
enum pitot_switch { PITOT_OFF = 1, PITOT_ON };
enum pitot_engine {
	PITOT_ENGINE_MONITOR = 1, /* NVML and the host alone, without CUPTI */
	PITOT_ENGINE_TRACE, /* and kernels, copies, launches, graphs … */
	/* and samples of where warps of kernels are, and what they wait for */
	PITOT_ENGINE_PC_SAMPLING,
	/* and hardware counters of chosen kernels, each of which runs several times for that */
	PITOT_ENGINE_RANGE_PROFILER,
	PITOT_ENGINE_PM_SAMPLING, /* and hardware counters of GPUs over time */
	/* and what each instruction of chosen kernels does, which run with patched code for that */
	PITOT_ENGINE_SASS_METRICS,
	PITOT_ENGINE_DEEP, /* PC_SAMPLING and SASS_METRICS at once */
};
enum pitot_graphs { PITOT_GRAPHS_LAUNCH = 1, PITOT_GRAPHS_AUTO, PITOT_GRAPHS_NODE };
enum pitot_api { PITOT_API_LAUNCHES = 1, PITOT_API_ALL };
enum pitot_stacks {
	PITOT_STACKS_NONE = 1,
	PITOT_STACKS_NATIVE,
	PITOT_STACKS_PYTHON,
	PITOT_STACKS_ALL
};
enum pitot_system { PITOT_SYSTEM_BASIC = 1, PITOT_SYSTEM_ALL };
enum pitot_own_profiler {
	PITOT_OWN_PROFILER_KEEP = 1,
	PITOT_OWN_PROFILER_SHARE,
	PITOT_OWN_PROFILER_YIELD
};

/* A time or a size that is none, where 0 is "not given". */
#define PITOT_NONE UINT64_MAX

enum pitot_log_level { PITOT_LOG_ERROR, PITOT_LOG_WARNING, PITOT_LOG_INFO };

/*
 * A program that was built with an older header passes a smaller size: what that does not cover is
 * not given. Zeroed but for `size` it says nothing. Texts are copied. docs/embed.md says what else
 * decides about each, and in which order.
 */
struct pitot_options {
	size_t size; /* sizeof(struct pitot_options) */
	/*
	 * The folder of the recording: it is created, or is empty. NULL: of pitot_init the
	 * recording that PITOT_RECORDING names (under `pitot record`); else NAME-DATE-TIME.pitot in
	 * the current folder. "": no recording is made, only the logs in log_path.
	 */
	const char *directory;
	/*
	 * a folder for gpufl's logs, which are written beside the recording: made, as those above.
	 * NULL: PITOT_GPUFL, or none
	 */
	const char *log_path;
	const char *app_name; /* NULL: from the command line of the process */
	const char *config_file; /* JSON; NULL: PITOT_CONFIG_FILE, or none */
	/*
	 * What is worth telling, one line without its end; called by pitot_start and pitot_init
	 * only, on their thread. NULL: nobody.
	 */
	void (*log)(void *context, int level, const char *text);
	void *log_context;
	/*
	 * What counts where neither this struct nor the environment nor the file says anything; its
	 * settings alone are looked at.
	 */
	const struct pitot_options *defaults;
	enum pitot_switch enabled; /* PITOT_OFF: nothing is loaded, started or written */
	/* Settings, named as in PITOT_OPTIONS; `pitot help record` explains them. */
	enum pitot_engine engine;
	uint64_t delay_ns, duration_ns; /* a window of the session's time */
	enum pitot_graphs graphs;
	enum pitot_api api;
	enum pitot_stacks stacks;
	enum pitot_switch sync, memory;
	uint64_t counters_ns; /* PITOT_NONE: no counters of NVML */
	enum pitot_own_profiler own_profiler;
	enum pitot_system system;
	uint64_t max_bytes;
	/* PITOT_ENGINE_PC_SAMPLING: a sample every 2^pc_period cycles, 5 to 31; 0: 2^18 */
	uint64_t pc_period;
	/* CPU samples a second of each thread, by a timer in the process, at most 10000; 0: none */
	uint64_t cpu;
	/* PITOT_OFF: readings only while a window of pitot_system_start is open */
	enum pitot_switch counters_always;
	/*
	 * PITOT_ENGINE_RANGE_PROFILER and _SASS_METRICS: what is measured of which kernels, how
	 * many are left out first, and how many are measured.
	 */
	const char *metrics;
	const char *kernels;
	uint64_t kernel_skip, kernel_count;
	uint64_t pm_interval_ns; /* PITOT_ENGINE_PM_SAMPLING: between two samples, of `metrics` */
};

/* --- recordings --- */

struct pitot_session;

/*
 * Starts a recording of this process: as often as you like, several at a time, beside that of
 * `pitot record`. NULL as options: the environment and the configuration file alone. Takes
 * milliseconds, with CUDA those that CUPTI needs. What happens from the return on is in it.
 * NULL: it cannot be started, or recording is switched off (PITOT_DISABLED); errno says which: the
 * latter is ECANCELED.
 *
 * In the child of a fork nothing is recorded until it starts a recording of its own.
 */
PITOT_API struct pitot_session *pitot_start(const struct pitot_options *options);

/* The absolute path of its folder; "": only gpufl's logs are written. Valid until pitot_stop. */
PITOT_API const char *pitot_path(const struct pitot_session *session);

/*
 * Ends it in order and frees it: everything up to here is on disk. Takes milliseconds, beside other
 * recordings a quarter of a second; two seconds at most. A recording that is never stopped ends
 * with the process. NULL: nothing happens. 0.
 */
PITOT_API int pitot_stop(struct pitot_session *session);

/*
 * What was recorded so far is on disk when it returns; of GPU work, what has ended. All recordings
 * of the process; `session` may be NULL. Takes as long as CUPTI and the disk need, at most two
 * seconds (-ETIMEDOUT).
 */
PITOT_API int pitot_flush(struct pitot_session *session);

/*
 * Arms an engine beyond PITOT_ENGINE_TRACE in a recording that runs: again and again, one at a
 * time. Its window opens after `delay_ns` and closes `duration_ns` later, both counted from the
 * call, or, with 0, at pitot_engine_end or with the recording; without a delay kernels from the
 * return on are in it. What it measures, and of which kernels, the options of the recording say;
 * kernels are counted anew each time. NULL is the recording of pitot_init. Takes milliseconds; half
 * a second where a GPU hangs.
 *
 * 0; 1: armed, but something of it cannot be had, and pitot_error() says what: of
 * PITOT_ENGINE_PC_SAMPLING contexts that exist already. -EBUSY: an engine is on or armed;
 * -EOPNOTSUPP: CUPTI or this library cannot; -ENOENT: nothing is recorded, or that is the parent's
 * of a forked child; -EINVAL: not an engine. What only shows later, as missing rights for counters,
 * stands in table `capability`.
 */
PITOT_API int pitot_engine_begin(struct pitot_session *session, enum pitot_engine engine,
				 uint64_t delay_ns, uint64_t duration_ns);

/*
 * Ends the armed engine, if there is one, before its time: kernels from the return on are not in
 * it. 0; -ENOENT as above.
 */
PITOT_API int pitot_engine_end(struct pitot_session *session);

/*
 * The one recording of programs that need no more, or of several libraries in a program that each
 * want to be recorded: the first call starts it, others find it running. 1: it runs; 0: recording
 * is switched off; negative: it cannot be started.
 */
PITOT_API int pitot_init(const struct pitot_options *options);

/*
 * Ends it, as pitot_stop; that of `pitot record` goes on, and what was recorded so far is on disk.
 * Does nothing when there is none.
 */
PITOT_API void pitot_shutdown(void);

/*
 * Writes the text report of the recording that was started last to the file `path`; "" or NULL: to
 * standard output. Runs the program `pitot`, which is found beside the library, as it is installed,
 * or in PATH, and waits for it.
 */
PITOT_API int pitot_report(const char *path);

/*
 * Zeroed but for `size` it says nothing: `pitot help upload` has the defaults. 0 and NULL are "not
 * given".
 */
struct pitot_upload_options {
	size_t size; /* sizeof(struct pitot_upload_options) */
	/*
	 * A folder of gpufl's logs, a session's folder in it, or a recording. NULL: the recording
	 * that was started last, once it has ended.
	 */
	const char *path;
	const char *url; /* of the backend's host; NULL: PITOT_BACKEND_URL */
	const char *api_key; /* NULL: PITOT_API_KEY. No command line shows it */
	const char *api_path; /* NULL: PITOT_API_PATH, or /api/v1 */
	const char *session; /* "newest", or an id; NULL: all */
	const char *cursor; /* the file that remembers what was sent; NULL: beside the sessions */
	const char *ca_file; /* PEM; NULL: the machine's authorities */
	uint64_t timeout_ns; /* of all */
	uint64_t retries; /* of a request; PITOT_NONE: none */
	enum pitot_switch force; /* send again what was sent before */
};

/*
 * Sends gpufl's logs to its backend, by the program `pitot`, which is found as by pitot_report; no
 * library for that is loaded into this process. Waits for the end, `timeout_ns` (5 minutes) at
 * most: a thread of its own keeps it out of the way. How many records the server has accepted, or a
 * negative errno: what was accepted before that is remembered, and the next call goes on from
 * there.
 */
PITOT_API int64_t pitot_upload(const struct pitot_upload_options *options);

/*
 * Why the last of these functions that this thread called has failed, and what to do; "" when it
 * has not. Valid until the next.
 */
PITOT_API const char *pitot_error(void);

#ifdef __cplusplus
}
#endif

#include "scope.h"

#endif
