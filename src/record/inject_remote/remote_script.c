#include "record/inject_remote/remote_script.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/io.h"

#define SCRIPT "load.py"
#define RESULT "result"
#define RESULT_BYTES 256u

static const char *const places[][2] = { { "tmp" }, { "dev", "shm" }, { "var", "tmp" } };

/* Whether nobody but root and the target's user can rename a folder in this one. */
static bool is_safe(int folder, uid_t user)
{
	struct stat st;

	return fstat(folder, &st) == 0 && (!st.st_uid || st.st_uid == user) &&
	       (!(st.st_mode & 022) || (st.st_mode & S_ISVTX));
}

/* The path of the library is written as numbers, whatever it has in it. */
static void add_script(struct strbuf *out, const char *library, const char *folder)
{
	strbuf_adds(out, "import _thread\n"
			 "def load():\n"
			 "    import os\n"
			 "    try:\n"
			 "        from ctypes import CDLL\n"
			 "        said = CDLL(os.fsdecode(bytes.fromhex('");
	for (const char *at = library; *at; at++)
		strbuf_addf(out, "%02x", (unsigned char)*at);
	strbuf_addf(out,
		    "'))).pitot_idle()\n"
		    "    except BaseException as e:\n"
		    "        said = ascii(e)[:200]\n"
		    "    try:\n"
		    "        with open('%s/" RESULT "', 'x') as file:\n"
		    "            file.write(f'{said}\\n')\n"
		    "    except BaseException:\n"
		    "        pass\n"
		    "try:\n"
		    "    _thread.start_new_thread(load, ())\n"
		    "except Exception:\n"
		    "    pass\n",
		    folder);
}

static int write_script(const struct remote_script *s, const char *library, const char *folder,
			const struct stat *owner)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	_cleanup_close_ int fd = folder_create_file(s->folder, SCRIPT);
	int rc;

	if (fd < 0)
		return fd;
	add_script(&text, library, folder);
	rc = text.failed ? -ENOMEM : io_write_all(fd, text.data, text.length);
	if (rc == 0 && owner->st_uid != geteuid() &&
	    (fchown(fd, owner->st_uid, owner->st_gid) < 0 ||
	     fchownat(s->folder, "", owner->st_uid, owner->st_gid, AT_EMPTY_PATH) < 0))
		rc = -errno;
	return rc;
}

/* Makes the folder at a place, with the script in it. */
static int write_at(pid_t pid, const char *const *place, const char *library,
		    const struct stat *owner, struct remote_script *s)
{
	char path[sizeof(s->path) - sizeof(SCRIPT)];
	uint64_t random;
	int rc;

	snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
	s->parent = folder_open(path, FOLDER_ANY);
	for (unsigned i = 0; i < 2 && place[i]; i++) {
		int outer = s->parent;

		s->parent = folder_enter(outer, place[i], FOLDER_ANY);
		fd_close(&outer);
	}
	if (s->parent < 0)
		return s->parent;
	if (!is_safe(s->parent, owner->st_uid) ||
	    getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EACCES;
	snprintf(s->name, sizeof(s->name), ".pitot-%d-%016llx", (int)pid,
		 (unsigned long long)random);
	snprintf(path, sizeof(path), "/%s%s%s/%s", place[0], place[1] ? "/" : "",
		 place[1] ? place[1] : "", s->name);
	snprintf(s->path, sizeof(s->path), "%s/" SCRIPT, path);
	if (mkdirat(s->parent, s->name, 0700) < 0)
		return -errno;
	s->folder = folder_enter(s->parent, s->name, FOLDER_OWN);
	rc = s->folder < 0 ? s->folder : write_script(s, library, path, owner);
	if (rc < 0)
		remote_script_remove(s);
	return rc;
}

int remote_script_write(pid_t pid, const char *library, struct remote_script *out, struct error *e)
{
	struct stat owner;
	char path[32];
	int rc = -ENOENT;

	*out = (struct remote_script){ .parent = -1, .folder = -1 };
	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (stat(path, &owner) < 0)
		return error_set(e, -ESRCH, "there is no process %d any more", (int)pid);
	for (size_t i = 0; rc < 0 && i < ARRAY_SIZE(places); i++) {
		remote_script_remove(out);
		rc = write_at(pid, places[i], library, &owner, out);
	}
	return rc < 0 ? error_set(e, rc,
				  "no script can be written where process %d would read it (/tmp, "
				  "/dev/shm, /var/tmp): %s",
				  (int)pid, error_code_text(rc))
		      : 0;
}

void remote_script_remove(struct remote_script *s)
{
	if (s->folder >= 0) {
		unlinkat(s->folder, SCRIPT, 0);
		unlinkat(s->folder, RESULT, 0);
		close(s->folder);
	}
	if (s->parent >= 0) {
		if (*s->name)
			unlinkat(s->parent, s->name, AT_REMOVEDIR);
		close(s->parent);
	}
	*s = (struct remote_script){ .parent = -1, .folder = -1 };
}

/* The target may write anything. */
bool remote_script_ended(const struct remote_script *s, int *out, struct error *e)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const char *said;
	char *end;

	if (folder_read_file(s->folder, RESULT, RESULT_BYTES, &text) < 0 || !text.length ||
	    text.data[text.length - 1] != '\n')
		return false;
	said = strbuf_text(&text);
	*out = (int)strtol(said, &end, 10);
	if (*end != '\n')
		*out = error_set(e, E_UNSUPPORTED, "%.*s", (int)strcspn(said, "\n"), said);
	return true;
}
