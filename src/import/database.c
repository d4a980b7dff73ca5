/*
 * database.c: SQLite reads through a VFS of ours, which has one file, the descriptor: no path is
 * opened twice, nothing beside the file is read, and nothing can be written.
 */
#include "import/database.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"

/* Bytes of a text or a row, which a view can make longer than the file is. */
#define TEXT_MIN (UINT64_C(1) << 20)
#define TEXT_MAX (UINT64_C(64) << 20)
#define PROGRESS_STEPS 100000 /* of SQLite's machine, between two looks at *cancel */
/*
 * A view may compute without end. To read a table takes a few steps a byte.
 */
#define STEPS_MIN UINT64_C(20000000)
#define STEPS_PER_BYTE 100u

/* ---- the file ---- */

struct database_file {
	sqlite3_file base;
	struct database *d;
};

static int file_close(sqlite3_file *f)
{
	(void)f;
	return SQLITE_OK;
}

/* Bytes 18 and 19 say that there is a write-ahead log, which would be looked for. */
static int file_read(sqlite3_file *f, void *bytes, int size, sqlite3_int64 offset)
{
	struct database *d = ((struct database_file *)f)->d;
	uint8_t *out = bytes;
	size_t done = 0, all = (size_t)size;
	ssize_t n = 1;

	while (done < all && n > 0) {
		n = pread(d->fd, out + done, all - done, offset + (off_t)done);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n > 0)
			done += (size_t)n;
	}
	d->read += done;
	memset(out + done, 0, all - done);
	for (off_t i = 18; i <= 19; i++)
		if (offset <= i && i < offset + (off_t)done && out[i - offset] == 2)
			out[i - offset] = 1;
	return n < 0 ? SQLITE_IOERR_READ : done < all ? SQLITE_IOERR_SHORT_READ : SQLITE_OK;
}

static int file_write(sqlite3_file *f, const void *bytes, int size, sqlite3_int64 offset)
{
	(void)f, (void)bytes, (void)size, (void)offset;
	return SQLITE_READONLY;
}

static int file_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	(void)f, (void)size;
	return SQLITE_READONLY;
}

static int file_size(sqlite3_file *f, sqlite3_int64 *size)
{
	*size = (sqlite3_int64)((struct database_file *)f)->d->size;
	return SQLITE_OK;
}

static int file_flag(sqlite3_file *f, int flags)
{
	(void)f, (void)flags;
	return SQLITE_OK;
}

static int file_is_locked(sqlite3_file *f, int *result)
{
	(void)f;
	*result = 0;
	return SQLITE_OK;
}

static int file_control(sqlite3_file *f, int operation, void *argument)
{
	(void)f, (void)operation, (void)argument;
	return SQLITE_NOTFOUND;
}

static int file_sector(sqlite3_file *f)
{
	(void)f;
	return 4096;
}

static int file_traits(sqlite3_file *f)
{
	(void)f;
	return SQLITE_IOCAP_IMMUTABLE;
}

static const sqlite3_io_methods file_methods = {
	.iVersion = 1,
	.xClose = file_close,
	.xRead = file_read,
	.xWrite = file_write,
	.xTruncate = file_truncate,
	.xSync = file_flag,
	.xFileSize = file_size,
	.xLock = file_flag,
	.xUnlock = file_flag,
	.xCheckReservedLock = file_is_locked,
	.xFileControl = file_control,
	.xSectorSize = file_sector,
	.xDeviceCharacteristics = file_traits,
};

/* Files for sorting are the system's, which deletes them at once. */
static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *opened)
{
	struct database *d = vfs->pAppData;
	sqlite3_vfs *system = sqlite3_vfs_find(NULL);

	if (!(flags & SQLITE_OPEN_MAIN_DB))
		return name ? SQLITE_CANTOPEN : system->xOpen(system, name, f, flags, opened);
	*(struct database_file *)f =
		(struct database_file){ .base.pMethods = &file_methods, .d = d };
	if (opened)
		*opened = SQLITE_OPEN_READONLY;
	return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
	(void)vfs, (void)name, (void)sync;
	return SQLITE_READONLY;
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *result)
{
	(void)vfs, (void)name, (void)flags;
	*result = 0; /* no journal, no log */
	return SQLITE_OK;
}

static int vfs_path(sqlite3_vfs *vfs, const char *name, int size, char *out)
{
	(void)vfs;
	snprintf(out, (size_t)size, "%s", name);
	return SQLITE_OK;
}

/* ---- opening ---- */

static int on_progress(void *database)
{
	struct database *d = database;

	d->steps += PROGRESS_STEPS;
	return (d->options->cancel && *d->options->cancel) ||
	       d->steps > STEPS_MIN + d->size * STEPS_PER_BYTE;
}

int database_connect(struct database *d, sqlite3 **db)
{
	int rc = sqlite3_open_v2("database", db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX,
				 d->vfs_name);

	if (rc != SQLITE_OK)
		return rc;
	sqlite3_limit(*db, SQLITE_LIMIT_LENGTH, (int)MIN(MAX(d->size, TEXT_MIN), TEXT_MAX));
	sqlite3_limit(*db, SQLITE_LIMIT_ATTACHED, 0);
	sqlite3_db_config(*db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(*db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_progress_handler(*db, PROGRESS_STEPS, on_progress, d);
	sqlite3_exec(*db, "PRAGMA cache_size=-512; PRAGMA temp_store=FILE", NULL, NULL, NULL);
	return SQLITE_OK;
}

int database_open(struct database *d, struct input *in, const char *path,
		  const struct import_options *options, struct error *e)
{
	sqlite3_vfs *system = sqlite3_vfs_find(NULL);
	struct stat st;
	int rc;

	*d = (struct database){ .fd = -1 };
	if (!input_is_database(in))
		return error_set(e, E_FORMAT, "'%s' is no SQLite database", path);
	rc = input_make_seekable(in);
	*d = (struct database){ .fd = in->fd, .options = options };
	if (rc < 0)
		return error_set(e, rc, "cannot copy '%s' to a temporary file: %s", path,
				 error_code_text(rc));
	if (fstat(d->fd, &st) < 0)
		return error_errno(e, errno, "cannot read '%s'", path);
	d->size = (uint64_t)st.st_size;
	d->vfs = *system;
	d->vfs.iVersion = 1;
	d->vfs.szOsFile = MAX(system->szOsFile, (int)sizeof(struct database_file));
	d->vfs.pAppData = d;
	d->vfs.xOpen = vfs_open;
	d->vfs.xDelete = vfs_delete;
	d->vfs.xAccess = vfs_access;
	d->vfs.xFullPathname = vfs_path;
	snprintf(d->vfs_name, sizeof(d->vfs_name), "pitot-%p", (void *)d);
	d->vfs.zName = d->vfs_name;
	d->vfs.pNext = NULL;
	if (sqlite3_vfs_register(&d->vfs, 0) != SQLITE_OK)
		return error_set(e, -ENOMEM, "out of memory");
	rc = database_connect(d, &d->db);
	if (rc != SQLITE_OK)
		return error_set(e, E_FORMAT, "'%s': %s", path, sqlite3_errstr(rc));
	rc = sqlite3_exec(d->db, "SELECT 1 FROM sqlite_master", NULL, NULL, NULL);
	if (rc != SQLITE_OK)
		return error_set(e, rc == SQLITE_INTERRUPT ? -ECANCELED : E_FORMAT,
				 "'%s' is a damaged database: %s", path, sqlite3_errmsg(d->db));
	return 0;
}

void database_close(struct database *d)
{
	sqlite3_close(d->db);
	if (*d->vfs_name)
		sqlite3_vfs_unregister(&d->vfs);
	strbuf_release(&d->queried);
	*d = (struct database){ .fd = -1 };
}

static bool has(struct database *d, const char *name, const char *type)
{
	sqlite3_stmt *s = NULL;
	bool has = sqlite3_prepare_v2(d->db,
				      "SELECT 1 FROM sqlite_master WHERE name = ? AND "
				      "type IN ('table', ?)",
				      -1, &s, NULL) == SQLITE_OK &&
		   sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC) == SQLITE_OK &&
		   sqlite3_bind_text(s, 2, type, -1, SQLITE_STATIC) == SQLITE_OK &&
		   sqlite3_step(s) == SQLITE_ROW;

	sqlite3_finalize(s);
	return has;
}

bool database_has(struct database *d, const char *table)
{
	return has(d, table, "view");
}

bool database_has_table(struct database *d, const char *table)
{
	return has(d, table, "table");
}

/* What is compressed in a folder is known by the declarations in its first 64 KiB. */
bool database_sniff(const struct input *in, const char *table)
{
	static const struct import_options options;
	struct input copy = *in;
	struct database d;
	bool has;

	if (!input_is_database(in) || in->packing)
		return input_is_database(in) &&
		       memmem(in->head, in->head_length, table, strlen(table));
	has = database_open(&d, &copy, "", &options, NULL) >= 0 && database_has(&d, table);
	database_close(&d);
	return has;
}
