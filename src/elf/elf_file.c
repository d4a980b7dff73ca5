/* elf_file.c: headers, sections, notes and symbols of ELF files. */
#include "elf/elf_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/reserve.h"

#define SECTIONS_MAX 200000u
#define SEGMENTS_MAX 256u
#define STRING_MAX ((size_t)32 << 10) /* bytes; many names can share one long text */
#define NAME_USUAL ((size_t)256) /* bytes; longer names are read in several steps */
#define NOTES_MAX 64 /* sections or segments that are searched for a build id */
#define NOTES_BYTES_MAX (1u << 20) /* of each of them */
#define LOAD_MAX ((size_t)64 << 20) /* bytes of a file that is read for unwinding */
#define MEMORY_SHARE 8 /* a file that is read for symbols: an eighth of the machine's memory */
#define VDSO_MAX ((uint64_t)1 << 20)

/* Returns bytes [offset, offset + size) of the file, or none. */
static struct elf_bytes file_bytes(const struct elf_file *f, uint64_t offset, uint64_t size)
{
	if (offset > f->size || size > f->size - offset)
		return (struct elf_bytes){ NULL, 0 };
	return (struct elf_bytes){ f->bytes + offset, (size_t)size };
}

bool elf_load(const struct elf_file *f, struct elf_bytes bytes)
{
	if (!bytes.data || !f->source)
		return bytes.data;
	return bytes.size <= f->load_max && f->source->read_bytes <= f->load_max &&
	       sparse_file_load(f->source, (uint64_t)(bytes.data - f->bytes), bytes.size);
}

static struct elf_bytes read_bytes(const struct elf_file *f, uint64_t offset, uint64_t size)
{
	struct elf_bytes bytes = file_bytes(f, offset, size);

	return elf_load(f, bytes) ? bytes : (struct elf_bytes){ NULL, 0 };
}

const char *elf_string(struct elf_bytes strings, uint64_t offset)
{
	if (!strings.data || offset >= strings.size ||
	    !memchr(strings.data + offset, 0, MIN(strings.size - offset, STRING_MAX)))
		return NULL;
	return (const char *)strings.data + offset;
}

static int read_segments(struct elf_file *f, const Elf64_Ehdr *header, struct error *e)
{
	struct elf_bytes table =
		read_bytes(f, header->e_phoff, (uint64_t)header->e_phnum * sizeof(Elf64_Phdr));

	if (!header->e_phnum || header->e_phentsize != sizeof(Elf64_Phdr) || !table.data ||
	    header->e_phnum > SEGMENTS_MAX)
		return 0;
	f->segments = calloc(header->e_phnum, sizeof(*f->segments));
	if (!f->segments)
		return error_set(e, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < header->e_phnum; i++) {
		Elf64_Phdr p;

		memcpy(&p, table.data + i * sizeof(p), sizeof(p));
		if (p.p_memsz > UINT64_MAX - p.p_vaddr)
			continue;
		f->segments[f->segment_count++] =
			(struct elf_segment){ p.p_type,  p.p_flags,  p.p_offset,
					      p.p_vaddr, p.p_filesz, p.p_memsz };
	}
	return 0;
}

/* A count too large for the header is in the first section. */
static uint64_t count_sections(const struct elf_file *f, const Elf64_Ehdr *header, uint32_t *names)
{
	struct elf_bytes first = read_bytes(f, header->e_shoff, sizeof(Elf64_Shdr));
	uint64_t count = header->e_shnum;
	Elf64_Shdr s;

	*names = header->e_shstrndx;
	if (!header->e_shoff || header->e_shentsize != sizeof(s) || !first.data)
		return 0;
	memcpy(&s, first.data, sizeof(s));
	if (count == 0)
		count = s.sh_size;
	if (*names == SHN_XINDEX)
		*names = s.sh_link;
	return count <= SECTIONS_MAX ? count : 0;
}

static int read_sections(struct elf_file *f, const Elf64_Ehdr *header, struct error *e)
{
	uint32_t name_section;
	uint64_t count = count_sections(f, header, &name_section);
	struct elf_bytes table = read_bytes(f, header->e_shoff, count * sizeof(Elf64_Shdr));
	struct elf_bytes names = { NULL, 0 };

	if (!count || !table.data)
		return 0;
	f->sections = calloc(count, sizeof(*f->sections));
	if (!f->sections)
		return error_set(e, -ENOMEM, "out of memory");
	f->section_count = count;
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < count; i++) {
			Elf64_Shdr s;
			const char *name;

			memcpy(&s, table.data + i * sizeof(s), sizeof(s));
			name = elf_string(names, s.sh_name);
			f->sections[i] = (struct elf_section){ name ? name : "",
							       s.sh_type,
							       s.sh_link,
							       s.sh_info,
							       s.sh_flags,
							       s.sh_addr,
							       s.sh_offset,
							       s.sh_size,
							       s.sh_entsize,
							       NULL,
							       0 };
			if (s.sh_size > UINT64_MAX - s.sh_addr)
				f->sections[i].size = 0;
		}
		if (name_section < count && !(f->sections[name_section].flags & SHF_COMPRESSED))
			names = elf_raw_contents(f, &f->sections[name_section]);
		if (!elf_load(f, names))
			break;
	}
	return 0;
}

static void find_build_id(struct elf_file *f, struct elf_bytes notes)
{
	struct cursor c;

	if (notes.size > NOTES_BYTES_MAX || !elf_load(f, notes))
		return;
	c = cursor_of(notes.data, notes.size);
	while (!f->build_id_size && cursor_left(&c) >= sizeof(Elf64_Nhdr)) {
		uint32_t name_size = cursor_u32(&c), size = cursor_u32(&c), type = cursor_u32(&c);
		const uint8_t *name = cursor_bytes(&c, ((size_t)name_size + 3) & ~(size_t)3);
		const uint8_t *description = cursor_bytes(&c, size);

		cursor_bytes(&c, MIN(-(size_t)size & 3, cursor_left(&c)));
		if (c.failed)
			break;
		if (type == NT_GNU_BUILD_ID && name_size == 4 && memcmp(name, "GNU", 4) == 0 &&
		    size > 0 && size <= BUILD_ID_MAX) {
			memcpy(f->build_id, description, size);
			f->build_id_size = size;
		}
	}
}

/*
 * Sections first: in a file with separate debug symbols, segments refer to bytes that are not
 * there.
 */
static void read_notes(struct elf_file *f)
{
	unsigned tried = 0;

	for (size_t i = 0; i < f->section_count && !f->build_id_size; i++)
		if (f->sections[i].type == SHT_NOTE && tried++ < NOTES_MAX)
			find_build_id(f, elf_raw_contents(f, &f->sections[i]));
	if (f->section_count)
		return;
	for (size_t i = 0; i < f->segment_count && !f->build_id_size; i++)
		if (f->segments[i].type == PT_NOTE && tried++ < NOTES_MAX)
			find_build_id(
				f, file_bytes(f, f->segments[i].offset, f->segments[i].file_size));
}

static int read_headers(struct elf_file *f, struct error *e)
{
	Elf64_Ehdr header;
	int rc;

	if (f->size < EI_NIDENT || !read_bytes(f, 0, MIN(f->size, sizeof(header))).data ||
	    memcmp(f->bytes, ELFMAG, SELFMAG) != 0)
		return error_set(e, E_FORMAT, "not an ELF file");
	if (f->bytes[EI_CLASS] != ELFCLASS64 || f->bytes[EI_DATA] != ELFDATA2LSB)
		return error_set(e, E_UNSUPPORTED, "ELF file for another kind of machine");
	if (f->size < sizeof(header))
		return error_set(e, E_FORMAT, "ELF file ends within its header");
	memcpy(&header, f->bytes, sizeof(header));
	f->machine = header.e_machine;
	f->type = header.e_type;
	f->entry = header.e_entry;
	rc = read_segments(f, &header, e);
	if (rc == 0)
		rc = read_sections(f, &header, e);
	if (rc == 0)
		read_notes(f);
	return rc;
}

static int open_headers(struct elf_file *f, struct elf_file *out, struct error *e)
{
	int rc = read_headers(f, e);

	if (rc < 0)
		elf_file_release(f);
	else
		*out = *f;
	return rc;
}

int elf_file_open_bytes(const void *bytes, size_t size, struct elf_file *out, struct error *e)
{
	struct elf_file f = { .bytes = bytes, .size = size };

	return open_headers(&f, out, e);
}

int elf_file_open_sparse(struct sparse_file *source, struct elf_file *out, struct error *e)
{
	struct elf_file f = {
		.bytes = source->bytes, .size = source->size, .source = source, .load_max = LOAD_MAX
	};

	return open_headers(&f, out, e);
}

static int open_fd(int fd, size_t load_max, struct elf_file *out, struct error *e)
{
	struct elf_file f = { .owns_source = true, .load_max = load_max };
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0)
		return error_set(e, E_FORMAT, "not an ELF file");
	f.source = malloc(sizeof(*f.source));
	if (!f.source ||
	    sparse_file_open(f.source, fcntl(fd, F_DUPFD_CLOEXEC, 3), (uint64_t)st.st_size) < 0) {
		free(f.source);
		return error_set(e, -ENOMEM, "out of memory");
	}
	f.bytes = f.source->bytes;
	f.size = f.source->size;
	return open_headers(&f, out, e);
}

int elf_file_open_fd(int fd, struct elf_file *out, struct error *e)
{
	return open_fd(fd, LOAD_MAX, out, e);
}

int elf_file_open_owned(uint8_t *bytes, size_t size, struct elf_file *out, struct error *e)
{
	struct elf_file f = { .bytes = bytes, .size = size, .owned = bytes };

	return open_headers(&f, out, e);
}

int elf_file_open_vdso(struct elf_file *out, struct error *e)
{
	const void *bytes = (const void *)getauxval(AT_SYSINFO_EHDR);
	Elf64_Ehdr header;
	uint64_t size;

	if (!bytes)
		return error_set(e, -ENOENT, "the operating system has no vdso");
	memcpy(&header, bytes, sizeof(header));
	size = header.e_shoff + (uint64_t)header.e_shnum * header.e_shentsize;
	if (size > VDSO_MAX)
		return error_set(e, E_FORMAT, "cannot read the vdso");
	return elf_file_open_bytes(bytes, size, out, e);
}

int elf_file_open(const char *path, struct elf_file *out, struct error *e)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int rc;

	if (fd < 0)
		return error_errno(e, errno, "cannot open '%s'", path);
	rc = open_fd(fd, memory_share(MEMORY_SHARE), out, e);
	return rc < 0 ? error_prefix(e, "'%s'", path) : 0;
}

void elf_file_release(struct elf_file *f)
{
	for (size_t i = 0; i < f->section_count; i++)
		free(f->sections[i].plain);
	free(f->sections);
	free(f->segments);
	free(f->owned);
	if (f->owns_source) {
		sparse_file_close(f->source);
		free(f->source);
	}
	*f = (struct elf_file){ 0 };
}

void elf_file_detach(struct elf_file *f)
{
	if (f->owns_source)
		sparse_file_detach(f->source);
}

struct elf_section *elf_section(const struct elf_file *f, const char *name)
{
	for (size_t i = 0; i < f->section_count; i++)
		if (strcmp(f->sections[i].name, name) == 0)
			return &f->sections[i];
	return NULL;
}

struct elf_section *elf_section_by_type(const struct elf_file *f, uint32_t type)
{
	for (size_t i = 0; i < f->section_count; i++)
		if (f->sections[i].type == type)
			return &f->sections[i];
	return NULL;
}

struct elf_bytes elf_raw_contents(const struct elf_file *f, const struct elf_section *s)
{
	if (!s || s->type == SHT_NOBITS || s->type == SHT_NULL || !s->size)
		return (struct elf_bytes){ NULL, 0 };
	return file_bytes(f, s->offset, s->size);
}

struct elf_bytes elf_at_address(const struct elf_file *f, uint64_t address)
{
	for (size_t i = 0; i < f->segment_count; i++) {
		const struct elf_segment *s = &f->segments[i];
		uint64_t into = address - s->address;
		struct elf_bytes bytes;

		if (s->type != PT_LOAD || address < s->address || into >= s->file_size)
			continue;
		bytes = file_bytes(f, s->offset, s->file_size);
		if (bytes.data)
			return (struct elf_bytes){ bytes.data + into, bytes.size - (size_t)into };
	}
	return (struct elf_bytes){ NULL, 0 };
}

int elf_symbol_entries(const struct elf_file *f, uint32_t type, struct elf_symbols *out)
{
	const struct elf_section *s = elf_section_by_type(f, type);

	if (!s)
		return -ENOENT;
	if (s->link >= f->section_count)
		return E_FORMAT;
	out->entries = elf_raw_contents(f, s);
	out->names = elf_raw_contents(f, &f->sections[s->link]);
	return elf_load(f, out->entries) ? 0 : E_FORMAT;
}

int elf_symbols(const struct elf_file *f, uint32_t type, struct elf_symbols *out)
{
	int rc = elf_symbol_entries(f, type, out);

	return rc < 0 || elf_load(f, out->names) ? rc : E_FORMAT;
}

bool elf_symbol_entry(const struct elf_symbols *symbols, size_t i, Elf64_Sym *out)
{
	if (i >= symbols->entries.size / sizeof(*out))
		return false;
	memcpy(out, symbols->entries.data + i * sizeof(*out), sizeof(*out));
	return true;
}

const char *elf_symbol_name(const struct elf_file *f, const struct elf_symbols *symbols,
			    const Elf64_Sym *symbol)
{
	struct elf_bytes names = symbols->names;
	const char *name;

	if (!names.data || symbol->st_name >= names.size)
		return "";
	for (size_t size = NAME_USUAL; size <= STRING_MAX; size *= 2) {
		names.size = MIN(symbols->names.size, symbol->st_name + size);
		if (!elf_load(f, (struct elf_bytes){ names.data + symbol->st_name,
						     names.size - symbol->st_name }))
			break;
		name = elf_string(names, symbol->st_name);
		if (name)
			return name;
	}
	return "";
}

bool elf_symbol(const struct elf_symbols *symbols, size_t i, Elf64_Sym *out, const char **name)
{
	if (!elf_symbol_entry(symbols, i, out))
		return false;
	*name = elf_string(symbols->names, out->st_name) ?: "";
	return true;
}

bool elf_is_code(const struct elf_file *f, uint64_t address)
{
	for (size_t i = 0; i < f->segment_count; i++) {
		const struct elf_segment *s = &f->segments[i];

		if (s->type == PT_LOAD && s->flags & PF_X && address >= s->address &&
		    address - s->address < s->memory_size)
			return true;
	}
	for (size_t i = 0; !f->segment_count && i < f->section_count; i++) {
		const struct elf_section *s = &f->sections[i];

		if (s->flags & SHF_EXECINSTR && address >= s->address &&
		    address - s->address < s->size)
			return true;
	}
	return false;
}

void elf_build_id_text(const struct elf_file *f, char *out, size_t room)
{
	*out = 0;
	for (unsigned i = 0; i < f->build_id_size && 2 * (size_t)i + 3 <= room; i++)
		snprintf(out + 2 * (size_t)i, 3, "%02x", f->build_id[i]);
}

bool elf_has_build_id(const struct elf_file *f, const char *hexadecimal)
{
	char text[2 * BUILD_ID_MAX + 1];

	elf_build_id_text(f, text, sizeof(text));
	return *text && strcasecmp(text, hexadecimal) == 0;
}
