/* toy.c: a toy's recordings: {"toy": [{"name": "gemm", "start": 10, "end": 30}, …]}, in ns. */
#include <errno.h>
#include <string.h>

#include "base/json_pull.h"
#include "base/options.h"
#include "format/rows.h"
#include "import/importer.h"

int toy_sniff(const struct import_source *source)
{
	return source->folder < 0 && source->input.head_length > 6 &&
			       !memcmp(source->input.head, "{\"toy\"", 6)
		       ? 90
		       : 0;
}

static void append_kernel(struct writer *w, const char *name, uint64_t start_ns, uint64_t end_ns)
{
	struct row_kernel_config config = { .missing = schema_missing(TABLE_kernel_config),
					    .name = writer_string(w, name, strlen(name)) };
	struct row_kernel kernel = { .missing = schema_missing(TABLE_kernel),
				     .start_ns = start_ns,
				     .end_ns = end_ns,
				     .config = writer_kernel_config(w, &config) };

	kernel.missing &= ~(UINT64_C(3) << COLUMN_kernel_start_ns); /* start and end */
	writer_append(w, TABLE_kernel, &kernel);
}

/* Reads the kernels; an unfinished one is left out. */
static int read_kernels(struct json_pull *p, struct writer *w, struct import_result *result,
			struct error *e)
{
	char name[64] = "";
	uint64_t start_ns = 0, end_ns = 0;
	int rc;

	while ((rc = json_pull_next(p, e)) > 0) {
		const char *key = strbuf_text(&p->key), *text = strbuf_text(&p->text);

		if (rc == JSON_PULL_CLOSE && p->depth == 2) {
			append_kernel(w, name, start_ns, end_ns);
			result->end_ns = MAX(result->end_ns, end_ns);
			result->rows[TABLE_kernel]++;
			result->records++;
		}
		if (rc == JSON_PULL_VALUE && !strcmp(key, "name"))
			strncpy(name, text, sizeof(name) - 1);
		if (rc == JSON_PULL_VALUE && !strcmp(key, "start") &&
		    parse_u64(text, &start_ns) < 0)
			start_ns = 0;
		if (rc == JSON_PULL_VALUE && !strcmp(key, "end") && parse_u64(text, &end_ns) < 0)
			end_ns = 0;
	}
	return rc;
}

int toy_run(struct import_source *source, const struct import_options *options,
	    const char *directory, struct import_result *result, struct error *e)
{
	struct json_pull p = { .read = input_read, .user = &source->input };
	struct row_clock clock = { .missing = schema_missing(TABLE_clock) };
	struct row_process process = { .pid = 1, .missing = schema_missing(TABLE_process) };
	struct writer_options o = { .directory = directory, .prefix = "toy" };
	struct writer *w;
	int rc = writer_open(&o, &w, e);

	(void)options; /* the input knows options->cancel */
	if (rc < 0)
		return rc;
	writer_append(w, TABLE_clock, &clock);
	rc = read_kernels(&p, w, result, e);
	process.end_ns = result->end_ns;
	ROW_PRESENT(&process, process, end_ns);
	writer_append(w, TABLE_process, &process);
	json_pull_release(&p);
	result->files++;
	result->sessions++;
	result->bytes += source->input.raw_bytes;
	if (writer_close(&w) < 0 && rc >= 0)
		rc = error_set(e, -EIO, "cannot write the recording");
	return rc;
}
