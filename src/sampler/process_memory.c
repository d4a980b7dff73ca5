#include "sampler/process_memory.h"

#include <errno.h>
#include <string.h>

#include "elf/elf_file.h"

#define HEADER_BYTES 4096u /* of a mapped file, which core files have */

/* `pitot dump --stacks` reads one, on one thread. */
static const struct core_file *used;

/* A mapped file as it is now; paths of one file follow each other. */
struct mapped_file {
	const char *path;
	struct elf_file now;
	bool is_usable; /* it is an ELF file, and not another one than was mapped */
};

/*
 * Whether the file is not the one that was mapped: the core file has the first page of the latter,
 * with its build id. Unknown: false.
 */
static bool is_replaced(const struct elf_file *now, const struct core_mapping *first)
{
	struct elf_file then;
	uint8_t page[HEADER_BYTES];
	size_t size =
		first->file_offset ? 0 : core_file_read(used, first->start, page, sizeof(page));
	bool is_other;

	if (elf_file_open_bytes(page, size, &then, NULL) < 0)
		return false;
	is_other = then.build_id_size &&
		   (then.build_id_size != now->build_id_size ||
		    memcmp(then.build_id, now->build_id, then.build_id_size) != 0);
	elf_file_release(&then);
	return is_other;
}

static void close_file(struct mapped_file *file)
{
	if (file->is_usable)
		elf_file_release(&file->now);
	*file = (struct mapped_file){ 0 };
}

static void open_file(struct mapped_file *file, const struct core_mapping *first)
{
	if (file->path && !strcmp(file->path, first->path))
		return;
	close_file(file);
	file->path = first->path;
	file->is_usable = elf_file_open(first->path, &file->now, NULL) == 0;
	if (file->is_usable && is_replaced(&file->now, first)) {
		close_file(file);
		file->path = first->path;
	}
}

static struct mapped_file read_last;

void process_memory_use_core(const struct core_file *core)
{
	close_file(&read_last);
	used = core;
}

/* Reads what the core file omits, from the file that was mapped. */
static size_t read_omitted(uint64_t address, void *out, size_t size)
{
	const struct core_mapping *m = core_file_omitted(used, address), *first = m;
	struct elf_bytes bytes;

	if (!m)
		return 0;
	while (first > used->mappings.data && first->file_offset &&
	       !strcmp(first[-1].path, m->path))
		first--;
	open_file(&read_last, first);
	bytes.size = MIN(size, m->end - address);
	if (!read_last.is_usable ||
	    m->file_offset + (address - m->start) >
		    read_last.now.size - MIN(bytes.size, read_last.now.size))
		return 0;
	bytes.data = read_last.now.bytes + m->file_offset + (address - m->start);
	if (!elf_load(&read_last.now, bytes))
		return 0;
	memcpy(out, bytes.data, bytes.size);
	return bytes.size;
}

/* The next local bytes, of which `at` are filled in the first buffer. */
static ssize_t read_core(const struct iovec *local, size_t local_count, const struct iovec *remote,
			 size_t remote_count)
{
	size_t done = 0, at = 0, l = 0;

	for (size_t r = 0; r < remote_count; r++) {
		size_t from = 0;

		while (from < remote[r].iov_len && l < local_count) {
			size_t part = MIN(remote[r].iov_len - from, local[l].iov_len - at), n;

			n = core_file_read(used, (uintptr_t)remote[r].iov_base + from,
					   (char *)local[l].iov_base + at, part);
			if (n < part)
				n += read_omitted((uintptr_t)remote[r].iov_base + from + n,
						  (char *)local[l].iov_base + at + n, part - n);
			done += n;
			from += n;
			at += n;
			if (n < part) {
				errno = EFAULT;
				return done ? (ssize_t)done : -1;
			}
			if (at == local[l].iov_len) {
				at = 0;
				l++;
			}
		}
	}
	return (ssize_t)done;
}

ssize_t process_memory_read(pid_t pid, const struct iovec *local, size_t local_count,
			    const struct iovec *remote, size_t remote_count)
{
	if (pid != CORE_PROCESS)
		return process_vm_readv(pid, local, local_count, remote, remote_count, 0);
	if (used)
		return read_core(local, local_count, remote, remote_count);
	errno = ESRCH;
	return -1;
}

/* Debuggers leave code out of core files: that it is code is known from the file. */
static bool is_code(const struct mapped_file *file, const struct core_mapping *m)
{
	for (size_t i = 0; file->is_usable && i < file->now.segment_count; i++) {
		const struct elf_segment *s = &file->now.segments[i];

		if (s->type == PT_LOAD && s->flags & PF_X && s->file_size &&
		    m->file_offset < s->offset + s->file_size &&
		    s->offset < m->file_offset + (m->end - m->start))
			return true;
	}
	return false;
}

int process_memory_core_maps(proc_map_visit *visit, void *context)
{
	struct mapped_file file = { 0 };
	int rc = 0;

	for (size_t i = 0; used && i < used->mappings.count && rc == 0; i++) {
		const struct core_mapping *m = &used->mappings.data[i];
		const struct target_mapping mapping = { .start = m->start,
							.end = m->end,
							.file_offset = m->file_offset,
							.path = m->path };

		open_file(&file, m);
		if (is_code(&file, m))
			rc = visit(context, &mapping);
	}
	close_file(&file);
	for (size_t i = 0; used && i < used->loads.count && rc == 0; i++) {
		const struct core_load *load = &used->loads.data[i];
		const struct target_mapping mapping = { .start = load->start,
							.end = load->end,
							.path = "" };

		if (load->is_executable && !core_file_mapping(used, load->start))
			rc = visit(context, &mapping);
	}
	return rc;
}
