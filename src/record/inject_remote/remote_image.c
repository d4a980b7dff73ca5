#include "record/inject_remote/remote_image.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/starts_with.h"
#include "elf/elf_file.h"
#include "sampler/sampled_processes.h"

/* Others are the program's. By the beginnings of their names. */
static const struct {
	const char *name;
	enum code_owner owner;
} files[] = {
	{ "libc.so.", CODE_LIBC },         { "ld-linux", CODE_LOADER },
	{ "libjemalloc", CODE_ALLOCATOR }, { "libtcmalloc", CODE_ALLOCATOR },
	{ "libmimalloc", CODE_ALLOCATOR }, { "[vdso]", CODE_LIBC },
};

/*
 * They wait in futex(2), as the C library's locks do. sem_wait() cannot be told from these, because
 * it jumps to a function without a name.
 */
static const char *const waits[] = { "pthread_cond_wait", "pthread_cond_timedwait",
				     "pthread_cond_clockwait" };

struct image_reader {
	pid_t pid;
	char root[PATH_MAX]; /* the process's, as we see it: beginning of our paths */
	struct remote_image *image;
	struct target_mapping libc; /* its code; end 0: not found */
	char libc_path[PATH_MAX];
};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static enum code_owner owner_of(const struct target_mapping *m)
{
	const char *name = base_name(m->path);

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (starts_with(name, files[i].name))
			return files[i].owner;
	return m->path[0] == '/' ? CODE_PROGRAM : CODE_ANONYMOUS;
}

/* The path as the process sees it, if it has executed chroot(). */
static const char *own_path(const char *root, const char *path)
{
	size_t length = strlen(root);

	return length > 1 && starts_with(path, root) && path[length] == '/' ? path + length : path;
}

static void read_root(pid_t pid, char root[PATH_MAX])
{
	char link[32];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/root", (int)pid);
	n = readlink(link, root, PATH_MAX - 1);
	root[MAX(n, 0)] = '\0';
}

static int add_mapping(void *reader, const struct target_mapping *m)
{
	struct image_reader *r = reader;
	const struct remote_code code = { m->start, m->end, owner_of(m) };

	if (code.owner == CODE_LIBC && m->inode && !r->libc.end) {
		r->libc = *m;
		snprintf(r->libc_path, sizeof(r->libc_path), "%s", m->path);
	}
	if (strcmp(base_name(m->path), "libpitot.so") == 0 ||
	    starts_with(base_name(m->path), "libpitot.so.")) {
		free(r->image->recorder);
		r->image->recorder = strdup(own_path(r->root, m->path));
	}
	return vec_push(&r->image->code, code);
}

/* --- functions --- */

static int open_library(pid_t pid, const char *path, uint64_t inode, struct elf_file *out,
			struct error *e)
{
	_cleanup_close_ int fd = -1;
	char own[PATH_MAX + 32], root[PATH_MAX];
	struct stat st;

	read_root(pid, root);
	snprintf(own, sizeof(own), "/proc/%d/root%s", (int)pid, own_path(root, path));
	fd = io_open_file(own, &st);
	if (fd < 0)
		return error_set(e, fd, "process %d: cannot read '%s': %s", (int)pid, path,
				 error_code_text(fd));
	if (inode && st.st_ino != inode)
		return error_set(e, -ESTALE, "process %d: '%s' has been replaced since it started",
				 (int)pid, path);
	return elf_file_open_fd(fd, out, e);
}

typedef void symbol_visit(void *context, const char *name, const Elf64_Sym *symbol);

static int visit_symbols(const struct elf_file *f, symbol_visit *visit, void *context)
{
	struct elf_symbols symbols;
	const char *name;
	Elf64_Sym symbol;
	int rc = elf_symbols(f, SHT_DYNSYM, &symbols);

	for (size_t i = 0; rc == 0 && elf_symbol(&symbols, i, &symbol, &name); i++)
		if (symbol.st_shndx != SHN_UNDEF)
			visit(context, name, &symbol);
	return rc;
}

struct sought {
	const char *name;
	uint64_t address;
};

static void find_symbol(void *sought, const char *name, const Elf64_Sym *symbol)
{
	struct sought *s = sought;

	if (strcmp(name, s->name) == 0)
		s->address = symbol->st_value;
}

/* Mappings begin with a page of the file, mold's segments anywhere in one. */
static bool find_bias(const struct elf_file *f, const struct target_mapping *m, uint64_t *bias)
{
	const uint64_t file_end = m->file_offset + (m->end - m->start);

	for (size_t i = 0; i < f->segment_count; i++) {
		const struct elf_segment *s = &f->segments[i];

		if (s->type != PT_LOAD || !(s->flags & PF_X) || file_end <= s->offset ||
		    m->file_offset >= s->offset + s->file_size)
			continue;
		*bias = m->start - m->file_offset + s->offset - s->address;
		return true;
	}
	return false;
}

int remote_symbol(pid_t pid, const char *path, const char *name, const struct target_mapping *at,
		  uint64_t *out, struct error *e)
{
	struct sought sought = { .name = name };
	uint64_t bias = 0;
	struct elf_file f;
	int rc = open_library(pid, path, at ? at->inode : 0, &f, e);

	if (rc < 0)
		return rc;
	(void)!visit_symbols(&f, find_symbol, &sought);
	if (at && !find_bias(&f, at, &bias))
		sought.address = 0;
	elf_file_release(&f);
	*out = sought.address + bias;
	return sought.address ? 0 : error_set(e, E_UNSUPPORTED, "'%s' has no %s", path, name);
}

/* ELF virtual addresses; remote_image_read() adds the bias. */
static void add_function(void *image, const char *name, const Elf64_Sym *symbol)
{
	struct remote_image *i = image;

	if (strcmp(name, "dlopen") == 0)
		i->dlopen = symbol->st_value;
	else if (strcmp(name, "__errno_location") == 0)
		i->errno_location = symbol->st_value;
	for (size_t n = 0; n < ARRAY_SIZE(waits); n++)
		if (strcmp(name, waits[n]) == 0 && i->wait_count < REMOTE_WAITS_MAX)
			i->waits[i->wait_count++] =
				(struct code_range){ symbol->st_value,
						     symbol->st_value + symbol->st_size };
}

static int read_libc(struct image_reader *r, struct error *e)
{
	struct remote_image *i = r->image;
	uint64_t bias = 0;
	struct elf_file f;
	int rc = open_library(r->pid, r->libc_path, r->libc.inode, &f, e);

	if (rc < 0)
		return rc;
	(void)!visit_symbols(&f, add_function, i);
	if (!i->dlopen || !i->errno_location || !find_bias(&f, &r->libc, &bias))
		rc = error_set(e, E_UNSUPPORTED,
			       "process %d has a C library older than glibc 2.34: the recorder "
			       "cannot be loaded into it",
			       (int)r->pid);
	elf_file_release(&f);
	if (rc < 0)
		return rc;
	i->libc_inode = r->libc.inode;
	i->dlopen += bias;
	i->errno_location += bias;
	for (unsigned n = 0; n < i->wait_count; n++) {
		i->waits[n].start += bias;
		i->waits[n].end += bias;
	}
	return 0;
}

/* --- the image --- */

int remote_image_read(pid_t pid, struct remote_image *out, struct error *e)
{
	struct image_reader r = { .pid = pid, .image = out };
	int rc;

	*out = (struct remote_image){ 0 };
	read_root(pid, r.root);
	rc = proc_maps_read(pid, add_mapping, &r);
	if (rc < 0)
		return error_set(e, rc, "out of memory");
	if (!r.libc.end)
		return error_set(e, E_UNSUPPORTED, "process %d: its C library cannot be found",
				 (int)pid);
	return read_libc(&r, e);
}

void remote_image_release(struct remote_image *image)
{
	vec_release(&image->code);
	free(image->recorder);
	*image = (struct remote_image){ 0 };
}

enum code_owner remote_image_owner(const struct remote_image *image, uint64_t address)
{
	for (size_t i = 0; i < image->code.count; i++)
		if (address - image->code.data[i].start <
		    image->code.data[i].end - image->code.data[i].start)
			return image->code.data[i].owner;
	return CODE_ANONYMOUS;
}

bool remote_image_waits(const struct remote_image *image, uint64_t address)
{
	for (unsigned i = 0; i < image->wait_count; i++)
		if (address - image->waits[i].start < image->waits[i].end - image->waits[i].start)
			return true;
	return false;
}
