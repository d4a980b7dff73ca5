#include "record/kept_dumps.h"

#include <stdlib.h>
#include <string.h>

#include "format/recording_dir.h"

/* Bytes of a folder's files, and of those in its folders. */
static uint64_t size_of(int folder, bool has_folders)
{
	_cleanup_list_ DIR *list = folder_list(folder);
	uint64_t bytes = 0;
	const char *name;
	struct stat st;

	while (list && (name = folder_next(list))) {
		_cleanup_close_ int inner = -1;

		if (folder_stat(folder, name, &st) < 0)
			continue;
		if (S_ISREG(st.st_mode))
			bytes += (uint64_t)st.st_size;
		if (!S_ISDIR(st.st_mode) || !has_folders)
			continue;
		inner = folder_enter(folder, name, FOLDER_OWN);
		bytes += size_of(inner, false);
	}
	return bytes;
}

void kept_dumps_add(struct kept_dumps *dumps, unsigned rule, const char *path,
		    const struct folder_id *id)
{
	_cleanup_close_ int folder = folder_open_known(path, id);
	struct kept_dump dump = { .path = strdup(path),
				  .id = *id,
				  .bytes = size_of(folder, true),
				  .is_first = !(dumps->rules >> rule & 1) };

	dumps->rules |= UINT32_C(1) << rule;
	if (!dump.path || vec_push(&dumps->all, dump) < 0)
		free(dump.path);
}

char *kept_dumps_trim(struct kept_dumps *dumps, uint64_t bytes)
{
	uint64_t total = 0;

	for (size_t i = 0; i < dumps->all.count; i++)
		total += dumps->all.data[i].bytes;
	for (size_t i = 0; i + 1 < dumps->all.count && total > bytes; i++) {
		struct kept_dump *dump = &dumps->all.data[i];
		char *path = dump->path;
		int rc;

		if (dump->is_first)
			continue;
		/* Somebody may have moved it, or put files of their own into it: it is theirs. */
		rc = recording_dir_remove(path, &dump->id, NULL);
		total -= dump->bytes;
		memmove(dump, dump + 1, (--dumps->all.count - i) * sizeof(*dump));
		if (rc >= 0)
			return path;
		free(path);
		i--;
	}
	return NULL;
}

void kept_dumps_release(struct kept_dumps *dumps)
{
	for (size_t i = 0; i < dumps->all.count; i++)
		free(dumps->all.data[i].path);
	vec_release(&dumps->all);
}
