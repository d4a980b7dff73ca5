"""Core files that the driver writes of GPUs (--gpu-coredump): made by tests/gpu_core_writer.py, where there is no GPU."""
import json
import lzma
import os
import struct

import pytest

from gpu_core_writer import ASSERT, SECTION, GpuCore, faulting_core, relocated, sections_of

KERNEL, PLACE = "_Z6smoothPfPKfi", 0x90
OWN = "CUDA_COREDUMP_FILE"



@pytest.fixture
def cubin(source):
    return (source / "tests" / "fuzz" / "corpus" / "cubin" / "lineinfo").read_bytes()


@pytest.fixture
def record(pitot, tmp_path):
    """record(cores, …): `pitot record --gpu-coredump` of a command that leaves these files, by their names. The folder, what it said."""

    def run(cores, *options, status=0, env=None):
        kept = tmp_path / "kept"
        kept.mkdir(exist_ok=True)
        for name, contents in cores.items():
            (kept / name).write_bytes(contents)
        folder = tmp_path / "run.pitot"
        done = pitot("record", "--gpu-coredump", "-f", "-o", folder, "--no-cpu", "--no-symbols", *options, "--", "sh", "-c",
                     f'cp {kept}/* "$(dirname "${OWN}")"', status=status, env=env)
        return folder, done

    return run


def names(cores):
    """As the driver names them: host, process, time."""
    return {f"host.example.{1000 + i}.1764000000.nvcudmp": core for i, core in enumerate(cores)}


def index(row, what):
    return tuple(row[f"{what}_{axis}"] for axis in "xyz")


@pytest.mark.parametrize("is_old, absolute", [(False, False), (False, True), (True, False)])
def test_an_exception(record, rows, cubin, is_old, absolute):
    """Kernel, block, thread, instruction and line; the threads that wait elsewhere are not in the recording."""
    core = faulting_core(cubin, KERNEL, PLACE, is_old=is_old, absolute_symbols=absolute, thread=77)
    folder, done = record(names([core.bytes()]))
    [row] = rows(folder, "gpu_core")
    assert (row["pid"], row["exception"], row["code"], row["device"], row["launch_thread"]) == (1000, "illegal address", 14, 0, 77)
    assert (row["kernel"], row["function"], row["offset"], row["threads"]) == (KERNEL, KERNEL, PLACE, 2)
    assert (row["source_file"], row["line"]) == ("/src/kernel.cu", 16)
    assert index(row, "grid") == (4, 1, 1) and index(row, "block") == (64, 1, 1)
    assert index(row, "block_index") == (3, 0, 0) and index(row, "thread_index") == (5, 0, 0)
    assert (row["multiprocessor"], row["warp"], row["lane"], row["reason"]) == (1, 2, 5, None)
    assert "core file of a GPU" in done.stderr and "illegal address" in done.stderr
    assert (folder / "gpu-cores" / row["file"]).stat().st_size > 1000


def test_kinds_of_exceptions(record, rows, cubin):
    """A number that this version does not know; an assertion; a trap; an exception whose threads are gone; none at all; one without a number."""
    image, addresses = relocated(cubin, 0x7F0000000000)
    entry = addresses[KERNEL]

    def grid(core):
        core.grid(5, entry)
        core.image(image)
        return core

    trap, gone, runs = grid(GpuCore()), grid(GpuCore()), grid(GpuCore())
    trap.sm(0)
    trap.block(0, 5, (1, 2, 3), [(4, 0b111, 0b010, 1, 0, [(lane, (lane, 1, 0), entry + 0x20, 0x20, 0, 0) for lane in range(3)])])
    gone.sm(0)
    gone.sm(1, 14, entry + PLACE)
    gone.block(0, 5, (0, 0, 0), [(0, 1, 1, 0, 0, [(0, (0, 0, 0), entry, 0, 0, 0)])])
    runs.sm(0)
    runs.block(0, 5, (0, 0, 0), [(0, 0b101, 0b101, 0, 0, [(lane, (lane, 0, 0), entry + 16 * (lane == 2), 0, 0, 0) for lane in range(3)]),
                                 (1, 1, 1, 0, 0, [(0, (32, 0, 0), entry + 16, 16, 0, 0)])])
    nameless = grid(GpuCore())
    nameless.sm(0)
    nameless.block(0, 5, (0, 0, 0), [(0, 3, 1, 0, entry + PLACE, [(lane, (lane, 0, 0), entry, 0, 0, 0) for lane in range(2)])])
    of_sm = grid(GpuCore())
    of_sm.sm(0, 6, entry + PLACE)
    of_sm.sm(1, 6, entry + PLACE)
    of_sm.block(0, 5, (0, 0, 0), [(0, 3, 2, 0, entry + PLACE, [(lane, (lane, 0, 0), entry, 0, 0, 0) for lane in range(2)])])
    cores = [faulting_core(cubin, KERNEL, PLACE, exception=99), faulting_core(cubin, KERNEL, PLACE, exception=ASSERT), trap, gone, runs, nameless, of_sm]
    folder, _ = record(names([core.bytes() for core in cores]))
    found = {}
    for row in rows(folder, "gpu_core"):
        found.setdefault(row["pid"], []).append(row)
    assert [(row["exception"], row["code"]) for row in found[1000] + found[1001]] == [("exception 99", 99), ("assertion failed", ASSERT)]
    [row] = found[1002]
    assert (row["exception"], row["code"], row["threads"], row["lane"]) == ("trap instruction", None, 1, 1)
    assert index(row, "block_index") == (1, 2, 3) and index(row, "thread_index") == (1, 1, 0)
    [row] = found[1003]
    assert (row["exception"], row["threads"], row["multiprocessor"], row["lane"], row["kernel"]) == ("illegal address", 0, 1, None, KERNEL)
    assert (row["function"], row["offset"], row["line"]) == (KERNEL, PLACE, 16)
    [row] = found[1005]
    assert (row["exception"], row["code"], row["threads"], row["lane"], row["offset"]) == ("unknown exception", None, 1, 0, PLACE)
    [row] = found[1006]
    assert (row["exception"], row["threads"], row["lane"], row["multiprocessor"]) == ("misaligned address", 1, 1, 0), "said once, with its thread"
    most, other = found[1004]
    assert (most["exception"], most["threads"], most["offset"]) == (None, 2, 16) and (other["threads"], other["offset"]) == (1, 0)


def test_code_that_the_file_does_not_have(record, rows, cubin):
    """The offset is that of the thread, if it is in the kernel itself; of a function that it calls nothing is known but the kernel."""
    image, addresses = relocated(cubin, 0x7F0000000000)
    core = GpuCore()
    core.grid(5, addresses[KERNEL])
    core.image(image)
    core.sm(0)
    core.block(0, 5, (0, 0, 0), [(0, 3, 3, 0, 0, [(0, (0, 0, 0), 0x1234, 0x34, 14, 0), (1, (1, 0, 0), 0x5678, 0x78, 14, 1)])])
    folder, _ = record(names([core.bytes()]))
    own, called = sorted(rows(folder, "gpu_core"), key=lambda row: row["lane"])
    assert (own["kernel"], own["function"], own["offset"], own["line"]) == (KERNEL, KERNEL, 0x34, None)
    assert (called["kernel"], called["function"], called["offset"]) == (KERNEL, None, None)


def test_files_that_cannot_be_read(record, rows, cubin):
    """They stay, and the recording says what was wrong with them."""
    whole = faulting_core(cubin, KERNEL, PLACE).bytes()
    lying = bytearray(whole)
    for name, at, header in sections_of(whole):
        if name.startswith(".cudbg.lntbl"):
            struct.pack_into(SECTION, lying, at, *header[:5], 1 << 60, *header[6:])
    contents = [b"", b"no core", whole[:200], whole[:-64], bytes(lying), whole]
    folder, _ = record(names(contents))
    found = {row["pid"]: row for row in rows(folder, "gpu_core")}
    assert len(found) == len(contents) and found[1005]["reason"] is None
    assert [found[pid]["reason"] for pid in (1000, 1001)] == ["not a core file of a GPU"] * 2
    assert "no sections" in found[1002]["reason"]
    assert [found[pid]["reason"] for pid in (1003, 1004)] == ["the file is not complete"] * 2
    assert [found[pid]["threads"] for pid in range(1000, 1003)] == [0, 0, 0]
    assert len(list((folder / "gpu-cores").iterdir())) == len(contents)


def test_more_sections_than_a_header_counts(record, rows, cubin):
    """Each thread of a large GPU has several; their number is in the first section then."""
    folder, _ = record(names([faulting_core(cubin, KERNEL, PLACE).bytes(extra=70000)]))
    [row] = rows(folder, "gpu_core")
    assert (row["exception"], row["kernel"], row["line"], row["reason"]) == ("illegal address", KERNEL, 16, None)


def test_settings_of_the_user_stay(record, pitot, rows, tmp_path):
    own = {OWN: str(tmp_path / "own" / "core")}
    (tmp_path / "own").mkdir()
    folder, done = record({"x": b"y"}, env=own)
    assert (tmp_path / "own" / "x").exists() and not (folder / "gpu-cores").exists()
    assert f"no core files of GPUs: {OWN} is set" in done.stderr
    [row] = [row for row in rows(folder, "capability") if row["name"] == "gpu_core"]
    assert row["state"] == "off" and OWN in row["reason"]
    percent = pitot("record", "--gpu-coredump", "--no-cpu", "-o", tmp_path / "50%", "--", "sh", "-c", f"test -z ${OWN}").stderr
    assert "would replace the %" in percent


def test_what_the_driver_is_told(pitot, tmp_path):
    said = pitot("record", "--gpu-coredump", "--no-cpu", "-q", "-o", tmp_path / "r.pitot", "--", "env").stdout
    variables = dict(line.split("=", 1) for line in said.splitlines() if line.startswith("CUDA_"))
    flags = variables["CUDA_COREDUMP_GENERATION_FLAGS"].split(",")
    assert variables["CUDA_ENABLE_COREDUMP_ON_EXCEPTION"] == variables["CUDA_ENABLE_LIGHTWEIGHT_COREDUMP"] == "1"
    assert "skip_global_memory" in flags, "the file is small"
    assert "skip_abort" not in flags, "with it calls of CUDA succeed after an exception"
    assert variables[OWN] == f"{tmp_path}/r.pitot/gpu-cores/%h.%p.%t.nvcudmp"
    plain = pitot("record", "--no-cpu", "-q", "-o", tmp_path / "plain.pitot", "--", "env").stdout
    assert "COREDUMP" not in plain and not (tmp_path / "plain.pitot" / "gpu-cores").exists()


@pytest.mark.parametrize("options, said", [(["--pid", str(os.getpid())], "--gpu-coredump needs a command"),
                                           (["--ring", "1m", "--", "true"], "--gpu-coredump needs a command")])
def test_where_it_has_no_meaning(pitot, options, said):
    assert said in pitot("record", "--gpu-coredump", *options, status=2).stderr


def test_the_files_are_part_of_the_recording(record, pitot, rows, cubin, tmp_path):
    """It can be replaced, and merged with another."""
    core = faulting_core(cubin, KERNEL, PLACE).bytes()
    folder, _ = record(names([core, core]))
    os.mkfifo(folder / "gpu-cores" / "host.1.pipe")
    pitot("merge", "-o", tmp_path / "both.pitot", folder)
    kept = sorted(path.name for path in (tmp_path / "both.pitot" / "gpu-cores").iterdir())
    assert kept == sorted(names([core, core])) and len(rows(tmp_path / "both.pitot", "gpu_core")) == 2
    folder, _ = record({})
    (folder / "gpu-cores" / "mine.txt").touch()
    assert "not part of a recording" in pitot("record", "-f", "-o", folder, "--", "true", status=2).stderr


@pytest.mark.parametrize("name, exception, kernel, line, threads", [("assert", "assertion failed", "_Z7assertsPfi", 30, 1),
                                                                   ("misaligned", "misaligned address", "_Z17writes_misalignedPfPc", 36, 1),
                                                                   ("hang", None, "_Z14waits_for_flagPVi", 41, 64)])
def test_files_of_an_h200(record, rows, pitot, source, name, exception, kernel, line, threads):
    """Of bench/workloads/gpu_core.cu, without memory and other device code; driver 580."""
    core = lzma.decompress((source / "tests/data/gpu-cores" / f"{name}.core.xz").read_bytes())
    folder, _ = record(names([core]))
    [row] = rows(folder, "gpu_core")
    assert (row["exception"], row["kernel"], row["function"], row["threads"], row["reason"]) == (exception, kernel, kernel, threads, None)
    assert (row["source_file"], row["line"]) == ("/src/pitot/bench/workloads/gpu_core.cu", line)
    if exception:
        assert index(row, "block_index") == (3, 0, 0) and index(row, "thread_index") == (5, 0, 0)
    words = json.loads(pitot("report", "--json", folder).stdout)["last_words"]["text"]
    assert f"gpu_core.cu:{line}" in words and (exception or "63 other threads") in words


def test_no_gpu_work_beside_it(record, rows, pitot):
    folder, _ = record({"x": b"y"})
    [row] = [row for row in rows(folder, "capability") if row["name"] == "gpu"]
    assert row["state"] == "off" and "no core files of a process that uses CUPTI" in row["reason"]
    for option in (["--gpu-only"], ["--ring", "1m"], ["--engine", "pc-sampling"]):
        assert pitot("record", "--gpu-coredump", *option, "--", "true", status=2).stderr
