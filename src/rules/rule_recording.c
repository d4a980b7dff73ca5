/* rule_recording.c: rules in a finished recording: its blocks in the order of their first times. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/folder.h"
#include "base/path.h"
#include "base/search.h"
#include "base/starts_with.h"
#include "base/vec.h"
#include "rules/rule_feed.h"

struct ordered_block {
	uint64_t start_ns;
	size_t segment, block;
};

struct recording_files {
	VEC(struct rule_segment *) segments;
	VEC(struct ordered_block) blocks;
	uint64_t end_ns;
};

ORDER(compare_blocks, struct ordered_block, UP(start_ns) ?: UP(segment) ?: UP(block))

/* What cannot be read is for `pitot info --verify` to say. */
static int add_file(struct rule_feed *f, struct recording_files *files, const char *path,
		    struct error *e)
{
	struct rule_segment *s;
	int rc = rule_segment_open(f, path, &s, e);

	if (rc == 0 && vec_push(&files->segments, s) < 0) {
		rule_segment_free(s);
		rc = error_set(e, -ENOMEM, "out of memory");
	}
	return rc;
}

static bool is_wanted(const char *name)
{
	return has_suffix(name, SEGMENT_SUFFIX) && !starts_with(name, "symbols.") &&
	       !starts_with(name, "cpu-");
}

static int add_folder(struct rule_feed *f, struct recording_files *files, const char *path,
		      struct error *e)
{
	_cleanup_list_ DIR *folder = opendir(path);
	struct dirent *entry;
	struct error first = { 0 };
	int rc = folder ? 0 : error_errno(e, errno, "cannot list '%s'", path);

	while (rc != -ENOMEM && folder && (entry = readdir(folder))) {
		_cleanup_strbuf_ struct strbuf file = STRBUF_INIT;

		strbuf_addf(&file, "%s/%s", path, entry->d_name);
		if (!file.failed && is_wanted(entry->d_name))
			rc = add_file(f, files, strbuf_text(&file), first.code ? NULL : &first);
	}
	if (rc == -ENOMEM || !folder || files->segments.count)
		return rc == -ENOMEM || !folder ? rc : 0;
	if (first.code)
		*e = first;
	return first.code ? first.code
			  : error_set(e, E_FORMAT,
				      "'%s' is not a recording: no %s segment in it; name a folder "
				      "that `pitot record` has made",
				      path, SEGMENT_SUFFIX);
}

/* A process that did not end in order ends with its last row. */
static int add_blocks(struct rule_feed *f, struct recording_files *files, size_t i)
{
	struct rule_segment *s = files->segments.data[i];
	const struct segment *segment = rule_segment_blocks(s);
	uint64_t end_ns = 0;

	rule_segment_define(f, s);
	for (size_t block = 0; block < segment->block_count; block++) {
		struct ordered_block b = { segment->blocks[block].header.start_ns, i, block };

		if (vec_push(&files->blocks, b) < 0)
			return -ENOMEM;
		end_ns = MAX(end_ns, segment->blocks[block].header.end_ns);
	}
	files->end_ns = MAX(files->end_ns, end_ns);
	rule_watch_last_seen(rule_feed_watch(f), rule_segment_process(s), end_ns);
	return 0;
}

static int evaluate(struct rule_feed *f, struct recording_files *files)
{
	int rc = 0;

	for (size_t i = 0; i < files->segments.count && rc == 0; i++)
		rc = add_blocks(f, files, i);
	if (rc < 0)
		return rc;
	vec_sort(&files->blocks, compare_blocks);
	for (size_t i = 0; i < files->blocks.count; i++) {
		const struct ordered_block *b = &files->blocks.data[i];

		if (b->start_ns)
			rule_feed_pass(f, b->start_ns - 1);
		rule_segment_read_block(f, files->segments.data[b->segment], b->block);
	}
	rule_feed_pass(f, UINT64_MAX);
	rule_watch_advance(rule_feed_watch(f), files->end_ns);
	return 0;
}

static int read_recording(struct rule_feed *f, const char *path, struct error *e)
{
	struct recording_files files = { .end_ns = 0 };
	struct stat st;
	int rc;

	if (stat(path, &st) < 0)
		return error_errno(e, errno, "cannot open recording '%s'", path);
	rc = S_ISDIR(st.st_mode) ? add_folder(f, &files, path, e) : add_file(f, &files, path, e);
	if (rc == 0 && evaluate(f, &files) < 0)
		rc = error_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; i < files.segments.count; i++)
		rule_segment_free(files.segments.data[i]);
	vec_release(&files.segments);
	vec_release(&files.blocks);
	return rc;
}

int rule_feed_recording(const char *path, const struct rule *rules, unsigned count,
			rule_fired *fired, void *user, struct error *e)
{
	struct rule_watch *watch = rule_watch_new(rules, count, fired, user);
	struct rule_feed *feed = watch ? rule_feed_new(rules, count, watch) : NULL;
	int rc = feed ? read_recording(feed, path, e) : error_set(e, -ENOMEM, "out of memory");

	rule_feed_free(feed);
	rule_watch_free(watch);
	return rc;
}
