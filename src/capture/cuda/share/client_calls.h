/*
 * client_calls.h: the functions that the client calls in place of CUPTI's (slots.h), and what they
 * and those of the recorder (share.c) know of each other.
 */
#ifndef PITOT_CAPTURE_CUDA_SHARE_CLIENT_CALLS_H
#define PITOT_CAPTURE_CUDA_SHARE_CLIENT_CALLS_H

#include "capture/cuda/share/client.h"

struct client {
	/* The recorder is subscribed, for both; else the client's calls are CUPTI's. */
	atomic_bool is_shared;
	atomic_bool is_kept; /* CUPTI is not shared: what the client gets is CUPTI's to say */
	atomic_bool is_noted; /* there is a client, and a note says so */
	atomic_bool has_clock; /* CUPTI has the client's, and gives it not back */
	atomic_uint refused; /* subscriptions, by CUPTI */
	atomic_uint_fast64_t left_out; /* share_left_out() */
	atomic_int thread_id_type; /* the client's; -1: it has set none */
	_Atomic(const char *) engine; /* of the recorder, that has the GPU's counters; NULL: none */
	_Atomic(const char *) refused_for; /* such an engine; NULL: nothing was */
};
extern struct client client;

bool client_is_shared(void);

/* Callbacks are looked at for the client while it wants anything. */
void client_follow(void);

/* Subscribes it at CUPTI itself. */
CUptiResult client_subscribe_really(struct subscription *s);

/* Buffers that CUPTI has requested from the one and hands over when the other is registered. */
void CUPTIAPI client_on_complete(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
				 size_t valid);

/* Finds what they stand for in the library of that handle. Once. */
void client_calls_find(const struct cupti *cupti, void *handle);
/* Has the program's libraries call them: all, or only those that are watched while is_kept. */
void client_calls_route(void);

#endif
