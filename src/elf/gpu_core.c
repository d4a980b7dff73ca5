/*
 * gpu_core.c: sections are read in the file's order, and those above a table are in front of it or
 * behind it; so the tables are listed first, and threads are read afterwards.
 */
#include "elf/gpu_core.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/io.h"
#include "base/search.h"

#define MACHINE_CUDA 190
#define SECTIONS_MAX (UINT64_C(1) << 24) /* each thread of a large GPU has five */
#define TABLES_MAX (UINT64_C(1) << 20)
#define GRIDS_MAX 65536u
#define PLACES_MAX 65536u
#define ROW_MAX 1024u
#define IMAGE_MAX (UINT64_C(256) << 20)
#define CODE_MAX (1u << 20) /* functions */
#define LEFT_MIN (UINT64_C(1) << 20) /* rows above a table are read with each table below */

/* Types of sections, from SHT_LOUSER on. */
enum table_type {
	TABLE_IMAGE = 7,
	TABLE_DEVICES = 9,
	TABLE_SMS = 11,
	TABLE_GRIDS,
	TABLE_BLOCKS,
	TABLE_WARPS,
	TABLE_THREADS,
};

/* Bytes of a row in the format's first version, which is the least that is read. */
static const uint16_t row_bytes[] = {
	[TABLE_DEVICES] = 72, [TABLE_SMS] = 8,    [TABLE_GRIDS] = 104,
	[TABLE_BLOCKS] = 24,  [TABLE_WARPS] = 32, [TABLE_THREADS] = 48,
};

struct gpu_core_table {
	uint32_t section; /* its number */
	uint32_t above, above_row;
	enum table_type type;
	uint64_t offset, rows;
	uint32_t row_size;
};

#define ROW_HAS(table, end) ((table)->row_size >= (end))

static bool read_at(struct gpu_core *core, uint64_t offset, void *out, size_t size)
{
	if (size > core->left)
		core->is_incomplete = true;
	if (size > core->left || offset > core->size || size > core->size - offset)
		return false;
	core->left -= size;
	return io_read_at(core->fd, offset, out, size) == size;
}

static bool read_row(struct gpu_core *core, const struct gpu_core_table *t, uint64_t row,
		     uint8_t out[ROW_MAX])
{
	size_t size = MIN(t->row_size, ROW_MAX);

	return row < t->rows && read_at(core, t->offset + row * t->row_size, out, size);
}

static const struct gpu_core_table *table_of(const struct gpu_core *core, uint32_t section)
{
	const struct gpu_core_table *t = core->tables.data;
	size_t at = sorted_prefix(core->tables.count, i, t[i].section < section);

	return at < core->tables.count && t[at].section == section ? &t[at] : NULL;
}

/* Reads the row that a table belongs to; NULL: there is none of this type. */
static const struct gpu_core_table *read_above(struct gpu_core *core,
					       const struct gpu_core_table *table,
					       enum table_type type, uint8_t row[ROW_MAX])
{
	const struct gpu_core_table *above = table_of(core, table->above);

	return above && above->type == type && read_row(core, above, table->above_row, row) ? above
											    : NULL;
}

/* --- sections --- */

/* An ELF file, or an image in it: its bytes, and its number. */
struct part {
	uint64_t offset, size;
	uint32_t image;
};

typedef int section_visitor(struct gpu_core *core, const struct part *part, uint32_t number,
			    const Elf64_Shdr *s);

static bool read_header(struct gpu_core *core, const struct part *part, Elf64_Ehdr *header)
{
	return part->size >= sizeof(*header) &&
	       read_at(core, part->offset, header, sizeof(*header)) &&
	       memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
	       header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB &&
	       header->e_machine == MACHINE_CUDA;
}

/* A count too large for the header is in the first section. */
static int visit_sections(struct gpu_core *core, const struct part *part, const Elf64_Ehdr *header,
			  section_visitor *visit)
{
	enum { CHUNK = 512 };
	Elf64_Shdr sections[CHUNK];
	uint64_t count = header->e_shnum, start = header->e_shoff, in_part;
	int rc = 0;

	if (header->e_shentsize != sizeof(sections[0]) || !start || start > part->size)
		return E_FORMAT;
	in_part = (part->size - start) / sizeof(sections[0]);
	start += part->offset;
	if (!count && in_part && read_at(core, start, sections, sizeof(sections[0])))
		count = sections[0].sh_size;
	core->is_incomplete |= count > MIN(in_part, SECTIONS_MAX);
	count = MIN(count, MIN(in_part, SECTIONS_MAX));
	for (uint64_t first = 0; first < count && rc == 0; first += CHUNK) {
		size_t some = (size_t)MIN(count - first, CHUNK);

		if (!read_at(core, start + first * sizeof(sections[0]), sections,
			     some * sizeof(sections[0])))
			break;
		for (size_t i = 0; i < some && rc == 0; i++)
			rc = visit(core, part, (uint32_t)(first + i), &sections[i]);
	}
	return rc;
}

static int add_section(struct gpu_core *core, const struct part *part, uint32_t number,
		       const Elf64_Shdr *s)
{
	uint32_t type = s->sh_type - SHT_LOUSER;
	struct gpu_core_table t = { .section = number,
				    .above = s->sh_link,
				    .above_row = s->sh_info,
				    .type = (enum table_type)type,
				    .offset = s->sh_offset };
	bool is_inside = s->sh_offset <= part->size && s->sh_size <= part->size - s->sh_offset;

	core->is_incomplete |= s->sh_type != SHT_NOBITS && !is_inside;
	if (s->sh_type < SHT_LOUSER || !is_inside)
		return 0;
	if (type == TABLE_IMAGE)
		return vec_push(&core->images,
				((struct gpu_core_image){ s->sh_offset, s->sh_size }));
	if (type >= ARRAY_SIZE(row_bytes) || !row_bytes[type] || s->sh_entsize < row_bytes[type] ||
	    s->sh_entsize > UINT32_MAX)
		return 0;
	t.row_size = (uint32_t)s->sh_entsize;
	t.rows = s->sh_size / s->sh_entsize;
	if (core->tables.count >= TABLES_MAX) {
		core->is_incomplete = true;
		return 0;
	}
	return vec_push(&core->tables, t);
}

static uint32_t device_of(struct gpu_core *core, const struct gpu_core_table *t)
{
	uint8_t row[ROW_MAX];

	return read_above(core, t, TABLE_DEVICES, row) ? load_u32(row + 24) : t->above_row;
}

static int read_grids(struct gpu_core *core, const struct gpu_core_table *t)
{
	uint32_t device = device_of(core, t);
	uint8_t row[ROW_MAX];
	int rc = 0;

	for (uint64_t i = 0; i < t->rows && rc == 0; i++) {
		struct gpu_core_grid grid = { .device = device };

		if (core->grids.count >= GRIDS_MAX || !read_row(core, t, i, row)) {
			core->is_incomplete = true;
			break;
		}
		grid.id = load_u64(row);
		grid.entry = load_u64(row + 24);
		for (unsigned axis = 0; axis < 3; axis++) {
			grid.size[axis] = load_u32(row + 72 + 4 * axis);
			grid.block[axis] = load_u32(row + 84 + 4 * axis);
		}
		grid.thread = load_u32(row + 100);
		rc = vec_push(&core->grids, grid);
	}
	return rc;
}

ORDER(by_grid, struct gpu_core_grid, UP(device) ?: UP(id))

static size_t grid_of(const struct gpu_core *core, uint32_t device, uint64_t id)
{
	const struct gpu_core_grid *g = core->grids.data;
	size_t at = sorted_prefix(core->grids.count, i,
				  g[i].device < device || (g[i].device == device && g[i].id < id));

	return at < core->grids.count && g[at].device == device && g[at].id == id
		       ? at
		       : GPU_CORE_NO_GRID;
}

/* --- places --- */

static uint64_t key_of(const struct gpu_core_place *p)
{
	uint64_t key = hash_u64((uint64_t)p->device << 32 | p->exception);

	key = hash_u64(key ^ p->pc);
	key = hash_u64(key ^ (p->pc ? 0 : p->offset));
	return hash_u64(key ^ p->grid);
}

static uint64_t known_key(uint32_t device, uint32_t sm, uint32_t exception)
{
	return hash_u64((uint64_t)device << 32 | sm) ^ hash_u64(~(uint64_t)exception);
}

static int add_place(struct gpu_core *core, const struct gpu_core_place *p)
{
	uint64_t *item;

	if (core->places.count >= PLACES_MAX) {
		core->is_incomplete = true;
		return 0;
	}
	item = map_at(&core->place_of, key_of(p), 0);
	if (!item)
		return -ENOMEM;
	if (*item) {
		core->places.data[*item - 1].threads += p->threads;
		return 0;
	}
	*item = core->places.count + 1;
	core->has_exception |= p->exception != 0;
	if (p->exception && p->has_threads &&
	    (map_put(&core->known, known_key(p->device, p->sm, 0), 1) < 0 ||
	     map_put(&core->known, known_key(p->device, 0, p->exception), 1) < 0))
		return -ENOMEM;
	return vec_push(&core->places, *p);
}

struct sm_row {
	uint32_t number, exception;
	uint64_t pc; /* 0: unknown */
};

static struct sm_row sm_of(const struct gpu_core_table *t, const uint8_t *row)
{
	struct sm_row sm = { .number = load_u32(row) };

	if (ROW_HAS(t, 24)) { /* since driver 555 */
		sm.exception = load_u32(row + 8);
		sm.pc = load_u32(row + 12) ? load_u64(row + 16) : 0;
	}
	return sm;
}

/* What all threads of a warp have in common. */
struct warp_row {
	struct gpu_core_place place;
	struct sm_row sm;
	uint64_t pc; /* of the error; 0: none */
	uint32_t valid, active;
	bool is_broken;
};

static bool read_warp(struct gpu_core *core, const struct gpu_core_table *threads,
		      struct warp_row *out)
{
	const struct gpu_core_table *warps, *blocks, *sms;
	uint8_t row[ROW_MAX];
	uint64_t grid;

	*out = (struct warp_row){ .place.has_threads = true, .place.threads = 1 };
	warps = read_above(core, threads, TABLE_WARPS, row);
	if (!warps)
		return false;
	out->place.warp = load_u32(row + 8);
	out->valid = load_u32(row + 12);
	out->active = load_u32(row + 16);
	out->is_broken = load_u32(row + 20) != 0;
	out->pc = load_u32(row + 24) ? load_u64(row) : 0;
	blocks = read_above(core, warps, TABLE_BLOCKS, row);
	if (!blocks)
		return false;
	grid = load_u64(row);
	for (unsigned axis = 0; axis < 3; axis++)
		out->place.block[axis] = load_u32(row + 8 + 4 * axis);
	sms = read_above(core, blocks, TABLE_SMS, row);
	if (!sms)
		return false;
	out->sm = sm_of(sms, row);
	out->place.sm = out->sm.number;
	out->place.device = device_of(core, sms);
	out->place.grid = grid_of(core, out->place.device, grid);
	return true;
}

/*
 * An exception is of a thread, or of the active threads of a warp with an error's address; then it
 * is the multiprocessor that has its number. A warp that a trap instruction stopped has neither.
 */
static void find_exception(struct gpu_core_place *p, const struct warp_row *w, bool is_active)
{
	if (!p->exception && is_active && w->pc)
		p->exception = w->sm.exception ? w->sm.exception : GPU_CORE_UNKNOWN;
	else if (!p->exception && is_active && w->is_broken)
		p->exception = GPU_CORE_TRAP;
	if (p->exception && w->pc)
		p->pc = w->pc;
}

static int read_threads(struct gpu_core *core, const struct gpu_core_table *t)
{
	struct warp_row warp;
	uint8_t row[ROW_MAX];
	int rc = 0;

	if (!read_warp(core, t, &warp))
		return 0;
	for (uint64_t i = 0; i < t->rows && rc == 0; i++) {
		struct gpu_core_place place = warp.place;

		if (!read_row(core, t, i, row))
			break;
		place.lane = load_u32(row + 16);
		if (place.lane >= 32 || !(warp.valid >> place.lane & 1))
			continue;
		place.pc = load_u64(row);
		place.offset = load_u64(row + 8);
		for (unsigned axis = 0; axis < 3; axis++)
			place.thread[axis] = load_u32(row + 20 + 4 * axis);
		place.exception = load_u32(row + 32);
		place.is_called = load_u32(row + 36) != 0;
		find_exception(&place, &warp, warp.active >> place.lane & 1);
		rc = add_place(core, &place);
	}
	return rc;
}

/* Exceptions of multiprocessors, for which no thread is left that has had them. */
static int read_sms(struct gpu_core *core, const struct gpu_core_table *t)
{
	uint32_t device = device_of(core, t);
	uint8_t row[ROW_MAX];
	int rc = 0;

	for (uint64_t i = 0; i < t->rows && rc == 0 && read_row(core, t, i, row); i++) {
		struct sm_row sm = sm_of(t, row);
		struct gpu_core_place place = { .device = device,
						.grid = GPU_CORE_NO_GRID,
						.exception = sm.exception,
						.pc = sm.pc,
						.sm = sm.number };
		uint64_t any;

		if (sm.exception && !map_get(&core->known, known_key(device, sm.number, 0), &any) &&
		    !map_get(&core->known, known_key(device, 0, sm.exception), &any))
			rc = add_place(core, &place);
	}
	return rc;
}

ORDER(by_threads, struct gpu_core_place,
      DOWN(threads) ?: UP(device) ?: UP(sm) ?: UP(warp) ?: UP(lane) ?: UP(pc))

static void sort_places(struct gpu_core *core)
{
	size_t kept = 0;

	for (size_t i = 0; i < core->places.count && core->has_exception; i++)
		if (core->places.data[i].exception)
			core->places.data[kept++] = core->places.data[i];
	core->places.count = core->has_exception ? kept : core->places.count;
	vec_sort(&core->places, by_threads);
}

static int read_tables(struct gpu_core *core, enum table_type type,
		       int (*read)(struct gpu_core *core, const struct gpu_core_table *t))
{
	int rc = 0;

	for (size_t i = 0; i < core->tables.count && rc == 0; i++)
		if (core->tables.data[i].type == type)
			rc = read(core, &core->tables.data[i]);
	return rc;
}

/* --- code --- */

static int add_code(struct gpu_core *core, const struct part *part, uint32_t number,
		    const Elf64_Shdr *s)
{
	(void)number;
	if (!(s->sh_flags & SHF_EXECINSTR) || !s->sh_addr || !s->sh_size ||
	    s->sh_size > UINT64_MAX - s->sh_addr || core->code.count >= CODE_MAX)
		return 0;
	return vec_push(&core->code, ((struct gpu_core_code){ s->sh_addr, s->sh_addr + s->sh_size,
							      part->image }));
}

static int read_images(struct gpu_core *core)
{
	int rc = 0;

	for (size_t i = 0; i < core->images.count && rc != -ENOMEM; i++) {
		const struct part part = { core->images.data[i].offset, core->images.data[i].size,
					   (uint32_t)i };
		Elf64_Ehdr header;

		if (read_header(core, &part, &header))
			rc = visit_sections(core, &part, &header, add_code);
	}
	return rc == -ENOMEM ? rc : 0;
}

uint8_t *gpu_core_code(const struct gpu_core *core, uint64_t address, size_t *size)
{
	for (size_t i = 0; i < core->code.count; i++) {
		const struct gpu_core_code *code = &core->code.data[i];
		const struct gpu_core_image *image = &core->images.data[code->image];
		uint8_t *bytes;

		if (address < code->start || address >= code->end)
			continue;
		bytes = image->size <= IMAGE_MAX ? malloc(image->size) : NULL;
		*size = (size_t)image->size;
		if (bytes && io_read_at(core->fd, image->offset, bytes, *size) == *size)
			return bytes;
		free(bytes);
		return NULL;
	}
	return NULL;
}

/* --- all of it --- */

static int read_all(struct gpu_core *core, const Elf64_Ehdr *header)
{
	const struct part whole = { 0, core->size, 0 };
	int rc = visit_sections(core, &whole, header, add_section);

	if (rc == 0)
		rc = read_tables(core, TABLE_GRIDS, read_grids);
	vec_sort(&core->grids, by_grid);
	if (rc == 0)
		rc = read_tables(core, TABLE_THREADS, read_threads);
	if (rc == 0)
		rc = read_tables(core, TABLE_SMS, read_sms);
	if (rc == 0)
		rc = read_images(core);
	sort_places(core);
	return rc;
}

int gpu_core_open(int fd, struct gpu_core *out, struct error *e)
{
	Elf64_Ehdr header;
	struct part whole;
	struct stat st;
	int rc;

	*out = (struct gpu_core){ .fd = fd, .place_of = MAP_INIT, .known = MAP_INIT };
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return error_set(e, E_FORMAT, "not a core file of a GPU");
	out->size = (uint64_t)st.st_size;
	out->left = out->size + MAX(out->size, LEFT_MIN);
	whole = (struct part){ 0, out->size, 0 };
	if (!read_header(out, &whole, &header) || header.e_type != ET_CORE)
		return error_set(e, E_FORMAT, "not a core file of a GPU");
	rc = read_all(out, &header);
	if (rc == E_FORMAT)
		return error_set(e, rc,
				 "the core file has no sections: it was cut, or is still "
				 "being written");
	return rc < 0 ? error_set(e, rc, "out of memory") : 0;
}

void gpu_core_release(struct gpu_core *core)
{
	vec_release(&core->places);
	vec_release(&core->grids);
	vec_release(&core->images);
	vec_release(&core->code);
	vec_release(&core->tables);
	map_release(&core->place_of);
	map_release(&core->known);
}

const char *gpu_core_exception(uint32_t exception)
{
	static const char *const names[] = {
		[1] = "illegal address",
		[2] = "stack overflow",
		[3] = "hardware stack overflow",
		[4] = "illegal instruction",
		[5] = "address out of range",
		[6] = "misaligned address",
		[7] = "invalid address space",
		[8] = "invalid program counter",
		[9] = "hardware stack overflow",
		[10] = "illegal address, found by the GPU's MMU",
		[11] = "misaligned address",
		[GPU_CORE_ASSERT] = "assertion failed",
		[13] = "error in a system call",
		[14] = "illegal address",
		[15] = "atomic operation on memory that cannot migrate",
		[16] = "invalid atomic operation",
		[17] = "address in the cluster out of range",
		[18] = "block of the cluster not present",
		[19] = "stack canary overwritten",
		[20] = "access to tensor memory refused",
		[21] = "tensor memory not released",
		[22] = "call needs a newer driver",
		[23] = "misaligned program counter",
		[24] = "program counter out of range",
		[25] = "misaligned register",
		[26] = "illegal encoding of an instruction",
		[27] = "illegal parameter of an instruction",
		[28] = "register out of range",
		[29] = "invalid address of a constant",
		[30] = "MMU fault",
		[31] = "barrier arrival error",
		[32] = "uncorrectable error in the cluster",
		[33] = "stack limit exceeded",
		[34] = "block not present",
		[35] = "stack overflow",
		[36] = "error in a tensor memory access",
	};

	if (exception == GPU_CORE_TRAP)
		return "trap instruction";
	if (exception == GPU_CORE_UNKNOWN)
		return "unknown exception";
	return exception < ARRAY_SIZE(names) ? names[exception] : NULL;
}
