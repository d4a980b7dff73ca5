#include "sampler/ebpf/ebpf_allocator.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include <bpf/libbpf.h>

#include "base/clock.h"
#include "base/path.h"
#include "base/timed_work.h"
#include "elf/usdt_notes.h"
#include "sampler/ebpf/ebpf_arguments.h"
#include "sampler/sampled_processes.h"

#define LIBRARY "libc10_cuda.so"
#define PROVIDER "pytorch"
#define FILES_MAX 64u
#define PROBES_MAX 4096u
#define FORK_WAIT_NS (100 * NS_PER_MS)

/* The probes, with as many arguments as are read. */
static const struct {
	const char *name;
	uint32_t kind;
	unsigned arguments;
} known[] = {
	{ "malloc", BPF_RECORD_ALLOCATION, 3 },
	{ "free", BPF_RECORD_RELEASE, 1 },
};

static void keep_error(struct ebpf_allocator *a, const struct error *e)
{
	if (!a->error.code)
		a->error = *e;
}

/* --- libraries --- */

struct reading {
	struct ebpf_allocator *allocator;
	struct allocator_file *file;
	struct error *error;
};

static int add_site(void *user, const struct usdt_probe *probe)
{
	const struct reading *r = user;
	struct ebpf_allocator *a = r->allocator;
	struct bpf_site site = { 0 };
	int count;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (strcmp(probe->name, known[i].name))
			continue;
		if (a->site_count == BPF_SITES)
			return error_set(r->error, E_LIMIT, "there are more than %u probes",
					 BPF_SITES);
		count = ebpf_arguments_read(probe->arguments, site.arguments, known[i].arguments,
					    r->error);
		if (count < 0)
			return count;
		if ((unsigned)count < known[i].arguments)
			return error_set(r->error, E_FORMAT,
					 "probe " PROVIDER
					 ":%s has arguments '%s', of which %u are missing",
					 probe->name, probe->arguments,
					 known[i].arguments - (unsigned)count);
		site.kind = known[i].kind;
		site.count = (uint32_t)count;
		if (vec_push(&r->file->sites,
			     ((struct allocator_site){ probe->offset, probe->semaphore,
						       a->site_count })) < 0)
			return error_set(r->error, -ENOMEM, "out of memory");
		sampler_sites(a->programs)[a->site_count++] = site;
	}
	return 0;
}

/* Reads the probes of a library. It gets none if there is anything that we do not understand. */
static void read_probes(struct ebpf_allocator *a, struct allocator_file *file, const char *path)
{
	uint32_t before = a->site_count;
	struct error e = { 0 };
	struct reading reading = { a, file, &e };
	struct elf_file elf;
	int rc = elf_file_open_fd(file->fd, &elf, &e);

	if (rc == 0) {
		rc = usdt_probes(&elf, PROVIDER, add_site, &reading, &e);
		elf_file_release(&elf);
	}
	if (rc >= 0 && file->sites.count)
		return;
	if (rc >= 0)
		error_set(&e, E_UNSUPPORTED, "it has no static probes");
	a->site_count = before;
	file->sites.count = 0;
	error_prefix(&e, "'%s'", path);
	keep_error(a, &e);
}

/* Finds the library, or reads it. Takes the descriptor. NULL: no room. */
static struct allocator_file *find_file(struct ebpf_allocator *a, int fd, const char *path)
{
	struct allocator_file new = { .fd = fd };
	struct stat st;

	if (fstat(fd, &st) == 0) {
		const uint64_t identity[] = { st.st_dev, st.st_ino, (uint64_t)st.st_size,
					      (uint64_t)st.st_mtim.tv_sec * NS_PER_S +
						      (uint64_t)st.st_mtim.tv_nsec };

		memcpy(new.identity, identity, sizeof(identity));
		for (size_t i = 0; i < a->files.count; i++) {
			if (memcmp(a->files.data[i].identity, identity, sizeof(identity)))
				continue;
			close(fd);
			return &a->files.data[i];
		}
		if (a->files.count < FILES_MAX && vec_push(&a->files, new) == 0) {
			read_probes(a, &a->files.data[a->files.count - 1], path);
			return &a->files.data[a->files.count - 1];
		}
	}
	keep_error(a, &(struct error){ .code = E_LIMIT, .text = "too many libraries " LIBRARY });
	close(fd);
	return NULL;
}

/* --- processes --- */

static bool is_set(const struct ebpf_allocator *a, pid_t pid, uint32_t file)
{
	for (size_t i = 0; i < a->probes.count; i++)
		if (a->probes.data[i].pid == pid && a->probes.data[i].file == file)
			return true;
	return false;
}

static void remove_probe(struct ebpf_allocator *a, size_t i)
{
	bpf_link__destroy(a->probes.data[i].link);
	a->probes.data[i] = a->probes.data[--a->probes.count];
}

static int add_probe(struct ebpf_allocator *a, pid_t pid, uint32_t file,
		     const struct allocator_site *site, struct error *e)
{
	struct allocator_probe new = { .pid = pid, .file = file };
	int rc;

	if (a->probes.count == PROBES_MAX)
		return error_set(e, E_LIMIT, "there are more than %u probes in processes",
				 PROBES_MAX);
	rc = sampler_programs_probe(a->programs, pid, a->files.data[file].fd, site->offset,
				    site->semaphore, site->number, &new.link, e);
	if (rc < 0)
		return rc;
	if (vec_push(&a->probes, new) == 0)
		return 0;
	bpf_link__destroy(new.link);
	return error_set(e, -ENOMEM, "out of memory");
}

/*
 * Releases first: an allocation whose release is not seen would be live forever. All or nothing,
 * for the same reason. A process that is gone is no error.
 */
static void set_probes(struct ebpf_allocator *a, pid_t pid, uint32_t file)
{
	const struct allocator_file *f = &a->files.data[file];
	size_t before = a->probes.count;
	struct error e = { 0 };
	int rc = 0;

	if (is_set(a, pid, file))
		return;
	for (unsigned pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < f->sites.count && rc == 0; i++) {
			const struct allocator_site *site = &f->sites.data[i];
			uint32_t kind = sampler_sites(a->programs)[site->number].kind;

			if ((kind == BPF_RECORD_ALLOCATION) == (pass == 1))
				rc = add_probe(a, pid, file, site, &e);
		}
	}
	a->was_set |= rc == 0 && f->sites.count;
	while (rc < 0 && a->probes.count > before)
		remove_probe(a, a->probes.count - 1);
	if (rc < 0 && rc != -ESRCH)
		keep_error(a, &e);
}

static bool is_library(const char *path)
{
	const char *slash = memrchr(path, '/', mapped_path_length(path));
	size_t length = strlen(LIBRARY);

	return slash && mapped_path_length(slash + 1) == length &&
	       !memcmp(slash + 1, LIBRARY, length);
}

void ebpf_allocator_map(struct ebpf_allocator *a, pid_t pid, const struct target_mapping *mapping)
{
	struct allocator_file *file;
	int fd;

	if (!a->programs || !is_library(mapping->path))
		return;
	fd = targets_open_mapped(a->targets, pid, mapping);
	file = fd < 0 ? NULL : find_file(a, fd, mapping->path);
	if (file)
		set_probes(a, pid, (uint32_t)(file - a->files.data));
}

struct search {
	struct ebpf_allocator *allocator;
	pid_t pid;
};

static int visit_mapping(void *context, const struct target_mapping *mapping)
{
	const struct search *s = context;

	ebpf_allocator_map(s->allocator, s->pid, mapping);
	return 0;
}

void ebpf_allocator_find(struct ebpf_allocator *a, pid_t pid)
{
	struct search search = { a, pid };

	if (a->programs)
		proc_maps_read(pid, visit_mapping, &search);
}

/* Waits to set the probes of a file, once for each process. */
static void add_wait(struct ebpf_allocator *a, pid_t pid, uint32_t file)
{
	for (size_t i = 0; i < a->waits.count; i++)
		if (a->waits.data[i].pid == pid && a->waits.data[i].file == file)
			return;
	if (a->waits.count < PROBES_MAX)
		(void)!vec_push(&a->waits,
				((struct allocator_wait){ pid, file,
							  clock_monotonic_ns() + FORK_WAIT_NS }));
}

void ebpf_allocator_fork(struct ebpf_allocator *a, pid_t parent, pid_t child)
{
	for (size_t i = 0; i < a->probes.count; i++)
		if (a->probes.data[i].pid == parent)
			add_wait(a, child, a->probes.data[i].file);
	for (size_t i = 0, count = a->waits.count; i < count; i++)
		if (a->waits.data[i].pid == parent)
			add_wait(a, child, a->waits.data[i].file);
}

void ebpf_allocator_poll(struct ebpf_allocator *a, uint64_t now_ns)
{
	for (size_t i = a->waits.count; i-- > 0;) {
		struct allocator_wait due = a->waits.data[i];

		if (due.due_ns > now_ns)
			continue;
		a->waits.data[i] = a->waits.data[--a->waits.count];
		set_probes(a, due.pid, due.file);
	}
}

/* The links of a process that has ended. */
struct ended_links {
	size_t count;
	struct bpf_link *links[];
};

static void destroy_links(void *context)
{
	struct ended_links *ended = context;

	for (size_t i = 0; i < ended->count; i++)
		bpf_link__destroy(ended->links[i]);
}

/*
 * Removes probes on another thread, because each of them waits for all processors, up to 80 ms.
 * That is not soon enough for a process that runs another program: it would have them twice.
 */
static void retire_probes(struct ebpf_allocator *a, pid_t pid)
{
	struct ended_links *ended = NULL;
	struct timed_work *work;
	size_t count = 0;

	for (size_t i = 0; i < a->probes.count; i++)
		count += a->probes.data[i].pid == pid;
	if (count)
		ended = malloc(sizeof(*ended) + count * sizeof(*ended->links));
	if (!ended)
		return;
	ended->count = 0;
	for (size_t i = a->probes.count; i-- > 0;) {
		if (a->probes.data[i].pid != pid)
			continue;
		ended->links[ended->count++] = a->probes.data[i].link;
		a->probes.data[i] = a->probes.data[--a->probes.count];
	}
	work = timed_work_start(destroy_links, free, ended);
	if (!work) {
		destroy_links(ended);
		free(ended);
	}
	timed_work_leave(work);
}

void ebpf_allocator_forget(struct ebpf_allocator *a, pid_t pid, bool has_ended)
{
	for (size_t i = a->waits.count; i-- > 0;)
		if (a->waits.data[i].pid == pid)
			a->waits.data[i] = a->waits.data[--a->waits.count];
	if (has_ended)
		retire_probes(a, pid);
	for (size_t i = a->probes.count; i-- > 0;)
		if (a->probes.data[i].pid == pid)
			remove_probe(a, i);
}

bool ebpf_allocator_was_set(const struct ebpf_allocator *a, struct strbuf *reason)
{
	if (a->error.code)
		strbuf_adds(reason, a->error.text);
	else if (!a->was_set)
		strbuf_adds(reason, "no process loaded " LIBRARY ", which has PyTorch's allocator");
	return a->was_set;
}

void ebpf_allocator_release(struct ebpf_allocator *a)
{
	while (a->probes.count)
		remove_probe(a, a->probes.count - 1);
	for (size_t i = 0; i < a->files.count; i++) {
		close(a->files.data[i].fd);
		vec_release(&a->files.data[i].sites);
	}
	vec_release(&a->files);
	vec_release(&a->probes);
	vec_release(&a->waits);
}
