#include "cli/diff_github.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/io.h"

#define SUMMARY_BYTES_MAX (1u << 20) /* of a step; GitHub discards a longer one */

static int append(int folder, const char *name, const struct strbuf *text)
{
	_cleanup_close_ int fd = folder_open_file(folder, name, O_WRONLY | O_APPEND, FOLDER_ANY);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size + text->length > SUMMARY_BYTES_MAX ||
	    io_allowed((uint64_t)st.st_size, text->length) < text->length)
		return -EFBIG;
	return io_write_all(fd, text->data, text->length);
}

static void add_summary(const struct context *c, struct comparison_view v)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT, path = STRBUF_INIT;
	const char *file = secure_getenv("GITHUB_STEP_SUMMARY");
	_cleanup_close_ int folder = -1;
	const char *name;
	int rc;

	if (!file || *file != '/')
		return;
	name = strrchr(file, '/') + 1;
	strbuf_add(&path, file, (size_t)(name - file));
	v.out = &text;
	comparison_print_markdown(&v);
	folder = path.failed || text.failed ? -ENOMEM : folder_open(strbuf_text(&path), FOLDER_ANY);
	rc = append(folder, name, &text);
	if (rc < 0)
		cli_warn(c,
			 "the summary of the step was not written to '%s', which "
			 "GITHUB_STEP_SUMMARY names: %s",
			 file, error_code_text(rc));
}

int diff_github(const struct context *c, const struct comparison_view *v)
{
	_cleanup_strbuf_ struct strbuf after = STRBUF_INIT;
	struct comparison_view view = *v;
	int status, rc;

	view.out = &after;
	comparison_print_github(&view);
	add_summary(c, *v);
	if (c->json) {
		status = cli_print(c, v->out);
		rc = after.failed ? -ENOMEM : io_write_all(2, after.data, after.length);
		return rc < 0 ? EXIT_FAILED : status;
	}
	strbuf_add(v->out, after.data, after.length);
	v->out->failed |= after.failed;
	return cli_print(c, v->out);
}
