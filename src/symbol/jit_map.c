#include "symbol/module_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"

/* Returns when the process that has this id now started, in s of CLOCK_REALTIME; 0: none has. */
static int64_t start_of_running(uint32_t pid)
{
	uint64_t tick_ns = NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK), ago_ns;
	struct process_stat stat;

	if (!io_process_stat((pid_t)pid, &stat))
		return 0;
	ago_ns = clock_read_ns(CLOCK_BOOTTIME) - stat.start_ticks * tick_ns;
	return (int64_t)((clock_read_ns(CLOCK_REALTIME) - ago_ns) / NS_PER_S);
}

/* In seconds of CLOCK_REALTIME. */
struct lifetime {
	int64_t start, end;
};

/* The process may have begun long before it was recorded, and its id may have been reused. */
static struct lifetime lifetime_of(const struct symbol_process *p)
{
	int64_t recorded = p->start_unix_ns / (int64_t)NS_PER_S;
	int64_t living = start_of_running(p->pid);

	if (living && recorded && living > recorded + 1)
		return (struct lifetime){ recorded, living };
	return (struct lifetime){ living && living < recorded ? living : recorded, INT64_MAX };
}

static bool is_trusted(const char *path, const struct symbol_process *p)
{
	struct lifetime lifetime = lifetime_of(p);
	struct stat st, owner;
	char process[32];

	snprintf(process, sizeof(process), "/proc/%u", p->pid);
	if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode) || st.st_mtim.tv_sec < lifetime.start ||
	    st.st_mtim.tv_sec >= lifetime.end)
		return false;
	return st.st_uid == 0 || st.st_uid == geteuid() ||
	       (stat(process, &owner) == 0 && st.st_uid == owner.st_uid);
}

int jit_map_open(const struct symbol_process *p, struct perf_map *map, char path[JIT_MAP_PATH_MAX])
{
	int r = -ENOENT;

	for (unsigned in_root = 0; in_root < 2 && r != 0 && r != -ENOMEM; in_root++) {
		char root[32] = "";

		if (in_root)
			snprintf(root, sizeof(root), "/proc/%u/root", p->pid);
		snprintf(path, JIT_MAP_PATH_MAX, "%s/tmp/perf-%u.map", root, p->pid);
		r = is_trusted(path, p) ? perf_map_open(map, path, NULL) : -ENOENT;
	}
	return r == 0 || r == -ENOMEM ? r : -ENOENT;
}
