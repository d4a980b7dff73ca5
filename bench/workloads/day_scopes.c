/*
 * A library for tape-play --client: every eighth call of a thread is in a scope, adds to a counter
 * and sets a gauge. At the end it writes the number of scopes to the file that DAY_COUNT names.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <pitot/pitot.h>

#define EVERY 8

const bool client_every_round = true; /* see tests/standin/play.h */

static atomic_ulong scopes;
static uint32_t counter, gauge;

__attribute__((constructor)) static void begin(void)
{
	counter = pitot_counter("calls in scopes", "", "");
	gauge = pitot_counter("number of the call", "", "");
}

void client_step(size_t index, size_t count, const char *function, unsigned site)
{
	static __thread unsigned calls;
	static __thread bool open;

	(void)index;
	(void)count;
	if (!function)
		return;
	if (site == 0 && calls++ % EVERY == 0) {
		pitot_scope_begin(function);
		open = true;
		pitot_counter_add(counter, 1);
		pitot_gauge(gauge, (double)(atomic_fetch_add(&scopes, 1) + 1));
	} else if (site == 1 && open) {
		pitot_scope_end();
		open = false;
	}
}

void client_end(void)
{
	const char *path = getenv("DAY_COUNT");
	FILE *file = path ? fopen(path, "we") : NULL;

	if (file) {
		fprintf(file, "%lu\n", atomic_load(&scopes));
		fclose(file);
	}
}
