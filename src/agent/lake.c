#include "agent/lake.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/folder.h"
#include "base/io.h"
#include "base/map.h"
#include "base/starts_with.h"

/* The first one whose scheme the path begins with. */
static const struct lake_kind *const kinds[] = { &lake_of_s3, &lake_of_folder };

static const struct lake_kind *kind_of(const char *path)
{
	size_t i = 0;

	while (!starts_with(path, kinds[i]->scheme))
		i++;
	return kinds[i];
}

int lake_make(const char *path, struct error *e)
{
	const struct lake_kind *kind = kind_of(path);

	return kind->make ? kind->make(path, e) : 0;
}

int lake_open(struct lake *lake, const char *path, const struct s3_options *s3, struct error *e)
{
	lake->path = path;
	lake->kind = kind_of(path);
	return lake->kind->open(lake, s3, e);
}

void lake_release(struct lake *lake)
{
	if (lake->kind)
		lake->kind->release(lake);
	lake->kind = NULL;
}

/* Which file it was. */
static int finish(const struct lake *lake, const char *what, const char *key, int rc,
		  struct error *e)
{
	if (rc < 0)
		error_prefix(e, "cannot %s '%s/%s'", what, lake->path, key);
	return rc;
}

int lake_put(const struct lake *lake, int file, const char *key, enum lake_mode mode,
	     struct error *e)
{
	return finish(lake, "write", key, lake->kind->put(lake, file, key, mode, e), e);
}

int lake_text_file(const struct strbuf *text)
{
	int file = memfd_create("pitot lake", MFD_CLOEXEC);
	int rc = file < 0 ? -errno : io_write_all(file, strbuf_text(text), text->length);

	if (rc < 0 && file >= 0)
		close(file);
	return rc < 0 ? rc : file;
}

int lake_put_text(const struct lake *lake, const char *key, const struct strbuf *text,
		  struct error *e)
{
	_cleanup_close_ int file = lake_text_file(text);

	if (file < 0)
		return error_set(e, file, "cannot write '%s/%s': %s", lake->path, key,
				 error_code_text(file));
	return lake_put(lake, file, key, LAKE_REPLACE, e);
}

int lake_put_folder(const struct lake *lake, int folder, const char *name, const char *key,
		    struct error *e)
{
	_cleanup_close_ int from = folder_enter(folder, name, FOLDER_OWN);
	int rc = from < 0 ? error_set(e, from, "%s", error_code_text(from))
			  : lake->kind->put_folder(lake, from, key, e);

	return finish(lake, "write", key, rc, e);
}

int lake_get(const struct lake *lake, const char *key, int folder, const char *name,
	     struct error *e)
{
	return finish(lake, "read", key, lake->kind->get(lake, key, folder, name, e), e);
}

int lake_list(const struct lake *lake, const char *table, lake_visit *visit, void *user,
	      struct error *e)
{
	int rc = lake->kind->list(lake, table, visit, user, e);

	if (rc < 0)
		error_prefix(e, "cannot list the lake '%s'", lake->path);
	return rc;
}

int lake_compact(const struct lake *lake, const struct lake_compact_options *options,
		 struct error *e)
{
	return lake->kind->compact(lake, options, e);
}

/* --- files that are to be put --- */

int lake_temporary_make(struct lake_temporary *t, struct error *e)
{
	const char *temporary = getenv("TMPDIR");

	snprintf(t->path, sizeof(t->path), "%s/pitot-lake-XXXXXX",
		 temporary && *temporary ? temporary : "/tmp");
	if (!mkdtemp(t->path))
		return error_errno(e, errno, "cannot make a folder '%s'", t->path);
	t->folder = folder_open(t->path, FOLDER_OWN);
	return t->folder < 0 ? error_set(e, t->folder, "cannot open '%s'", t->path) : 0;
}

void lake_temporary_remove(struct lake_temporary *t)
{
	_cleanup_list_ DIR *list = t->folder > 0 ? folder_list(t->folder) : NULL;
	const char *file;

	while (list && (file = folder_next(list)))
		unlinkat(t->folder, file, 0);
	if (t->folder > 0)
		close(t->folder);
	if (t->folder)
		rmdir(t->path);
	t->folder = 0;
}

/* --- names --- */

void lake_add_name(struct strbuf *out, const char *text)
{
	size_t begin = out->length, length = strlen(text);

	if (!length)
		strbuf_addc(out, '%');
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];

		if (out->length - begin > LAKE_NAME_MAX - 20) { /* the hash says which it is */
			strbuf_addf(out, "-%016llx", (unsigned long long)hash_bytes(text, length));
			return;
		}
		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		    (c == '_' && i) || c == '-')
			strbuf_addc(out, (char)c);
		else
			strbuf_addf(out, "%%%02X", c);
	}
}

static struct tm utc_of(uint64_t time_ns)
{
	time_t seconds = (time_t)(time_ns / NS_PER_S);
	struct tm utc = { 0 };

	gmtime_r(&seconds, &utc);
	return utc;
}

void lake_add_date(struct strbuf *out, uint64_t time_ns)
{
	struct tm t = utc_of(time_ns);

	strbuf_addf(out, "date=%04d-%02d-%02d", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday);
}

void lake_add_time(struct strbuf *out, uint64_t time_ns)
{
	struct tm t = utc_of(time_ns);

	strbuf_addf(out, "%04d%02d%02dT%02d%02d%02dZ", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday,
		    t.tm_hour, t.tm_min, t.tm_sec);
}
