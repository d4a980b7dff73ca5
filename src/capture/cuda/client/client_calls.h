/*
 * client_calls.h: the functions that the client calls in place of CUPTI's (import_redirect.h), and
 * the state that they share with the recorder's (client_proxy.c).
 */
#ifndef PITOT_CAPTURE_CUDA_CLIENT_CLIENT_CALLS_H
#define PITOT_CAPTURE_CUDA_CLIENT_CLIENT_CALLS_H

#include "capture/cuda/client/client.h"

struct client {
	/* the recorder is subscribed, for both; otherwise the client's calls reach CUPTI */
	atomic_bool is_shared;
	atomic_bool is_kept; /* CUPTI is not shared: CUPTI itself answers the client */
	atomic_bool is_noted; /* there is a client, and a capability note says so */
	atomic_bool has_clock; /* CUPTI uses the client's clock, which cannot be undone */
	atomic_uint refused; /* number of subscriptions that CUPTI refused */
	atomic_int thread_id_type; /* set by the client; -1: not set */
	_Atomic(const char *) refused_for; /* engine for which the client was refused; or NULL */
};
extern struct client client;

bool client_is_shared(void);

/* Sends callbacks to the client while it wants anything. */
void client_update(void);

/* Subscribes the client at CUPTI itself. */
CUptiResult client_subscribe_really(struct subscription *s);

/* Lets CUPTI, while it is the client's own, ask the client for buffers. */
CUptiResult client_register_really(CUpti_BuffersCallbackRequestFunc request);
/* Receives buffers from CUPTI, which may still be those of the other of the two. */
void CUPTIAPI client_on_complete(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
				 size_t valid);

/* Looks up the replaced functions in the library of that handle, once. */
void client_calls_find(const struct cupti *cupti, void *handle);
/* Redirects the program's libraries: all functions, or only subscriptions while is_kept. */
void client_calls_route(void);

#endif
