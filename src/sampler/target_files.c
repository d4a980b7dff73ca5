#include "sampler/target_files.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/path.h"

#define PAGE UINT64_C(4096)
#define PATH_MAX_ 4608u /* length of a path below /proc/PID/root */
#define COPIED_BYTES_MAX (64u << 10) /* call frame information up to this size is copied */
#define OPEN_FILES_MAX 64u

int target_files_init(struct target_files *files)
{
	*files = (struct target_files){ .index = MAP_INIT };
	return unwind_store_init(&files->store, TARGET_TABLES_BYTES_MAX);
}

void target_files_release(struct target_files *files)
{
	for (size_t i = 0; i < files->files.count; i++) {
		struct target_file *file = files->files.data[i];

		unwind_parts_free(file->parts);
		sparse_file_close(&file->source);
		free(file->copy);
		free(file);
	}
	vec_release(&files->files);
	map_release(&files->index);
	unwind_store_release(&files->store);
}

const struct target_file *target_file_at(const struct target_files *files, uint32_t number)
{
	return number - 1 < files->files.count ? files->files.data[number - 1] : NULL;
}

/* --- unwind rules --- */

/* Callback of unwind_parts: reads a part of the call frame information that is needed now. */
static bool need(void *context, const uint8_t *bytes, size_t size)
{
	struct target_file *file = context;
	struct sparse_file *f = &file->source;
	uint64_t before = f->read_bytes;
	bool all = sparse_file_load(f, (uint64_t)(bytes - f->bytes), size);

	file->files->store.bytes += f->read_bytes - before;
	return all;
}

/* Finds the part of the file that contains all call frame information. */
static void find_span(const struct unwind_input *input, const uint8_t **start, size_t *size)
{
	const uint8_t *end = input->section.bytes + input->section.size;

	*start = input->section.bytes;
	if (input->search) {
		*start = MIN(*start, input->search);
		end = MAX(end, input->search + 8 * input->search_count);
	}
	*size = (size_t)(end - *start);
}

/* Copies call frame information that is small; the rest of the file is released. */
static bool copy_input(struct target_file *file, struct unwind_input *input)
{
	const uint8_t *start;
	size_t size;

	find_span(input, &start, &size);
	if (size > COPIED_BYTES_MAX || !need(file, start, size))
		return false;
	file->copy = malloc(size + 1);
	if (!file->copy)
		return false;
	memcpy(file->copy, start, size);
	input->section.bytes = file->copy + (input->section.bytes - start);
	if (input->search)
		input->search = file->copy + (input->search - start);
	sparse_file_close(&file->source);
	return true;
}

/*
 * Keeps the address space of the call frame information reserved and, while fewer than
 * OPEN_FILES_MAX files are open, the file open, so that it is read on demand.
 */
static void retain_input(struct target_file *file, const struct unwind_input *input)
{
	struct sparse_file *f = &file->source;
	const uint8_t *start;
	size_t size;

	find_span(input, &start, &size);
	sparse_file_trim(f, (uint64_t)(start - f->bytes), size);
	if (file->files->open < OPEN_FILES_MAX) {
		file->files->open++;
		return;
	}
	need(file, start, size);
	sparse_file_detach(f);
}

/*
 * The bytes of `elf` either remain valid, as those of the vdso, or belong to file->source, which is
 * closed when it is no longer needed.
 */
static void load_rules(struct target_file *file, const struct elf_file *elf)
{
	struct unwind_input input;
	bool all = !elf->source;
	int r = elf_unwind_input(elf, &input);

	if (r == 0) {
		if (!all && !(all = copy_input(file, &input)))
			retain_input(file, &input);
		r = unwind_parts_new(&input, elf_code_end(elf), all ? NULL : need, file,
				     &file->files->store, &file->parts);
	}
	if (r < 0)
		sparse_file_close(&file->source);
	file->no_memory = r == E_LIMIT || r == -ENOMEM;
}

/* --- loading --- */

static void load_segments(struct target_file *file, const struct elf_file *elf)
{
	for (size_t i = 0; i < elf->segment_count; i++) {
		const struct elf_segment *s = &elf->segments[i];

		if (s->type == PT_LOAD && (s->flags & PF_X) &&
		    file->segment_count < TARGET_SEGMENTS_MAX)
			file->segments[file->segment_count++] =
				(struct target_segment){ s->offset, s->address, s->file_size };
	}
}

static void load(struct target_file *file, struct elf_file *elf)
{
	elf_build_id_text(elf, file->build_id, sizeof(file->build_id));
	load_segments(file, elf);
	file->entry = elf->entry;
	load_rules(file, elf);
	elf_file_release(elf);
}

/*
 * Finds the file with this key, or adds it (*is_new), like `like`, for the caller to load. NULL: no
 * memory.
 */
static struct target_file *find_or_add(struct target_files *files, uint64_t key,
				       const struct target_file *like, bool *is_new)
{
	uint64_t *number = map_at(&files->index, key, 0);
	struct target_file *file;

	*is_new = number && !*number;
	if (!*is_new)
		return number ? files->files.data[*number - 1] : NULL;
	file = malloc(sizeof(*file));
	if (!file || vec_push(&files->files, file) < 0) {
		free(file);
		return NULL;
	}
	*file = *like;
	file->number = (uint32_t)files->files.count;
	file->files = files;
	file->source.fd = -1;
	*number = file->number;
	return file;
}

/* Finds the file, or adds it and reads it from `fd`. */
static const struct target_file *find_or_read(struct target_files *files, int fd,
					      const struct stat *st)
{
	const struct target_file like = {
		.device = st->st_dev,
		.inode = st->st_ino,
		.size = (uint64_t)st->st_size,
		.changed_ns = (int64_t)st->st_mtim.tv_sec * (int64_t)NS_PER_S + st->st_mtim.tv_nsec,
	};
	uint64_t identity[4] = { like.device, like.inode, like.size, (uint64_t)like.changed_ns };
	bool is_new;
	struct target_file *file =
		find_or_add(files, hash_bytes(identity, sizeof(identity)), &like, &is_new);
	struct elf_file elf;

	if (!file || !is_new)
		return file;
	if (sparse_file_open(&file->source, fcntl(fd, F_DUPFD_CLOEXEC, 0), file->size) < 0)
		file->no_memory = true;
	else if (elf_file_open_sparse(&file->source, &elf, NULL) == 0)
		load(file, &elf);
	else
		sparse_file_close(&file->source);
	return file;
}

/* Returns the vdso, read from our own process: it is the same in every process. */
static const struct target_file *vdso_file(struct target_files *files)
{
	static const uint64_t key = UINT64_C(0x7664736f); /* smaller than any hash of four words */
	const struct target_file like = { .is_vdso = true };
	bool is_new;
	struct target_file *file = find_or_add(files, key, &like, &is_new);
	struct elf_file elf;

	if (file && is_new && elf_file_open_vdso(&elf, NULL) == 0)
		load(file, &elf);
	return file;
}

/* --- opening --- */

/* Opens the file if it is the mapped one. Returns a descriptor, or -1. */
static int try_open(const char *path, const struct target_mapped *mapped, bool certain,
		    struct stat *st)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return -1;
	/*
	 * Devices are not compared: with overlay file systems and subvolumes, the mapping and
	 * stat() report different ones for the same file.
	 */
	if (fstat(fd, st) == 0 && S_ISREG(st->st_mode) && st->st_size > 0 &&
	    (certain || !mapped->inode || st->st_ino == mapped->inode))
		return fd;
	close(fd);
	errno = ESTALE;
	return -1;
}

int target_file_open_mapped(struct target_files *files, const struct target_mapped *mapped,
			    struct stat *st)
{
	bool is_deleted = mapped_path_length(mapped->path) < strlen(mapped->path);
	char path[PATH_MAX_];
	int fd = -1;

	if (!files->no_map_files) {
		snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", (int)mapped->pid,
			 (unsigned long long)mapped->start, (unsigned long long)mapped->end);
		fd = try_open(path, mapped, true, st);
		files->no_map_files = fd < 0 && errno == EPERM;
	}
	if (fd < 0 && !is_deleted) {
		snprintf(path, sizeof(path), "/proc/%d/root%s", (int)mapped->pid, mapped->path);
		fd = try_open(path, mapped, false, st);
	}
	/* The process may be gone: try the path as we see it. */
	if (fd < 0 && !is_deleted)
		fd = try_open(mapped->path, mapped, false, st);
	/* The program's own file can be opened even if it was deleted or replaced. */
	if (fd < 0 && mapped->inode) {
		snprintf(path, sizeof(path), "/proc/%d/exe", (int)mapped->pid);
		fd = try_open(path, mapped, false, st);
	}
	return fd;
}

/*
 * Whether the file will still be at its path when its functions are symbolized: we see it there
 * now, and the folder is not a temporary one.
 */
static bool is_permanent(const char *path, const struct stat *st)
{
	static const char *const temporary[] = { "/tmp/", "/var/tmp/", "/dev/shm/", "/run/" };
	struct stat now;

	for (size_t i = 0; i < ARRAY_SIZE(temporary); i++)
		if (!strncmp(path, temporary[i], strlen(temporary[i])))
			return false;
	return stat(path, &now) == 0 && now.st_ino == st->st_ino && now.st_size == st->st_size;
}

const struct target_file *target_file_open(struct target_files *files,
					   const struct target_mapped *mapped)
{
	const struct target_file *file;
	size_t known = files->files.count;
	struct stat st;
	int fd;

	if (strcmp(mapped->path, "[vdso]") == 0)
		return vdso_file(files);
	if (!target_is_file(mapped->path))
		return NULL;
	fd = target_file_open_mapped(files, mapped, &st);
	if (fd < 0)
		return NULL;
	file = find_or_read(files, fd, &st);
	if (files->file_copies && files->files.count > known && !is_permanent(mapped->path, &st))
		file_copies_add(files->file_copies, mapped->path, file->build_id, fd, file->size);
	close(fd);
	return file;
}

bool target_is_file(const char *path)
{
	return path[0] == '/' && path[1] != '/';
}

bool target_file_bias(const struct target_file *file, uint64_t start, uint64_t file_offset,
		      uint64_t *bias)
{
	for (unsigned i = 0; i < file->segment_count; i++) {
		const struct target_segment *s = &file->segments[i];
		uint64_t first = s->offset & ~(PAGE - 1);

		if (file_offset < first || file_offset - first >= s->size + (s->offset - first))
			continue;
		*bias = start - file_offset + s->offset - s->address;
		return true;
	}
	return false;
}
