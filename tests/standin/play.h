/* play.h: the parts of tape-play: options, stand-in libraries, players, the end. */
#ifndef PITOT_TESTS_STANDIN_PLAY_H
#define PITOT_TESTS_STANDIN_PLAY_H

#include "standin_cupti.h"

enum ending {
	END_RETURN,
	END_EXIT,
	END_QUICK_EXIT,
	END__EXIT,
	END_KILL,
	END_STOP,
	END_TERM,
	END_INT,
	END_ABORT,
	END_SEGV,
	END_EXEC,
	END_EXECL, /* of which the recorder is not told */
	END_FORK
};

struct play_options {
	const char *tape, *faults, *counts;
	const char *end_when; /* the end waits until this file exists; NULL: at once */
	bool parallel, realtime, now, hang_at_exit, ranks;
	/* --at: when the first of all tapes begins (CLOCK_MONOTONIC); 0: now */
	unsigned long long at_ns;
	uint64_t lead_ns; /* the time from then to the first record of this tape */
	char **others; /* all tapes of the job; NULL at the end */
	unsigned long rounds; /* --repeat */
	uint64_t gap_ns; /* between rounds */
	uint32_t ids; /* correlation ids of a round; 0: as many as on the tape */
	unsigned long fork_every; /* callbacks between forks; 0: never */
	const char *modules; /* folder of libraries to load and unload before each fork */
	const char *client; /* library with the program's own client of CUPTI; NULL: none */
	bool client_late; /* the client is loaded after CUDA */
	unsigned long rate; /* most callbacks per second; 0: no limit */
	enum ending ending;
	unsigned long long end_at; /* index of a record; ULLONG_MAX: after the last */
};

/* Returns 0, or an exit status after printing the reason to stderr. */
int play_options_parse(int argc, char **argv, struct play_options *o);

/* Loads the stand-ins beside the program, without the functions that the fault script hides. */
int standins_load(const struct standin_player **player, CUresult (**init)(unsigned flags),
		  struct error *e) MUST_USE;

/* Returns when the first record is played, by CLOCK_MONOTONIC (--now, --at, --realtime). */
uint64_t play_first_ns(const struct play_options *o);

/* Starts a process for each tape, which plays it as one rank of a job. Returns an exit status. */
int play_ranks(char **tapes);
/* Returns how much later a tape begins than the first of them all. */
uint64_t play_lead_ns(char **tapes, const struct tape *own);

/* The program's own client of CUPTI, from a library. */
struct play_client {
	/*
	 * Called before a record is played, on its thread. For a call, `function` and its `site`;
	 * else NULL. In order unless --parallel. In the first round only, unless the library has a
	 * symbol client_every_round.
	 */
	void (*step)(size_t index, size_t count, const char *function, unsigned site);
	/* Called after all records. */
	void (*end)(void);
	bool every_round;
};
/* Functions that the library lacks are NULL. */
int play_load_client(const char *path, struct play_client *client, struct error *e) MUST_USE;

/* Plays all rounds of the open tape. */
int play_tape(const struct play_options *o, const struct standin_player *player,
	      const struct play_client *client, struct error *e) MUST_USE;

/*
 * Loads another library of the folder in place of the last one, and forks. The child also loads
 * one, and exits. If it does not, the process exits with status 3. Thread-safe.
 */
void play_fork(const char *modules);

/* Ends the process; END_RETURN returns. */
void play_end(enum ending ending);

#endif
