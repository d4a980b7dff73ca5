#include "play_clock.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"

#define STUCK_NS (100 * NS_PER_MS)
#define CALLS_BEFORE_STUCK 64

static struct play_clock_setup setup;
static atomic_bool on, ended;

/*
 * The latest record: its time, when it was played, and how far time may advance. Readers retry
 * while `version` is odd.
 */
static struct {
	atomic_uint version;
	atomic_uint_fast64_t time, played_at, allowance;
} latest;

static atomic_uint_fast64_t highest; /* seen by other threads, whose clock never goes back */

static __thread struct {
	bool playing;
	unsigned calls;
	uint64_t time, played_at;
} here;

uint64_t play_clock_real(clockid_t clock)
{
	struct timespec t = { 0, 0 };

	syscall(SYS_clock_gettime, clock, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static void set_latest(uint64_t time, uint64_t allowance)
{
	unsigned version = atomic_load(&latest.version);

	while ((version & 1) ||
	       !atomic_compare_exchange_weak(&latest.version, &version, version + 1))
		version = atomic_load(&latest.version);
	atomic_store(&latest.time, time);
	atomic_store(&latest.played_at, play_clock_real(CLOCK_MONOTONIC));
	atomic_store(&latest.allowance, allowance);
	atomic_store(&latest.version, version + 2);
}

void play_clock_start(const struct play_clock_setup *s)
{
	setup = *s;
	set_latest(s->start_ns, s->first_ns - s->start_ns);
	atomic_store(&on, true);
}

void play_clock_at(uint64_t time, uint64_t next)
{
	if (!atomic_load(&on))
		return;
	here.playing = true;
	here.calls = 0;
	here.time = time;
	set_latest(time, next > time ? next - time : 0);
}

void play_clock_end(void)
{
	if (!atomic_load(&on))
		return;
	set_latest(MAX(atomic_load(&latest.time), here.playing ? here.time : 0), UINT64_MAX);
	atomic_store(&ended, true);
}

static uint64_t player_time(void)
{
	uint64_t real;

	if (++here.calls < CALLS_BEFORE_STUCK)
		return here.time;
	real = play_clock_real(CLOCK_MONOTONIC);
	if (here.calls == CALLS_BEFORE_STUCK)
		here.played_at = real;
	return real - here.played_at > STUCK_NS ? here.time + (real - here.played_at) : here.time;
}

static uint64_t others_time(void)
{
	uint64_t time, elapsed, allowance, told;
	unsigned before;

	do {
		before = atomic_load(&latest.version);
		time = atomic_load(&latest.time);
		elapsed = play_clock_real(CLOCK_MONOTONIC) - atomic_load(&latest.played_at);
		allowance = atomic_load(&latest.allowance);
	} while ((before & 1) || before != atomic_load(&latest.version));
	time += MIN(elapsed, allowance);
	told = atomic_load(&highest);
	while (told < time && !atomic_compare_exchange_weak(&highest, &told, time))
		;
	return MAX(told, time);
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *t)
{
	uint64_t ns;

	if (!atomic_load(&on))
		return (int)syscall(SYS_clock_gettime, clock, t);
	switch (clock) {
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_MONOTONIC_COARSE:
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_COARSE:
	case CLOCK_BOOTTIME:
		break;
	default:
		return (int)syscall(SYS_clock_gettime, clock, t);
	}
	ns = here.playing && !atomic_load(&ended) ? player_time() : others_time();
	if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
		ns += (uint64_t)(setup.realtime_ns + setup.step_ns());
	else if (clock == CLOCK_BOOTTIME)
		ns += (uint64_t)setup.boottime_ns;
	t->tv_sec = (time_t)(ns / NS_PER_S);
	t->tv_nsec = (long)(ns % NS_PER_S);
	return 0;
}
