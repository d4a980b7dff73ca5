/*
 * pitot.h: the public C API of libpitot.so, Pitot's recorder.
 *
 * Programs need not be linked with Pitot to be recorded: `pitot record` injects the library. A
 * program that is linked with it can start and stop recordings by itself:
 *
 *	struct pitot_options options = { .size = sizeof(options), .directory = "run.pitot" };
 *	struct pitot_session *session = pitot_start(&options);
 *	…
 *	pitot_stop(session);
 *
 * All functions may be called from any thread at any time, also from a library's constructor and
 * after the first CUDA call. None of them prints or exits, or blocks for longer than its comment
 * says. Functions that return int return a negative errno on failure; pitot_error() describes it.
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
 * In all enums 0 means "not given": the environment, the configuration file and the defaults
 * decide.
 */
enum pitot_switch { PITOT_OFF = 1, PITOT_ON };
enum pitot_engine {
	PITOT_ENGINE_MONITOR = 1, /* only NVML and the host, without CUPTI */
	PITOT_ENGINE_TRACE, /* also kernels, copies, launches, graphs … */
	PITOT_ENGINE_PC_SAMPLING, /* TRACE, and stall reasons of warps by instruction */
	/* TRACE, and hardware counters of chosen kernels, each of which runs several times */
	PITOT_ENGINE_RANGE_PROFILER,
	PITOT_ENGINE_PM_SAMPLING, /* TRACE, and hardware counters of GPUs over time */
	/* TRACE, and counts per instruction of chosen kernels, which run with patched code */
	PITOT_ENGINE_SASS_METRICS,
	PITOT_ENGINE_DEEP, /* PC_SAMPLING and SASS_METRICS together */
};
enum pitot_graphs { PITOT_GRAPHS_LAUNCH = 1, PITOT_GRAPHS_NODE };
enum pitot_api { PITOT_API_LAUNCHES = 1, PITOT_API_ALL };
enum pitot_stacks {
	PITOT_STACKS_NONE = 1,
	PITOT_STACKS_NATIVE,
	PITOT_STACKS_PYTHON,
	PITOT_STACKS_ALL
};
enum pitot_system { PITOT_SYSTEM_BASIC = 1, PITOT_SYSTEM_ALL };
enum pitot_measure { PITOT_MEASURE_KERNEL = 1, PITOT_MEASURE_GRAPH, PITOT_MEASURE_RANGE };
enum pitot_own_profiler { PITOT_OWN_PROFILER_KEEP = 1, PITOT_OWN_PROFILER_SHARE };

/* Means "none" for a time or a size, because 0 means "not given". */
#define PITOT_NONE UINT64_MAX

enum pitot_log_level { PITOT_LOG_ERROR, PITOT_LOG_WARNING, PITOT_LOG_INFO };

/*
 * Zero the struct and set `size`. Fields that are 0 or NULL are not given; so are fields beyond
 * `size`, which is smaller in programs built with an older header. Strings are copied.
 * docs/embed.md has the other sources of values, and their order.
 */
struct pitot_options {
	size_t size; /* sizeof(struct pitot_options) */
	/*
	 * Folder of the recording; it is created, or must be empty. NULL: for pitot_init below
	 * `pitot record` the recording that PITOT_RECORDING names, otherwise NAME-DATE-TIME.pitot
	 * in the current folder. "": no recording, only the logs in log_path.
	 */
	const char *directory;
	/*
	 * Folder for gpufl's logs, in addition to the recording; it and its parents are created.
	 * NULL: PITOT_GPUFL, or none.
	 */
	const char *log_path;
	const char *app_name; /* NULL: from the command line of the process */
	const char *config_file; /* JSON; NULL: PITOT_CONFIG_FILE, or none */
	/*
	 * Receives messages, each one line without line end. Called only by pitot_start and
	 * pitot_init, on their thread, as the last thing that they do: it may call functions of
	 * this header. If it throws an exception, the recording goes on. NULL: no messages.
	 */
	void (*log)(void *context, int level, const char *text);
	void *log_context;
	/*
	 * The program's own defaults, for settings that neither this struct nor the environment nor
	 * the file gives. Only the settings of this struct are read.
	 */
	const struct pitot_options *defaults;
	enum pitot_switch enabled; /* PITOT_OFF: nothing is loaded, started or written */
	/* Settings, with the names of PITOT_OPTIONS; `pitot help record` explains them. */
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
	/* PITOT_ENGINE_PC_SAMPLING: sample every 2^pc_period cycles, 5 to 31; 0: 2^18 cycles */
	uint64_t pc_period;
	/* CPU samples per second of each thread, by a timer in the process, up to 10000; 0: none */
	uint64_t cpu;
	/* PITOT_OFF: read counters only in windows of pitot_system_start */
	enum pitot_switch counters_always;
	/*
	 * PITOT_ENGINE_RANGE_PROFILER and _SASS_METRICS: metrics to measure, kernels to measure
	 * them of, and how many launches of these to skip and to measure.
	 */
	const char *metrics;
	const char *kernels;
	uint64_t kernel_skip, kernel_count;
	uint64_t pm_interval_ns; /* PITOT_ENGINE_PM_SAMPLING: sampling interval of `metrics` */
	/*
	 * PITOT_ENGINE_RANGE_PROFILER: what is measured as a whole. For graphs and ranges,
	 * kernel_skip and kernel_count apply to each graph or range.
	 */
	enum pitot_measure measure;
	/* Names or patterns of NVTX ranges and scopes to measure, or to measure kernels in. */
	const char *nvtx_include;
	/*
	 * All that is written: NAME:WHERE, separated by commas: recording:DIR, gpufl:DIR.
	 * `directory` and log_path count first. NULL: PITOT_SINKS, or what these two say.
	 */
	const char *sinks;
	/*
	 * Keeps only the end of the recording: the process removes the oldest eighths of so many
	 * bytes while it writes. 0: keeps everything.
	 */
	uint64_t ring_bytes;
};

/*
 * Copies the value of a key of a configuration file: a text, a number, true or false; the items of
 * an array are separated by commas. For options of other interfaces that share the file, such as
 * gpufl's; settings of a recording are read by pitot_start and pitot_init. `file` NULL:
 * PITOT_CONFIG_FILE or GPUFL_CONFIG_FILE. Returns the length of the value, as snprintf does; 0 if
 * there is no such file or key, or if the value is empty; or a negative errno.
 */
PITOT_API int pitot_config(const char *file, const char *key, char *value, size_t size);

/* --- recordings --- */

struct pitot_session;

/*
 * Starts a recording of this process. A process may start any number of recordings, also at the
 * same time and below `pitot record`. With NULL as options only the environment and the
 * configuration file count. The recording covers everything from the return on. Takes milliseconds;
 * if CUDA is in use, the time that CUPTI needs; a second if a GPU hangs. Waits for the disk of this
 * recording, not for those of others. Returns NULL and sets errno if the recording cannot be
 * started; errno is ECANCELED if recording is switched off (PITOT_DISABLED).
 *
 * In the child of a fork nothing is recorded until the child starts a recording of its own.
 */
PITOT_API struct pitot_session *pitot_start(const struct pitot_options *options);

/* Absolute path of the folder; "" if only gpufl's logs are written. Valid until pitot_stop. */
PITOT_API const char *pitot_path(const struct pitot_session *session);

/*
 * Completes the recording and frees the session; everything up to this call is then on disk. Takes
 * milliseconds, beside other recordings a quarter of a second; two seconds at most, however many
 * are stopped at the same time. Returns 0; -ETIMEDOUT after these two seconds: a GPU or the disk
 * hangs, and the rest is written as soon as that is over; or another negative errno if rows were
 * lost at the end: the disk was full, or somebody has removed the folder. Events that are too many
 * to be written in a second are lost and counted. A recording that is never stopped ends with the
 * process. NULL is allowed.
 */
PITOT_API int pitot_stop(struct pitot_session *session);

/*
 * Writes everything recorded so far to disk, including all finished GPU work, for all recordings of
 * the process; `session` may be NULL. Takes as long as CUPTI and the disk need, at most two seconds
 * (-ETIMEDOUT). Another negative errno: rows are being lost, as by pitot_stop.
 */
PITOT_API int pitot_flush(struct pitot_session *session);

/*
 * Below `pitot record --ring`: writes what its ring has, of all recorded processes, as a recording
 * into `path`, a new or empty folder (NULL: dump-DATE-TIME.pitot in the current folder). `last_ns`:
 * only segments with rows of so many nanoseconds before now; 0: all. This process only flushes;
 * takes as long as that and copying the ring. Returns the number of segments; -ENOENT when `pitot
 * record` does not record this process, or onto the disk; or another negative errno.
 */
PITOT_API int pitot_dump(const char *path, uint64_t last_ns);

/*
 * Prepares the process, as PITOT_IDLE=1 in its environment does: `pitot record -p` of its user or
 * root can from now on start recordings in it and end them. Meanwhile one thread waits on a Unix
 * socket, and CUPTI is not used; the child of a fork is prepared, too. Returns 1, 0 if recording is
 * switched off, or a negative errno.
 */
PITOT_API int pitot_idle(void);

/*
 * Arms an engine beyond PITOT_ENGINE_TRACE in a running recording; any number of times, one at a
 * time. Its window opens `delay_ns` after this call. It closes `duration_ns` later or, if that is
 * 0, at pitot_engine_end or with the recording. Without a delay it includes kernels from the return
 * on. The options of the recording say what is measured, and of which kernels; each window counts
 * kernels anew. A `session` of NULL is the recording of pitot_init. Takes milliseconds; half a
 * second if a GPU hangs.
 *
 * Returns
 *	0		armed
 *	1		armed, but partly unavailable, as pitot_error() explains: for
 *			PITOT_ENGINE_PC_SAMPLING, in contexts that already exist
 *	-EBUSY		an engine is on or armed
 *	-EOPNOTSUPP	CUPTI or this library does not support the engine
 *	-ENOENT		there is no recording, or only that of the parent of a forked child
 *	-EINVAL		not such an engine
 * Failures that appear only later, such as missing rights for counters, are in table `capability`.
 */
PITOT_API int pitot_engine_begin(struct pitot_session *session, enum pitot_engine engine,
				 uint64_t delay_ns, uint64_t duration_ns);

/*
 * Disarms the engine, if one is armed. Kernels from the return on are not measured. Returns 0, or
 * -ENOENT as above.
 */
PITOT_API int pitot_engine_end(struct pitot_session *session);

/*
 * Starts the process-wide recording, for programs that need only one, or whose libraries each want
 * to be recorded; further calls find it running. Returns 1 if it runs, 0 if recording is switched
 * off, negative if it cannot be started.
 */
PITOT_API int pitot_init(const struct pitot_options *options);

/*
 * Ends the process-wide recording, as pitot_stop does; pitot_error() says if it is not complete
 * after two seconds. That of `pitot record` continues, but everything recorded so far is written to
 * disk. Does nothing if there is no recording.
 */
PITOT_API void pitot_shutdown(void);

/*
 * Writes the text report of the recording that was started last to the file `path`, or to standard
 * output if that is "" or NULL. Runs the program `pitot`, which is searched for relative to the
 * installed library and in PATH, and waits for it.
 */
PITOT_API int pitot_report(const char *path);

/* Zero the struct and set `size`: 0 and NULL mean the defaults of `pitot help upload`. */
struct pitot_upload_options {
	size_t size; /* sizeof(struct pitot_upload_options) */
	/*
	 * A folder of gpufl's logs, a session's folder in it, or a recording. NULL: the recording
	 * that was started last, once it has ended.
	 */
	const char *path;
	const char *url; /* of the backend's host; NULL: PITOT_BACKEND_URL */
	const char *api_key; /* NULL: PITOT_API_KEY. It appears on no command line */
	const char *api_path; /* NULL: PITOT_API_PATH, or /api/v1 */
	const char *session; /* "newest", or an id; NULL: all */
	const char *cursor; /* file with the record of what was sent; NULL: beside the sessions */
	const char *ca_file; /* PEM; NULL: the machine's authorities */
	uint64_t timeout_ns; /* of the whole upload */
	uint64_t retries; /* per request; PITOT_NONE: none */
	enum pitot_switch force; /* send again what was sent before */
};

/*
 * Sends gpufl's logs to its backend by running the program `pitot`, which is searched for as by
 * pitot_report; no networking library is loaded into this process. Blocks until the end, at most
 * `timeout_ns` (5 minutes); use a separate thread if that matters. Returns the number of records
 * that the server has accepted, or a negative errno. The cursor has what was accepted before a
 * failure, and the next call continues from there.
 */
PITOT_API int64_t pitot_upload(const struct pitot_upload_options *options);

/*
 * Describes why this thread's last call of a function of this header failed, and the remedy; "" if
 * it did not fail. Valid until the thread's next call.
 */
PITOT_API const char *pitot_error(void);

#ifdef __cplusplus
}
#endif

#include "scope.h"

#endif
