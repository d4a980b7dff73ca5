#include "symbol/module_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/folder.h"
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

static bool is_trusted(int fd, const struct symbol_process *p)
{
	struct lifetime lifetime = lifetime_of(p);
	struct stat st, owner;
	char process[32];

	if (fstat(fd, &st) < 0 || st.st_mtim.tv_sec < lifetime.start ||
	    st.st_mtim.tv_sec >= lifetime.end)
		return false;
	snprintf(process, sizeof(process), "/proc/%u", p->pid);
	return st.st_uid == 0 || st.st_uid == geteuid() ||
	       (stat(process, &owner) == 0 && st.st_uid == owner.st_uid);
}

/* Everybody can create files in `tmp`. */
static int read_map(int tmp, const struct symbol_process *p, struct perf_map *map)
{
	_cleanup_close_ int fd = -1;
	char name[32];

	snprintf(name, sizeof(name), "perf-%u.map", p->pid);
	fd = folder_open_file(tmp, name, O_RDONLY, FOLDER_ANY);
	if (fd < 0 || !is_trusted(fd, p))
		return -ENOENT;
	return perf_map_read(map, fd);
}

int jit_map_open(const struct symbol_process *p, struct perf_map *map, char path[JIT_MAP_PATH_MAX])
{
	_cleanup_close_ int root = -1, tmp = folder_open("/tmp", FOLDER_ANY), inner = -1;
	char root_path[32];
	int rc = read_map(tmp, p, map);

	snprintf(path, JIT_MAP_PATH_MAX, "/tmp/perf-%u.map", p->pid);
	if (rc < 0 && rc != -ENOMEM) { /* the process may be in a container */
		snprintf(root_path, sizeof(root_path), "/proc/%u/root", p->pid);
		root = folder_open(root_path, FOLDER_ANY);
		inner = folder_enter(root, "tmp", FOLDER_ANY);
		rc = read_map(inner, p, map);
		snprintf(path, JIT_MAP_PATH_MAX, "%s/tmp/perf-%u.map", root_path, p->pid);
	}
	return rc == 0 || rc == -ENOMEM ? rc : -ENOENT;
}
