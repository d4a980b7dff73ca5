/* host_source.c: rows about the process itself, its threads and the modules mapped into it. */
#include "capture/core/source.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/map.h"
#include "elf/loaded_libraries.h"
#include "format/rows.h"
#include "system/job_rank.h"

#define COMMAND_MAX 65536

static uint32_t file_text(struct writer *w, const char *path, size_t max)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	io_read_text(path, max, &text);
	return writer_string(w, strbuf_text(&text), text.length);
}

static uint32_t link_text(struct writer *w, const char *path)
{
	char target[4096];
	ssize_t n = readlink(path, target, sizeof(target));

	return writer_string(w, target, n > 0 ? (size_t)n : 0);
}

static void process_row(struct writer *w, const struct job_rank *rank, uint64_t start_ns,
			uint64_t end_ns)
{
	char host[256] = "";
	struct row_process row = {
		.pid = (uint32_t)getpid(),
		.parent_pid = (uint32_t)getppid(),
		.start_ns = start_ns,
		.end_ns = end_ns,
		.command = file_text(w, "/proc/self/cmdline", COMMAND_MAX),
		.executable = link_text(w, "/proc/self/exe"),
		.directory = link_text(w, "/proc/self/cwd"),
		.boot_id = file_text(w, "/proc/sys/kernel/random/boot_id", 64),
		.uid = (uint32_t)getuid(),
		.source = process_source_inside,
	};

	gethostname(host, sizeof(host) - 1);
	row.host = rows_text(w, host);
	job_rank_columns(w, rank, &row);
	ROW_MISSING(&row, process, exit_status);
	ROW_MISSING(&row, process, oom_killed);
	ROW_MISSING_IF(&row, process, end_ns, !end_ns);
	writer_append(w, TABLE_process, &row);
}

static bool name_thread(struct writer *w, uint32_t tid, const char *last_name)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	char path[64];
	struct row_thread row = { .tid = tid, .time_ns = clock_monotonic_ns() };

	snprintf(path, sizeof(path), "/proc/self/task/%u/comm", tid);
	io_read_text(path, 64, &name);
	if (!name.length)
		strbuf_adds(&name, last_name);
	row.name = writer_string(w, strbuf_text(&name), name.length);
	if (name.length) /* otherwise the thread has ended, and an earlier name remains */
		writer_append(w, TABLE_thread, &row);
	return true;
}

/* --- modules --- */

#define BUILD_ID_MAX 64u

/* Copy of an executable segment's facts, made while the loader's lock is held. */
struct segment_copy {
	uint64_t start, end, file_offset, bias;
	uint32_t path; /* offset in the list's paths */
	uint32_t build_id_length;
	uint8_t build_id[BUILD_ID_MAX];
};

static struct {
	struct map paths; /* start address -> hash of the path last seen there */
	struct loaded_library_counts counts;
	uint64_t start_ns;
	/*
	 * From the start, and from the runtime's initialization if a script set its rank between
	 * them. has_later: the collector may read `later`, which does not change any more.
	 */
	struct job_rank rank, later;
	atomic_bool has_later;
	bool wrote_later;
} self = { .paths = MAP_INIT };

struct module_list {
	struct segment_copy *segments;
	char *paths;
	/* these count beyond the room as well */
	size_t segment_count, segment_room, path_bytes, path_room;
	struct loaded_library_counts counts;
};

static uint64_t padded(uint32_t size)
{
	return ((uint64_t)size + 3) & ~UINT64_C(3);
}

/* Copies the GNU build id from the notes of a segment. Returns false if there is none. */
static bool build_id_in(const uint8_t *p, const uint8_t *end, struct segment_copy *out)
{
	while ((size_t)(end - p) >= sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)p;
		uint64_t name = padded(note->n_namesz), size = name + padded(note->n_descsz);

		p += sizeof(*note);
		if (size > (size_t)(end - p))
			return false;
		if (note->n_type == NT_GNU_BUILD_ID && name == 4 && memcmp(p, "GNU", 4) == 0) {
			out->build_id_length = MIN(note->n_descsz, BUILD_ID_MAX);
			memcpy(out->build_id, p + name, out->build_id_length);
			return true;
		}
		p += size;
	}
	return false;
}

/* Whether a loaded segment contains the notes; others are in the file only. */
static bool is_loaded(const struct dl_phdr_info *info, const ElfW(Phdr) * notes)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type == PT_LOAD && (ph->p_flags & PF_R) &&
		    notes->p_vaddr >= ph->p_vaddr && notes->p_memsz <= ph->p_filesz &&
		    notes->p_vaddr - ph->p_vaddr <= ph->p_filesz - notes->p_memsz)
			return true;
	}
	return false;
}

static void copy_build_id(const struct dl_phdr_info *info, struct segment_copy *out)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		const uint8_t *notes = (const uint8_t *)(info->dlpi_addr + ph->p_vaddr);

		if (ph->p_type == PT_NOTE && is_loaded(info, ph) &&
		    build_id_in(notes, notes + ph->p_memsz, out))
			return;
	}
}

/*
 * Called with the loader's lock held, so it allocates nothing: it copies into room that was
 * allocated before.
 */
static int copy_module(struct dl_phdr_info *info, size_t size, void *user)
{
	struct module_list *list = user;
	const char *path = info->dlpi_name ? info->dlpi_name : "";
	size_t path_length = strlen(path) + 1;

	(void)size;
	list->counts = (struct loaded_library_counts){ info->dlpi_adds, info->dlpi_subs };
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		struct segment_copy *out;

		if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_X))
			continue;
		if (list->segment_count++ >= list->segment_room ||
		    list->path_bytes + path_length > list->path_room)
			continue;
		out = &list->segments[list->segment_count - 1];
		*out = (struct segment_copy){ .start = info->dlpi_addr + ph->p_vaddr,
					      .end = info->dlpi_addr + ph->p_vaddr + ph->p_memsz,
					      .file_offset = ph->p_offset,
					      .bias = info->dlpi_addr,
					      .path = (uint32_t)list->path_bytes };
		memcpy(list->paths + list->path_bytes, path, path_length);
		copy_build_id(info, out);
	}
	list->path_bytes += path_length;
	return 0;
}

static void hex_text(const uint8_t *bytes, size_t length, char *out)
{
	static const char hex[] = "0123456789abcdef";

	for (size_t i = 0; i < length; i++) {
		*out++ = hex[bytes[i] >> 4];
		*out++ = hex[bytes[i] & 15];
	}
	*out = '\0';
}

static void module_row(struct writer *w, const struct segment_copy *segment, const char *path)
{
	char id[2 * BUILD_ID_MAX + 1], executable[4096];
	struct row_module row;
	uint64_t hash, *known;

	if (!*path) {
		ssize_t n = readlink("/proc/self/exe", executable, sizeof(executable) - 1);

		executable[MAX(n, 0)] = '\0';
		path = executable;
	}
	hash = hash_bytes(path, strlen(path));
	known = map_at(&self.paths, segment->start, ~hash);
	if (!known || *known == hash)
		return;
	*known = hash;
	hex_text(segment->build_id, segment->build_id_length, id);
	row = (struct row_module){
		.path = rows_text(w, path),
		.build_id = rows_text(w, id),
		.start_address = segment->start,
		.end_address = segment->end,
		.file_offset = segment->file_offset,
		.load_bias = segment->bias,
		.loaded_ns = clock_monotonic_ns(),
	};
	ROW_MISSING_IF(&row, module, build_id, !id[0]);
	writer_append(w, TABLE_module, &row);
}

/*
 * Copies the list of modules. It may have grown since it was counted: the next call then finds the
 * rest.
 */
static void copy_modules(struct module_list *list)
{
	loaded_libraries_visit(copy_module, list); /* without room it only counts */
	list->segments = calloc(list->segment_count, sizeof(*list->segments));
	list->paths = malloc(list->path_bytes);
	list->segment_room = list->segments ? list->segment_count : 0;
	list->path_room = list->paths ? list->path_bytes : 0;
	list->segment_count = list->path_bytes = 0;
	loaded_libraries_visit(copy_module, list);
}

/* Writes rows for the modules mapped since the last call. Cheap if there are none. */
static void module_rows(struct writer *w)
{
	struct loaded_library_counts now = loaded_library_counts();
	struct module_list list = { 0 };

	if (now.adds == self.counts.adds && now.subs == self.counts.subs)
		return;
	copy_modules(&list);
	if (list.segment_count <= list.segment_room && list.path_bytes <= list.path_room)
		self.counts = list.counts;
	for (size_t i = 0; i < MIN(list.segment_count, list.segment_room); i++)
		if (list.segments[i].end)
			module_row(w, &list.segments[i], list.paths + list.segments[i].path);
	free(list.segments);
	free(list.paths);
}

/* --- the source --- */

static void start(const struct source_start *start)
{
	(void)start;
	job_rank_read(&self.rank);
	atomic_store(&self.has_later, false);
	self.wrote_later = false;
}

static void extend(const struct source_start *start)
{
	(void)start;
	if (self.rank.launched || atomic_load(&self.has_later))
		return;
	job_rank_read(&self.later);
	atomic_store(&self.has_later, self.later.launched);
}

static const struct job_rank *newest_rank(void)
{
	return atomic_load(&self.has_later) ? &self.later : &self.rank;
}

static void begin(struct writer *w, const struct source_start *start)
{
	self.start_ns = start->start_ns;
	map_clear(&self.paths); /* a new recording has no modules yet */
	self.counts = (struct loaded_library_counts){ 0 };
	process_row(w, &self.rank, self.start_ns, 0);
	module_rows(w);
}

static void periodic(struct writer *w, uint64_t since_ns, uint64_t now_ns)
{
	(void)since_ns;
	(void)now_ns;
	module_rows(w);
	if (atomic_load(&self.has_later) && !self.wrote_later) {
		process_row(w, &self.later, self.start_ns, 0);
		self.wrote_later = true;
	}
}

static void stopped(struct writer *w)
{
	module_rows(w);
	process_row(w, newest_rank(), self.start_ns, clock_monotonic_ns());
}

/* The map's memory is leaked: the collector may have been using it. */
static void after_fork(void)
{
	self.paths = (struct map)MAP_INIT;
}

const struct source host_source = {
	.name = "host",
	.start = start,
	.extend = extend,
	.begin = begin,
	.periodic = periodic,
	.stopped = stopped,
	.after_fork = after_fork,
	.name_thread = name_thread,
};
