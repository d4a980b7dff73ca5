"""Perf events: whether the kernel allows them, and what recordings have of them."""
import ctypes
import os
from pathlib import Path

NOBODY = 65534
SYS_PERF_EVENT_OPEN = 298


def perf_errno(uid):
    """What the kernel says to an ordinary perf event of this user: 0, or an errno."""
    attributes = (ctypes.c_uint64 * 16)(1 | 128 << 32, 0, 1000000, 0, 0, 1 | 1 << 5)  # software, CPU clock, user only
    pid = os.fork()
    if pid == 0:
        if uid:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
        libc = ctypes.CDLL(None, use_errno=True)
        fd = libc.syscall(SYS_PERF_EVENT_OPEN, attributes, 0, -1, -1, 0)
        os._exit(ctypes.get_errno() if fd < 0 else 0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def may_read(uid):
    """Whether this user may read the memory of processes of the same user that it has not started."""
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    return uid == 0 or not scope.exists() or scope.read_text().strip() == "0"


def stolen():
    """Seconds that the hypervisor has had this machine's processors. Perf events count them for the thread that would have run, and
    CPU clocks do not: what the one says of a program is more than the other, by no more than this."""
    with open("/proc/stat") as file:
        words = file.readline().split()
    return int(words[8]) / os.sysconf("SC_CLK_TCK") if len(words) > 8 else 0


def capability(rows, recording, name):
    return next(row for row in rows(recording, "capability") if row["name"] == name)


def total(weights):
    return sum(weight for _, weight in weights) / 1e6
