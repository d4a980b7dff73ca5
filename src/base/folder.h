/*
 * folder.h: files in folders that other users can change.
 *
 * A folder is opened once. Its files are then reached by its descriptor and a name, and no link is
 * followed below it, so that nobody can redirect a call to another file by renaming or linking.
 * Only the path of the folder itself may contain links, because the user has named it.
 *
 * A `folder` is the result of folder_open() or folder_enter(), also a failure, which is then the
 * result of the other call, too. A `name` is a single component of a path, else the result is
 * -EINVAL. No function waits for a FIFO or a device. Functions return 0 or a descriptor
 * (close-on-exec, above stderr), a negative errno, or one of E_NOT_FILE, E_LINK and E_FOREIGN.
 */
#ifndef PITOT_BASE_FOLDER_H
#define PITOT_BASE_FOLDER_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/strbuf.h"

/*
 * Whose folder or file it may be. FOLDER_OWN refuses with E_FOREIGN what does not belong to the
 * effective user, and files with several hard links. Otherwise a file with several hard links must
 * belong to the folder's owner, who may have linked a file of somebody else there.
 */
enum folder_owner { FOLDER_ANY, FOLDER_OWN };

/* Opens a folder that the user has named. The descriptor is only good for the functions here. */
int folder_open(const char *path, enum folder_owner owner) MUST_USE;
int folder_enter(int folder, const char *name, enum folder_owner owner) MUST_USE;

/*
 * Which folder it is, for where its descriptor cannot be stored; its path may be that of another
 * one later. All zeros: any folder.
 */
struct folder_id {
	uint64_t device, inode;
};
int folder_identify(int folder, struct folder_id *id);
/* Opens a folder again. Returns E_MOVED when it is another one. */
int folder_open_known(const char *path, const struct folder_id *id) MUST_USE;
bool folder_is_own(int folder);

/* Opens a regular file with O_RDONLY, O_WRONLY or O_RDWR, and O_APPEND if needed. */
int folder_open_file(int folder, const char *name, int flags, enum folder_owner owner) MUST_USE;
/* Creates a file for writing that only its owner can access; -EEXIST if the name is taken. */
int folder_create_file(int folder, const char *name) MUST_USE;
/* Same as io_read_file(). */
int folder_read_file(int folder, const char *name, size_t max, struct strbuf *out);
/*
 * Creates a file, or replaces one atomically, writing no more than RLIMIT_FSIZE allows. `sync`: the
 * text is on the disk before.
 */
int folder_write_file(int folder, const char *name, const struct strbuf *text, bool sync);

/* Waits until names in a folder are on the disk, if its file system can. Returns 0 or -errno. */
int folder_sync(int folder);
/* Like lstat(2). Returns 0 or -errno. */
int folder_stat(int folder, const char *name, struct stat *out);
/* Renames a file without replacing an existing one. */
int folder_rename_new(int folder, const char *name, int to_folder, const char *to_name);
/* Exchanges two names at one moment. -EINVAL or -ENOSYS: the file system cannot. */
int folder_exchange(int folder, const char *name, int other_folder, const char *other);

/* Opens a list of the names in a folder. Returns NULL and errno on failure. */
DIR *folder_list(int folder) MUST_USE;
/* Same for a folder of a process: "task" or "fd". */
DIR *folder_list_process(pid_t pid, const char *name) MUST_USE;
/* Returns the next name other than "." and "..", valid until the next call; NULL at the end. */
const char *folder_next(DIR *list);

static inline void cleanup_list(DIR **list)
{
	if (*list)
		closedir(*list);
}
#define _cleanup_list_ _cleanup_(cleanup_list)

#endif
