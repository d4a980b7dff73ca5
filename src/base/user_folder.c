#include "base/user_folder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
	const char *variable, *below_home, *stored;
} places[] = {
#define PLACE(name, variable, home, stored) [USER_##name] = { variable, home, stored },
	USER_FOLDERS(PLACE)
#undef PLACE
};

/* Makes a folder unless it is there. */
static int make_folder(const char *above, const char *name)
{
	_cleanup_close_ int folder = folder_open(above, FOLDER_ANY);
	_cleanup_close_ int made = folder_enter(folder, name, FOLDER_ANY);
	struct stat st;

	if (folder < 0 || made != -ENOENT)
		return MIN(folder, 0);
	if (fstat(folder, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return E_FOREIGN;
	return mkdirat(folder, name, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

/*
 * Makes the folder and those above it, but none in a folder of another user than root: with sudo,
 * HOME may be the user's, who could not use a cache that belongs to root. What is there and is no
 * folder is an error when it is opened.
 */
static int make_folders(struct strbuf *path)
{
	int rc = path->failed ? -ENOMEM : 0;

	for (char *slash = rc < 0 ? NULL : path->data; slash && rc == 0;) {
		char *end = strchr(slash + 1, '/');

		*slash = '\0';
		if (end)
			*end = '\0';
		if (slash[1])
			rc = make_folder(*path->data ? path->data : "/", slash + 1);
		*slash = '/';
		if (end)
			*end = '/';
		slash = end;
	}
	return rc;
}

int user_folder_open(enum user_folder which, bool make, struct strbuf *path, struct error *e)
{
	const char *named = secure_getenv(places[which].variable), *home = secure_getenv("HOME");
	int rc = 0;

	if (named && *named == '/')
		strbuf_adds(path, named);
	else if (home && *home == '/')
		strbuf_addf(path, "%s/%s", home, places[which].below_home);
	else
		return error_set(e, -ENOENT, "neither %s nor HOME names a folder for %s",
				 places[which].variable, places[which].stored);
	strbuf_adds(path, "/pitot");
	if (make)
		rc = make_folders(path);
	if (rc == 0)
		rc = path->failed ? -ENOMEM : folder_open(strbuf_text(path), FOLDER_OWN);
	return rc < 0 ? error_set(e, rc, "%s", error_code_text(rc)) : rc;
}
