/* capture_target.c: which processes can be captured. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/options.h"
#include "record/capture.h"
#include "sampler/proc_tree.h"

#define SOCKETS_BYTES ((size_t)64 << 20)

/* Whether the process is one of ours, which has segments of others open. */
static bool is_pitot(pid_t pid)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

	return io_process_text(pid, "comm", 64, &name) == 0 &&
	       strcmp(strbuf_text(&name), "pitot") == 0;
}

static bool is_prepared(pid_t pid)
{
	struct error ignored;
	int fd = attach_connect(pid, &ignored);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static bool is_recorded(pid_t pid)
{
	struct live_segment found;

	if (live_segment_find(pid, 0, &found) < 0)
		return false;
	live_segment_release(&found);
	return true;
}

/* `prepared`: whether processes that are prepared and not recorded count. */
static int add(struct capture_targets *out, pid_t pid, bool prepared)
{
	for (size_t i = 0; i < out->pids.count; i++)
		if (out->pids.data[i] == pid)
			return 0;
	if (is_pitot(pid) || !(is_recorded(pid) || (prepared && is_prepared(pid))))
		return 0;
	return vec_push(&out->pids, pid);
}

static int add_below(struct capture_targets *out, pid_t pid)
{
	_cleanup_(proc_tree_release) struct proc_tree tree = { 0 };
	int rc = proc_tree_read(&tree, &pid, 1);

	for (size_t i = 0; i < tree.pids.count && rc >= 0; i++)
		rc = add(out, tree.pids.data[i], true);
	return rc;
}

/* The names of sockets show prepared processes; /proc those that are being recorded. */
static int add_all(struct capture_targets *out)
{
	static const char name[] = "@" ATTACH_NAME;
	_cleanup_strbuf_ struct strbuf sockets = STRBUF_INIT;
	_cleanup_close_ int folder = folder_open("/proc", FOLDER_ANY);
	_cleanup_list_ DIR *list = folder < 0 ? NULL : folder_list(folder);
	const char *at = "", *process;
	uint64_t pid;
	int rc = 0;

	if (io_read_text("/proc/net/unix", SOCKETS_BYTES, &sockets) == 0)
		at = strbuf_text(&sockets);
	while (rc >= 0 && (at = strstr(at, name))) {
		long number = strtol(at += sizeof(name) - 1, NULL, 10);

		if (number > 0 && number <= INT_MAX)
			rc = add(out, (pid_t)number, true);
	}
	while (rc >= 0 && list && (process = folder_next(list)))
		if (parse_u64(process, &pid) == 0 && pid <= INT_MAX)
			rc = add(out, (pid_t)pid, false);
	return rc;
}

int capture_find_targets(pid_t pid, struct capture_targets *out, struct error *e)
{
	int rc = pid ? add(out, pid, true) : add_all(out);

	if (rc >= 0 && pid && !out->pids.count)
		rc = add_below(out, pid);
	if (rc == -ESRCH)
		return error_set(e, rc, "there is no process %d", (int)pid);
	if (rc < 0)
		return error_set(e, rc, "out of memory");
	if (out->pids.count)
		return 0;
	if (pid)
		return attach_connect(pid, e) < 0 ? e->code : 0;
	return error_set(e, -ESRCH,
			 "nothing is being recorded, and no process is prepared; record one with: "
			 "pitot record -- COMMAND");
}
