/* importer.c: the list of formats, and which of them a source is of. */
#include "import/importer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/io.h"
#include "base/output.h"

#define IMPORTER_ROW(name, reads) { #name, reads, name##_sniff, name##_run },
const struct importer importers[] = { IMPORTERS(IMPORTER_ROW){ .name = NULL } };

/* Describes a source that no importer knows, or that is not what the user says. */
static const char *describe(const struct import_source *s)
{
	static const struct {
		const char *begin, *is;
	} kinds[] = {
		{ "PITOT", "a segment of a Pitot recording, which report and view read" },
		{ "SQLite format 3", "an SQLite database" },
		{ "PK\3\4", "a zip archive" },
		{ "\x7f"
		  "ELF",
		  "an ELF file" },
		{ "{", "JSON" },
		{ "[", "JSON" },
	};
	const struct input *in = &s->input;
	struct stat st;

	if (s->folder >= 0)
		return folder_stat(s->folder, "recording.json", &st) == 0
			       ? "a Pitot recording, which report and view read"
			       : "a folder without files of a known name";
	if (output_path_ends(s->path, ".nsys-rep .qdrep"))
		return "a report of Nsight Systems, which `nsys export --type sqlite` converts for "
		       "pitot import";
	if (!in->head_length)
		return in->is_truncated ? "damaged" : "empty";
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (in->head_length >= strlen(kinds[i].begin) &&
		    !memcmp(in->head, kinds[i].begin, strlen(kinds[i].begin)))
			return kinds[i].is;
	return memchr(in->head, 0, in->head_length) ? "binary data" : "text";
}

/* Says what was found and what can be read. */
static int refuse(const struct import_source *s, struct error *e)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT, cut = STRBUF_INIT;
	struct stat st;

	if (s->folder < 0 && fstat(s->input.fd, &st) == 0 &&
	    input_is_cut_database(&s->input, (uint64_t)st.st_size, &cut))
		return error_set(e, E_FORMAT,
				 "'%s' is an SQLite database that is %s; copy or export it again",
				 s->path, strbuf_text(&cut));
	strbuf_addf(&text, "'%s' is %s; pitot import reads", s->path, describe(s));
	for (const struct importer *i = importers; i->name; i++)
		strbuf_addf(&text, "%s %s", i == importers ? "" : ",", i->name);
	strbuf_adds(&text, "; `pitot import --help` explains them");
	return error_set(e, E_UNSUPPORTED, "%s", strbuf_text(&text));
}

static const struct importer *recognize(const struct import_source *s)
{
	const struct importer *best = NULL;
	int score, highest = 0;

	for (const struct importer *i = importers; i->name; i++) {
		score = i->sniff(s);
		if (score <= highest)
			continue;
		highest = score;
		best = i;
	}
	return best;
}

/* The user has named the path: its links are followed. A pipe's writer is waited for by reading. */
static int open_source(struct import_source *s, const volatile sig_atomic_t *cancel,
		       struct error *e)
{
	bool is_stdin = !strcmp(s->path, "-");
	int fd = is_stdin ? dup(STDIN_FILENO)
			  : open(s->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	int rc;

	if (fd < 0)
		fd = -errno;
	else
		fd = io_above_standard(fd);
	if (fd >= 0 && !is_stdin && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
		close(fd);
		s->folder = folder_open(s->path, FOLDER_ANY);
		return s->folder >= 0 ? 0
				      : error_set(e, s->folder, "cannot read '%s': %s", s->path,
						  error_code_text(s->folder));
	}
	rc = input_open(&s->input, fd, s->path, cancel, e);
	if (rc < 0 || !input_is_database(&s->input))
		return rc;
	rc = input_make_seekable(&s->input);
	return rc < 0 ? error_set(e, rc, "cannot copy '%s' to a temporary file: %s", s->path,
				  error_code_text(rc))
		      : 0;
}

int import_open(struct import_source *s, const char *path, const volatile sig_atomic_t *cancel,
		const struct importer **used, struct error *e)
{
	int rc;

	*s = (struct import_source){ .path = path, .folder = -1, .input.fd = -1 };
	rc = open_source(s, cancel, e);
	if (rc >= 0 && !*used)
		*used = recognize(s);
	return rc < 0 || *used ? rc : refuse(s, e);
}

void import_close(struct import_source *s)
{
	input_close(&s->input);
	fd_close(&s->folder);
}
