#include "unit/capture/cuda_player.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"

#define PATIENCE_NS (2 * NS_PER_S)

static struct {
	const struct standin_player *standin;
	unsigned rounds;
	uint32_t ids; /* of a round */
} self;

static void *load(const char *name)
{
	char path[4096];
	void *library;

	snprintf(path, sizeof(path), STANDINS "/%s", name);
	library = dlopen(path, RTLD_NOW);
	if (!library)
		fail_msg("%s", dlerror());
	return library;
}

static uint32_t highest_id(void)
{
	const struct tape *t = standin_tape();
	struct tape_event event;
	uint32_t highest = 0;

	for (size_t i = 0; i < t->records.count; i++)
		if (t->records.data[i].type == TAPE_CALLBACK &&
		    tape_get_event(&t->records.data[i], &event))
			highest = MAX(highest, event.correlation);
	return highest;
}

void cuda_player_open(const char *tape)
{
	void *cupti = load("libcupti.so.13");
	struct error e = { 0 };

	load("libcuda.so.1");
	load("libnvidia-ml.so.1");
	if (standin_open(tape, NULL, &e) < 0)
		fail_msg("%s", e.text);
	self.standin = dlsym(cupti, "standin_player");
	assert_non_null(self.standin);
	self.standin->set_patience(PATIENCE_NS);
	self.ids = highest_id() + 1;
}

void cuda_player_open_made(const char *program, const char *count)
{
	char folder[] = "/tmp/pitot-tape-XXXXXX", path[64], command[4096];

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/made.tape", folder);
	snprintf(command, sizeof(command), "'" STANDINS "/tape-make' %s %s %s", path, program,
		 count);
	assert_int_equal(system(command), 0);
	cuda_player_open(path);
	unlink(path);
	rmdir(folder);
}

uint64_t cuda_player_records(uint32_t kind)
{
	const struct tape *t = standin_tape();
	struct tape_delivery d;
	struct tape_run run;
	uint64_t found = 0;

	for (size_t i = 0; i < t->records.count; i++) {
		const uint8_t *record;

		if (t->records.data[i].type != TAPE_BUFFER_COMPLETE ||
		    !tape_get_delivery(&t->records.data[i], &d))
			continue;
		record = d.buffer.bytes;
		while (tape_next_run(&d, &run))
			for (uint32_t k = 0; k < run.count; k++, record += run.size)
				found += load_u32(record) == kind;
	}
	return found;
}

uint64_t cuda_player_callbacks(void)
{
	return self.standin->counts().callbacks;
}

void cuda_player_faults(const char *script)
{
	struct error e = { 0 };

	if (faults_parse(script, &e) < 0)
		fail_msg("%s", e.text);
}

void cuda_player_resource(CUpti_CallbackId id, unsigned context)
{
	const struct tape *t = standin_tape();
	struct place place = { .first = true, .last = true };
	struct tape_event event;

	standin_at(&place);
	for (size_t i = 0; i < t->records.count; i++) {
		if (t->records.data[i].type != TAPE_CALLBACK ||
		    !tape_get_event(&t->records.data[i], &event) ||
		    event.domain != CUPTI_CB_DOMAIN_RESOURCE || event.cbid != id)
			continue;
		event.context += context * UINT64_C(0x1000);
		self.standin->event(&event);
	}
}

static void sleep_until(uint64_t time_ns)
{
	struct timespec t = { (time_t)(time_ns / NS_PER_S), (long)(time_ns % NS_PER_S) };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

void cuda_player_play(uint64_t later_ns)
{
	const struct tape *t = standin_tape();
	struct place place = { .first = self.rounds == 0,
			       .time_shift =
				       clock_monotonic_ns() + later_ns - t->records.data[0].time,
			       .id_shift = self.rounds * self.ids };
	struct tape_event event;
	struct tape_delivery delivery;

	self.rounds++;
	for (size_t i = 0; i < t->records.count; i++) {
		const struct tape_record *r = &t->records.data[i];

		place.index = i;
		standin_at(&place);
		if (r->type == TAPE_CALLBACK && tape_get_event(r, &event))
			self.standin->event(&event);
		if (r->type == TAPE_BUFFER_COMPLETE && !later_ns &&
		    tape_get_delivery(r, &delivery)) {
			sleep_until(r->time + place.time_shift);
			self.standin->deliver(&delivery);
		}
	}
	if (!later_ns)
		sleep_until(t->records.data[t->records.count - 1].time + place.time_shift);
}

int cuda_player_in_child(int (*run)(const void *), const void *argument)
{
	pid_t child = fork();
	int status = 1;

	if (child == 0)
		exit(run(argument));
	waitpid(child, &status, 0);
	return status != 0;
}
