#include "capture/host/process_rows.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/helper_thread.h"
#include "base/io.h"
#include "base/map.h"
#include "format/rows.h"

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

void host_process_row(struct writer *w, uint64_t start_ns, uint64_t end_ns)
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
	ROW_MISSING(&row, process, exit_status);
	if (!end_ns)
		ROW_MISSING(&row, process, end_ns);
	writer_append(w, TABLE_process, &row);
}

bool host_is_deserted(void)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const char *name_end;
	char path[64];
	struct stat task;

	/* One link for each thread beside the usual two. The main one stays among them, as a zombie. */
	if (stat("/proc/self/task", &task) < 0 || task.st_nlink != 3 + helper_threads())
		return false;
	snprintf(path, sizeof(path), "/proc/self/task/%u/stat", (unsigned)getpid());
	io_read_file(path, 1024, &text);
	name_end = strrchr(strbuf_text(&text), ')');
	return name_end && strncmp(name_end, ") Z", 3) == 0;
}

void host_thread_row(struct writer *w, uint32_t tid, const char *last_name)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	char path[64];
	struct row_thread row = { .tid = tid, .time_ns = clock_monotonic_ns() };

	snprintf(path, sizeof(path), "/proc/self/task/%u/comm", tid);
	io_read_text(path, 64, &name);
	if (!name.length)
		strbuf_adds(&name, last_name);
	row.name = writer_string(w, strbuf_text(&name), name.length);
	if (name.length) /* else it has ended: an earlier name stands */
		writer_append(w, TABLE_thread, &row);
}

/* --- modules --- */

static struct {
	struct map paths; /* start address -> hash of the path that was last seen there */
	unsigned long long adds, subs;
} modules = { .paths = MAP_INIT };

static void hex_text(const uint8_t *bytes, size_t length, char *out)
{
	static const char hex[] = "0123456789abcdef";

	for (size_t i = 0; i < length; i++) {
		*out++ = hex[bytes[i] >> 4];
		*out++ = hex[bytes[i] & 15];
	}
	*out = '\0';
}

static uint64_t padded(uint32_t size)
{
	return ((uint64_t)size + 3) & ~UINT64_C(3);
}

/* GNU build id in the notes of a segment as hexadecimal text. false: it is not there. */
static bool build_id_in(const uint8_t *p, const uint8_t *end, char *out, size_t room)
{
	while ((size_t)(end - p) >= sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)p;
		uint64_t name = padded(note->n_namesz), size = name + padded(note->n_descsz);

		p += sizeof(*note);
		if (size > (size_t)(end - p))
			return false;
		if (note->n_type == NT_GNU_BUILD_ID && name == 4 && memcmp(p, "GNU", 4) == 0) {
			hex_text(p + name, MIN(note->n_descsz, (room - 1) / 2), out);
			return true;
		}
		p += size;
	}
	return false;
}

/* Of a loaded module; "" if it has none. */
static void build_id_of(const struct dl_phdr_info *info, char *out, size_t room)
{
	out[0] = '\0';
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		const uint8_t *notes = (const uint8_t *)(info->dlpi_addr + ph->p_vaddr);

		if (ph->p_type == PT_NOTE && build_id_in(notes, notes + ph->p_memsz, out, room))
			return;
	}
}

static void module_row(struct writer *w, const struct dl_phdr_info *info, const ElfW(Phdr) * ph)
{
	char id[129], executable[4096];
	const char *path = info->dlpi_name;
	uint64_t start = info->dlpi_addr + ph->p_vaddr, hash;
	uint64_t *known;
	struct row_module row;

	if (!path || !*path) {
		ssize_t n = readlink("/proc/self/exe", executable, sizeof(executable) - 1);

		executable[MAX(n, 0)] = '\0';
		path = executable;
	}
	hash = hash_bytes(path, strlen(path));
	known = map_at(&modules.paths, start, ~hash);
	if (!known || *known == hash)
		return;
	*known = hash;
	build_id_of(info, id, sizeof(id));
	row = (struct row_module){
		.path = rows_text(w, path),
		.build_id = rows_text(w, id),
		.start_address = start,
		.end_address = start + ph->p_memsz,
		.file_offset = ph->p_offset,
		.load_bias = info->dlpi_addr,
		.loaded_ns = clock_monotonic_ns(),
	};
	if (!id[0])
		ROW_MISSING(&row, module, build_id);
	writer_append(w, TABLE_module, &row);
}

static int on_module(struct dl_phdr_info *info, size_t size, void *user)
{
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X))
			module_row(user, info, &info->dlpi_phdr[i]);
	return 0;
}

/* Looks at the first module only, for the loader's counters. */
static int read_counters(struct dl_phdr_info *info, size_t size, void *user)
{
	unsigned long long *counters = user;

	if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs)) {
		counters[0] = info->dlpi_adds;
		counters[1] = info->dlpi_subs;
	}
	return 1;
}

void host_module_rows(struct writer *w)
{
	unsigned long long now[2] = { 0, 0 };

	dl_iterate_phdr(read_counters, now);
	if (now[0] && now[0] == modules.adds && now[1] == modules.subs)
		return;
	modules.adds = now[0];
	modules.subs = now[1];
	dl_iterate_phdr(on_module, w);
}

void host_reset(void)
{
	map_clear(&modules.paths);
	modules.adds = modules.subs = 0;
}
