/* The players: one thread for each thread of the tape, which plays that thread's records. */
#include "play.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "play_clock.h"
#include "play_nccl.h"
#include "play_nvtx.h"

#define UNREAD_MAX 32 /* unread buffers at which the players wait for the recorder */
#define UNREAD_WAIT_NS (2 * NS_PER_S)
#define PATIENCE_NS (2 * NS_PER_S)
#define READING_WAIT_NS (60 * NS_PER_MS) /* real time; the recorder reads every 40 ms */
#define PAUSE_NS (200 * NS_PER_US)
#define RATE_CHECK 256

/* A record to play, in order of the tape. */
struct step {
	size_t record;
	uint32_t thread;
};

struct player {
	uint32_t thread;
	pthread_t handle;
	sem_t turn;
	uint64_t recorded_tid;
	atomic_uint_fast64_t tid;
	VEC(size_t) steps; /* indexes into all steps */
};

static struct {
	const struct play_options *options;
	const struct standin_player *standin;
	const struct play_client *client;
	const struct tape *tape;
	VEC(struct step) steps;
	struct player *players; /* by thread of the tape */
	uint64_t period_ns, shift_ns; /* of a round; of all times */
	uint32_t id_period;
	uint64_t start_ns; /* real time */
	atomic_uint_fast64_t callbacks;
} self;

static void sleep_real(uint64_t ns)
{
	struct timespec t = { (time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S) };

	while (nanosleep(&t, &t) < 0 && errno == EINTR)
		;
}

static uint64_t tid_of(uint64_t recorded)
{
	for (uint32_t i = 0; i < self.tape->threads; i++)
		if (self.players[i].recorded_tid == recorded && recorded)
			return atomic_load(&self.players[i].tid);
	return recorded ? recorded : (uint64_t)gettid();
}

/* --- what is to be played --- */

static uint64_t dropped_here(const struct tape_record *r)
{
	struct tape_call call;

	if (r->type != TAPE_RESULT || !tape_get_call(r, &call) ||
	    call.function != TAPE_cuptiActivityGetNumDroppedRecords ||
	    call.output_length != sizeof(uint64_t))
		return 0;
	return load_u64(call.output);
}

/* Whether the recorder read all NVML counters once at this place. */
static bool is_reading(const struct tape_record *r)
{
	struct tape_call call;

	return r->type == TAPE_RESULT && tape_get_call(r, &call) &&
	       call.function == TAPE_nvmlDeviceGetTemperature;
}

static bool is_played(const struct tape_record *r)
{
	return (self.options->now && is_reading(r)) || r->type == TAPE_CALLBACK ||
	       r->type == TAPE_BUFFER_COMPLETE || r->type == TAPE_NVTX || r->type == TAPE_NCCL ||
	       r->type == TAPE_THREAD || dropped_here(r);
}

static void note_ids(const struct tape_record *r)
{
	struct tape_event event;
	struct tape_delivery d;
	struct tape_run run;
	const uint8_t *record;
	uint32_t highest = 0;

	if (r->type == TAPE_CALLBACK && tape_get_event(r, &event)) {
		highest = event.correlation;
	} else if (r->type == TAPE_BUFFER_COMPLETE && tape_get_delivery(r, &d)) {
		record = d.buffer.bytes;
		while (tape_next_run(&d, &run))
			for (uint32_t i = 0; i < run.count; i++, record += run.size)
				highest = MAX(highest, record_correlation(record, run.size));
	}
	self.id_period = MAX(self.id_period, highest + 1);
}

static int plan(void)
{
	const struct tape *t = self.tape;
	struct tape_thread thread;
	uint64_t first = t->records.data[0].time, last = first;

	for (size_t i = 0; i < t->records.count; i++) {
		const struct tape_record *r = &t->records.data[i];
		struct player *p = &self.players[r->thread];

		last = MAX(last, r->time);
		note_ids(r);
		if (r->type == TAPE_THREAD && tape_get_thread(r, &thread))
			p->recorded_tid = thread.tid;
		if (!is_played(r))
			continue;
		if (vec_push(&p->steps, self.steps.count) < 0 ||
		    vec_push(&self.steps, ((struct step){ i, r->thread })) < 0)
			return -ENOMEM;
	}
	if (self.options->ids)
		self.id_period = self.options->ids;
	self.period_ns = last - first + self.options->gap_ns;
	if (self.options->realtime || self.options->now)
		self.shift_ns = play_first_ns(self.options) - first;
	return 0;
}

/* --- playing --- */

static void keep_pace(void)
{
	uint64_t n = atomic_fetch_add(&self.callbacks, 1) + 1, elapsed, due;

	if (self.options->fork_every && n % self.options->fork_every == 0)
		play_fork(self.options->modules);
	if (!self.options->rate || n % RATE_CHECK)
		return;
	elapsed = play_clock_real(CLOCK_MONOTONIC) - self.start_ns;
	due = n * NS_PER_S / self.options->rate;
	if (due > elapsed)
		sleep_real(due - elapsed);
}

static void wait_for_reader(void)
{
	if (self.options->parallel || self.options->realtime)
		return;
	for (uint64_t waited = 0; self.standin->unread() > UNREAD_MAX && waited < UNREAD_WAIT_NS;
	     waited += PAUSE_NS)
		sleep_real(PAUSE_NS);
}

/* The tape plays faster than the recorder reads counters: lets it read them where it did. */
static void wait_for_reading(void)
{
	uint64_t before = standin_calls(TAPE_nvmlDeviceGetTemperature);

	for (uint64_t waited = 0;
	     waited < READING_WAIT_NS && standin_calls(TAPE_nvmlDeviceGetTemperature) == before;
	     waited += PAUSE_NS)
		sleep_real(PAUSE_NS);
}

static void play_record(const struct tape_record *r, bool first_round)
{
	struct tape_event event;
	struct tape_delivery delivery;
	struct tape_thread thread;
	struct tape_nvtx nvtx;
	struct tape_text text;

	switch (r->type) {
	case TAPE_CALLBACK:
		keep_pace();
		if (tape_get_event(r, &event))
			self.standin->event(&event);
		break;
	case TAPE_BUFFER_COMPLETE:
		if (tape_get_delivery(r, &delivery))
			self.standin->deliver(&delivery);
		wait_for_reader();
		break;
	case TAPE_NVTX:
		keep_pace();
		if (tape_get_nvtx(r, &nvtx, &text))
			play_nvtx(&nvtx, &text, tid_of);
		break;
	case TAPE_NCCL:
		play_nccl(r);
		break;
	case TAPE_THREAD:
		if (tape_get_thread(r, &thread)) {
			thread.name[15] = 0;
			pthread_setname_np(pthread_self(), thread.name);
		}
		break;
	default:
		if (!is_reading(r))
			self.standin->dropped(dropped_here(r));
		else if (first_round)
			wait_for_reading();
		break;
	}
}

static void step_client(size_t step, const struct tape_record *r)
{
	const char *function = NULL;
	struct tape_event event = { .site = 0 };

	if (r->type == TAPE_CALLBACK && tape_get_event(r, &event) && event.correlation)
		function = tape_text_of(self.tape, event.function);
	self.client->step(step, self.steps.count, function, event.site);
}

/*
 * On a slow machine rounds take longer than on the tape. A round that is a whole one late begins
 * now, so that the times of its work stay near those of its calls.
 */
static void catch_up(unsigned long round)
{
	const struct tape_record *first = &self.tape->records.data[self.steps.data[0].record];
	uint64_t begins_ns = first->time + self.shift_ns + round * self.period_ns;
	uint64_t now = play_clock_real(CLOCK_MONOTONIC);

	if (now > begins_ns + self.period_ns)
		self.shift_ns += now - begins_ns;
}

static void play_step(size_t step, unsigned long round)
{
	const struct tape_record *records = self.tape->records.data;
	size_t index = self.steps.data[step].record;
	uint64_t shift = self.shift_ns + round * self.period_ns, now;
	uint64_t time = records[index].time + shift;
	uint64_t next = step + 1 < self.steps.count
				? records[self.steps.data[step + 1].record].time + shift
				: time + self.options->gap_ns;
	struct place place = {
		.index = index,
		.time_shift = shift,
		.id_shift = (uint32_t)round * self.id_period,
		.first = round == 0,
		.last = round + 1 == self.options->rounds,
	};

	standin_at(&place);
	if (self.options->realtime) {
		now = play_clock_real(CLOCK_MONOTONIC);
		if (time > now)
			sleep_real(time - now);
	} else {
		play_clock_at(time, next);
	}
	if (place.last && index >= standin_faults()->fatal_at)
		self.standin->fail();
	if (index >= self.options->end_at && place.last)
		play_end(self.options->ending == END_RETURN ? END_EXIT : self.options->ending);
	if (self.client->step && (place.first || self.client->every_round))
		step_client(step, &records[index]);
	play_record(&records[index], place.first);
}

/* Keeps the order: the thread that has played a step wakes the thread of the next one. */
static void pass_on(size_t step, unsigned long round, uint32_t from)
{
	size_t next = step + 1 < self.steps.count ? step + 1 : 0;
	uint32_t to = self.steps.data[next].thread;

	if ((next || round + 1 < self.options->rounds) && to != from)
		sem_post(&self.players[to].turn);
}

static bool is_mine_before(size_t step, const struct player *p)
{
	return self.steps.data[step ? step - 1 : self.steps.count - 1].thread == p->thread;
}

static void wait_for_turn(struct player *p)
{
	while (sem_wait(&p->turn) < 0 && errno == EINTR)
		;
}

static void *play_thread(void *argument)
{
	struct player *p = argument;

	atomic_store(&p->tid, (uint64_t)gettid());
	for (unsigned long round = 0; round < self.options->rounds; round++) {
		for (size_t i = 0; i < p->steps.count; i++) {
			size_t step = p->steps.data[i];

			if (!self.options->parallel && (step || round) && !is_mine_before(step, p))
				wait_for_turn(p);
			if (self.options->realtime && !self.options->parallel && !step && round)
				catch_up(round);
			play_step(step, round);
			if (!self.options->parallel)
				pass_on(step, round, p->thread);
		}
	}
	return NULL;
}

static int start_players(uint32_t main_thread, struct error *e)
{
	for (uint32_t i = 0; i < self.tape->threads; i++) {
		struct player *p = &self.players[i];

		if (i != main_thread && p->steps.count &&
		    pthread_create(&p->handle, NULL, play_thread, p) != 0)
			return error_set(e, -EAGAIN, "cannot start a thread");
	}
	return 0;
}

static uint32_t find_main_thread(void)
{
	uint64_t pid = tape_fact_number(self.tape, "pid");

	for (uint32_t i = 0; i < self.tape->threads; i++)
		if (pid && self.players[i].recorded_tid == pid)
			return i;
	return 0; /* records without a thread */
}

int play_tape(const struct play_options *o, const struct standin_player *player,
	      const struct play_client *client, struct error *e)
{
	uint32_t main_thread;

	self.options = o;
	self.standin = player;
	self.client = client;
	self.tape = standin_tape();
	self.players = calloc(self.tape->threads, sizeof(*self.players));
	if (!self.players)
		return error_set(e, -ENOMEM, "no memory for the players");
	for (uint32_t i = 0; i < self.tape->threads; i++) {
		self.players[i].thread = i;
		sem_init(&self.players[i].turn, 0, 0);
	}
	if (plan() < 0)
		return error_set(e, -ENOMEM, "no memory for the steps");
	player->set_patience(o->parallel ? 0 : PATIENCE_NS);
	self.start_ns = play_clock_real(CLOCK_MONOTONIC);
	main_thread = find_main_thread();
	if (start_players(main_thread, e) < 0)
		return e->code;
	play_thread(&self.players[main_thread]);
	for (uint32_t i = 0; i < self.tape->threads; i++)
		if (i != main_thread && self.players[i].steps.count)
			pthread_join(self.players[i].handle, NULL);
	return 0;
}
