/*
 * standin_cupti.h: the stand-in libcupti.so.13: its interface to tape-play, and between its files.
 */
#ifndef PITOT_TESTS_STANDIN_STANDIN_CUPTI_H
#define PITOT_TESTS_STANDIN_STANDIN_CUPTI_H

#include <stdatomic.h>

#include "layouts.h"
#include "standin.h"

/*
 * Counts of what the recorder was given. Callbacks and records that it has not enabled are
 * `withheld`.
 */
struct standin_counts {
	uint64_t callbacks, callbacks_withheld;
	uint64_t buffers, records[KINDS_MAX],
		duration_ns[KINDS_MAX]; /* durations of records with start < end */
	uint64_t records_withheld, records_dropped;
};

/* tape-play finds it by the name `standin_player`. */
struct standin_player {
	/* Plays a record of the tape on the calling thread: calls the recorder's callbacks. */
	void (*event)(const struct tape_event *event);
	void (*deliver)(struct tape_delivery *delivery);
	/* Plays records that CUPTI dropped when the tape was made. */
	void (*dropped)(uint64_t count);
	/* CUPTI fails permanently, as the fault script wants it at this place. */
	void (*fail)(void);
	/* Returns the number of delivered buffers that the recorder has not read completely. */
	unsigned (*unread)(void);
	/*
	 * Sets how long to wait for a buffer of the recorder; 0: its records are dropped
	 * immediately.
	 */
	void (*set_patience)(uint64_t ns);
	struct standin_counts (*counts)(void);
};

struct cupti_state {
	atomic_bool subscribed, gone; /* gone: after a fatal error */
	_Atomic(CUpti_CallbackFunc) callback;
	_Atomic(void *) userdata;
	_Atomic(CUpti_BuffersCallbackRequestFunc) request;
	_Atomic(CUpti_BuffersCallbackCompleteFunc) complete;
	atomic_bool kinds[KINDS_MAX];
	atomic_uint_fast64_t dropped; /* since the last query */
	atomic_uint_fast64_t patience_ns;
	/* timestamp callback's clock minus CUPTI's own */
	atomic_int_fast64_t clock_offset_ns;
	atomic_uint flush_period_ms; /* 0: the worker thread comes at any time */
	atomic_bool shares_buffers; /* CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER is off */
};

extern struct cupti_state cupti_state;

/* Whether the recorder has enabled the callback. */
bool wants_callback(unsigned domain, unsigned cbid);
void call_recorder(unsigned domain, unsigned cbid, const void *data);

/* The resource callback that the calling thread is in; 0: none. */
extern __thread unsigned standin_in_callback;
/* Site + 1 of the API callback that the calling thread is in; 0: none. */
extern __thread unsigned standin_api_site;
/* Whether another thread is between the callbacks of a launch. */
bool launches_elsewhere(void);

#define STANDIN_GRAPH 7 /* what all launches of graphs launch; tapes do not have it */

/*
 * standin_pc_sampling.c. The recorder unsubscribes, which is not allowed while a context is
 * sampled: the process ends.
 */
/* Whether any context is sampled. */
bool pc_sampling_is_on(void);
void pc_sampling_unsubscribe(void);
/* A kernel with this symbol (may be NULL) is launched in a context. */
void pc_sampling_launch(CUcontext context, const char *symbol);

/* standin_range_profiler.c. A kernel is launched: its entry callback has returned. */
void range_profiler_launch(CUcontext context, uint32_t correlation, const char *symbol);

extern bool standin_profiler_initialized; /* cuptiProfilerInitialize was called */

/* Loads the module with made-up code. Its checksum, as CUPTI's SASS metrics have it. */
void standin_load_cubin(CUcontext context);
uint32_t standin_cubin_crc(void);

/*
 * standin_sass_metrics.c. A kernel is launched: its entry callback has returned. The recorder
 * unsubscribes. Whether there are counts.
 */
void sass_metrics_launch(CUcontext context, const char *symbol);
void sass_metrics_unsubscribe(void);
bool sass_metrics_have_data(void);
/* Flushes all records: on a GPU the process hangs while another thread has a launch counted. */
void sass_metrics_flush(void);

/* Whether this configuration is valid: made by the host API, for one pass. */
bool range_profiler_is_config(const uint8_t *config, size_t bytes);
/*
 * standin_pm_sampling.c. Computes the values of metrics in a sample of an image; false: it is not
 * one of its images, or has no such sample.
 */
bool pm_sampling_values(const uint8_t *image, size_t bytes, size_t index, const char *const *names,
			size_t count, double *values);

/* Returns CUPTI's clock. */
uint64_t cupti_now(void);

/* delivery.c */
void deliver(struct tape_delivery *delivery);
/*
 * Delivers the records that the tape has later but that have ended by now, as far as CUPTI would
 * (launches.c). With --parallel: none.
 */
void deliver_finished(bool forced);
/* Delivers all earlier records of a descriptive kind, because the things described still exist. */
void deliver_past(uint32_t kind);
/* The calling thread makes a call: takes the buffers that the fault script wants held. */
void hold_buffers(void);
/* Returns the held buffers, empty. */
void return_held_buffers(void);
void delivery_counts(struct standin_counts *counts);

/* witness.c: counts that outlive the process. */
struct witness {
	atomic_uint_fast64_t
		launches; /* calls of cuLaunchKernel after whose end the recorder was called */
	atomic_uint_fast64_t kernels; /* written into the recorder's buffers */
};
struct witness *standin_witness(void);

unsigned delivery_unread(void);
CUptiResult delivery_next(uint8_t *buffer, size_t valid, CUpti_Activity **record);

#endif
