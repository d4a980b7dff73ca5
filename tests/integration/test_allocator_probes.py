"""record --memory=torch: static probes of PyTorch's allocator, which a library of ours has in the same form (standin/c10_cuda.c).

Skipped with the reason where the kernel or the rights do not allow eBPF.
"""
import json
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from waiting import PATIENCE, wait_until

PROGRAM = Path(__file__).parent / "allocator_program.py"
STANDIN = Path(__file__).parent.parent / "standin" / "c10_cuda.c"


@pytest.fixture
def library(shared_folder):
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler")

    def compile_all(folder):
        for name, options in ("with", []), ("without", ["-DWITHOUT_PROBES"]):
            (folder / name).mkdir()
            subprocess.run([compiler, "-O2", "-g", "-fomit-frame-pointer", "-fvisibility=hidden", "-shared", "-fPIC", STANDIN,
                            "-o", folder / name / "libc10_cuda.so", *options], check=True)

    return shared_folder("allocator", compile_all) / "with" / "libc10_cuda.so"


@pytest.fixture
def record(program, environment, library, tmp_path, rows):
    """record("train"): the recording, what the program said of its own counts, and what the recorder said."""
    folder, go = tmp_path / "allocator.pitot", tmp_path / "go"

    def is_seen(process, path):
        if (state := process.poll()) is not None:
            said = process.stderr.read()
            if "no eBPF" in said or "without eBPF" in said or "not permitted" in said:
                pytest.skip(said)
            pytest.fail(f"it ended with {state}: {said}")
        found = subprocess.run([program, "view", folder, "allocation", "--json", "-q"], capture_output=True, text=True).stdout
        by_process = {}
        for row in map(json.loads, found.splitlines()):
            if row["bytes"] == 1:
                by_process.setdefault(row["pid"], set()).add(row["correlation"])
        return sum(len(seen) >= 2 for seen in by_process.values()) >= path

    def run(kind, *options, path=library):
        command = [program, "record", "-o", folder, "--cpu-only", "--memory=torch", *options, "--", sys.executable, PROGRAM, path, kind, go]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        wait_until(lambda: is_seen(process, 1), "allocations of the warm-up are in the recording")
        go.touch()
        if kind == "fork":
            wait_until(lambda: is_seen(process, 2), "allocations of the child are in the recording")
            Path(f"{go}-child").touch()
        out, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, said
        return folder, [json.loads(line) for line in out.splitlines()], said

    return run


def after_warm_up(rows, folder):
    """The rows of what is not 1 byte; releases have no bytes: those of addresses that were allocated with more."""
    live, found = {}, []
    for row in rows(folder, "allocation"):
        key = row["pid"], row["address"]
        if row["operation"] == "allocation":
            live[key] = row["bytes"]
        if (row["bytes"] if row["operation"] == "allocation" else live.pop(key)) != 1:
            found.append(row)
    return found


def losses(rows, folder):
    return {row["reason"]: row["count"] for row in rows(folder, "loss") if row["reason"] not in ("stack_limit", "unnamed_frames")}


def lost_after_warm_up(rows, folder):
    """The four probes are set one after another, so that a block of the warm-up may be released whose allocation was not seen."""
    return set(losses(rows, folder)) - {"unknown_release"}


@pytest.mark.parametrize("options", [[], ["--no-cpu"]], ids=["samples", "alone"])
def test_allocations_are_pytorch_s(record, rows, pitot, options):
    """Counts, sizes, devices and the peak are the library's own, and Python lines own them."""
    folder, [said], _ = record("train", *options)
    found = after_warm_up(rows, folder)
    assert {row["kind"] for row in found} == {"allocator_request"}
    allocated = [row for row in found if row["operation"] == "allocation"]
    expected = [(0, 1_000_000 + i) for i in range(20)] + [(1, 5000 * (step + 1) + i) for step in range(5) for i in range(30)]
    assert [(row["device"], row["bytes"]) for row in allocated] == expected
    assert len(found) - len(allocated) == 150
    assert all(row["device"] == 1 for row in found if row["operation"] == "release")
    report = json.loads(pitot("report", "--memory", "--json", folder).stdout)
    by_device = {group["device"]: group for group in report["memory"]}
    assert by_device[0]["peak_bytes"] + by_device[1]["peak_bytes"] == said["peak_bytes"]
    assert by_device[0]["live_bytes"] + by_device[1]["live_bytes"] == said["bytes"] == sum(1_000_000 + i for i in range(20))
    owners = {part["name"].split(" ", 1)[1].split(".")[0]: part["bytes"] for part in report["memory_peak"]["by_line"]}
    assert owners["load_model"] == by_device[0]["peak_bytes"] and owners["forward"] == by_device[1]["peak_bytes"], owners
    assert not lost_after_warm_up(rows, folder)
    [capability] = [row for row in rows(folder, "capability") if row["name"] == "allocator"]
    assert (capability["state"], capability["requested"]) == ("on", "torch")
    assert bool(rows(folder, "cpu_sample")) == (not options)


def test_two_threads(record, rows):
    folder, _, _ = record("many")
    found = after_warm_up(rows, folder)
    assert sum(row["operation"] == "allocation" for row in found) == 20_000 == sum(row["operation"] == "release" for row in found)
    assert not lost_after_warm_up(rows, folder)
    calls = {row["correlation"] for row in found}
    assert len({row["thread"] for row in rows(folder, "api_call") if row["correlation"] in calls}) == 2


def test_what_is_dropped_is_counted(record, rows):
    """While the recorder stands still: first stacks are left out, then whole records, and each is counted."""
    folder, _, _ = record("flood")
    lost = losses(rows, folder)
    found = after_warm_up(rows, folder)
    assert lost["allocations_dropped"] > 0 and lost["allocation_stacks"] > 0, lost
    counted = len(found) + lost["allocations_dropped"] + lost.get("unknown_release", 0)
    assert 600_000 <= counted < 600_010, "the warm-up may add some"
    stacks = {row["correlation"] for row in rows(folder, "api_call") if row["stack"] is not None}
    without = sum(row["operation"] == "allocation" and row["correlation"] not in stacks for row in found)
    assert 0 < without <= lost["allocation_stacks"]


def test_unknown_addresses(record, rows):
    """A release of what was not seen to be allocated is no row: its device is not known. It is counted."""
    folder, _, _ = record("unknown")
    lost = losses(rows, folder)
    assert set(lost) == {"unknown_release"} and 1000 <= lost["unknown_release"] < 1010, "the warm-up may add some"
    assert not after_warm_up(rows, folder)


def test_a_child_has_probes_of_its_own(record, rows):
    folder, said, _ = record("fork")
    parent, child = [line for line in said if "child" in line][0], [line for line in said if "grown" in line][0]
    assert child["pid"] == parent["child"] and child["grown"] == 9000
    assert {(row["pid"] == child["pid"], row["bytes"]) for row in after_warm_up(rows, folder)} == {(False, 7000), (True, 9000)}


def test_a_library_that_is_unloaded(record, rows):
    folder, [said], _ = record("unload")
    found = [row["bytes"] for row in after_warm_up(rows, folder) if row["operation"] == "allocation"]
    assert found == [111] + 50 * [222]
    assert not lost_after_warm_up(rows, folder) and said["semaphores"] == 2 << 16 | 2


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT], ids=["killed", "ended"])
def test_semaphores_return_to_0(program, environment, library, tmp_path, end):
    """Also when the recorder is killed: the program no longer stops at its probes."""
    command = [sys.executable, PROGRAM, library, "semaphores", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert json.loads(child.stdout.readline())["semaphores"] == 0
            recorder = subprocess.Popen([program, "record", "-q", "-o", tmp_path / "a.pitot", "-p", str(child.pid), "--cpu-only", "--memory=torch"],
                                        stderr=subprocess.PIPE, text=True, env=environment)
            for line in child.stdout:
                if json.loads(line)["semaphores"] == 2 << 16 | 2:
                    break
                if recorder.poll() is not None:
                    pytest.skip(recorder.stderr.read())
            recorder.send_signal(end)
            last = [json.loads(line)["semaphores"] for line in child.stdout]
            assert last[-1] == 0 and child.wait(PATIENCE) == 0
            recorder.communicate(timeout=PATIENCE)
        finally:
            child.kill()


def forge(path, change):
    """Changes the notes of a copy of the library: change(note) gets each as a bytearray, from its three addresses on."""
    bytes_ = bytearray(path.read_bytes())
    at = 0
    while (at := bytes_.find(b"stapsdt\0", at + 1)) >= 0:
        if struct.unpack_from("<I", bytes_, at - 4) == (3,):
            note = bytes_[at + 8:at + 8 + struct.unpack_from("<I", bytes_, at - 8)[0]]
            bytes_[at + 8:at + 8 + len(note)] = change(note)
    return bytes(bytes_)


FORGERIES = {
    "outside": (lambda note: struct.pack("<Q", 1 << 40) + note[8:], "there is no nop in code"),
    "no nop": (lambda note: struct.pack("<Q", struct.unpack_from("<Q", note)[0] + 1) + note[8:], "there is no nop in code"),
    "semaphore": (lambda note: note[:16] + struct.pack("<Q", 8) + note[24:], "is not in .probes"),
    "operand": (lambda note: note.replace(b"8@%rdi", b"8@%xmm"), "of an unknown form"),
    "too few": (lambda note: note.split(b" ")[0].ljust(len(note), b"\0"), "are missing"),
    "provider": (lambda note: note.replace(b"pytorch", b"pytorcH"), "it has no static probes"),
    "no end": (lambda note: note[:24] + b"x" * (len(note) - 24), "is too short"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_notes_set_no_probe(program, environment, library, rows, tmp_path, name):
    """The program goes on as without a recorder, which says what is wrong with the library, and what to do."""
    change, expected = FORGERIES[name]
    forged = tmp_path / "libc10_cuda.so"
    forged.write_bytes(forge(library, change))
    (tmp_path / "go").touch()
    command = [program, "record", "-o", tmp_path / "a.pitot", "--cpu-only", "--memory=torch", "--", sys.executable, PROGRAM, forged, "train", tmp_path / "go"]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE)
    if "eBPF" in result.stderr:
        pytest.skip(result.stderr)
    said = json.loads(result.stdout)
    assert result.returncode == 0 and said["semaphores"] == 0 and said["allocations"] == 170
    assert f"'{forged}': " in result.stderr and expected in result.stderr and "pitot.torch.memory()" in result.stderr, result.stderr
    [capability] = [row for row in rows(tmp_path / "a.pitot", "capability") if row["name"] == "allocator"]
    assert capability["state"] == "unavailable" and expected in capability["reason"]
    assert rows(tmp_path / "a.pitot", "allocation") == []


def test_what_cannot_be_recorded(pitot, program, environment, library, rows, tmp_path):
    """No library, one without probes, no eBPF: the way that is left is named."""
    without = library.parent.parent / "without" / "libc10_cuda.so"
    (tmp_path / "go").touch()
    for options, command, reason in (
        [[], ["true"], "no process loaded libc10_cuda.so"],
        [[], [sys.executable, PROGRAM, without, "train", tmp_path / "go"], f"'{without}': it has no static probes"],
        [["--cpu-via", "perf"], ["true"], "it needs eBPF, and the CPU is sampled by perf_event"],
        [["--cpu-via", "timer"], ["true"], "it needs eBPF, and the CPU is sampled by a timer inside each process"],
    ):
        result = subprocess.run([program, "record", "-f", "-o", tmp_path / "a.pitot", "--cpu-only", "--memory=torch", *options, "--", *command],
                                capture_output=True, text=True, env=environment, timeout=PATIENCE)
        if not options and "eBPF" in result.stderr:
            continue
        assert result.returncode == 0, result.stderr
        assert f"an allocator of PyTorch is not recorded: {reason}" in result.stderr and "pitot.torch.memory()" in result.stderr
        [capability] = [row for row in rows(tmp_path / "a.pitot", "capability") if row["name"] == "allocator"]
        assert capability["state"] == "unavailable" and capability["reason"].startswith(reason)


def test_one_of_two_libraries(record, rows, library):
    """What can be recorded is, beside a library without probes."""
    folder, _, said = record("two")
    without = library.parent.parent / "without" / "libc10_cuda.so"
    assert f"is not recorded: '{without}': it has no static probes" in said
    [capability] = [row for row in rows(folder, "capability") if row["name"] == "allocator"]
    assert (capability["state"], capability["actual"]) == ("degraded", "static probes, by eBPF") and str(without) in capability["reason"]
    assert [row["bytes"] for row in after_warm_up(rows, folder)] == [50]


def test_options(pitot):
    assert "the value of '--memory' is given as --memory=torch" in pitot("record", "--memory", "torch", "--", "true", status=2).stderr
    assert "option '--memory' takes torch, not 'jax'" in pitot("record", "--memory=jax", "--", "true", status=2).stderr
    assert "leave out --ring" in pitot("record", "--memory=torch", "--ring", "1m", "--", "true", status=2).stderr
