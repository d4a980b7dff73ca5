#include "format/writer_state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"

static void prepare_tables(struct writer *w)
{
	const struct table_schema *configs = schema_table(TABLE_kernel_config);

	for (unsigned id = 1; id <= TABLE_MAX; id++) {
		struct table_buffer *t = &w->tables[id];

		t->schema = schema_table(id);
		t->config_column = t->function_column = t->stack_column = t->node_column = -1;
		for (int c = 0; c < t->schema->column_count; c++) {
			const struct column_schema *column = &t->schema->columns[c];

			if (column->type == COLUMN_TYPE_STRING)
				t->strings |= UINT64_C(1) << c;
			if (column->type == COLUMN_TYPE_REF && column->ref == TABLE_kernel_config)
				t->config_column = c;
			if (column->type == COLUMN_TYPE_REF && column->ref == TABLE_api_function)
				t->function_column = c;
			if (column->type == COLUMN_TYPE_U32 && strcmp(column->name, "stack") == 0)
				t->stack_column = c;
			if (strcmp(column->name, "graph_node") == 0)
				t->node_column = c;
		}
	}
	for (int c = 0; c < configs->column_count; c++)
		if (c != COLUMN_kernel_config_id)
			memset((uint8_t *)w->config_mask + configs->columns[c].row_offset, 0xff,
			       configs->columns[c].width);
	memset(w->config_mask, 0xff, sizeof(uint64_t));
}

static void set_options(struct writer *w, const struct writer_options *o)
{
	size_t string_bytes = o->string_bytes_max ? o->string_bytes_max : 8u << 20;

	w->segment_bytes = o->segment_bytes ? o->segment_bytes : 64u << 20;
	w->max_bytes = o->max_bytes;
	w->string_length_max =
		o->string_length_max ? MIN(o->string_length_max, WRITER_BYTES_MAX) : 64u << 10;
	id_space_init(&w->strings, STRING_FIRST, string_bytes / 2, SIZE_MAX);
	w->texts_base = STRING_FIRST;
	id_space_init(&w->configs, 0, SIZE_MAX, WRITER_CONFIGS_MAX);
}

static int set_identity(struct writer *w, const struct writer_options *o)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	w->directory = realpath(o->directory, NULL);
	if (!w->directory)
		return -errno;
	w->prefix = strdup(o->prefix ? o->prefix : pid);
	w->functions = calloc(WRITER_FUNCTIONS_MAX, sizeof(*w->functions));
	w->file.index = malloc(INDEX_BLOCKS_MAX * sizeof(*w->file.index));
	if (!w->prefix || !w->functions || !w->file.index)
		return -ENOMEM;
	w->identity.directory = w->directory;
	w->identity.prefix = w->prefix;
	w->identity.pid = (uint32_t)getpid();
	if (getrandom(&w->identity.session, sizeof(w->identity.session), 0) !=
	    sizeof(w->identity.session))
		w->identity.session = hash_u64(clock_monotonic_ns() ^ (uint64_t)getpid() << 40);
	return 0;
}

static void free_writer(struct writer **w)
{
	struct writer *old = *w;

	*w = NULL;
	segment_file_forget(&old->file);
	for (unsigned t = 1; t <= TABLE_MAX; t++) {
		free(old->tables[t].rows);
		strbuf_release(&old->tables[t].bytes);
		free(old->tables[t].memory.items);
		map_release(&old->tables[t].memory.index);
	}
	block_builder_release(&old->builder);
	strbuf_release(&old->out);
	strbuf_release(&old->scratch);
	id_space_release(&old->strings);
	id_space_release(&old->configs);
	map_release(&old->function_index);
	arena_release(&old->function_names);
	arena_release(&old->text_arena);
	vec_release(&old->texts);
	map_release(&old->text_index);
	free(old->functions);
	free(old->file.index);
	free(old->directory);
	free(old->prefix);
	free(old);
}

int writer_open(const struct writer_options *options, struct writer **out, struct error *e)
{
	struct writer *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return error_errno(e, ENOMEM, "cannot write to '%s'", options->directory);
	w->file.fd = -1;
	w->serial = w->repeated_serial = 1;
	prepare_tables(w);
	set_options(w, options);
	r = set_identity(w, options);
	if (r == 0)
		r = block_builder_init(&w->builder, WRITER_ROWS_MAX,
				       options->compression_level ? options->compression_level : 1);
	/* What losses and a short index need later is there from the beginning. */
	if (r == 0 && (!strbuf_reserve(&w->out, 2 * RESERVE_BYTES) ||
		       !strbuf_reserve(&w->scratch, RESERVE_BYTES)))
		r = -ENOMEM;
	if (r < 0)
		error_errno(e, -r, "cannot write to '%s'", options->directory);
	else
		r = writer_next_segment(w, e);
	if (r < 0) {
		free_writer(&w);
		return r;
	}
	*out = w;
	return 0;
}

int writer_close(struct writer **w)
{
	int r, finish = 0;

	if (!*w)
		return 0;
	r = writer_flush(*w);
	writer_keep_losses(*w);
	if ((*w)->file.fd >= 0)
		finish = segment_file_finish(&(*w)->file, &(*w)->scratch);
	free_writer(w);
	return r < 0 ? r : finish;
}

void writer_abandon(struct writer **w)
{
	if (*w)
		free_writer(w);
}
