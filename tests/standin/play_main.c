/* tape-play: a CUDA program that replays a tape with stand-ins for the driver and CUPTI. */
#include "play.h"

#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "play_clock.h"

#define RATE_DEFAULT 100000
#define SETUP_NS 1000000 /* time from the start of the program to the first record */

static const char usage[] =
	"usage: tape-play [options] TAPE…\n"
	"  --parallel         threads run free of each other (default: strictly in the tape's "
	"order)\n"
	"  --realtime         at the recorded pace, with the machine's own clocks\n"
	"  --now              the tape's times moved to now\n"
	"  --ranks            a process for each of several TAPEs of one machine, with the "
	"variables "
	"of torchrun\n"
	"                     and the distances between their times\n"
	"  --at NS            --now for a rank: the first of all further TAPEs begins at NS\n"
	"  --repeat N         the tape N times over, with other ids and later times\n"
	"  --rate N           at most N callbacks a second, 0: no limit (default 100000)\n"
	"  --faults FILE      what goes wrong (docs/tapes.md)\n"
	"  --exit HOW         return, exit, quick-exit, _exit, kill, term, int, abort, segv, exec, "
	"execl, "
	"fork-then-exit or stop (SIGSTOP)\n"
	"  --exit-at N        leave at the N-th record of the tape, with the other threads in full "
	"flight\n"
	"  --gap MS           time between rounds (1)\n"
	"  --ids N            correlation ids that a round uses up\n"
	"  --fork-every N     fork at each N-th callback; each child must end by itself\n"
	"  --modules FOLDER   load and unload libraries of the folder before each fork\n"
	"  --end-when FILE    after the last record stays until FILE exists\n"
	"  --hang-at-exit     from the end on every call of CUPTI and the driver blocks\n"
	"  --client LIB       the program has a client of CUPTI, loaded before CUDA is "
	"initialized\n"
	"  --client-late LIB  the same, loaded afterwards\n"
	"  --counts FILE      write what the recorder was given\n";

static const struct {
	const char *name;
	enum ending ending;
} endings[] = {
	{ "return", END_RETURN }, { "exit", END_EXIT },   { "quick-exit", END_QUICK_EXIT },
	{ "_exit", END__EXIT },   { "kill", END_KILL },   { "term", END_TERM },
	{ "int", END_INT },       { "abort", END_ABORT }, { "segv", END_SEGV },
	{ "exec", END_EXEC },     { "execl", END_EXECL }, { "fork-then-exit", END_FORK },
	{ "stop", END_STOP },
};

static bool parse_ending(const char *text, enum ending *ending)
{
	for (size_t i = 0; i < ARRAY_SIZE(endings); i++) {
		if (strcmp(text, endings[i].name) == 0) {
			*ending = endings[i].ending;
			return true;
		}
	}
	return false;
}

static bool parse_number(const char *text, unsigned long long *out)
{
	char *end;

	*out = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && *end == 0;
}

static bool take_number(int option, unsigned long long number, struct play_options *o)
{
	switch (option) {
	case 'r':
		o->rounds = number;
		return number > 0;
	case 's':
		o->rate = number;
		return true;
	case 'g':
		o->gap_ns = number * NS_PER_MS;
		return true;
	case 'i':
		o->ids = (uint32_t)number;
		return number <= UINT32_MAX;
	case 'k':
		o->fork_every = number;
		return true;
	default:
		return false;
	}
}

static bool take_option(int option, const char *value, struct play_options *o)
{
	unsigned long long number = 0;

	switch (option) {
	case 'p':
		return o->parallel = true;
	case 't':
		return o->realtime = true;
	case 'n':
		return o->now = true;
	case 'h':
		return o->hang_at_exit = true;
	case 'R':
		return o->ranks = true;
	case 'A':
		o->now = true;
		return parse_number(value, &o->at_ns);
	case 'f':
		o->faults = value;
		return true;
	case 'c':
		o->counts = value;
		return true;
	case 'w':
		o->end_when = value;
		return true;
	case 'e':
		return parse_ending(value, &o->ending);
	case 'a':
		return parse_number(value, &o->end_at);
	case 'l':
	case 'L':
		o->client = value;
		o->client_late = option == 'L';
		return true;
	case 'm':
		o->modules = value;
		return true;
	default:
		return value && parse_number(value, &number) && take_number(option, number, o);
	}
}

int play_options_parse(int argc, char **argv, struct play_options *o)
{
	static const struct option options[] = {
		{ "parallel", no_argument, NULL, 'p' },
		{ "realtime", no_argument, NULL, 't' },
		{ "now", no_argument, NULL, 'n' },
		{ "repeat", required_argument, NULL, 'r' },
		{ "rate", required_argument, NULL, 's' },
		{ "faults", required_argument, NULL, 'f' },
		{ "exit", required_argument, NULL, 'e' },
		{ "exit-at", required_argument, NULL, 'a' },
		{ "counts", required_argument, NULL, 'c' },
		{ "end-when", required_argument, NULL, 'w' },
		{ "gap", required_argument, NULL, 'g' },
		{ "ids", required_argument, NULL, 'i' },
		{ "fork-every", required_argument, NULL, 'k' },
		{ "modules", required_argument, NULL, 'm' },
		{ "client", required_argument, NULL, 'l' },
		{ "client-late", required_argument, NULL, 'L' },
		{ "hang-at-exit", no_argument, NULL, 'h' },
		{ "ranks", no_argument, NULL, 'R' },
		{ "at", required_argument, NULL, 'A' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	*o = (struct play_options){
		.rounds = 1, .gap_ns = NS_PER_MS, .rate = RATE_DEFAULT, .end_at = ULLONG_MAX
	};
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (!take_option(option, optarg, o)) {
			fputs(usage, stderr);
			return 2;
		}
	}
	if (optind == argc || (optind + 1 != argc && !o->ranks && !o->at_ns)) {
		fputs(usage, stderr);
		return 2;
	}
	o->tape = argv[optind];
	o->others = argv + optind;
	return 0;
}

uint64_t play_first_ns(const struct play_options *o)
{
	return o->at_ns ? o->at_ns + SETUP_NS + o->lead_ns
			: play_clock_real(CLOCK_MONOTONIC) + o->gap_ns;
}

static void set_clock(const struct play_options *o)
{
	const struct tape *t = standin_tape();
	uint64_t monotonic = tape_fact_number(t, "clock.monotonic"),
		 first = t->records.data[0].time;
	struct play_clock_setup setup = {
		.start_ns = first - SETUP_NS,
		.first_ns = first,
		.realtime_ns = (int64_t)(tape_fact_number(t, "clock.realtime") - monotonic),
		.boottime_ns = (int64_t)(tape_fact_number(t, "clock.boottime") - monotonic),
		.step_ns = standin_step_ns,
	};

	if (o->now) {
		uint64_t now = play_clock_real(CLOCK_MONOTONIC);

		setup.start_ns = o->at_ns ? play_first_ns(o) - SETUP_NS : now;
		setup.first_ns = setup.start_ns + SETUP_NS;
		setup.realtime_ns = (int64_t)(play_clock_real(CLOCK_REALTIME) - now);
		setup.boottime_ns = (int64_t)(play_clock_real(CLOCK_BOOTTIME) - now);
	}
	if (!o->realtime)
		play_clock_start(&setup);
}

static void write_counts(const char *path, const struct standin_player *player)
{
	struct standin_counts c = player->counts();
	FILE *f = fopen(path, "we");

	if (!f)
		return;
	fprintf(f,
		"callbacks %llu\ncallbacks_withheld %llu\nbuffers %llu\nrecords_withheld "
		"%llu\nrecords_dropped %llu\n",
		(unsigned long long)c.callbacks, (unsigned long long)c.callbacks_withheld,
		(unsigned long long)c.buffers, (unsigned long long)c.records_withheld,
		(unsigned long long)c.records_dropped);
	for (uint32_t kind = 0; kind < KINDS_MAX; kind++)
		if (c.records[kind])
			fprintf(f, "%s %llu %llu ns\n", kind_name(kind),
				(unsigned long long)c.records[kind],
				(unsigned long long)c.duration_ns[kind]);
	fclose(f);
}

void play_end(enum ending ending)
{
	const char *other;
	pid_t child;

	switch (ending) {
	case END_RETURN:
		return;
	case END_EXIT:
		exit(0);
	case END_QUICK_EXIT:
		quick_exit(0);
	case END__EXIT:
		_exit(0);
	case END_KILL:
		kill(getpid(), SIGKILL);
		break;
	case END_STOP:
		kill(getpid(), SIGSTOP);
		break;
	case END_TERM:
		kill(getpid(), SIGTERM);
		break;
	case END_INT:
		kill(getpid(), SIGINT);
		break;
	case END_ABORT:
		abort();
	case END_SEGV:
		raise(SIGSEGV);
		break;
	case END_EXEC:
		other = getenv("TAPE_PLAY_EXEC") ?: "/bin/true";
		execv(other, (char *[]){ (char *)(uintptr_t)other, NULL });
		break;
	case END_EXECL:
		execl("/bin/true", "true", (char *)NULL);
		break;
	case END_FORK:
		child = fork();
		if (child > 0)
			waitpid(child, NULL, 0);
		exit(0);
	}
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	const struct standin_player *player;
	CUresult (*init)(unsigned flags);
	struct error e = { 0 };
	struct play_options o;
	struct play_client client = { NULL, NULL, false };
	int status = play_options_parse(argc, argv, &o);

	if (status)
		return status;
	if (o.ranks)
		return play_ranks(o.others);
	if (standin_open(o.tape, o.faults, &e) < 0)
		goto fail;
	if (!standin_tape()->records.count) {
		error_set(&e, E_FORMAT, "tape '%s' is empty", o.tape);
		goto fail;
	}
	if (o.at_ns)
		o.lead_ns = play_lead_ns(o.others, standin_tape());
	set_clock(&o);
	if (standins_load(&player, &init, &e) < 0)
		goto fail;
	if (o.client && !o.client_late && play_load_client(o.client, &client, &e) < 0)
		goto fail;
	init(0);
	if (o.client_late && play_load_client(o.client, &client, &e) < 0)
		goto fail;
	if (play_tape(&o, player, &client, &e) < 0)
		goto fail;
	play_clock_end();
	if (client.end)
		client.end();
	while (o.end_when && access(o.end_when, F_OK) != 0)
		usleep(1000);
	if (o.hang_at_exit)
		standin_hang();
	if (o.counts)
		write_counts(o.counts, player);
	play_end(o.ending);
	return 0;
fail:
	fprintf(stderr, "tape-play: %s\n", e.text);
	return 1;
}
