/* user_folder.h: the folders in which the user's programs store files, by XDG's rules. */
#ifndef PITOT_BASE_USER_FOLDER_H
#define PITOT_BASE_USER_FOLDER_H

#include "base/error.h"
#include "base/folder.h"

/*
 * U(name, variable, below the home folder, what is stored there). A variable that is no absolute
 * path is ignored, as XDG demands.
 */
#define USER_FOLDERS(U)                                                                            \
	U(CACHE, "XDG_CACHE_HOME", ".cache", "calibrations")                                       \
	U(DATA, "XDG_DATA_HOME", ".local/share", "baselines")

enum user_folder {
#define USER_FOLDER(name, variable, home, stored) USER_##name,
	USER_FOLDERS(USER_FOLDER)
#undef USER_FOLDER
};

/*
 * Opens "pitot" in one of them, which must belong to the user; `make`: makes it (0700), and what is
 * missing above. Appends its path, also on failure. Returns a descriptor for folder.h, or a
 * negative code.
 */
int user_folder_open(enum user_folder which, bool make, struct strbuf *path,
		     struct error *e) MUST_USE;

#endif
