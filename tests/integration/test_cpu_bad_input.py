"""CPU samples of programs that make it hard: the program notices nothing, the recording is whole, what lacks is said."""
import errno
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from perf_events import NOBODY, perf_errno
from waiting import PATIENCE

PROGRAMS = Path(__file__).parent / "bad_input"
WAYS = ("ebpf", "perf", "timer")
STATUS = 3  # of all of them


def compile_all(folder):
    cc = ["cc", "-std=gnu17", "-D_GNU_SOURCE", "-O2", "-fomit-frame-pointer"]
    subprocess.run([*cc, "-o", folder / "hostile", PROGRAMS / "hostile.c", "-pthread", "-ldl"], check=True)
    subprocess.run([*cc, "-o", folder / "late", "-rdynamic", PROGRAMS / "hostile.c", PROGRAMS / "late.c", "-pthread", "-ldl"], check=True)
    subprocess.run([*cc, "-o", folder / "forbid", PROGRAMS / "forbid_sampling.c"], check=True)
    subprocess.run([*cc, "-shared", "-fPIC", "-o", folder / "plugin.so", PROGRAMS / "hostile_plugin.c"], check=True)


@pytest.fixture(scope="module")
def programs():
    """Readable by everybody."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        compile_all(Path(folder))
        yield Path(folder)


@pytest.fixture(params=WAYS)
def way(request):
    if request.param == "perf" and perf_errno(0):
        pytest.skip(f"the kernel forbids perf_event_open: {errno.errorcode[perf_errno(0)]}")
    return request.param


class Recording:
    def __init__(self, pitot, rows, path, said):
        self.path, self.said = path, said
        pitot("info", "--verify", path)
        self.samples = rows(path, "cpu_sample")
        stacks = rows(path, "stack")
        self.depths = {(row.get("pid"), row["id"]): row["depth"] for row in stacks}
        self.ends = {(row.get("pid"), row["id"]): row["end"] for row in stacks}
        self.capabilities = [row for row in rows(path, "capability") if row["name"].startswith("cpu")]
        self.processes, self.losses = rows(path, "process"), rows(path, "loss")
        assert any(row["name"] == "cpu" for row in self.capabilities), "nothing says how samples were taken"

    def shares(self):
        """Shares of the sampled time by how its stacks end; None: without a stack."""
        shares = Counter()
        for row in self.samples:
            shares[None if row["stack"] is None else self.ends[row.get("pid"), row["stack"]]] += row["weight_ns"]
        return Counter({end: ns / max(shares.total(), 1) for end, ns in shares.items()})

    def seconds(self):
        return sum(row["weight_ns"] for row in self.samples) / 1e9

    def lost(self):
        """Samples that the recording says are missing."""
        return sum(row["count"] for row in self.losses if row["reason"] == "samples_dropped")

    def is_whole(self):
        """Nearly all stacks are complete."""
        shares = self.shares()
        return shares["complete"] > 0.9 * (1 - shares[None])

    def has_stacks(self):
        """For half of the time, nearly: that of the first samples may be known without a stack."""
        return self.seconds() > 0.15 and 1 - self.shares()[None] > 0.45

    def pids(self):
        return {row["pid"] for row in self.processes}


@pytest.fixture(scope="module")
def alone():
    """alone(command, …): what it does by itself, which is found out once for all ways to record it."""
    done = {}

    def run(command, environment, **options):
        key = repr((command, options))
        if key not in done:
            done[key] = subprocess.run(command, env=environment, capture_output=True, timeout=PATIENCE, **options)
        return done[key]

    return run


@pytest.fixture
def record(pitot, rows, program, environment, library, alone):
    """Runs a command recorded in some way: output and status are those that it has alone. The recording."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)

        def run(way, *command, launcher=(), hz=487, **options):
            command = [str(word) for word in command]
            expected = alone(command, environment, **options)
            path = Path(folder) / f"{len(list(Path(folder).iterdir()))}.pitot"
            words = [*launcher, program, "record", "--cpu-only", "--no-symbols", f"--cpu-via={way}", f"--cpu={hz}", "-o", path]
            result = subprocess.run([*map(str, words), "--", *command], capture_output=True, timeout=PATIENCE,
                                    env={**environment, "PITOT_LIBRARY": str(library)}, **options)
            said = result.stderr.decode(errors="replace")
            if way == "ebpf" and re.search("no eBPF|without eBPF", said):
                pytest.skip(said.strip())
            status = expected.returncode if expected.returncode >= 0 else 128 - expected.returncode
            assert (result.returncode, result.stdout) == (status, expected.stdout), said
            assert expected.stderr in result.stderr
            assert "Sanitizer" not in said and "runtime error" not in said, said
            return Recording(pitot, rows, path, said)

        yield run


@pytest.fixture
def record_whole(record):
    """Records a program that burns; its stacks are whole. On a busy machine it may be over before it is found: then one that is longer."""

    def run(way, *command):
        for ms in 300, 1200, 4800, 19200:
            found = record(way, *command, ms)
            assert found.is_whole(), found.shares()
            if found.has_stacks():
                break
        assert found.has_stacks(), (found.seconds(), found.shares())

    return run


def test_plain(record_whole, way, programs):
    record_whole(way, programs / "hostile", "plain")


# --- files


def without_sections(path, to):
    """As sstrip leaves it: no section headers at all."""
    data = bytearray(path.read_bytes())
    data[0x28:0x30] = bytes(8)
    data[0x3a:0x40] = bytes(6)
    to.write_bytes(data)
    to.chmod(0o755)


def eh_frame(data):
    """Offset and size of a file's .eh_frame."""
    at, = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3a)
    headers = [struct.unpack_from("<IIQQQQ", data, at + size * i) for i in range(count)]
    strings = headers[names][4]
    for name, _, _, _, offset, length in headers:
        if data[strings + name:strings + name + 10] == b".eh_frame\0":
            return offset, length
    raise ValueError("no .eh_frame")


def with_damaged_frames(path, to, damage):
    data = bytearray(path.read_bytes())
    offset, length = eh_frame(data)
    data[offset:offset + length] = damage(bytes(data[offset:offset + length]))
    to.write_bytes(data)
    to.chmod(0o755)


def stripped(programs, to):
    shutil.copy(programs / "hostile", to)
    subprocess.run(["strip", "-s", to], check=True)


@pytest.mark.parametrize("kind", ["stripped", "no sections"])
def test_stripped(record_whole, way, programs, kind):
    target = programs / "stripped"
    if not target.exists():
        stripped(programs, target)
        without_sections(target, programs / "bare")
    record_whole(way, programs / "bare" if kind == "no sections" else target, "plain")


def test_packed(record, way, programs, tmp_path):
    if not shutil.which("upx"):
        pytest.skip("no upx")
    shutil.copy(programs / "hostile", tmp_path / "packed")
    subprocess.run(["upx", "-q", "--force", tmp_path / "packed"], check=True, stdout=subprocess.DEVNULL)
    record(way, tmp_path / "packed", "plain")


def test_a_program_that_is_in_no_file(record_whole, way, programs):
    record_whole(way, programs / "hostile", "memfd")


DAMAGES = {
    "zeros": lambda frames: bytes(len(frames)),
    "ones": lambda frames: b"\xff" * len(frames),
    "noise": lambda frames: bytes((b * 167 + 13 * i) & 255 for i, b in enumerate(frames)),
    "rules": lambda frames: bytes(b ^ 3 if i % 7 == 5 else b for i, b in enumerate(frames)),
    "long entries": lambda frames: struct.pack("<I", 0x7ffffff0) + frames[4:],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_frames(record, way, programs, damage):
    """Of the program, and of a library that calls back from qsort(): the samples are there, their stacks do not pass for complete."""
    folder = programs / damage.replace(" ", "-")
    if not folder.exists():
        folder.mkdir()
        for name in ("hostile", "plugin.so"):
            with_damaged_frames(programs / name, folder / name, DAMAGES[damage])
    for program, seconds, command in ((folder / "hostile", 0.15, ["plain"]),
                                      (folder / "hostile", 0.01, ["calls", folder / "plugin.so"]),
                                      (programs / "hostile", 0.01, ["calls", folder / "plugin.so"])):
        found = record(way, program, *command, hz=487 if command == ["plain"] else 997)
        if way == "timer" and command != ["plain"] and found.seconds() == 0:
            continue  # it was over before the timer began
        assert found.seconds() > seconds, command
        if damage != "long entries":  # the first one only
            assert found.shares()["complete"] < 0.5, (command, found.shares())


# --- code and stacks


@pytest.mark.parametrize("kind", ["jit", "overflow", "fibers", "deep"])
def test_odd_stacks(record, way, programs, kind):
    found = record(way, programs / "hostile", kind)
    assert found.seconds() > 0.1
    shares = found.shares()
    expected = {"jit": ("truncated",), "overflow": ("complete", "truncated", "depth"), "deep": ("depth",),
                "fibers": ("complete", "truncated")}[kind]
    assert sum(shares[end] for end in expected) > 0.7, shares
    if kind in ("jit", "deep"):
        assert shares["complete"] < 0.2, "no stack says that it is whole"


def test_code_without_rules_that_keeps_frame_pointers(record, way, programs):
    """As compilers at run time and Go make it: all of its frames are there, and are called a guess."""
    found = record(way, programs / "hostile", "framed")
    assert found.seconds() > 0.1
    assert found.shares()["guessed"] > 0.5 and found.shares()["complete"] < 0.2
    depths = [found.depths[row.get("pid"), row["stack"]] for row in found.samples if row["stack"] is not None]
    # burn() or what it calls, 20 frames, run_code(), framed(), main() and the two of the C library around it
    assert sum(depth >= 24 for depth in depths) > 0.5 * len(found.samples), Counter(depths)


PYTHON_JIT = """
import ctypes, mmap, time
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
# mov ecx, 2000000; dec ecx; jnz back; mov eax, 7; ret
page.write(bytes.fromhex("b980841e00 ffc9 75fc b807000000 c3"))
call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
print(sum(call() for _ in range(200)))
raise SystemExit(3)
"""


def test_code_that_python_has_made(record, way):
    found = record(way, os.path.realpath(sys.executable), "-c", PYTHON_JIT)
    assert found.seconds() > 0.02
    assert found.shares()["truncated"] + found.shares()["guessed"] > 0.2, found.shares()


def test_libraries_come_and_go(record, way, programs):
    found = record(way, programs / "hostile", "plugin", programs / "plugin.so")
    assert found.seconds() > 0.1
    assert found.shares()["complete"] > 0.5, found.shares()


# --- processes


def test_300_children(record, way, programs):
    """They burn 450 ms, 225 of them at least one, or less where others use the processor: the timer has only their parent's time."""
    found = record(way, programs / "hostile", "children", hz=997)
    if way == "timer":
        assert found.seconds() > 0.02
    else:
        assert found.seconds() > 0.2
        assert len(found.pids()) > 75


def test_forks_without_exec(record, way, programs):
    """The timer of a child begins when that has used 5 ms, and later where all burn on few processors."""
    found = record(way, programs / "hostile", "forks")
    assert len(found.pids()) >= 16
    assert found.seconds() > (0.1 if way == "timer" else 0.3)


def test_50_execs(record, way, programs):
    """51 programs of 4 ms each: too short for the timer, and it says so."""
    found = record(way, programs / "hostile", "execs", hz=997)
    if way == "timer":
        assert any("very short-lived" in row["reason"] for row in found.capabilities)
    else:
        assert found.seconds() > 0.1


def test_a_program_that_is_killed(record, way, programs):
    """Of 300 ms the timer may lose those since the last block, which is at most 250 ms old."""
    found = record(way, programs / "hostile", "killed")
    assert found.seconds() > (0.04 if way == "timer" else 0.2)


@pytest.mark.parametrize("way", ["ebpf", "perf"])
def test_a_program_that_may_do_nothing(record, way, programs):
    """seccomp ends it at any system call but four. The timer's handler needs others (docs/cpu.md)."""
    found = record(way, programs / "hostile", "strict")
    assert found.seconds() > 0.1
    assert found.is_whole() and found.shares()[None] < 0.55, found.shares()


@pytest.mark.parametrize("kind", ["left", "exited"])
def test_a_main_thread_that_ends_before_the_others(record, way, programs, kind):
    """The process ends with its last thread, which is none of ours. The timer may have begun after that, and says so."""
    found = record(way, programs / "hostile", kind)
    assert found.seconds() + found.lost() / 487 > 0.1


@pytest.mark.parametrize("kind", ["left", "exited", "plain"])
def test_a_program_that_is_over_when_the_recorder_begins(record, programs, kind):
    """Its 200 or 300 ms of CPU time have samples without a stack, or are a loss of samples, which are 487 a second at most."""
    found = record("timer", programs / "late", kind)
    assert found.seconds() + found.lost() / 487 > 0.1


def test_a_setuid_program(record, way, programs, tmp_path):
    """As root: a child that becomes nobody when it is started, whose environment the dynamic linker does not trust."""
    if os.geteuid():
        pytest.skip("not root")
    if os.statvfs(programs).f_flag & os.ST_NOSUID:
        pytest.skip("no setuid programs in the folder of temporary files")
    target = programs / "setuid"
    shutil.copy(programs / "hostile", target)
    os.chown(target, NOBODY, NOBODY)
    target.chmod(0o6755)
    found = record(way, "sh", "-c", f"'{target}' plain; status=$?; id -u; exit $status")
    assert found.seconds() > 0.15 or way != "ebpf"
    cpu = next(row for row in found.capabilities if row["name"] == "cpu")
    assert way == "ebpf" or "setuid" in cpu["reason"]


# --- what is forbidden


@pytest.mark.parametrize("way", ["auto", "timer"])
def test_where_sampling_from_outside_is_forbidden(record, programs, way):
    found = record(way, programs / "hostile", "plain", launcher=[programs / "forbid"])
    assert found.seconds() > 0.15
    cpu = next(row for row in found.capabilities if row["name"] == "cpu")
    assert "timer" in cpu["actual"]
    assert way != "auto" or "forbidden" in cpu["reason"] or "not permitted" in cpu["reason"], cpu


@pytest.mark.parametrize("way", ["ebpf", "perf"])
def test_a_way_that_is_forbidden_is_an_error(program, environment, programs, tmp_path, way):
    command = [programs / "forbid", program, "record", "--cpu-only", f"--cpu-via={way}", "-o", tmp_path / "x.pitot", "--",
               programs / "hostile", "plain"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == 1 and result.stdout == "" and not (tmp_path / "x.pitot").exists()
    assert result.stderr.startswith("pitot"), result.stderr


@pytest.fixture
def paranoid():
    """Sets kernel.perf_event_paranoid, and puts it back."""
    path = Path("/proc/sys/kernel/perf_event_paranoid")
    before = path.read_text()
    try:
        path.write_text(before)
    except OSError as e:
        pytest.skip(f"kernel.perf_event_paranoid cannot be set: {e}")
    yield lambda level: path.write_text(f"{level}\n")
    path.write_text(before)


@pytest.mark.alone
@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_samples_at_each_perf_event_paranoid(record, program, programs, paranoid, level):
    """An ordinary user has samples at each, in one way or the other."""
    if os.geteuid():
        pytest.skip("not root")
    ordinary = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    if subprocess.run(["test", "-x", program], **ordinary).returncode:
        pytest.skip(f"{program} is not for everybody")
    paranoid(level)
    refused = perf_errno(NOBODY)
    found = record("auto", programs / "hostile", "plain", **ordinary)
    cpu = next(row for row in found.capabilities if row["name"] == "cpu")
    assert found.seconds() > 0.15
    assert ("perf" in cpu["actual"]) == (refused == 0), cpu
    assert cpu["reason"], "it is not all that there is"
