/*
 * gpu_cores.c: core files that the driver writes of GPUs (--gpu-coredump), in folder gpu-cores of
 * a recording. Each is read when it is complete, and what it says are rows of table gpu_core. The
 * files stay, except for those beyond GPU_CORES_BYTES.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/path.h"
#include "elf/gpu_core.h"
#include "format/recording_dir.h"
#include "format/rows.h"
#include "record/recording.h"
#include "symbol/gpu_code.h"

#define GPU_CORES_BYTES ((uint64_t)4 << 30) /* of all files; the first one stays in any case */
#define GPU_CORES_MAX 64u /* files */
#define PLACES_SHOWN 16u /* rows of a file */

struct gpu_core_name {
	char name[NAME_MAX + 1];
	off_t size; /* when it was looked at last */
	bool is_read;
};

struct gpu_cores {
	int folder;
	uint64_t bytes; /* of the files that were read and stay */
	VEC(struct gpu_core_name) files;
};

/* --- the folder --- */

static void emit_off(struct recording *r, const char *reason)
{
	rows_capability(r->writer, feature_gpu_core, capability_state_off, "--gpu-coredump", NULL,
			reason);
	record_emit(r, RECORD_WARNING, "no core files of GPUs: %s", reason);
}

void gpu_cores_open(struct recording *r, struct strbuf *path)
{
	const char *own = record_own_core_variable();
	struct gpu_cores *cores;
	_cleanup_close_ int folder = -1;
	char text[256];

	if (!r->request->gpu_coredump)
		return;
	snprintf(text, sizeof(text), "%s is set, and its owner's settings stay", own ? own : "");
	if (own) {
		emit_off(r, text);
		return;
	}
	if (strchr(r->directory, '%')) {
		emit_off(r, "the driver would replace the % in the recording's path; name another "
			    "one with -o");
		return;
	}
	cores = calloc(1, sizeof(*cores));
	folder = cores ? folder_open_known(r->directory, &r->identity.folder) : -ENOMEM;
	if (folder < 0 || mkdirat(folder, RECORDING_GPU_CORES, 0700) < 0 ||
	    (cores->folder = folder_enter(folder, RECORDING_GPU_CORES, FOLDER_OWN)) < 0) {
		free(cores);
		emit_off(r, "the folder " RECORDING_GPU_CORES " cannot be created");
		return;
	}
	r->gpu_cores = cores;
	strbuf_addf(path, "%s/" RECORDING_GPU_CORES, r->directory);
	rows_capability(r->writer, feature_gpu_core, capability_state_on, "--gpu-coredump", NULL,
			NULL);
}

void gpu_cores_free(struct gpu_cores *cores)
{
	if (!cores)
		return;
	close(cores->folder);
	vec_release(&cores->files);
	free(cores);
}

/* "HOST.PID.TIME.nvcudmp". */
static uint32_t pid_of(const char *name)
{
	unsigned fields = 2; /* points behind it */
	size_t end = strlen(name), start;
	uint32_t pid = 0;

	for (; fields && end; end--)
		fields -= name[end - 1] == '.';
	for (start = end; start && name[start - 1] >= '0' && name[start - 1] <= '9'; start--)
		;
	for (size_t i = start; i < end && end - start <= 9; i++)
		pid = pid * 10 + (uint32_t)(name[i] - '0');
	return pid;
}

/* --- rows --- */

struct core_row {
	struct recording *r;
	const struct gpu_core *core;
	struct row_gpu_core row;
};

static uint32_t text_of(struct recording *r, const struct strbuf *text)
{
	return rows_text(r->writer, strbuf_text(text));
}

static void add_grid(struct core_row *c, const struct gpu_core_grid *g)
{
	struct row_gpu_core *row = &c->row;
	_cleanup_(gpu_code_release) struct gpu_code code = GPU_CODE_INIT;

	if (!g) {
		ROW_MISSING(row, gpu_core, kernel, grid_x, grid_y, grid_z, block_x, block_y,
			    block_z, launch_thread);
		return;
	}
	row->grid_x = g->size[0];
	row->grid_y = g->size[1];
	row->grid_z = g->size[2];
	row->block_x = g->block[0];
	row->block_y = g->block[1];
	row->block_z = g->block[2];
	row->launch_thread = g->thread;
	if (gpu_code_find(c->core, g->entry, &code) > 0 && code.kernel.length)
		row->kernel = text_of(c->r, &code.kernel);
	else
		ROW_MISSING(row, gpu_core, kernel);
}

static void add_threads(struct row_gpu_core *row, const struct gpu_core_place *p)
{
	row->threads = p->threads;
	row->multiprocessor = p->sm;
	row->warp = p->warp;
	row->lane = p->lane;
	row->block_index_x = p->block[0];
	row->block_index_y = p->block[1];
	row->block_index_z = p->block[2];
	row->thread_index_x = p->thread[0];
	row->thread_index_y = p->thread[1];
	row->thread_index_z = p->thread[2];
	if (p->has_threads)
		return;
	ROW_MISSING(row, gpu_core, warp, lane, block_index_x, block_index_y, block_index_z,
		    thread_index_x, thread_index_y, thread_index_z);
}

/*
 * Without an image at the address, the offset is known of code that is the kernel's own. The code
 * names the kernel, too, if no grid does.
 */
static void add_code(struct core_row *c, const struct gpu_core_place *p, bool has_kernel)
{
	struct row_gpu_core *row = &c->row;
	_cleanup_(gpu_code_release) struct gpu_code code = GPU_CODE_INIT;
	unsigned back = p->exception == GPU_CORE_ASSERT && p->pc;
	bool has_code = gpu_code_find(c->core, p->pc - back, &code) > 0;
	bool is_found = has_code && code.function.length;
	bool is_own = !is_found && p->has_threads && !p->is_called && has_kernel;

	if (has_code && !has_kernel && code.kernel.length)
		ROW_SET(row, gpu_core, kernel, text_of(c->r, &code.kernel));
	row->function = is_found ? text_of(c->r, &code.function) : row->kernel;
	row->offset = is_found ? code.offset + back : p->offset;
	row->source_file = text_of(c->r, &code.file);
	row->line = code.line;
	ROW_MISSING_IF(row, gpu_core, function, !is_found && !is_own);
	ROW_MISSING_IF(row, gpu_core, offset, !is_found && !is_own);
	ROW_MISSING_IF(row, gpu_core, source_file, !code.line);
	ROW_MISSING_IF(row, gpu_core, line, !code.line);
}

static void add_exception(struct core_row *c, uint32_t exception)
{
	struct row_gpu_core *row = &c->row;
	const char *name = gpu_core_exception(exception);
	char number[32];

	snprintf(number, sizeof(number), "exception %u", (unsigned)exception);
	row->exception = rows_text(c->r->writer, name ? name : number);
	row->code = exception;
	ROW_MISSING_IF(row, gpu_core, exception, !exception);
	ROW_MISSING_IF(row, gpu_core, code, !exception || exception >= GPU_CORE_TRAP);
}

static void write_place(struct core_row *c, const struct gpu_core_place *p)
{
	const struct gpu_core_grid *grid =
		p->grid == GPU_CORE_NO_GRID ? NULL : &c->core->grids.data[p->grid];

	c->row.device = p->device;
	add_exception(c, p->exception);
	add_grid(c, grid);
	add_threads(&c->row, p);
	add_code(c, p, grid && row_has(&c->row, COLUMN_gpu_core_kernel));
	writer_append(c->r->writer, TABLE_gpu_core, &c->row);
}

/* A file of which nothing is known but its name. */
static void write_unread(struct core_row *c)
{
	static const struct gpu_core_place none = { .grid = GPU_CORE_NO_GRID };

	add_exception(c, 0);
	add_grid(c, NULL);
	add_threads(&c->row, &none);
	add_code(c, &none, false);
	ROW_MISSING(&c->row, gpu_core, device, multiprocessor);
	writer_append(c->r->writer, TABLE_gpu_core, &c->row);
}

/* The moment of a change on the clock of the recording. */
static uint64_t monotonic_of(const struct timespec *changed)
{
	uint64_t now = clock_read_ns(CLOCK_REALTIME), monotonic = clock_monotonic_ns(),
		 then = (uint64_t)changed->tv_sec * NS_PER_S + (uint64_t)changed->tv_nsec,
		 ago = now - MIN(now, then);

	return monotonic - MIN(monotonic, ago);
}

static void write_rows(struct recording *r, const char *name, const struct stat *st,
		       const struct gpu_core *core, const char *reason)
{
	struct core_row c = { .r = r,
			      .core = core,
			      .row = { .time_ns = monotonic_of(&st->st_mtim),
				       .pid = pid_of(name),
				       .file = rows_text(r->writer, name),
				       .reason = rows_text(r->writer, reason) } };
	const struct row_gpu_core empty = c.row;
	size_t shown = MIN(core->places.count, PLACES_SHOWN);

	for (size_t i = 0; i < MAX(shown, 1); i++) {
		c.row = empty;
		ROW_MISSING_IF(&c.row, gpu_core, pid, !c.row.pid);
		ROW_MISSING_IF(&c.row, gpu_core, reason, !*reason);
		if (shown)
			write_place(&c, &core->places.data[i]);
		else
			write_unread(&c);
	}
}

/* --- files --- */

static struct gpu_core_name *file_of(struct gpu_cores *cores, const char *name)
{
	struct gpu_core_name file = { .size = -1 };

	for (size_t i = 0; i < cores->files.count; i++)
		if (!strcmp(cores->files.data[i].name, name))
			return &cores->files.data[i];
	snprintf(file.name, sizeof(file.name), "%s", name);
	if (cores->files.count >= GPU_CORES_MAX || strlen(name) >= sizeof(file.name) ||
	    vec_push(&cores->files, file) < 0)
		return NULL;
	return &cores->files.data[cores->files.count - 1];
}

static void emit_file(struct recording *r, const char *name, const struct gpu_core *core,
		      const char *reason)
{
	const struct gpu_core_place *first = core->places.count ? core->places.data : NULL;
	const char *exception =
		first && first->exception ? gpu_core_exception(first->exception) : NULL;

	record_emit(r, RECORD_NOTE, "core file of a GPU: %s/" RECORDING_GPU_CORES "/%s%s%s%s%s",
		    r->shown, name, exception ? ": " : "", exception ? exception : "",
		    *reason ? "; " : "", reason);
}

/* Files beyond the limit are removed, once they have been read. */
static void trim(struct recording *r, const char *name, uint64_t size, struct strbuf *reason)
{
	struct gpu_cores *cores = r->gpu_cores;
	bool is_first = !cores->bytes;

	if (!is_first && size > GPU_CORES_BYTES - MIN(cores->bytes, GPU_CORES_BYTES) &&
	    unlinkat(cores->folder, name, 0) == 0)
		strbuf_addf(reason, "%sthe file was removed, because there were more than %llu GiB",
			    reason->length ? "; " : "",
			    (unsigned long long)(GPU_CORES_BYTES >> 30));
	else
		cores->bytes += size;
}

/* Returns false: it is not complete, and may become so. */
static bool read_file(struct recording *r, const char *name, const struct stat *st, bool last)
{
	_cleanup_close_ int fd = folder_open_file(r->gpu_cores->folder, name, O_RDONLY, FOLDER_OWN);
	_cleanup_strbuf_ struct strbuf reason = STRBUF_INIT;
	_cleanup_(gpu_core_release) struct gpu_core core = { .fd = -1 };
	struct error e = { 0 };
	int rc = fd < 0 ? error_set(&e, fd, "%s", error_code_text(fd))
			: gpu_core_open(fd, &core, &e);
	bool is_done = last || (rc == 0 && !core.is_incomplete);

	if (rc < 0)
		strbuf_adds(&reason, e.text);
	else if (core.is_incomplete)
		strbuf_adds(&reason, "the file is not complete");
	else if (!core.places.count)
		strbuf_adds(&reason, "no thread ran on a GPU");
	if (is_done) {
		trim(r, name, (uint64_t)st->st_size, &reason);
		write_rows(r, name, st, &core, strbuf_text(&reason));
		emit_file(r, name, &core, strbuf_text(&reason));
	}
	return is_done;
}

/* A file is complete when all of its sections are there, and it has not grown for a look. */
static void look_at(struct recording *r, const char *name, bool last)
{
	struct gpu_core_name *file = file_of(r->gpu_cores, name);
	struct stat st;
	bool is_same;

	if (!file || file->is_read || folder_stat(r->gpu_cores->folder, name, &st) < 0 ||
	    !S_ISREG(st.st_mode))
		return;
	is_same = st.st_size == file->size;
	file->size = st.st_size;
	if (is_same || last)
		file->is_read = read_file(r, file->name, &st, last);
}

void gpu_cores_read(struct recording *r, bool last)
{
	_cleanup_list_ DIR *list = r->gpu_cores ? folder_list(r->gpu_cores->folder) : NULL;
	const char *name;

	while (list && (name = folder_next(list))) {
		if (has_suffix(name, RECORDING_GPU_CORE_SUFFIX))
			look_at(r, name, last);
		else if (last && has_suffix(name, RECORDING_GPU_PIPE_SUFFIX))
			unlinkat(r->gpu_cores->folder, name, 0);
	}
}
