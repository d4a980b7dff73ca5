/* play.h: tape-play's parts: options, the stand-in libraries, the players, the end. */
#ifndef PITOT_TESTS_STANDIN_PLAY_H
#define PITOT_TESTS_STANDIN_PLAY_H

#include "standin_cupti.h"

enum ending {
	END_RETURN,
	END_EXIT,
	END_QUICK_EXIT,
	END__EXIT,
	END_KILL,
	END_TERM,
	END_INT,
	END_ABORT,
	END_SEGV,
	END_EXEC,
	END_FORK
};

struct play_options {
	const char *tape, *faults, *counts;
	const char *end_when; /* a file that says so by being there; NULL: at once */
	bool parallel, realtime, now, hang_at_exit;
	unsigned long rounds; /* --repeat */
	uint64_t gap_ns; /* between rounds */
	uint32_t ids; /* of a round; 0: as many as the tape has */
	unsigned long fork_every; /* that many callbacks; 0: never */
	const char *modules; /* a folder of libraries to load and unload before each fork */
	const char *client; /* a library that plays a client of CUPTI of the program; NULL: none */
	bool client_late; /* it is loaded after CUDA */
	unsigned long rate; /* callbacks per second at most, 0: no limit */
	enum ending ending;
	unsigned long long end_at; /* index of a record, ULLONG_MAX: after the last */
};

/* 0, or an exit status after having said why on stderr. */
int play_options_parse(int argc, char **argv, struct play_options *o);

/*
 * Loads the stand-ins that lie beside the program, without the functions that the fault script
 * hides.
 */
int standins_load(const struct standin_player **player, CUresult (**init)(unsigned flags),
		  struct error *e) MUST_USE;

/* The program's own client of CUPTI, as a library has it. */
struct play_client {
	/*
	 * Before a record is played, on its thread; function: of a call, at its site; else NULL. In
	 * order only without --parallel.
	 */
	void (*step)(size_t index, size_t count, const char *function, unsigned site);
	/* All records have been played. */
	void (*end)(void);
};
/* NULL: the library has no function of that kind. */
int play_load_client(const char *path, struct play_client *client, struct error *e) MUST_USE;

/* Plays all rounds of the open tape. */
int play_tape(const struct play_options *o, const struct standin_player *player,
	      const struct play_client *client, struct error *e) MUST_USE;

/*
 * Loads another library of the folder in place of the last one, and forks. The child loads one,
 * too, and ends; when it does not, the process ends with status 3. Any thread.
 */
void play_fork(const char *modules);

/* Leaves the process; END_RETURN does not. */
void play_end(enum ending ending);

#endif
