/*
 * remote_script.h: a Python script that loads the recorder, in a folder where the target process
 * reads it, and what the script has to say.
 *
 * The folder is new, has a random name, and only the target's user can enter it; it is in a folder
 * in which nobody else can rename it, as the target sees it (it may be in a container), and no link
 * is followed on the way. The script starts a Python thread that does the work: signal handlers of
 * the program run in its main thread only, and their exceptions never end up in ours.
 */
#ifndef PITOT_RECORD_INJECT_REMOTE_REMOTE_SCRIPT_H
#define PITOT_RECORD_INJECT_REMOTE_REMOTE_SCRIPT_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

struct remote_script {
	int parent, folder; /* -1: none */
	char name[48]; /* of the folder */
	char path[80]; /* of the script, as the target sees it */
};

/* Returns 0 or a negative code; remove *out in either case. */
int remote_script_write(pid_t pid, const char *library, struct remote_script *out,
			struct error *e) MUST_USE;
void remote_script_remove(struct remote_script *s);

/*
 * Whether the script has ended. Then *out is what pitot_idle() returned, or E_UNSUPPORTED, and *e
 * says why it was not called.
 */
bool remote_script_ended(const struct remote_script *s, int *out, struct error *e);

#endif
