#include "cpu/target_files.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "stack/elf_sections.h"

#define PAGE UINT64_C(4096)
#define PATH_MAX_ 4608u /* of a path under /proc/PID/root */
#define FILE_BYTES_MAX ((uint64_t)1 << 40) /* of address space, not of memory */
#define PIECE_BYTES_MAX ((uint64_t)256 << 20)
#define NOTE_BYTES_MAX (64u << 10)
#define VDSO_BYTES_MAX ((uint64_t)1 << 20)
#define DELETED " (deleted)"

void target_files_init(struct target_files *files)
{
	*files = (struct target_files){ .index = MAP_INIT };
}

void target_files_release(struct target_files *files)
{
	for (size_t i = 0; i < files->files.count; i++) {
		unwind_table_free(files->files.data[i]->table);
		free(files->files.data[i]);
	}
	vec_release(&files->files);
	map_release(&files->index);
}

const struct target_file *target_file_at(const struct target_files *files, uint32_t number)
{
	return number - 1 < files->files.count ? files->files.data[number - 1] : NULL;
}

/* --- reading --- */

/* A file as if it were mapped, of which only what was asked for has been read. */
struct pieces {
	uint8_t *bytes;
	uint64_t size;
	int fd;
};

static bool read_piece(struct pieces *p, uint64_t offset, uint64_t size)
{
	if (offset > p->size || size > p->size - offset || size > PIECE_BYTES_MAX)
		return false;
	while (size) {
		ssize_t n = pread(p->fd, p->bytes + offset, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		offset += (uint64_t)n;
		size -= (uint64_t)n;
	}
	return true;
}

static bool is_wanted_section(const struct pieces *p, const Elf64_Shdr *names,
			      const Elf64_Shdr *section)
{
	static const char *const wanted[] = { ".eh_frame", ".eh_frame_hdr", ".debug_frame" };
	const char *name = (const char *)p->bytes + names->sh_offset + section->sh_name;
	uint64_t room = section->sh_name < names->sh_size ? names->sh_size - section->sh_name : 0;

	if (section->sh_type == SHT_NOTE)
		return section->sh_size <= NOTE_BYTES_MAX;
	if (section->sh_type == SHT_NOBITS)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		if (strlen(wanted[i]) < room && strcmp(name, wanted[i]) == 0)
			return true;
	return false;
}

/* Where the headers of sections are, the sections that matter. */
static void read_sections(struct pieces *p, const Elf64_Ehdr *header)
{
	const uint8_t *table = p->bytes + header->e_shoff;
	Elf64_Shdr names, section;

	if (header->e_shentsize != sizeof(section) || header->e_shstrndx >= header->e_shnum ||
	    !read_piece(p, header->e_shoff, (uint64_t)header->e_shnum * sizeof(section)))
		return;
	memcpy(&names, table + header->e_shstrndx * sizeof(names), sizeof(names));
	if (!read_piece(p, names.sh_offset, names.sh_size) || names.sh_size == 0 ||
	    p->bytes[names.sh_offset + names.sh_size - 1] != '\0')
		return;
	for (unsigned i = 0; i < header->e_shnum; i++) {
		memcpy(&section, table + i * sizeof(section), sizeof(section));
		if (is_wanted_section(p, &names, &section))
			read_piece(p, section.sh_offset, section.sh_size);
	}
}

/* Without them: the segment that .eh_frame_hdr is in, where .eh_frame is as well. */
static void read_frame_segment(struct pieces *p, const Elf64_Ehdr *header)
{
	const uint8_t *all = p->bytes + header->e_phoff;
	Elf64_Phdr frames = { 0 }, load;

	for (unsigned i = 0; i < header->e_phnum && frames.p_type != PT_GNU_EH_FRAME; i++)
		memcpy(&frames, all + i * sizeof(frames), sizeof(frames));
	for (unsigned i = 0; i < header->e_phnum && frames.p_type == PT_GNU_EH_FRAME; i++) {
		memcpy(&load, all + i * sizeof(load), sizeof(load));
		if (load.p_type == PT_LOAD && frames.p_offset >= load.p_offset &&
		    frames.p_offset - load.p_offset < load.p_filesz)
			read_piece(p, load.p_offset, load.p_filesz);
	}
}

static int read_pieces(struct pieces *p)
{
	Elf64_Ehdr header;

	p->bytes = mmap(NULL, p->size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p->bytes == MAP_FAILED)
		return -ENOMEM;
	if (p->size < sizeof(header) || !read_piece(p, 0, sizeof(header)))
		return E_FORMAT;
	memcpy(&header, p->bytes, sizeof(header));
	if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_phentsize != sizeof(Elf64_Phdr) ||
	    !read_piece(p, header.e_phoff, (uint64_t)header.e_phnum * sizeof(Elf64_Phdr)))
		return E_FORMAT;
	if (header.e_shnum)
		read_sections(p, &header);
	else
		read_frame_segment(p, &header);
	return 0;
}

/* --- taking what is needed --- */

static void take_segments(struct target_file *file, const struct elf_file *elf)
{
	for (size_t i = 0; i < elf->segment_count; i++) {
		const struct elf_segment *s = &elf->segments[i];

		if (s->type == PT_LOAD && (s->flags & PF_X) &&
		    file->segment_count < TARGET_SEGMENTS_MAX)
			file->segments[file->segment_count++] =
				(struct target_segment){ s->offset, s->address, s->file_size };
	}
}

static void build_table(struct target_files *files, struct target_file *file, const uint8_t *bytes,
			size_t size)
{
	uint64_t start_ns = clock_monotonic_ns();
	struct unwind_input input;
	int r = elf_unwind_input(bytes, size, &input);

	if (r == 0) {
		input.bytes_max = TARGET_TABLES_BYTES_MAX - files->bytes;
		r = unwind_table_build(&input, &file->table);
	}
	if (r == 0) {
		files->bytes += file->table->bytes;
	} else if (r == E_LIMIT || r == -ENOMEM) {
		file->refused = true;
		files->refused++;
	}
	files->build_ns += clock_monotonic_ns() - start_ns;
}

static int take_bytes(struct target_files *files, struct target_file *file, const uint8_t *bytes,
		      size_t size)
{
	struct elf_file elf;
	int r = elf_open_bytes(bytes, size, &elf, NULL);

	if (r < 0)
		return r;
	elf_build_id_text(&elf, file->build_id, sizeof(file->build_id));
	take_segments(file, &elf);
	file->entry = load_u64(bytes + offsetof(Elf64_Ehdr, e_entry));
	elf_release(&elf);
	build_table(files, file, bytes, size);
	return 0;
}

static struct target_file *add_file(struct target_files *files, const struct target_file *like)
{
	struct target_file *file = malloc(sizeof(*file));

	if (!file || vec_push(&files->files, file) < 0) {
		free(file);
		return NULL;
	}
	*file = *like;
	file->number = (uint32_t)files->files.count;
	return file;
}

/* The known file that is this one, or what is read from `fd` now. */
static const struct target_file *file_of(struct target_files *files, int fd, const struct stat *st)
{
	struct target_file fresh = {
		.device = st->st_dev,
		.inode = st->st_ino,
		.size = (uint64_t)st->st_size,
		.changed_ns = (int64_t)st->st_mtim.tv_sec * (int64_t)NS_PER_S + st->st_mtim.tv_nsec,
	};
	uint64_t identity[4] = { fresh.device, fresh.inode, fresh.size,
				 (uint64_t)fresh.changed_ns };
	uint64_t *number = map_at(&files->index, hash_bytes(identity, sizeof(identity)), 0);
	struct pieces pieces = { .size = fresh.size, .fd = fd };
	struct target_file *file;

	if (!number)
		return NULL;
	if (*number)
		return target_file_at(files, (uint32_t)*number);
	if (read_pieces(&pieces) == 0)
		take_bytes(files, &fresh, pieces.bytes, pieces.size);
	if (pieces.bytes != MAP_FAILED)
		munmap(pieces.bytes, pieces.size);
	file = add_file(files, &fresh);
	if (file)
		*number = file->number;
	return file;
}

/* The kernel gives all processes of our kind the same vdso; so it is read from our own. */
static const struct target_file *vdso_file(struct target_files *files)
{
	static const uint64_t key = UINT64_C(0x7664736f); /* no hash of four words is that small */
	const uint8_t *bytes = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
	uint64_t *number = map_at(&files->index, key, 0), size;
	struct target_file fresh = { 0 }, *file;
	Elf64_Ehdr header;

	if (!number || !bytes)
		return NULL;
	if (*number)
		return target_file_at(files, (uint32_t)*number);
	memcpy(&header, bytes, sizeof(header));
	size = header.e_shoff + (uint64_t)header.e_shnum * header.e_shentsize;
	if (size <= VDSO_BYTES_MAX)
		take_bytes(files, &fresh, bytes, size);
	file = add_file(files, &fresh);
	if (file)
		*number = file->number;
	return file;
}

/* --- opening --- */

/* A descriptor of the file, if it is the mapped one; or -1. */
static int try_open(const char *path, const struct target_mapped *mapped, bool certain,
		    struct stat *st)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return -1;
	/*
	 * The device is not compared: with overlay file systems and subvolumes the kernel's mapping and stat() name
	 * different ones for the same file.
	 */
	if (fstat(fd, st) == 0 && S_ISREG(st->st_mode) && st->st_size > 0 &&
	    (uint64_t)st->st_size <= FILE_BYTES_MAX &&
	    (certain || !mapped->inode || st->st_ino == mapped->inode))
		return fd;
	close(fd);
	errno = ESTALE;
	return -1;
}

static int open_mapped(struct target_files *files, const struct target_mapped *mapped,
		       struct stat *st)
{
	char path[PATH_MAX_];
	size_t length = strlen(mapped->path);
	int fd = -1;

	if (!files->no_map_files) {
		snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", (int)mapped->pid,
			 (unsigned long long)mapped->start, (unsigned long long)mapped->end);
		fd = try_open(path, mapped, true, st);
		files->no_map_files = fd < 0 && errno == EPERM;
	}
	if (length > strlen(DELETED) &&
	    strcmp(mapped->path + length - strlen(DELETED), DELETED) == 0) {
		if (fd >= 0)
			return fd;
		snprintf(path, sizeof(path), "/proc/%d/exe", (int)mapped->pid);
		return mapped->inode ? try_open(path, mapped, false, st) : -1;
	}
	if (fd < 0) {
		snprintf(path, sizeof(path), "/proc/%d/root%s", (int)mapped->pid, mapped->path);
		fd = try_open(path, mapped, false, st);
	}
	/* The process may be gone. */
	return fd < 0 ? try_open(mapped->path, mapped, false, st) : fd;
}

const struct target_file *target_file_open(struct target_files *files,
					   const struct target_mapped *mapped)
{
	const struct target_file *file;
	struct stat st;
	int fd;

	if (strcmp(mapped->path, "[vdso]") == 0)
		return vdso_file(files);
	if (mapped->path[0] != '/' || mapped->path[1] == '/')
		return NULL;
	fd = open_mapped(files, mapped, &st);
	if (fd < 0)
		return NULL;
	file = file_of(files, fd, &st);
	close(fd);
	return file;
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
