"""Processes that were prepared (PITOT_IDLE), and who records them: for tests of attaching."""
import array
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

from waiting import PATIENCE

ROUND = 7000  # launches of launch.tape
MAGIC, STATE, RECORD = 0x31415450, 0, 1
REQUEST, ANSWER = struct.Struct("<II192s4096s8192s"), struct.Struct("<IiI500s")


BLOCKS = r"""
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A call whose name contains BLOCKS_IN does not return while the file BLOCKS exists; then there is BLOCKED. */
void client_step(size_t index, size_t count, const char *function, unsigned site)
{
	(void)index, (void)count;
	if (site != 1 || !function || !strstr(function, getenv("BLOCKS_IN")))
		return;
	while (access(getenv("BLOCKS"), F_OK) == 0) {
		close(creat(getenv("BLOCKED"), 0600));
		usleep(1000);
	}
	unlink(getenv("BLOCKED"));
}
void client_end(void)
{
}
int client_every_round;
"""


def socket_name(pid):
    """Of a prepared process; None: it has none."""
    found = re.search(rf"@(pitot-idle-{pid}-\w+)", Path(f"/proc/{pid}/net/unix").read_text())
    return found and found[1]


def threads(pid):
    """Names of the recorder's threads, except the collector's, which is that of a thread of the tapes, too."""
    names = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            names.append((task / "comm").read_text().strip())
        except OSError:  # it has just ended
            pass
    return sorted(name for name in names if name.startswith("pitot-"))


def is_idle(pid):
    return threads(pid) == ["pitot-idle"]


def attach(pid, program, environment, folder, *options):
    command = [program, "record", "-p", pid, "--gpu-only", "--gpu", "--stacks", "none", "-o", folder, *options]
    return subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**environment, "ASAN_OPTIONS": "detect_leaks=0"})


def end(process, status=0):
    """Ends an attached `pitot record`; what it said."""
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == status, said
    return said


def recordings(pitot, pid):
    """How many go on of a prepared process."""
    said = " ".join(pitot("doctor", "-p", pid).stdout.split())
    return int(re.search(rf"process {pid} is prepared, with libpitot.so [\d.]+; (\d+) recording", said)[1])


def has_kernels(pitot, folder):
    info = pitot("info", folder, "--json", status=None)
    return info.returncode == 0 and json.loads(info.stdout)["tables"].get("kernel", {"rows": 0})["rows"]


def check(rows, folder):
    """Each launch has its kernel, and nothing was lost but what came before.

    On a slow machine the kernels of a round of the tape, or of two, are older than a recording that begins in the middle of it.
    """
    kernels, calls = rows(folder, "kernel", "-c", "correlation"), rows(folder, "api_call", "-c", "correlation,function")
    launches, found = {row["correlation"] for row in calls if "Launch" in row["function"]}, {row["correlation"] for row in kernels}
    assert found and not {launch for launch in launches - found if launch > min(found)}
    assert len(launches - found) < 2 * ROUND, "of the round in which the recording began"
    assert {row["reason"] for row in rows(folder, "loss")} <= {"late_start"}
    return len(kernels)


class Launcher:
    """Speaks to a prepared process, and answers its requests for segments with files in a folder."""

    def __init__(self, pid, folder):
        self.folder, self.files = folder, 0
        self.segments = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.segments.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        name = f"pitot-test-{os.getpid()}-{random.getrandbits(64):x}"
        self.segments.bind("\0" + name)
        self.text = f"{os.geteuid()}:{name}:{'0' * 32}:0:1"
        self.control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.connect("\0" + socket_name(pid))
        self.control.settimeout(0.01)

    def ask(self, wish=RECORD, options="start_ns=1;stacks=none"):
        self.control.send(REQUEST.pack(MAGIC, wish, self.text.encode(), str(self.folder).encode(), options.encode()))
        return self.answer()

    def serve(self):
        try:
            request, _, _, sender = self.segments.recvmsg(64, 4096, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if struct.unpack_from("<I", request, 8)[0] >= 0xfffffff0:
            return
        self.files += 1
        passed = self.passes()
        self.segments.sendmsg([struct.pack("<IIi", 0x31515350, self.files, 0)],
                              [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", passed))] if passed else [], 0, sender)
        for fd in passed:
            os.close(fd)

    def passes(self):
        """The descriptors of a segment."""
        return [os.open(self.folder, os.O_TMPFILE | os.O_RDWR)]

    def answer(self):
        """(error, recordings, text), None if the process closes the connection."""
        end_time = time.monotonic() + PATIENCE
        while time.monotonic() < end_time:
            self.serve()
            try:
                answer = self.control.recv(4096)
            except TimeoutError:
                continue
            except ConnectionResetError:
                return None
            if not answer:
                return None
            magic, error, recordings, text = ANSWER.unpack(answer)
            assert magic == MAGIC
            return error, recordings, text.split(b"\0")[0].decode()
        raise AssertionError("no answer")

    def leave(self):
        self.control.shutdown(socket.SHUT_WR)
        answer = self.answer()
        self.close()
        return answer

    def close(self):
        self.control.close()
        self.segments.close()


def used(pid):
    memory = dict(re.findall(r"(VmRSS|VmSize|RssAnon):\s+(\d+)", Path(f"/proc/{pid}/status").read_text()))
    return {"descriptors": len(os.listdir(f"/proc/{pid}/fd")), "threads": len(os.listdir(f"/proc/{pid}/task")),
            "mappings": len(Path(f"/proc/{pid}/maps").read_text().splitlines()), "KiB": int(memory["RssAnon"])}
