/* baseline_store.c: a baseline is NAME.baseline in the folder "baselines" of the user's data. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/search.h"
#include "base/user_folder.h"
#include "compare/baseline.h"

#define SUFFIX ".baseline"
#define FILE_NAME_MAX (BASELINE_NAME_MAX + sizeof(SUFFIX))
#define LISTED_MAX 100000u

static const char name_characters[] =
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+@=";

static bool is_name(const char *name, size_t length)
{
	return length && length <= BASELINE_NAME_MAX && *name != '.' && *name != '-' &&
	       strspn(name, name_characters) >= length;
}

int baseline_check_name(const char *name, struct error *e)
{
	return is_name(name, strlen(name))
		       ? 0
		       : error_set(e, E_USAGE,
				   "'%.*s' cannot be the name of a baseline: use letters, digits "
				   "and ._-+@=, at most %d, and begin with a letter or a digit",
				   BASELINE_NAME_MAX, name, BASELINE_NAME_MAX);
}

/* The file of a baseline with a checked name. */
static void file_of(const char *name, char out[FILE_NAME_MAX])
{
	snprintf(out, FILE_NAME_MAX, "%s" SUFFIX, name);
}

static int open_folder(bool make, struct error *e)
{
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
	_cleanup_close_ int above = user_folder_open(USER_DATA, make, &path, e);
	int folder;

	if (above < 0) {
		error_prefix(e, "cannot open the folder of baselines%s%s", path.length ? " " : "",
			     strbuf_text(&path));
		return above;
	}
	if (make)
		mkdirat(above, "baselines", 0700);
	folder = folder_enter(above, "baselines", FOLDER_OWN);
	return folder < 0 ? error_set(e, folder, "cannot open '%s/baselines': %s",
				      strbuf_text(&path), error_code_text(folder))
			  : folder;
}

int baseline_save(const char *name, const struct measured_run *runs, size_t count, bool replace,
		  struct error *e)
{
	_cleanup_strbuf_ struct strbuf bytes = STRBUF_INIT;
	char file[FILE_NAME_MAX];
	_cleanup_close_ int folder = -1;
	struct stat st;
	int rc = baseline_check_name(name, e);

	if (rc == 0)
		rc = baseline_encode(runs, count, &bytes, e);
	if (rc == 0)
		rc = folder = open_folder(true, e);
	if (rc < 0)
		return rc;
	file_of(name, file);
	if (!replace && folder_stat(folder, file, &st) == 0)
		return error_set(e, -EEXIST,
				 "baseline '%s' exists: choose another name, or replace it with "
				 "--force",
				 name);
	rc = folder_write_file(folder, file, &bytes, true);
	return rc < 0 ? error_set(e, rc, "cannot write baseline '%s': %s", name,
				  error_code_text(rc))
		      : 0;
}

/* "there is no baseline 'mian', did you mean 'main'?" */
static int unknown(const char *name, struct error *e)
{
	_cleanup_free_ const char **known = NULL;
	struct baseline_list list;
	int rc = baseline_list_init(&list, NULL);

	error_set(e, -ENOENT, "there is no baseline '%s'", name);
	known = calloc(list.items.count + 1, sizeof(*known));
	for (size_t i = 0; i < list.items.count && known; i++)
		known[i] = list.items.data[i].name;
	if (rc == 0 && known)
		error_suggest(e, name, known,
			      "; `pitot baseline list` shows those that there are, and `pitot "
			      "baseline save` makes one");
	if (e)
		e->code = -ENOENT;
	baseline_list_release(&list);
	return -ENOENT;
}

int baseline_load(const char *name, struct measured_run *runs, size_t most, size_t *count,
		  struct error *e)
{
	_cleanup_strbuf_ struct strbuf bytes = STRBUF_INIT;
	char file[FILE_NAME_MAX];
	_cleanup_close_ int folder = -1;
	int rc = baseline_check_name(name, e);

	*count = 0;
	if (rc < 0)
		return rc;
	file_of(name, file);
	folder = open_folder(false, e);
	rc = folder < 0 ? folder : folder_read_file(folder, file, BASELINE_BYTES_MAX, &bytes);
	if (rc == -ENOENT)
		return unknown(name, e);
	if (folder < 0)
		return folder;
	if (rc < 0)
		return error_set(e, rc, "cannot read baseline '%s': %s", name, error_code_text(rc));
	rc = baseline_decode(bytes.data, bytes.length, runs, most, count, e);
	if (rc == E_FORMAT || rc == E_VERSION)
		return error_set(e, rc,
				 "baseline '%s': %s; save it again with `pitot baseline save "
				 "--force %s RECORDING...`",
				 name,
				 rc == E_VERSION ? "another version of Pitot saved it, which may "
						   "measure differently"
						 : "it is damaged",
				 name);
	return rc < 0 ? error_prefix(e, "baseline '%s'", name) : 0;
}

int baseline_remove(const char *name, struct error *e)
{
	char file[FILE_NAME_MAX];
	_cleanup_close_ int folder = -1;
	int rc = baseline_check_name(name, e);

	if (rc < 0)
		return rc;
	file_of(name, file);
	folder = open_folder(false, e);
	if (folder < 0 && folder != -ENOENT)
		return folder;
	if (folder >= 0 && unlinkat(folder, file, 0) == 0)
		return 0;
	return folder < 0 || errno == ENOENT
		       ? unknown(name, e)
		       : error_errno(e, errno, "cannot remove baseline '%s'", name);
}

/* --- the list --- */

ORDER(by_name, struct baseline_entry, strcmp(a->name, b->name))

static int add_entry(struct baseline_list *list, int folder, const char *file)
{
	struct baseline_entry entry = { .bytes = 0 };
	size_t length = strlen(file);
	struct stat st;

	length -= MIN(length, strlen(SUFFIX));
	if (strcmp(file + length, SUFFIX) != 0 || !is_name(file, length) ||
	    folder_stat(folder, file, &st) < 0)
		return 0;
	memcpy(entry.name, file, length);
	entry.bytes = (uint64_t)st.st_size;
	entry.saved_s = st.st_mtime;
	return vec_push(&list->items, entry);
}

int baseline_list_init(struct baseline_list *list, struct error *e)
{
	_cleanup_close_ int folder = open_folder(false, e);
	_cleanup_list_ DIR *files = NULL;
	const char *file;
	int rc = 0;

	*list = (struct baseline_list){ .items = VEC_INIT };
	if (folder == -ENOENT)
		return 0;
	files = folder < 0 ? NULL : folder_list(folder);
	if (folder >= 0 && !files)
		return error_errno(e, errno, "cannot list the baselines");
	while (rc == 0 && list->items.count < LISTED_MAX && (file = folder_next(files)))
		rc = add_entry(list, folder, file);
	vec_sort(&list->items, by_name);
	return folder < 0 ? folder : rc < 0 ? error_set(e, rc, "out of memory") : 0;
}

void baseline_list_release(struct baseline_list *list)
{
	vec_release(&list->items);
}
