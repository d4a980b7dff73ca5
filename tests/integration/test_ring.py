"""A recording that keeps only its end: dumps while it goes on, what is left of it, what it refuses."""
import ctypes
import errno
import json
import os
import platform
import re
import signal
import struct
import subprocess
from pathlib import Path

import pytest

from waiting import wait_until

TAPE = "tests/data/tapes/train.tape"
RING = 1 << 20
PART = RING // 8


@pytest.fixture
def ring(player, program, pitot, source, environment, tmp_path):
    """ring("1M", "--repeat", "300"): plays a tape below `pitot record --ring`; the process and the folder of the recording."""
    started = []

    def start(limit, *arguments):
        folder = tmp_path / "ring.pitot"
        command = [program, "record", "--ring", limit, "-o", folder, "--stacks", "none", "--no-symbols", "--", player, "--now",
                   *arguments, source / TAPE]
        started.append(subprocess.Popen(list(map(str, command)), env={**environment, "ASAN_OPTIONS": "detect_leaks=0"},
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True))
        return started[-1], folder

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def check(pitot, rows, folder):
    """Every id resolves, and nothing is damaged; the bytes of the processes' segments."""
    pitot("info", "--verify", folder)
    kernels, calls = rows(folder, "kernel", "-c", "name,start"), rows(folder, "api_call", "-c", "function,thread")
    assert kernels and calls
    assert all(row["name"] not in (None, "", "?") for row in kernels)
    assert all(row["function"] not in (None, "", "?") for row in calls)
    return [path.stat().st_size for path in folder.glob("[0-9]*.pit")]


def numbers(folder):
    return sorted(int(path.name.split(".")[1]) for path in folder.glob("[0-9]*.pit"))


def test_dumps_beside_the_recording(ring, pitot, rows, tmp_path):
    process, folder = ring("1M", "--repeat", "1000000", "--rate", "0")  # until the test is over
    dumped = []

    def overwrites():
        target = tmp_path / f"dump{len(dumped)}.pitot"
        result = pitot("dump", process.pid, "-f", "-o", target, status=None)
        if result.returncode == 0 and list(target.glob("[0-9]*.pit")):
            dumped.append(target)
        return len(dumped) > 2 and numbers(dumped[-3])[0] > 2

    wait_until(overwrites, "segments are overwritten", process)
    for target in dumped[-3:]:
        sizes = check(pitot, rows, target)
        assert sum(sizes) <= RING + 3 * PART
        found = numbers(target)
        assert found == list(range(found[0], found[-1] + 1)), "a hole"
    said = [row["reason"] for row in rows(dumped[-1], "capability") if row["name"] == "ring"]
    assert said and re.match(r"a dump of a ring, complete for the last [\d.]+ s; ", said[-1])
    shown = pitot("info", dumped[-1])
    overwritten = re.search(r"overwritten +(\d+)", shown.stdout)
    assert overwritten and int(overwritten[1]) == numbers(dumped[-1])[0]
    assert "missing_segment" not in shown.stdout and "unsafe" not in shown.stdout
    report = pitot("report", dumped[-1])
    assert "segments of the recording are missing" not in report.stdout + report.stderr and "overwritten by the ring" in report.stdout
    assert list(folder.glob("[0-9]*.pit")) == [], "nothing is on the disk"


def test_the_end_of_a_killed_process(ring, pitot, rows, tmp_path):
    """What is left are the newest segments and the last moments."""
    process, folder = ring("1M", "--repeat", "150", "--rate", "0", "--exit", "kill")
    assert process.wait(timeout=120) == 128 + signal.SIGKILL, process.stderr.read()
    sizes = check(pitot, rows, folder)
    assert numbers(folder)[0] > 0 and sum(sizes) <= RING + 4 * PART
    assert [row["state"] for row in rows(folder, "capability") if row["name"] == "last_moments"] == ["on"]


def test_a_dump_of_an_interval(ring, pitot, rows, tmp_path):
    """Between the clock's times, and with the device code that the recording has."""
    process, folder = ring("1M", "--repeat", "1000000", "--rate", "0")
    target = tmp_path / "interval.pitot"

    def dumps(*options):
        result = pitot("dump", process.pid, "-f", "-o", target, *options, status=None)
        return result.returncode == 0 and bool(list(target.glob("[0-9]*.pit")))

    wait_until(dumps, "the ring has segments", process)
    (folder / "cubins").mkdir(exist_ok=True)
    (folder / "cubins" / "0123456789abcdef.cubin").write_bytes(b"code")
    assert dumps("--from", "2026-01-01T00:00", "--to", "2099-01-01T12:30:15")
    assert (target / "cubins" / "0123456789abcdef.cubin").read_bytes() == b"code"
    assert not dumps("--to", "2026-01-01T00:00:01"), "nothing had begun then"
    assert not dumps("--from", "2099-01-01T00:00"), "nothing was written since"
    for options, said in ((["--from", "noon"], "not 'noon'"), (["--last", "5s", "--to", "10:00"], "cannot be combined"),
                          (["--from", "2026-01-02T00:00", "--to", "2026-01-01T00:00"], "--to is before --from")):
        assert said in pitot("dump", process.pid, *options, status=2).stderr


def test_a_dump_of_a_program_that_works_has_no_last_words(ring, pitot, rows, tmp_path):
    process, _ = ring("1M", "--repeat", "1000000", "--rate", "0")
    target = tmp_path / "works.pitot"

    def dumps():
        result = pitot("dump", process.pid, "-f", "-o", target, status=None)
        return result.returncode == 0 and list(target.glob("[0-9]*.pit")) and rows(target, "kernel", "-n", "1", status=None)

    wait_until(dumps, "the dump has kernels", process)
    assert json.loads(pitot("report", "--json", target).stdout)["last_words"] is None


def test_a_dump_of_a_process_that_is_stopped(ring, pitot, rows, tmp_path):
    """Its threads are read, and it stays stopped."""
    process, _ = ring("1M", "--repeat", "1000000", "--rate", "0")
    target = tmp_path / "stopped.pitot"

    def dumps():
        result = pitot("dump", process.pid, "-f", "-o", target, status=None)
        return result.returncode == 0 and list(target.glob("[0-9]*.pit"))

    def threads():
        return [row for row in rows(target, "unfinished", status=None) or [] if row["kind"] == "thread"]

    def inside():
        return dumps() and {row["pid"] for row in rows(target, "process", status=None) or [] if row["source"] == "inside"}

    [player] = wait_until(inside, "the ring has segments", process)
    assert threads() and {row["state"] for row in threads()} <= {"running", "sleeping", "uninterruptible"}
    os.kill(player, signal.SIGSTOP)
    stat = Path(f"/proc/{player}/stat")
    wait_until(lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "T", "it stops", process)
    assert dumps() and {row["state"] for row in threads()} == {"stopped"}
    assert stat.read_text().rsplit(")", 1)[1].split()[0] == "T"
    assert dumps(), "it is still being recorded"
    os.kill(player, signal.SIGCONT)


@pytest.mark.parametrize("arguments, said", [
    (["--ring", "0"], "--ring takes a size"), (["--ring", "x"], "--ring takes a size"), (["--ring", "1K"], "--ring takes a size"),
    (["--ring", "1M", "--cpu-only"], "--ring keeps"), (["--ring", "1M", "--cpu"], "--ring keeps")])
def test_what_a_ring_refuses(pitot, arguments, said):
    assert said in pitot("record", *arguments, "--", "true", status=2).stderr


def test_what_a_dump_refuses(pitot, tmp_path):
    assert "is not recorded" in pitot("dump", os.getpid(), status=1).stderr
    assert "is not the id" in pitot("dump", "x", status=2).stderr
    assert not list(tmp_path.glob("*.pitot")), "a folder is left"


def refuse_memfd():
    """In a child before it executes: memfd_create fails with EPERM, as some containers have it."""
    number = {"x86_64": 319, "aarch64": 279}[platform.machine()]
    words = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | errno.EPERM), (0x06, 0, 0, 0x7fff0000)]
    filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *word) for word in words))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(words), ctypes.addressof(filters)))
    libc = ctypes.CDLL(None)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program):
        raise OSError("no seccomp filter")


def test_without_memfd(program, player, source, environment, rows, tmp_path):
    """A ring is refused at once, and a recording on the disk just has no last moments."""
    command = [program, "record", "-o", tmp_path / "r.pitot", "--no-cpu", "--no-symbols", "--stacks", "none"]
    play = ["--", player, "--now", source / "tests/data/tapes/launch.tape"]
    options = {"capture_output": True, "text": True, "preexec_fn": refuse_memfd, "env": {**environment, "ASAN_OPTIONS": "detect_leaks=0"}}
    refused = subprocess.run(list(map(str, [*command, "--ring", "1M", *play])), check=False, **options)
    assert refused.returncode == 126 and "memfd_create says 'Operation not permitted'; record to the disk instead" in refused.stderr
    subprocess.run(list(map(str, [*command, "-f", *play])), check=True, **options)
    assert rows(tmp_path / "r.pitot", "kernel")


def test_a_holder_that_is_killed(ring, pitot, tmp_path):
    """The program goes on; a dump and the report say that the ring is gone, not that there was no GPU work."""
    process, folder = ring("1M", "--repeat", "1000000", "--rate", "0")
    wait_until(lambda: pitot("dump", process.pid, "-f", "-o", tmp_path / "dump.pitot", status=None).returncode == 0, "there is a ring", process)
    [child] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.kill()
    process.wait()
    try:
        said = pitot("dump", child, "-f", "-o", tmp_path / "dump.pitot", status=1).stderr
        assert f"`pitot record`, process {process.pid}, has ended, and its ring with it" in said
        assert "held the GPU work in memory (--ring) and has not written it" in json.loads(pitot("report", folder, "--json").stdout)["verdict"]["no_gpu_data"]
        assert Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[0] in "RS", "the program goes on"
    finally:
        os.kill(int(child), signal.SIGKILL)


def test_a_ring_that_the_disk_has_no_room_for(player, pitot, source, small_disk, rows):
    folder = small_disk("size=24k") / "r.pitot"
    said = pitot("record", "--ring", "1M", "-o", folder, "--no-cpu", "--no-symbols", "--stacks", "none", "--", player, "--now", source / TAPE,
                 env={"ASAN_OPTIONS": "detect_leaks=0"}).stderr
    assert "the ring is incomplete" in said and "the disk was full" in said
    [lost] = [row for row in rows(folder, "loss") if row["reason"] == "disk_full"]
    assert 0 <= lost["start_ns"] < lost["end_ns"], "while the command ran"


def test_a_recording_on_the_disk_has_no_dump(player, program, pitot, source, environment, tmp_path):
    process = subprocess.Popen(list(map(str, [program, "record", "-o", tmp_path / "disk.pitot", "--no-cpu", "--", player, "--now", "--end-when",
                                              tmp_path / "end", source / TAPE])), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: list(tmp_path.glob("disk.pitot/[0-9]*.pit")), "it records", process)
    assert "is on the disk" in pitot("dump", process.pid, status=1).stderr
    (tmp_path / "end").touch()
    assert process.wait(timeout=60) == 0
