/* debug_files.c: finds candidates for debug files, and verifies them. */
#include "symbol/debug_files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define CRC_PIECE 65536

/* What the debug file must match. */
struct expected {
	const char *build_id; /* hexadecimal; "": none */
	bool has_crc;
	uint32_t crc;
};

/* Reads the whole file in pieces, because most of it is needed for nothing else. */
static bool has_crc(const struct elf_file *f, uint32_t expected)
{
	uint8_t piece[CRC_PIECE];
	uLong crc = 0;
	ssize_t n;

	for (uint64_t offset = 0; offset < f->size; offset += (uint64_t)n) {
		n = pread(f->source->fd, piece, MIN(sizeof(piece), f->size - offset),
			  (off_t)offset);
		if (n <= 0)
			return false;
		crc = crc32(crc, piece, (uInt)n);
	}
	return crc == expected;
}

/*
 * Tries a path. Returns 0, -ENOENT or -ENOMEM. If the file exists but cannot be used, e says why,
 * and the search continues.
 */
static int try_path(const struct strbuf *path, const struct expected *w, struct elf_file *out,
		    struct strbuf *found, struct error *e)
{
	struct error why = { 0 };
	struct elf_file f;
	bool good;
	int rc;

	if (path->failed)
		return -ENOMEM;
	rc = elf_file_open(strbuf_text(path), &f, &why);
	if (rc == -ENOENT || rc == -ENOTDIR || rc == -ENOMEM)
		return rc == -ENOMEM ? rc : -ENOENT;
	if (rc < 0) {
		error_set(e, rc, "%s", why.text);
		return -ENOENT;
	}
	good = *w->build_id ? elf_has_build_id(&f, w->build_id)
			    : w->has_crc && !f.build_id_size && has_crc(&f, w->crc);
	if (!good) {
		elf_file_release(&f);
		error_set(e, -ESTALE, "'%s' is from another build", strbuf_text(path));
		return -ENOENT;
	}
	*out = f;
	if (found)
		strbuf_adds(found, strbuf_text(path));
	return 0;
}

/* Build ids become parts of paths, so they must be well-formed. */
static bool is_build_id(const char *id)
{
	size_t length = strspn(id, "0123456789abcdefABCDEF");

	return length > 2 && length <= (size_t)2 * BUILD_ID_MAX && id[length] == 0;
}

static void add_id_path(struct strbuf *path, const char *id, const char *suffix)
{
	strbuf_addf(path, "/.build-id/%.2s/%s%s", id, id + 2, suffix);
}

static int try_cache(const struct expected *w, struct elf_file *out, struct strbuf *found,
		     struct error *e)
{
	static const struct {
		const char *variable, *below;
	} caches[] = { { "DEBUGINFOD_CACHE_PATH", "" },
		       { "XDG_CACHE_HOME", "/debuginfod_client" },
		       { "HOME", "/.cache/debuginfod_client" } };
	int rc = -ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(caches) && rc == -ENOENT; i++) {
		_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
		const char *folder = secure_getenv(caches[i].variable);

		if (!folder || !*folder)
			continue;
		strbuf_addf(&path, "%s%s/%s/debuginfo", folder, caches[i].below, w->build_id);
		rc = try_path(&path, w, out, found, e);
	}
	return rc;
}

static int try_build_id(const struct debug_folders *d, const struct expected *w,
			struct elf_file *out, struct strbuf *found, struct error *e)
{
	int rc = -ENOENT;

	if (!is_build_id(w->build_id))
		return -ENOENT;
	for (size_t i = 0; i < d->count && rc == -ENOENT; i++) {
		for (int rooted = *d->root != 0; rooted >= 0 && rc == -ENOENT; rooted--) {
			_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;

			strbuf_addf(&path, "%s%s", rooted ? d->root : "", d->folders[i]);
			add_id_path(&path, w->build_id, ".debug");
			rc = try_path(&path, w, out, found, e);
		}
	}
	return rc == -ENOENT ? try_cache(w, out, found, e) : rc;
}

static int try_servers(const struct debug_folders *d, const struct expected *w,
		       struct elf_file *out, struct strbuf *found, struct error *e)
{
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
	int rc = d->servers && is_build_id(w->build_id)
			 ? debuginfod_fetch(d->servers, w->build_id, &path)
			 : -ENOENT;

	return rc < 0 ? rc : try_path(&path, w, out, found, e);
}

/* Length of the path up to the last '/', excluding it. */
static int folder_length(const char *path)
{
	const char *end = strrchr(path, '/');

	return end ? (int)MIN(end - path, 1 << 16) : 0;
}

static int try_link(const struct debug_folders *d, const char *path, const char *name,
		    const struct expected *w, struct elf_file *out, struct strbuf *found,
		    struct error *e)
{
	int length = folder_length(path), rc = -ENOENT;
	/* Below the folders, files have the path that the process saw. */
	size_t root = strncmp(path, d->root, strlen(d->root)) == 0 ? strlen(d->root) : 0;

	for (size_t i = 0; i < d->count + 2 && rc == -ENOENT; i++) {
		_cleanup_strbuf_ struct strbuf candidate = STRBUF_INIT;

		if (i < 2)
			strbuf_addf(&candidate, "%.*s%s/%s", length, path, i ? "/.debug" : "",
				    name);
		else
			strbuf_addf(&candidate, "%s%.*s/%s", d->folders[i - 2],
				    MAX(length - (int)root, 0), path + MIN(root, (size_t)length),
				    name);
		rc = try_path(&candidate, w, out, found, e);
	}
	return rc;
}

int debug_file_open(const struct debug_folders *d, const struct elf_file *f, const char *path,
		    struct elf_file *out, struct strbuf *found, struct error *e)
{
	char build_id[2 * BUILD_ID_MAX + 1];
	struct expected w = { .build_id = build_id };
	const char *name;
	int rc;

	elf_build_id_text(f, build_id, sizeof(build_id));
	w.has_crc = elf_debuglink(f, &name, &w.crc);
	rc = try_build_id(d, &w, out, found, e);
	if (rc == -ENOENT && w.has_crc)
		rc = try_link(d, path, name, &w, out, found, e);
	return rc == -ENOENT ? try_servers(d, &w, out, found, e) : rc;
}

int debug_file_open_by_id(const struct debug_folders *d, const char *build_id, struct elf_file *out,
			  struct strbuf *found, struct error *e)
{
	struct expected w = { .build_id = build_id };
	int rc = try_build_id(d, &w, out, found, e);

	return rc == -ENOENT ? try_servers(d, &w, out, found, e) : rc;
}

int debug_file_open_alt(const struct debug_folders *d, const struct elf_file *f, const char *path,
			struct elf_file *out, struct error *e)
{
	char build_id[2 * BUILD_ID_MAX + 1] = "";
	struct expected w = { .build_id = build_id };
	struct elf_bytes id;
	const char *link;
	int rc = -ENOENT;

	if (!elf_debugaltlink(f, &link, &id))
		return -ENOENT;
	for (size_t i = 0; i < id.size; i++)
		snprintf(build_id + 2 * i, 3, "%02x", id.data[i]);
	for (int rooted = *d->root && *link == '/'; rooted >= 0 && rc == -ENOENT; rooted--) {
		_cleanup_strbuf_ struct strbuf candidate = STRBUF_INIT;

		if (*link == '/')
			strbuf_addf(&candidate, "%s%s", rooted ? d->root : "", link);
		else
			strbuf_addf(&candidate, "%.*s/%s", folder_length(path), path, link);
		rc = try_path(&candidate, &w, out, NULL, e);
	}
	if (rc == -ENOENT)
		rc = try_build_id(d, &w, out, NULL, e);
	return rc == -ENOENT ? try_servers(d, &w, out, NULL, e) : rc;
}
