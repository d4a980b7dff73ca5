/*
 * toy_engine.h: a client of the hub that counts launches: the one file that a new
 * engine needs, beside its line in src/capture/cuda/hub/clients.c, which CMakeLists.txt adds.
 */
#ifndef PITOT_TESTS_TOY_ENGINE_H
#define PITOT_TESTS_TOY_ENGINE_H

#include <stdatomic.h>

extern struct toy_engine {
	atomic_uint attached, begun, ended, contexts, held;
	atomic_int depth; /* of holds */
} toy_engine;

#endif
