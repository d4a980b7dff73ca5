#include "base/user_folder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *variable, *below_home, *stored;
} places[] = {
#define PLACE(name, variable, home, stored) [USER_##name] = { variable, home, stored },
	USER_FOLDERS(PLACE)
#undef PLACE
};

/* Makes the folder and those above it; what cannot be made is missing when it is opened. */
static void make_folders(struct strbuf *path)
{
	for (char *slash = path->failed ? NULL : strchr(path->data + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path->data, 0700);
		*slash = '/';
	}
	mkdir(strbuf_text(path), 0700);
}

int user_folder_open(enum user_folder which, bool make, struct strbuf *path, struct error *e)
{
	const char *named = secure_getenv(places[which].variable), *home = secure_getenv("HOME");
	int rc;

	if (named && *named == '/')
		strbuf_adds(path, named);
	else if (home && *home == '/')
		strbuf_addf(path, "%s/%s", home, places[which].below_home);
	else
		return error_set(e, -ENOENT, "neither %s nor HOME names a folder for %s",
				 places[which].variable, places[which].stored);
	strbuf_adds(path, "/pitot");
	if (make)
		make_folders(path);
	rc = path->failed ? -ENOMEM : folder_open(strbuf_text(path), FOLDER_OWN);
	return rc < 0 ? error_set(e, rc, "%s", error_code_text(rc)) : rc;
}
