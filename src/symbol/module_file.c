/* module_file.c: finds candidates for the file of a module, and verifies them. */
#include "symbol/module_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/path.h"

#define PAGE ((uint64_t)4096)

/* Without a build id, only a file's time shows whether it is still the one that was mapped. */
static bool is_unchanged(const char *path, const struct symbol_module *m)
{
	struct stat st;

	if (m->loaded_unix_ns == 0)
		return true;
	return stat(path, &st) == 0 &&
	       (int64_t)st.st_mtim.tv_sec * (int64_t)NS_PER_S + st.st_mtim.tv_nsec <=
		       m->loaded_unix_ns;
}

static int check(const struct elf_file *f, const char *path, const struct symbol_module *m,
		 struct error *e)
{
	char build_id[2 * BUILD_ID_MAX + 1];

	if (*m->build_id && elf_has_build_id(f, m->build_id))
		return 0;
	if (!*m->build_id && !f->build_id_size && is_unchanged(path, m))
		return 0;
	elf_build_id_text(f, build_id, sizeof(build_id));
	if (!*m->build_id && !f->build_id_size)
		return error_set(e, -ESTALE, "'%s' has changed since it was recorded", path);
	return error_set(e, -ESTALE, "'%s' is from another build: recorded %s, found %s", path,
			 *m->build_id ? m->build_id : "no build id",
			 *build_id ? build_id : "no build id");
}

static int try_file(struct strbuf *path, const struct symbol_module *m, struct elf_file *out,
		    struct strbuf *found, struct error *e)
{
	struct elf_file f;
	int rc;

	if (path->failed)
		return error_set(e, -ENOMEM, "out of memory");
	rc = elf_file_open(strbuf_text(path), &f, e);
	if (rc < 0)
		return rc;
	rc = check(&f, strbuf_text(path), m, e);
	if (rc < 0) {
		elf_file_release(&f);
		return rc;
	}
	strbuf_adds(found, strbuf_text(path));
	*out = f;
	return 0;
}

/* Appends another path that the process may have for the file. Returns false after the last one. */
static bool process_path(unsigned number, const struct symbol_process *p,
			 const struct symbol_module *m, const char *path, struct strbuf *out)
{
	switch (p->is_here ? number : UINT_MAX) {
	case 0:
		strbuf_addf(out, "/proc/%u/root/%s", p->pid, path);
		return true;
	case 1:
		strbuf_addf(out, "/proc/%u/map_files/%llx-%llx", p->pid,
			    (unsigned long long)(m->start & ~(PAGE - 1)),
			    (unsigned long long)((m->end + PAGE - 1) & ~(PAGE - 1)));
		return true;
	case 2:
		strbuf_addf(out, "/proc/%u/exe", p->pid);
		return true;
	}
	return false;
}

/* Appends a path below the debug folders. The copy there is verified by its build id. */
static bool folder_path(unsigned number, const struct debug_folders *d,
			const struct symbol_module *m, const char *path, struct strbuf *out)
{
	const char *folder, *id = m->build_id;

	if (number / 3 >= d->count || strlen(id) < 3)
		return false;
	folder = d->folders[number / 3];
	switch (number % 3) {
	case 0:
		strbuf_addf(out, "%s/%s", folder, path);
		break;
	case 1:
		strbuf_addf(out, "%s/%s", folder, base_name(path));
		break;
	case 2:
		strbuf_addf(out, "%s/.build-id/%.2s/%s", folder, id, id + 2);
		break;
	}
	return true;
}

/* Opens our own vdso, if its build id matches. */
static int open_vdso(const struct symbol_module *m, struct elf_file *out, struct strbuf *found,
		     struct error *e)
{
	int rc = elf_file_open_vdso(out, e);

	if (rc == 0 && !elf_has_build_id(out, m->build_id)) {
		elf_file_release(out);
		rc = error_set(e, -ESTALE, "the vdso is from another kernel");
	}
	if (rc == 0)
		strbuf_adds(found, "[vdso]");
	return rc;
}

/* Appends the path as the process saw it, without " (deleted)"; absolute if that is known. */
static void process_view(const struct symbol_process *p, const struct symbol_module *m,
			 struct strbuf *out)
{
	if (*m->path != '/' && *p->directory)
		strbuf_addf(out, "%s/", p->directory);
	strbuf_add(out, m->path, mapped_path_length(m->path));
}

/* Opens the copy of the file. It was made through the mapping, so it needs no verification. */
static bool open_copy(const struct file_copies *copies, const struct symbol_module *m,
		      const char *path, struct elf_file *out, struct strbuf *found)
{
	int fd = file_copies_find(copies, path, m->build_id);
	char copy[32];

	snprintf(copy, sizeof(copy), "/proc/self/fd/%d", fd);
	if (fd < 0 || elf_file_open(copy, out, NULL) < 0)
		return false;
	strbuf_adds(found, copy);
	return true;
}

int module_file_open(const struct symbol_process *p, const struct symbol_module *m,
		     const struct debug_folders *folders, const struct file_copies *copies,
		     struct elf_file *out, struct strbuf *path, struct error *e)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT, try = STRBUF_INIT;
	unsigned of_process = 0, of_folders = 0;
	struct error why = { 0 };
	int first, rc;

	if (strstr(m->path, "vdso") && !strchr(m->path, '/'))
		return open_vdso(m, out, path, e);
	process_view(p, m, &name);
	/* without a build id, the file at the path may be any file */
	if (!*m->build_id && open_copy(copies, m, strbuf_text(&name), out, path))
		return 0;
	rc = first = try_file(&name, m, out, path, e);
	while (rc < 0 && rc != -ENOMEM) {
		strbuf_clear(&try);
		if (!process_path(of_process++, p, m, strbuf_text(&name), &try) && !of_folders &&
		    open_copy(copies, m, strbuf_text(&name), out, path))
			return 0;
		if (!try.length && !folder_path(of_folders++, folders, m, strbuf_text(&name), &try))
			break;
		rc = try_file(&try, m, out, path, &why);
		/* A file of another build is a better reason than a missing file. */
		if (rc == -ESTALE && first != -ESTALE) {
			first = rc;
			error_set(e, rc, "%s", why.text);
		}
	}
	return rc == 0 || rc == -ENOMEM ? rc : first;
}
