#include "elf/core_file.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arch/processor.h"
#include "base/bytes.h"
#include "base/io.h"
#include "base/search.h"

#define NOTES_MAX ((uint64_t)64 << 20)
#define HEADERS_MAX (1u << 20)
#define THREADS_MAX 65536u
#define MAPPINGS_MAX (1u << 20)

static bool read_at(const struct core_file *c, uint64_t offset, void *out, size_t size)
{
	return offset <= c->size && size <= c->size - offset &&
	       io_read_at(c->fd, offset, out, size) == size;
}

/* --- notes --- */

static void add_thread(struct core_file *c, const uint8_t *data, size_t size)
{
	struct elf_prstatus status;
	struct core_thread thread = { 0 };

	_Static_assert(sizeof(status.pr_reg) == sizeof(thread.registers), "the same registers");
	if (size < sizeof(status) || c->threads.count >= THREADS_MAX)
		return;
	memcpy(&status, data, sizeof(status));
	thread.tid = status.pr_pid;
	thread.signal = status.pr_cursig;
	memcpy(&thread.registers, &status.pr_reg, sizeof(thread.registers));
	(void)!vec_push(&c->threads, thread);
}

static void read_process(struct core_file *c, const uint8_t *data, size_t size)
{
	struct elf_prpsinfo info;

	if (size < sizeof(info))
		return;
	memcpy(&info, data, sizeof(info));
	c->pid = info.pr_pid;
	memcpy(c->name, info.pr_fname, sizeof(info.pr_fname));
	memcpy(c->command, info.pr_psargs, sizeof(info.pr_psargs));
}

/* Number and size of pages; start, end and page of each mapping; then their paths. */
static void read_mappings(struct core_file *c, const uint8_t *data, size_t size)
{
	uint64_t count = size >= 16 ? load_u64(data) : 0, page = count ? load_u64(data + 8) : 0;
	const uint8_t *path, *end = data + size;

	if (!count || count > MAPPINGS_MAX || count > (size - 16) / 24)
		return;
	path = data + 16 + 24 * count;
	for (uint64_t i = 0; i < count; i++) {
		const uint8_t *entry = data + 16 + 24 * i;
		const uint8_t *after = memchr(path, '\0', (size_t)(end - path));
		struct core_mapping m = { load_u64(entry), load_u64(entry + 8), 0,
					  (const char *)path };

		if (!after)
			return;
		path = after + 1;
		if (m.start < m.end &&
		    !__builtin_mul_overflow(load_u64(entry + 16), page, &m.file_offset))
			(void)!vec_push(&c->mappings, m);
	}
}

static void read_notes(struct core_file *c, const uint8_t *bytes, size_t size)
{
	while (size >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr note;
		uint64_t name, length;

		memcpy(&note, bytes, sizeof(note));
		name = sizeof(note) + (((uint64_t)note.n_namesz + 3) & ~UINT64_C(3));
		length = name + (((uint64_t)note.n_descsz + 3) & ~UINT64_C(3));
		if (name > size || note.n_descsz > size - name)
			return;
		if (note.n_namesz == 5 && !memcmp(bytes + sizeof(note), "CORE", 5)) {
			if (note.n_type == NT_PRSTATUS)
				add_thread(c, bytes + name, note.n_descsz);
			else if (note.n_type == NT_PRPSINFO)
				read_process(c, bytes + name, note.n_descsz);
			else if (note.n_type == NT_FILE)
				read_mappings(c, bytes + name, note.n_descsz);
		}
		length = MIN(length, size);
		bytes += length;
		size -= (size_t)length;
	}
}

/* --- headers --- */

static int add_segment(struct core_file *c, const Elf64_Phdr *h, struct error *e)
{
	uint64_t last = c->loads.count ? c->loads.data[c->loads.count - 1].end : 0, end;
	struct core_load load = { .start = h->p_vaddr,
				  .offset = h->p_offset,
				  .whole_size = h->p_filesz,
				  .is_executable = h->p_flags & PF_X,
				  .is_writable = h->p_flags & PF_W };

	if (!__builtin_add_overflow(h->p_offset, h->p_filesz, &end))
		c->expected = MAX(c->expected, end);
	if (h->p_type == PT_NOTE && !c->notes) {
		uint64_t size = h->p_offset < c->size ? MIN(h->p_filesz, c->size - h->p_offset) : 0;

		if (!size || size > NOTES_MAX)
			return 0;
		c->notes = malloc(size);
		if (!c->notes)
			return error_set(e, -ENOMEM, "out of memory");
		if (read_at(c, h->p_offset, c->notes, size))
			read_notes(c, c->notes, size);
	}
	if (h->p_type != PT_LOAD || __builtin_add_overflow(h->p_vaddr, h->p_memsz, &load.end) ||
	    load.start < last || load.end <= load.start)
		return 0;
	load.file_size = h->p_offset < c->size ? MIN(h->p_filesz, c->size - h->p_offset) : 0;
	load.file_size = MIN(load.file_size, h->p_memsz);
	return vec_push(&c->loads, load) < 0 ? error_set(e, -ENOMEM, "out of memory") : 0;
}

/* Where there are too many headers for the field, the first section has their number. */
static uint32_t header_count(const struct core_file *c, const Elf64_Ehdr *h)
{
	Elf64_Shdr first;

	if (h->e_phnum != PN_XNUM)
		return h->e_phnum;
	return read_at(c, h->e_shoff, &first, sizeof(first)) ? MIN(first.sh_info, HEADERS_MAX) : 0;
}

int core_file_open(int fd, struct core_file *out, struct error *e)
{
	static const uint8_t magic[] = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB };
	struct stat st;
	Elf64_Ehdr h;
	int rc = 0;

	*out = (struct core_file){ .fd = fd };
	if (fstat(fd, &st) < 0)
		return error_errno(e, errno, "cannot read the core file");
	out->size = out->expected = (uint64_t)MAX(st.st_size, 0);
	if (!read_at(out, 0, &h, sizeof(h)) || memcmp(h.e_ident, magic, sizeof(magic)) != 0 ||
	    h.e_type != ET_CORE || h.e_phentsize != sizeof(Elf64_Phdr))
		return error_set(e, E_FORMAT, "it is not a core file");
	if (h.e_machine != ARCH_ELF_MACHINE.number)
		return error_set(e, E_UNSUPPORTED, "it is from another processor");
	for (uint32_t i = 0, count = header_count(out, &h); i < count && rc == 0; i++) {
		Elf64_Phdr segment;
		uint64_t at;

		if (__builtin_add_overflow(h.e_phoff, (uint64_t)i * sizeof(segment), &at) ||
		    !read_at(out, at, &segment, sizeof(segment)))
			break;
		rc = add_segment(out, &segment, e);
	}
	if (rc == 0 && !out->threads.count)
		rc = error_set(e, E_FORMAT,
			       "it has no threads: the file is cut, or was not "
			       "written by the OS kernel or a debugger");
	return rc;
}

void core_file_release(struct core_file *c)
{
	free(c->notes);
	vec_release(&c->threads);
	vec_release(&c->loads);
	vec_release(&c->mappings);
}

/* --- memory --- */

static const struct core_load *load_of(const struct core_file *c, uint64_t address)
{
	size_t at = sorted_prefix(c->loads.count, i, c->loads.data[i].end <= address);

	return at < c->loads.count && c->loads.data[at].start <= address ? &c->loads.data[at]
									 : NULL;
}

size_t core_file_read(const struct core_file *c, uint64_t address, void *out, size_t size)
{
	size_t done = 0;

	while (done < size) {
		const struct core_load *load = load_of(c, address + done);
		uint64_t at = load ? address + done - load->start : 0, part;

		if (!load || at >= load->file_size)
			break;
		part = MIN(size - done, load->file_size - at);
		if (!read_at(c, load->offset + at, (char *)out + done, (size_t)part))
			break;
		done += (size_t)part;
	}
	return done;
}

const struct core_mapping *core_file_omitted(const struct core_file *c, uint64_t address)
{
	const struct core_load *load = load_of(c, address);

	if (load && (load->is_writable || address - load->start < load->whole_size))
		return NULL;
	return core_file_mapping(c, address);
}

const struct core_mapping *core_file_mapping(const struct core_file *c, uint64_t address)
{
	for (size_t i = 0; i < c->mappings.count; i++)
		if (c->mappings.data[i].start <= address && address < c->mappings.data[i].end)
			return &c->mappings.data[i];
	return NULL;
}
