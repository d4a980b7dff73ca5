/*
 * lake_s3.c: a lake in a bucket. An object appears when it is whole, and If-None-Match keeps it
 * from being replaced. The files of a window are objects: LAKE_WHOLE is the last of them, without
 * which there is no window.
 */
#include "agent/lake.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/lake_compact_s3.h"
#include "base/folder.h"

static int open_lake(struct lake *lake, const struct s3_options *s3, struct error *e)
{
	lake->whole = LAKE_WHOLE;
	return s3_open(&lake->s3, lake->path, s3, e);
}

static void release(struct lake *lake)
{
	s3_free(lake->s3);
}

static int put(const struct lake *lake, int file, const char *key, enum lake_mode mode,
	       struct error *e)
{
	int rc = s3_put(lake->s3, file, key, mode == LAKE_REPLACE, e);

	return MIN(rc, 0);
}

static int put_file(const struct lake *lake, int file, const char *key, const char *name,
		    struct error *e)
{
	_cleanup_strbuf_ struct strbuf full = STRBUF_INIT;
	int rc;

	strbuf_addf(&full, "%s/%s", key, name);
	if (file < 0 || full.failed)
		return error_set(e, file < 0 ? file : -ENOMEM, "%s",
				 error_code_text(file < 0 ? file : -ENOMEM));
	rc = s3_put(lake->s3, file, strbuf_text(&full), false, e);
	return MIN(rc, 0);
}

static int put_folder(const struct lake *lake, int from, const char *key, struct error *e)
{
	_cleanup_list_ DIR *list = folder_list(from);
	_cleanup_close_ int empty = memfd_create("pitot lake", MFD_CLOEXEC);
	const char *name;
	int rc = list ? 0 : error_errno(e, errno, "cannot read it");

	while (rc == 0 && (name = folder_next(list))) {
		_cleanup_close_ int file = folder_open_file(from, name, O_RDONLY, FOLDER_OWN);

		rc = put_file(lake, file, key, name, e);
	}
	return rc < 0 ? rc : put_file(lake, empty, key, LAKE_WHOLE, e);
}

static int get(const struct lake *lake, const char *key, int folder, const char *name,
	       struct error *e)
{
	_cleanup_close_ int file = folder_create_file(folder, name);
	int rc = file < 0 ? error_set(e, file, "%s", error_code_text(file))
			  : s3_get(lake->s3, key, file, e);

	if (rc < 0 && file >= 0)
		unlinkat(folder, name, 0);
	return rc;
}

static int list(const struct lake *lake, const char *table, lake_visit *visit, void *user,
		struct error *e)
{
	_cleanup_strbuf_ struct strbuf prefix = STRBUF_INIT;

	strbuf_addf(&prefix, *table ? "%s/" : "%s", table);
	return prefix.failed ? error_set(e, -ENOMEM, "out of memory")
			     : s3_list(lake->s3, strbuf_text(&prefix), visit, user, e);
}

const struct lake_kind lake_of_s3 = { .scheme = S3_SCHEME,
				      .open = open_lake,
				      .release = release,
				      .put = put,
				      .put_folder = put_folder,
				      .get = get,
				      .list = list,
				      .compact = lake_compact_bucket };
