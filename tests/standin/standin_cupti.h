/*
 * standin_cupti.h: the stand-in libcupti.so.13, as tape-play drives it, and as its two files share
 * it.
 */
#ifndef PITOT_TESTS_STANDIN_STANDIN_CUPTI_H
#define PITOT_TESTS_STANDIN_STANDIN_CUPTI_H

#include <stdatomic.h>

#include "layouts.h"
#include "standin.h"

/*
 * What the recorder was given; records of kinds and callbacks that it did not enable are
 * `withheld`.
 */
struct standin_counts {
	uint64_t callbacks, callbacks_withheld;
	uint64_t buffers, records[KINDS_MAX],
		duration_ns[KINDS_MAX]; /* durations of records with start < end */
	uint64_t records_withheld, records_dropped;
};

/* Found by tape-play under the name `standin_player`. */
struct standin_player {
	/* The calling thread plays a record of the tape: the recorder's callbacks are called. */
	void (*event)(const struct tape_event *event);
	void (*deliver)(struct tape_delivery *delivery);
	/* Records that CUPTI dropped while the tape was made. */
	void (*dropped)(uint64_t count);
	/*
	 * CUPTI gives up for good, as the fault script wants it at the place that is being played.
	 */
	void (*fail)(void);
	/* Buffers delivered that the recorder has not read to the end yet. */
	unsigned (*unread)(void);
	/*
	 * Wait for a buffer this long when the recorder gives none; 0: its records are dropped at
	 * once.
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
	atomic_uint_fast64_t dropped; /* since the last question */
	atomic_uint_fast64_t patience_ns;
	/* of the timestamp callback's clock from CUPTI's own */
	atomic_int_fast64_t clock_offset_ns;
	atomic_uint flush_period_ms; /* 0: the worker thread comes when it likes */
	atomic_bool shares_buffers; /* CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER is off */
};

extern struct cupti_state cupti_state;

/* Whether the recorder has enabled it. */
bool wants_callback(unsigned domain, unsigned cbid);
void call_recorder(unsigned domain, unsigned cbid, const void *data);

/* Of the resource domain, that the calling thread is in; 0: none. */
extern __thread unsigned standin_in_callback;
/* Of the API domains: the site, and 1; 0: the calling thread is in none. */
extern __thread unsigned standin_api_site;

#define STANDIN_GRAPH 7 /* what all launches of graphs launch; tapes do not have it */

/*
 * standin_pc_sampling.c: the recorder unsubscribes, which it may not while a context is sampled:
 * the process ends.
 */
/* Whether any context is sampled. */
bool pc_sampling_is_on(void);
void pc_sampling_unsubscribe(void);
/* A kernel with this symbol (may be NULL) is launched in a context. */
void pc_sampling_launch(CUcontext context, const char *symbol);

/* standin_range_profiler.c: a kernel is launched: its callback of entry has returned. */
void range_profiler_launch(CUcontext context, uint32_t correlation, const char *symbol);

extern bool standin_profiler_initialized; /* cuptiProfilerInitialize was called */

/* The module whose code is made up is loaded; CUPTI's checksum of it as SASS metrics have it. */
void standin_load_cubin(CUcontext context);
uint32_t standin_cubin_crc(void);

/*
 * standin_sass_metrics.c: a kernel is launched: its callback of entry has returned; the recorder
 * unsubscribes; there is what was counted.
 */
void sass_metrics_launch(CUcontext context, const char *symbol);
void sass_metrics_unsubscribe(void);
bool sass_metrics_have_data(void);
/* Of all records: on a GPU the process hangs while another thread has a launch counted. */
void sass_metrics_flush(void);

/* CUPTI has read this configuration's bytes, and they are what its host API gave, for one pass. */
bool range_profiler_is_config(const uint8_t *config, size_t bytes);
/*
 * standin_pm_sampling.c: the value of a metric in a sample of an image; false: it is none of its
 * images, or has no such sample.
 */
bool pm_sampling_value(const uint8_t *image, size_t bytes, size_t index, const char *name,
		       double *value);

/* CUPTI's clock. */
uint64_t cupti_now(void);

/* delivery.c */
void deliver(struct tape_delivery *delivery);
/*
 * Hands over the records that the tape delivers later and that have ended by now, as far as CUPTI
 * would (launches.c). With --parallel: none.
 */
void deliver_finished(bool forced);
/*
 * Hands over what the tape has said so far of a kind that describes: what there is now was there
 * before.
 */
void deliver_past(uint32_t kind);
/* The calling thread makes a call: takes the buffers that the fault script wants to be held. */
void hold_buffers(void);
/* Hands those back, empty. */
void return_held_buffers(void);
void delivery_counts(struct standin_counts *counts);
unsigned delivery_unread(void);
CUptiResult delivery_next(uint8_t *buffer, size_t valid, CUpti_Activity **record);

#endif
