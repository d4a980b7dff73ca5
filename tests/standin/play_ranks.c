/*
 * The processes of a job, each of which plays a tape: all tapes were recorded on one machine, and
 * the distances between their times stay.
 */
#include "play.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "play_clock.h"

uint64_t play_lead_ns(char **tapes, const struct tape *own)
{
	uint64_t own_ns = own->records.data[0].time, first_ns = own_ns;

	for (; *tapes; tapes++) {
		struct tape other = { 0 };

		if (tape_load(*tapes, &other, NULL) == 0 && other.records.count)
			first_ns = MIN(first_ns, other.records.data[0].time);
		tape_release(&other);
	}
	return own_ns - first_ns;
}

static void set_number(const char *variable, int number)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", number);
	setenv(variable, text, 1);
}

/* As torchrun starts a rank. */
static void start_rank(int rank, int ranks, char **tapes, const char *at)
{
	char **arguments = calloc((size_t)ranks + 6, sizeof(*arguments)), **next = arguments;

	if (!arguments)
		_exit(1);
	set_number("RANK", rank);
	set_number("LOCAL_RANK", rank);
	set_number("WORLD_SIZE", ranks);
	set_number("LOCAL_WORLD_SIZE", ranks);
	set_number("GROUP_RANK", 0);
	setenv("TORCHELASTIC_RUN_ID", "tapes", 1);
	setenv("TORCHELASTIC_RESTART_COUNT", "0", 1);
	*next++ = (char *)"tape-play";
	*next++ = (char *)"--at";
	*next++ = (char *)at;
	*next++ = tapes[rank];
	for (int i = 0; i < ranks; i++)
		*next++ = tapes[i];
	execv("/proc/self/exe", arguments);
	perror("tape-play: cannot start a rank");
	_exit(1);
}

int play_ranks(char **tapes)
{
	int ranks = 0, result = 0, status;
	char at[32];

	snprintf(at, sizeof(at), "%llu", (unsigned long long)play_clock_real(CLOCK_MONOTONIC));
	while (tapes[ranks])
		ranks++;
	for (int i = 0; i < ranks; i++)
		if (fork() == 0)
			start_rank(i, ranks, tapes, at);
	while (wait(&status) > 0)
		result |= !WIFEXITED(status) || WEXITSTATUS(status);
	return result;
}
