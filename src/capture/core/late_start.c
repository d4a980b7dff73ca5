#include "capture/core/late_start.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/helper_thread.h"
#include "capture/core/park.h"

#define WARMUP_CPU_NS (5 * NS_PER_MS)
#define WARMUP_POLL_MIN_NS (5 * NS_PER_MS)
#define WARMUP_POLL_MAX_NS (100 * NS_PER_MS)
#define WARMUP_STACK_BYTES (256u << 10)
#define START_LIMIT_NS (100 * NS_PER_MS)

enum { NONE, WARMUP, STARTING };
static atomic_uint state; /* also a futex */

static void *start_after_warmup(void *start)
{
	uint64_t begun_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
	struct timespec t = { .tv_nsec = WARMUP_POLL_MIN_NS };

	do {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
		t.tv_nsec = (long)MIN(2 * (uint64_t)t.tv_nsec, WARMUP_POLL_MAX_NS);
	} while (clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - begun_ns < WARMUP_CPU_NS);
	state = STARTING;
	((void (*)(void))start)();
	atomic_store(&state, NONE);
	futex_wake(&state);
	return NULL;
}

void late_start(void (*start)(void))
{
	state = WARMUP;
	if (helper_thread_start(start_after_warmup, (void *)start, WARMUP_STACK_BYTES) < 0)
		state = NONE;
}

bool late_start_is_pending(void)
{
	return state != NONE;
}

void late_start_wait(void)
{
	uint64_t begun = clock_machine_ns(), waited = 0;

	while (atomic_load(&state) == STARTING && waited < START_LIMIT_NS) {
		futex_wait(&state, STARTING, START_LIMIT_NS - waited);
		waited = clock_machine_ns() - begun;
	}
}

void late_start_after_fork(void)
{
	state = NONE;
}
