"""GPU work of running processes that were prepared (PITOT_IDLE): recorded, ended, left as they were; and who is refused."""
import array
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from waiting import PATIENCE, wait_until

NOBODY = 65534
ROUND = 7000  # launches of launch.tape
MAGIC, STATE, RECORD = 0x31415450, 0, 1
REQUEST, ANSWER = struct.Struct("<II192s4096s8192s"), struct.Struct("<IiI500s")


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


@pytest.fixture
def prepared(player, build, source, environment, tmp_path):
    """prepared("launch", "--repeat", "100"): a process that plays a tape and is prepared; it ends with the test."""
    processes = []

    def start(tape, *arguments, user=None, wrap=(), folder=build, **variables):
        library = str(folder / "libpitot.so")
        path = tape if isinstance(tape, Path) else source / f"tests/data/tapes/{tape}.tape"
        own = {"PITOT_IDLE": "1", "CUDA_INJECTION64_PATH": library, "NVTX_INJECTION64_PATH": library,
               "LSAN_OPTIONS": f"suppressions={Path(__file__).parent}/leaks.txt:print_suppressions=0"}
        command = [*wrap, folder / "standin/tape-play", "--realtime", *arguments, path]
        processes.append(subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, user=user, group=user,
                                          extra_groups=None if user is None else [], env={**environment, **own, **variables}))
        wait_until(lambda: "WAITS" in variables or socket_name(processes[-1].pid), "it is prepared", processes[-1])
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def for_ever(prepared):
    """A process that launches kernels until the test is over."""
    return prepared("launch", "--repeat", "1000000")


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


def test_in_turn(for_ever, pitot, rows, tmp_path):
    """As often as wanted, and the process is left as it was."""
    assert is_idle(for_ever.pid)
    for name in "first", "second":
        folder = tmp_path / f"{name}.pitot"
        said = pitot("record", "-p", for_ever.pid, "--gpu-only", "--stacks", "none", "--duration", "500ms", "-o", folder).stderr
        assert f"recording the GPU work of process {for_ever.pid}, which was prepared" in said
        assert f"process {for_ever.pid} was recorded" in said and "warning" not in said
        check(rows, folder)
        states = {row["name"]: row["actual"] for row in rows(folder, "capability")}
        assert states["injection"] == "prepared process"
        wait_until(lambda: is_idle(for_ever.pid), "the recorder's threads end", for_ever)


def test_what_calls_wait_for(prepared, make_tape, pitot, rows, tmp_path):
    """Streams and events that were made before the recording began are those that the calls name."""
    process = prepared(make_tape("waits", 3), "--repeat", "1000000")
    folder = tmp_path / "a.pitot"
    pitot("record", "-p", process.pid, "--gpu-only", "--stacks", "none", "--duration", "1s", "-o", folder)
    seen = {(row["function"], row["stream"], row["event"] is not None) for row in rows(folder, "api_call")}
    assert seen == {("cuLaunchKernel", None, False), ("cuGraphLaunch", None, False), ("cuEventRecord", 8, True),
                    ("cuEventRecordWithFlags", 9, True), ("cuStreamWaitEvent", 9, True), ("cuLaunchHostFunc", 9, False),
                    ("cuEventSynchronize", None, True), ("cuStreamSynchronize", 8, False)}


def test_at_once(for_ever, program, environment, pitot, rows, tmp_path):
    folders = [tmp_path / f"{i}.pitot" for i in range(3)]
    clients = [attach(for_ever.pid, program, environment, folder) for folder in folders]
    for client, folder in zip(clients, folders):
        wait_until(lambda folder=folder: has_kernels(pitot, folder), "each of them records", client)
    assert recordings(pitot, for_ever.pid) == 3
    assert "another recording of the process goes on" in end(clients[0])
    assert "another" not in end(clients[1]) or clients[2].poll() is None
    end(clients[2])
    for folder in folders:
        check(rows, folder)
    wait_until(lambda: is_idle(for_ever.pid), "the recorder's threads end", for_ever)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_client_that_dies(for_ever, program, environment, pitot, tmp_path, number):
    client = attach(for_ever.pid, program, environment, tmp_path / "a.pitot")
    wait_until(lambda: has_kernels(pitot, tmp_path / "a.pitot"), "it records", client)
    client.send_signal(number)
    client.communicate(timeout=PATIENCE)
    wait_until(lambda: is_idle(for_ever.pid), "its recording ends", for_ever)
    assert recordings(pitot, for_ever.pid) == 0


def test_a_process_that_ends(prepared, program, environment, pitot, rows, tmp_path):
    process = prepared("launch", "--end-when", tmp_path / "end")
    client = attach(process.pid, program, environment, tmp_path / "a.pitot")
    wait_until(lambda: recordings(pitot, process.pid) == 1, "it records", client)
    (tmp_path / "end").touch()
    assert process.wait(timeout=PATIENCE) == 0
    said = client.communicate(timeout=PATIENCE)[1]
    assert client.returncode == 0 and "does not answer" not in said, said
    info = pitot("info", tmp_path / "a.pitot", "--json", json_output=True)
    # A sanitizer has a process of its own at the end, of which little is known.
    assert [(each["pid"], each["closed"]) for each in info["processes"] if each["recorded"]] == [(process.pid, True)]


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


@pytest.fixture
def blocked(prepared, tmp_path):
    """blocked("launch", "Launch", …): a prepared process, and two files: while the first exists, such a call blocks; then the second does."""
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", tmp_path / "blocks.so"], input=BLOCKS, text=True, check=True)
    block, is_blocked = tmp_path / "block", tmp_path / "is_blocked"

    def start(tape, call, *arguments):
        process = prepared(tape, "--client", tmp_path / "blocks.so", *arguments, BLOCKS_IN=call, BLOCKS=str(block), BLOCKED=str(is_blocked))
        return process, block, is_blocked

    return start


def test_nothing_remains_on_the_calls(blocked, prepared, program, environment, pitot, rows, tmp_path):
    """Before and after a recording CUPTI calls nobody."""
    (tmp_path / "block").touch()
    process, block, is_blocked = blocked("launch", "Launch", "--repeat", "5", "--counts", tmp_path / "counts")
    wait_until(is_blocked.exists, "it is blocked", process)
    client = attach(process.pid, program, environment, tmp_path / "a.pitot")
    wait_until(lambda: recordings(pitot, process.pid) == 1, "it records", client)
    block.unlink()
    wait_until(lambda: has_kernels(pitot, tmp_path / "a.pitot"), "it records", client)
    block.touch()
    wait_until(is_blocked.exists, "it is blocked", process)
    end(client)
    block.unlink()
    assert process.wait(timeout=PATIENCE) == 0
    counts = {line.split()[0]: int(line.split()[1]) for line in (tmp_path / "counts").read_text().splitlines()}
    recorded = len(rows(tmp_path / "a.pitot", "api_call"))
    assert 2 * recorded <= counts["callbacks"] + 2 and counts["callbacks"] < 2 * recorded + 100 < counts["callbacks_withheld"]


def test_nobody_comes(prepared, tmp_path):
    process = prepared("launch", "--counts", tmp_path / "counts")
    assert process.wait(timeout=PATIENCE) == 0
    counts = {line.split()[0]: int(line.split()[1]) for line in (tmp_path / "counts").read_text().splitlines()}
    assert counts["callbacks"] == counts["buffers"] == 0 < counts["callbacks_withheld"]


def test_a_thread_that_is_blocked_in_a_call(blocked, program, environment, pitot, rows, tmp_path):
    """For ever: the process is left in time all the same."""
    process, block, is_blocked = blocked("sync", "StreamSynchronize", "--repeat", "1000000")
    client = attach(process.pid, program, environment, tmp_path / "a.pitot")
    wait_until(lambda: has_kernels(pitot, tmp_path / "a.pitot"), "it records", client)
    block.touch()
    wait_until(is_blocked.exists, "it is blocked", process)
    said = end(client)
    assert "warning" not in said, said
    wait_until(lambda: is_idle(process.pid), "the recorder's threads end", process)
    assert {row["reason"] for row in rows(tmp_path / "a.pitot", "loss")} <= {"late_start"}


def test_cupti_hangs(prepared, program, environment, pitot, tmp_path):
    """The client is told what stays, and where; it is over when the call returns, if it does."""
    (tmp_path / "faults").write_text(f"hang cuptiActivityFlushAll when {tmp_path}/hang\n")
    process = prepared("launch", "--repeat", "1000000", "--faults", tmp_path / "faults")
    client = attach(process.pid, program, environment, tmp_path / "a.pitot")
    wait_until(lambda: has_kernels(pitot, tmp_path / "a.pitot"), "it records", client)
    (tmp_path / "hang").touch()
    said = end(client)
    assert re.search(rf"warning: process {process.pid}: (cuptiActivityFlushAll has not returned for [\d.]+ s: the recorder leaves when it has"
                     r"|.*does not answer)", said), said
    assert process.poll() is None


def test_another_tool_holds_cupti(prepared, pitot, tmp_path):
    (tmp_path / "faults").write_text("call cuptiSubscribe_v2 returns 39\n")
    process = prepared("launch", "--repeat", "1000000", "--faults", tmp_path / "faults")
    said = pitot("record", "-p", process.pid, "--gpu", "--gpu-only", "--duration", "300ms", "-o", tmp_path / "a.pitot").stderr
    assert f"warning: process {process.pid}: no GPU work: another tool holds CUPTI in this process: " in said and "stop it" in said
    wait_until(lambda: is_idle(process.pid), "the recorder's threads end", process)


def test_children(prepared, pitot, source, tmp_path, environment, build, sanitizer):
    """The child of a fork is prepared itself, and holds nothing of its parent's."""
    program = tmp_path / "forks.py"
    program.write_text("import os, time\npid = os.fork()\nopen('pids', 'w').write(f'{os.getpid()} {pid}') if pid else None\ntime.sleep(1000)\n")
    library = str(build / "libpitot.so")
    process = subprocess.Popen(["python3", program], cwd=tmp_path, start_new_session=True,
                               env={**environment, "PITOT_IDLE": "1", "LD_PRELOAD": f"{sanitizer}{library}", "ASAN_OPTIONS": "detect_leaks=0"})
    try:
        parent, child = map(int, wait_until(lambda: (tmp_path / "pids").exists() and (tmp_path / "pids").read_text().split(), "it forks", process))
        wait_until(lambda: socket_name(child), "the child is prepared")
        assert socket_name(parent) and is_idle(parent) and is_idle(child)
        assert pitot("doctor", "-p", child).returncode == 0
        os.kill(parent, signal.SIGKILL)
        process.wait()
        wait_until(lambda: f"pitot-idle-{parent}-" not in Path("/proc/net/unix").read_text(), "the parent's socket is gone")
        assert pitot("doctor", "-p", child).returncode == 0
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_process_that_executes_another_program(program, environment, pitot, tmp_path, build, sanitizer):
    """The recording goes on until it is ended, and says so."""
    library = str(build / "libpitot.so")
    script = "import os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\nos.execv('/bin/sleep', ['sleep', '1000'])\n"
    process = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, env={
        **environment, "PITOT_IDLE": "1", "LD_PRELOAD": f"{sanitizer}{library}", "ASAN_OPTIONS": "detect_leaks=0"})
    try:
        wait_until(lambda: socket_name(process.pid), "it is prepared", process)
        client = attach(process.pid, program, environment, tmp_path / "a.pitot")
        wait_until(lambda: recordings(pitot, process.pid) == 1, "it records", client)
        (tmp_path / "go").touch()
        wait_until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n", "it executes sleep", process)
        assert f"process {process.pid} has executed another program: its GPU work is recorded until then" in end(client)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


# --- the protocol ---


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


def test_many_times(prepared, source, sanitized, tmp_path):
    """Nothing leaks: threads, descriptors, mappings, bytes. A thousand times are the same.

    What the process has in memory also grows by what the stand-in remembers of records, and by pages of buffers that are used for the first
    time. So below a sanitizer the recorder's own allocations are counted, those that it still has a pointer to, too.
    """
    client, memory = [], tmp_path / "memory"
    if sanitized:
        subprocess.run(["cc", "-D_GNU_SOURCE", "-O1", "-shared", "-fPIC", source / "tests/integration/recorders_memory.c", "-o", tmp_path / "recorders_memory.so"], check=True)
        client = ["--client", tmp_path / "recorders_memory.so"]
    # A sanitizer holds what was freed for a while.
    process = prepared("launch", *client, "--end-when", tmp_path / "end", RECORDERS_MEMORY=str(memory),
                       ASAN_OPTIONS="quarantine_size_mb=1:thread_local_quarantine_size_kb=64")
    before, seen = used(process.pid), []
    for i in range(300):
        launcher = Launcher(process.pid, tmp_path)
        error, recordings, text = launcher.ask()
        assert (error, recordings, text) == (0, 1, ""), text
        assert launcher.leave() == (0, 0, "") and launcher.files >= 1
        if i % 50 == 49:
            wait_until(lambda: is_idle(process.pid), "the recorder's threads end", process)
            seen.append({**used(process.pid), **(dict(zip(("allocations", "bytes"), struct.unpack("QQ", memory.read_bytes()))) if sanitized else {})})
    wait_until(lambda: used(process.pid)["threads"] <= before["threads"], "the recorder's threads end", process)
    assert seen[-1]["descriptors"] == before["descriptors"], seen
    assert seen[-1]["mappings"] < seen[0]["mappings"] + 20 and seen[-1]["KiB"] < seen[0]["KiB"] + (16 << 10), seen
    if sanitized:
        assert 0 < seen[-1]["allocations"] < seen[0]["allocations"] + 5 and seen[-1]["bytes"] < seen[0]["bytes"] + (16 << 10), seen
    (tmp_path / "end").touch()
    assert process.wait(timeout=PATIENCE) == 0


def test_hostile_requests(for_ever, pitot, rows, tmp_path):
    """Whatever somebody of the same user sends, the process goes on, and can be recorded."""
    chance = random.Random(7)
    whole = REQUEST.pack(MAGIC, RECORD, b"0:x:" + b"0" * 32 + b":0:1", b"/nowhere", b"stacks=none")
    for i in range(200):
        launcher = Launcher(for_ever.pid, tmp_path)
        kind = i % 5
        if kind == 0:
            message = chance.randbytes(chance.randrange(1, 20000))
        elif kind == 1:
            message = whole[:chance.randrange(1, len(whole))]
        elif kind == 2:
            message = struct.pack("<II", MAGIC, chance.getrandbits(32)) + chance.randbytes(REQUEST.size - 8)
        elif kind == 3:
            message = whole[:8] + b"x" * (REQUEST.size - 8)  # texts without an end
        else:
            at = chance.randrange(8, 4400)
            message = whole[:at] + chance.randbytes(40) + whole[at + 40:]
        try:
            launcher.control.send(message)
            if chance.random() < 0.5:
                launcher.answer()
        except (BrokenPipeError, ConnectionResetError):
            pass
        launcher.close()
    silent = [Launcher(for_ever.pid, tmp_path) for _ in range(20)]  # more than there is room for
    for launcher in silent:
        launcher.close()
    wait_until(lambda: is_idle(for_ever.pid), "all are gone", for_ever)
    pitot("record", "-p", for_ever.pid, "--gpu-only", "--stacks", "none", "--duration", "500ms", "-o", tmp_path / "a.pitot")
    check(rows, tmp_path / "a.pitot")


def read_end():
    ends = os.pipe()
    os.close(ends[1])
    return ends[0]


def wrong_descriptors(folder):
    """What a hostile launcher may pass in place of an empty file, by name."""
    (folder / "full").write_text("full")
    (folder / "empty").touch()
    return {"nothing": lambda: [], "a pipe": lambda: [read_end()], "a device": lambda: [os.open("/dev/full", os.O_RDWR)],
            "a folder": lambda: [os.open(folder, os.O_RDONLY)], "a file that is not empty": lambda: [os.open(folder / "full", os.O_RDWR)],
            "a socket": lambda: [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).detach()],
            "a path": lambda: [os.open(folder / "empty", os.O_PATH)], "to be read": lambda: [os.open(folder / "empty", os.O_RDONLY)],
            "several": lambda: [os.open(folder / "full", os.O_RDWR) for _ in range(5)]}


def test_descriptors_of_the_wrong_kind(for_ever, rows, pitot, tmp_path):
    """Each is refused, none stays open in the process, and the next client is served."""
    before, answers = len(os.listdir(f"/proc/{for_ever.pid}/fd")), {}
    for name, passes in wrong_descriptors(tmp_path).items():
        launcher = Launcher(for_ever.pid, tmp_path)
        launcher.passes = passes
        answers[name] = launcher.ask()
        launcher.close()
        wait_until(lambda: is_idle(for_ever.pid), f"{name}: its recording ends", for_ever)
        assert len(os.listdir(f"/proc/{for_ever.pid}/fd")) == before, name
    refused = {name for name, answer in answers.items() if answer and answer[0] < 0}
    assert refused >= set(answers) - {"to be read"}, answers
    assert (tmp_path / "full").read_text() == "full"
    pitot("record", "-p", for_ever.pid, "--gpu-only", "--stacks", "none", "--duration", "500ms", "-o", tmp_path / "a.pitot")
    check(rows, tmp_path / "a.pitot")


def test_clients_that_die_in_every_state(for_ever, pitot, rows, tmp_path):
    """Before the request, with half of it, before and after the answer, in the middle of segments: the process is left each time."""
    before = len(os.listdir(f"/proc/{for_ever.pid}/fd"))
    for i in range(60):
        launcher, state = Launcher(for_ever.pid, tmp_path), i % 6
        if state == 1:
            launcher.control.send(b"x" * (REQUEST.size // 2))
        elif state == 2:
            launcher.control.send(REQUEST.pack(MAGIC, RECORD, launcher.text.encode(), str(tmp_path).encode(), b"stacks=none"))
        elif state == 3:
            launcher.segments.close()  # nobody answers requests for segments
            launcher.control.send(REQUEST.pack(MAGIC, RECORD, launcher.text.encode(), str(tmp_path).encode(), b"stacks=none"))
        elif state == 4:
            assert launcher.ask()[0] == 0
        elif state == 5:
            assert launcher.ask()[0] == 0
            launcher.control.shutdown(socket.SHUT_RDWR)
        launcher.close()
        if state == 0:  # up to eight clients at once
            wait_until(lambda: is_idle(for_ever.pid), "the process is left", for_ever)
    wait_until(lambda: is_idle(for_ever.pid), "the process is left", for_ever)
    assert len(os.listdir(f"/proc/{for_ever.pid}/fd")) == before
    pitot("record", "-p", for_ever.pid, "--gpu-only", "--stacks", "none", "--duration", "500ms", "-o", tmp_path / "a.pitot")
    check(rows, tmp_path / "a.pitot")


def test_too_many_clients(for_ever, tmp_path):
    clients = []
    for _ in range(8):  # one after the other: a client has two seconds for its request
        clients.append(Launcher(for_ever.pid, tmp_path))
        assert clients[-1].ask()[0] == 0
    more = Launcher(for_ever.pid, tmp_path)
    try:
        assert more.ask() is None, "it is refused"
    except (BrokenPipeError, ConnectionResetError):
        pass
    clients.pop().leave()
    for client in clients:
        assert client.leave()[0] == 0


def test_a_program_that_closes_all_descriptors(prepared, pitot, tmp_path, environment, build, sanitizer):
    """It gets another socket with the next client at the latest, and none of its own descriptors is used."""
    library = str(build / "libpitot.so")
    script = "import os, time\nos.closerange(3, 1000)\nopen('done', 'w').close()\ntime.sleep(1000)\n"
    process = subprocess.Popen(["python3", "-c", script], cwd=tmp_path, env={
        **environment, "PITOT_IDLE": "1", "LD_PRELOAD": f"{sanitizer}{library}", "ASAN_OPTIONS": "detect_leaks=0"})
    try:
        wait_until((tmp_path / "done").exists, "it has closed them", process)
        for _ in range(3):
            assert "is prepared" in pitot("doctor", "-p", process.pid).stdout
    finally:
        process.kill()
        process.wait()


# --- who and what is refused ---


def test_users(for_ever, prepared, everybodys, pitot, rows, program, environment, tmp_path):
    """A process serves its own user and root."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    name = socket_name(for_ever.pid)
    script = f"import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect('\\0{name}'); print(s.recv(9))"
    foreign = subprocess.run(["python3", "-c", script], user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True)
    assert foreign.stdout == "b''\n" or "reset" in foreign.stderr, foreign
    refused = subprocess.run([everybodys / "pitot", "record", "-p", str(for_ever.pid), "--gpu"], user=NOBODY, group=NOBODY, extra_groups=[],
                             capture_output=True, text=True, cwd="/", env=environment)
    assert refused.returncode == 1 and f"process {for_ever.pid} belongs to user 0: attach as that user, or with sudo" in refused.stderr
    other = prepared(everybodys / "launch.tape", "--repeat", "1000000", user=NOBODY, folder=everybodys)
    pitot("record", "-p", other.pid, "--gpu-only", "--stacks", "none", "--duration", "500ms", "-o", tmp_path / "a.pitot")
    check(rows, tmp_path / "a.pitot")
    assert {file.stat().st_uid for file in (tmp_path / "a.pitot").iterdir()} == {0}


def test_another_network(prepared, pitot, rows, tmp_path):
    """As a container has it: the sockets of both sides are made in the process's network."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-n", "true"]).returncode != 0:
        pytest.skip("needs root and network namespaces")
    process = prepared("launch", "--repeat", "1000000", wrap=["unshare", "-n"])
    pitot("record", "-p", process.pid, "--gpu-only", "--stacks", "none", "--duration", "500ms", "-o", tmp_path / "a.pitot")
    check(rows, tmp_path / "a.pitot")


def test_another_pid_namespace(prepared, pitot, rows, tmp_path):
    if os.geteuid() != 0 or subprocess.run(["unshare", "--pid", "--fork", "true"]).returncode != 0:
        pytest.skip("needs root and pid namespaces")
    outer = prepared("launch", "--repeat", "1000000", wrap=["unshare", "--pid", "--fork", "--kill-child"], WAITS="no")
    children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
    inner = int(wait_until(lambda: children.read_text().split(), "it forks", outer)[0])
    wait_until(lambda: "@pitot-idle-1-" in Path(f"/proc/{inner}/net/unix").read_text(), "it is prepared", outer)
    assert pitot("doctor", "-p", inner).returncode == 0
    pitot("record", "-p", outer.pid, "--gpu-only", "--stacks", "none", "--duration", "500ms", "-o", tmp_path / "a.pitot")
    check(rows, tmp_path / "a.pitot")


@pytest.fixture
def everybodys(build, program, player, tmp_path_factory):
    """A folder with the program, the player and a tape, for all users."""
    folder = tmp_path_factory.mktemp("all") / "build"
    shutil.copytree(player.parent, folder / "standin")
    for file in (program, build / "libpitot.so"):
        shutil.copy(file, folder)
    shutil.copy("tests/data/tapes/launch.tape", folder)
    for path in (folder, *folder.parents):
        if path.stat().st_uid == os.getuid() and path.name:
            path.chmod(path.stat().st_mode | 0o055)
    return folder


REFUSED = {
    "not there": (None, "there is no process 4000000"),
    "a zombie": (["sh", "-c", "exit"], "has ended, and waits for its parent"),
    "stopped": (["sleep", "1000"], "is stopped; continue it: kill -CONT"),
    "not prepared": (["sleep", "1000"], r"was not prepared: start it with PITOT_IDLE=1 CUDA_INJECTION64_PATH=.*/libpitot\.so"),
    "static": (["./static"], "is statically linked: it cannot load the recorder"),
    "switched off": (["sleep", "1000"], "has the recorder, but was not prepared"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refusals(what, build, pitot, environment, tmp_path, sanitizer):
    """Each with the reason; the process goes on."""
    command, why = REFUSED[what]
    if what == "static":
        compiled = subprocess.run(["cc", "-static", "-x", "c", "-", "-o", tmp_path / "static"], input="int pause(void); int main(void) { pause(); }",
                                  text=True, capture_output=True)
        if compiled.returncode != 0:
            pytest.skip("no static C library")
    env = dict(environment, **({"PITOT_IDLE": "1", "PITOT_DISABLED": "1", "LD_PRELOAD": sanitizer + str(build / "libpitot.so"),
                                "ASAN_OPTIONS": "detect_leaks=0"} if what == "switched off" else {}))
    process = subprocess.Popen(command, cwd=tmp_path, env=env) if command else None
    pid = process.pid if process else 4000000
    try:
        if what == "stopped":
            process.send_signal(signal.SIGSTOP)
        if process:
            states = {"a zombie": "Z", "stopped": "T"}
            wait_until(lambda: Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == states.get(what, "S"), "its state")
        for words in ("record", "-p", pid, "--gpu"), ("record", "-p", pid, "--gpu-only"), ("doctor", "-p", pid):
            refused = pitot(*words, status=1)
            assert re.search(why, " ".join((refused.stdout + refused.stderr).split())), refused
        assert not list(tmp_path.glob("*.pitot"))
        assert not process or what == "a zombie" or process.poll() is None
    finally:
        if process:
            process.kill()
            process.wait()


SLEEPER = r"""
#include <poll.h>
#include <pthread.h>
#include <stddef.h>

static void *sleep_on(void *unused)
{
	for (;;)
		poll(NULL, 0, -1);
	return unused;
}

__attribute__((constructor)) static void start(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, sleep_on, NULL);
}

void client_step(size_t index, size_t count, const char *function, unsigned site)
{
	(void)index, (void)count, (void)function, (void)site;
}
void client_end(void)
{
}
"""


@pytest.fixture
def unprepared(prepared, tmp_path):
    """unprepared("launch", …): a process that uses CUDA and nobody has prepared; one of its threads sleeps in poll."""
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", tmp_path / "sleeper.so"], input=SLEEPER, text=True, check=True)

    def start(*arguments):
        process = prepared(*arguments, "--client", tmp_path / "sleeper.so", WAITS="no", PITOT_IDLE="0", CUDA_INJECTION64_PATH="",
                           NVTX_INJECTION64_PATH="")
        wait_until(lambda: "/libcuda.so" in Path(f"/proc/{process.pid}/maps").read_text(), "it uses CUDA", process)
        assert not socket_name(process.pid)
        return process

    return start


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 only")
def test_a_process_that_was_not_prepared(unprepared, pitot, rows, tmp_path):
    """The recorder is loaded through the thread that sleeps; from then on the process is like any that was prepared."""
    process = unprepared("launch", "--repeat", "1000000")
    said = " ".join(pitot("doctor", "-p", process.pid).stdout.split())
    assert re.search(rf"limited process {process.pid} was not prepared; the recorder can be loaded into it, through thread \d+ '[a-z-]+', "
                     r"which sleeps in \w+ pitot record -p PID --inject", said), said
    assert threads(process.pid) == []
    words = "--gpu-only", "--stacks", "none", "--duration", "500ms", "-o"
    said = pitot("record", "-p", process.pid, "--inject", *words, tmp_path / "a.pitot").stderr
    assert re.search(rf"process {process.pid} was not prepared: the recorder was loaded through thread \d+ '[a-z-]+', which slept in \w+", said)
    check(rows, tmp_path / "a.pitot")
    assert not any(line.endswith(" 00000000 00:00 0") and "r-xp" in line for line in Path(f"/proc/{process.pid}/maps").read_text().splitlines())
    wait_until(lambda: is_idle(process.pid), "the recorder's threads end", process)
    said = pitot("record", "-p", process.pid, "--inject", *words, tmp_path / "b.pitot").stderr
    assert "was not prepared" not in said and "which was prepared" in said
    check(rows, tmp_path / "b.pitot")
    process.terminate()
    assert process.wait(timeout=PATIENCE) == -signal.SIGTERM


def test_nothing_to_load_the_recorder_for(pitot):
    process = subprocess.Popen(["sleep", "1000"])
    try:
        said = pitot("record", "-p", process.pid, "--inject", status=1).stderr
        assert f"neither process {process.pid} nor a descendant uses CUDA, or they have ended" in said
    finally:
        process.kill()
        process.wait()
    assert "--inject belongs to --pid" in pitot("record", "--inject", "--", "true", status=2).stderr


def test_usage(pitot):
    for words in ("--gpu", "--", "true"), ("--gpu", "--cpu-only", "-p", "1"):
        assert "--gpu belongs to --pid" in pitot("record", *words, status=2).stderr


def test_a_window_of_each_period(for_ever, program, environment, pitot, rows, tmp_path):
    """Recordings at multiples of the period; between them the process is as it was, and old ones are removed."""
    command = [program, "record", "-p", for_ever.pid, "--gpu-only", "--gpu", "--stacks", "none", "--every", "4s", "--for", "500ms", "--keep", "2"]
    process = subprocess.Popen(list(map(str, command)), cwd=tmp_path, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               env={**environment, "ASAN_OPTIONS": "detect_leaks=0"})
    made = []

    def recorded():
        made.extend(folder for folder in sorted(tmp_path.glob("*.pitot")) if folder not in made)
        return len(made) > 2

    wait_until(recorded, "three windows", process)
    wait_until(lambda: not made[0].exists(), "the first one is removed", process)
    wait_until(lambda: is_idle(for_ever.pid), "nothing but the idle thread is left between windows", process)
    assert has_kernels(pitot, made[1]) and made[1].exists()
    start = json.loads((made[1] / "recording.json").read_text())["start_realtime_ns"]
    assert start % 4_000_000_000 < 3_000_000_000, "it begins with the period"
    end(process)
    wait_until(lambda: is_idle(for_ever.pid), "the process is left", for_ever)


@pytest.mark.parametrize("engine, table", [("pm-sampling", "counter_sample"), ("range-profiler", "metric_value")])
def test_an_engine_that_begins_late(for_ever, pitot, rows, tmp_path, engine, table):
    """In contexts that exist; afterwards the process is as it was."""
    pitot("record", "-p", for_ever.pid, "--gpu-only", "--stacks", "none", "--duration", "1s", "--engine", engine, "--metrics",
          "launch__correlation.sum,sm__cycles_active.avg", "-o", tmp_path / "a.pitot")
    assert rows(tmp_path / "a.pitot", table) and has_kernels(pitot, tmp_path / "a.pitot")
    assert {row["state"] for row in rows(tmp_path / "a.pitot", "capability") if row["name"] == "engine"} == {"on"}
    wait_until(lambda: is_idle(for_ever.pid), "the process is left", for_ever)
    pitot("record", "-p", for_ever.pid, "--gpu-only", "--stacks", "none", "--duration", "500ms", "-o", tmp_path / "b.pitot")
    check(rows, tmp_path / "b.pitot")
    assert not rows(tmp_path / "b.pitot", table)


@pytest.mark.parametrize("engine", ["pc-sampling", "sass-metrics", "deep"])
def test_engines_that_cannot_begin_late(pitot, engine):
    for words in ("record", "-p", os.getpid()), ("record", "--every", "9s", "--for", "1s"), ("capture", os.getpid()):
        refused = pitot(words[0], "--engine", engine, *words[1:], *(["--", "true"] if "--every" in words else []), status=2).stderr
        assert f"engine {engine} cannot begin in a running process: " in refused and "pm-sampling and range-profiler can" in refused


@pytest.mark.parametrize("options, said", [
    (["--every", "60s"], "--every needs --for"), (["--every", "2s", "--for", "1500ms"], "at most half"), (["--for", "1s"], "need --every"),
    (["--every", "9s", "--for", "1s", "-o", "x"], "leave out -o")])
def test_what_windows_refuse(pitot, options, said):
    assert said in pitot("record", "-p", os.getpid(), "--cpu-only", *options, status=2).stderr


def test_windows_of_a_command(program, player, source, environment, pitot, rows, tmp_path):
    """It is started prepared, each window is a recording of it, signals reach it, and its status is returned."""
    command = [program, "record", "--gpu-only", "--stacks", "none", "--every", "4s", "--for", "500ms", "--keep", "2", "--",
               player, "--realtime", "--repeat", "1000000", source / "tests/data/tapes/launch.tape"]
    process = subprocess.Popen(list(map(str, command)), cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               text=True, env={**environment, "ASAN_OPTIONS": "detect_leaks=0"})
    made = []

    def recorded():
        made.extend(folder for folder in sorted(tmp_path.glob("tape-play-*.pitot")) if folder not in made)
        return len(made) > 1

    wait_until(recorded, "two windows", process)
    children = {pid: Path(f"/proc/{pid}/exe").resolve().name for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()}
    [played] = [int(pid) for pid, name in children.items() if name == "tape-play"]
    wait_until(lambda: is_idle(played), "nothing but the idle thread is left between windows", process)
    check(rows, made[0])
    start = json.loads((made[1] / "recording.json").read_text())["start_realtime_ns"]
    assert start % 4_000_000_000 < 3_000_000_000, "it begins with the period"
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 128 + signal.SIGTERM, said
    assert not any(Path(f"/proc/{pid}").exists() for pid in children), "the process that records ends with the command"


@pytest.mark.parametrize("command, status, said", [
    (["true"], 0, "nothing was recorded: the command ended before the first window"), (["sh", "-c", "exit 7"], 7, "nothing was recorded"),
    (["/nonexistent"], 127, "cannot run '/nonexistent'"), (["--ring", "1m", "--", "true"], 2, "leave out --ring"),
    (["--log", "gpufl", "--", "true"], 2, "leave out --ring, --log, --perfetto")])
def test_commands_without_windows(pitot, tmp_path, command, status, said):
    options = [] if "--" in command else ["--"]
    assert said in pitot("record", "--every", "1h", "--for", "1s", *options, *command, status=status, cwd=tmp_path).stderr
    assert not list(tmp_path.glob("*.pitot"))
