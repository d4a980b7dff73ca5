"""What stands in the way of samples and of Python frames, and what each method must say of it: rows of `capability`, or messages of
`pitot record`. One table; what cannot be had on a test machine is played by stand-ins (obstacles/python.c), or listed below.

Not tested: kernel.yama.ptrace_scope and kernel.perf_event_paranoid of another value, which are settings of the whole machine
(test_cpu_perf_python.py skips by them); a C library other than glibc, beyond a loader of another name; GraalPy and MicroPython beyond
their names.
"""
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from waiting import PATIENCE

SOURCE = Path(__file__).parent / "obstacles" / "python.c"
LOADER = "/lib64/ld-linux-x86-64.so.2"
MAIN = "void run(void); int main(void) { run(); return 0; }"


def compile_c(folder, name, source, *options):
    subprocess.run(["cc", "-O1", "-o", folder / name, source, *options], check=True)
    return folder / name


def program(folder, name, library=None, flags=()):
    """A program of this name that runs the stand-in, in itself or in a library of its own."""
    (folder / "main.c").write_text(MAIN)
    if not library:
        return [compile_c(folder, name, SOURCE, folder / "main.c", *flags)]
    compile_c(folder, library, SOURCE, "-shared", "-fPIC", f"-Wl,-soname,{library}", *flags)
    return [compile_c(folder, name, folder / "main.c", folder / library, f"-Wl,-rpath,{folder}")]


def cpython(version, number, *flags):
    short = ".".join(version.split(".")[:2])
    return lambda folder: program(folder, f"python{short}", f"libpython{short}.so.1.0",
                                  [f'-DVERSION="{version}"', f"-DHEX={number:#x}", *flags])


def setuid(folder):
    path = program(folder, "setuid")[0]
    os.chown(path, 65534, 65534)
    os.chmod(path, 0o4755)
    return [path]


def musl(folder):
    loader = shutil.copy(LOADER, folder / "ld-musl-x86_64.so.1")
    return program(folder, "musl", flags=[f"-Wl,--dynamic-linker={loader}"])


INSIDE, OUTSIDE, SAID = "python_stacks", "cpu_python", "said"


def python(text):
    """Whatever the method, the reason is the same: each has its row. Beside perf events the recorder is in Pythons."""
    return {"ebpf": (OUTSIDE, text), "perf": (INSIDE, text), "timer": (INSIDE, text)}


def other(text):
    """The recorder is in no program that is not named like a CPython, so that perf events must say it."""
    return {**python(text), "perf": (OUTSIDE, text)}


def old(version):
    return python(f"CPython {version} is not supported, only 3.9 to 3.15 are")


# Obstacle: how to make the command, and what each method must say: a row of capability or "said" by record, and words of the reason.
TABLE = {
    "PyPy": (lambda folder: program(folder, "pypy3.10"), other("PyPy is not supported")),
    "PyPy's library": (lambda folder: program(folder, "some", "libpypy3.10-c.so"), other("PyPy is not supported")),
    "GraalPy": (lambda folder: program(folder, "graalpy"), other("GraalPy is not supported")),
    "MicroPython": (lambda folder: program(folder, "micropython"), other("MicroPython is not supported")),
    "CPython 3.6": (cpython("3.6.9", 0x030609f0), old("3.6")),
    "CPython 3.7": (cpython("3.7.1", 0x030701f0), old("3.7")),
    "CPython 3.8": (cpython("3.8.2", 0x030802f0), old("3.8")),
    "CPython 3.16": (cpython("3.16.0", 0x031000f0), old("3.16")),
    "a debug build": (cpython("3.12.1", 0x030c01f0, "-DDEBUG"), python("debug build")),
    "a pre-release": (cpython("3.13.0a1", 0x030d00a1), python("pre-release")),
    "a static program": (lambda folder: program(folder, "static", flags=["-static"]),
                         {"timer": (SAID, "the timer needs a dynamically linked 64-bit program that uses glibc")}),
    "another C library": (musl, {"timer": (SAID, "the timer needs a dynamically linked 64-bit program that uses glibc")}),
    "a setuid program": (setuid, {"timer": ("cpu", "setuid, static and very short-lived programs are not sampled")}),
}


@pytest.fixture
def run(program, environment, library, tmp_path):
    """Records a command by a method; what record said."""

    def record(way, command):
        # By perf events as by default: with timers in Pythons, for whoever may not use eBPF.
        if way == "perf" and (os.geteuid() != 0 or not shutil.which("setpriv")):
            pytest.skip("needs root and setpriv, to be refused eBPF")
        words = ["setpriv", "--bounding-set=-sys_admin,-bpf", program] if way == "perf" else [program]
        via = [] if way == "perf" else ["--cpu-via", way]
        result = subprocess.run([*words, "record", "-f", "--cpu-only", *via, "--cpu=499", "-o", tmp_path / "rec.pitot", "--", *command],
                                capture_output=True, text=True, timeout=PATIENCE, env={**environment, "PITOT_LIBRARY": str(library)})
        if result.returncode and re.search("eBPF|perf_event", result.stderr):
            pytest.skip(result.stderr.strip())
        assert result.returncode == 0, result.stderr
        return result.stderr

    return record


@pytest.mark.parametrize("obstacle, way", [(name, way) for name, (_, said) in TABLE.items() for way in said])
def test_each_method_says_why(run, rows, tmp_path, obstacle, way):
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    make, cells = TABLE[obstacle]
    row, text = cells[way]
    if obstacle == "a setuid program" and os.geteuid() != 0:
        pytest.skip("needs root")
    tmp_path.chmod(0o755)
    said = run(way, make(tmp_path))
    if row == SAID:
        assert text in " ".join(said.split())
        return
    found = rows(tmp_path / "rec.pitot", "capability")
    assert any(text in (one["reason"] or "") for one in found if one["name"] == row and one["state"] != "on"), found
    if row in (INSIDE, OUTSIDE):
        assert not [one for one in found if "Python frames" in (one["actual"] or "")], found


def test_without_bpf_and_without_perf_events(program, environment, library, pitot, rows, tmp_path):
    """The default method says what the better ones lacked."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv")
    forbid = compile_c(tmp_path, "forbid", SOURCE.parent.parent / "cpu_programs" / "forbid_perf.c")
    command = [*globals()["program"](tmp_path, "burn")]
    reasons = {}
    for name, before in ("no BPF", ["setpriv", "--bounding-set=-sys_admin,-bpf"]), ("neither", [forbid]):
        subprocess.run([*before, program, "record", "-q", "-f", "--cpu-only", "-o", tmp_path / "rec.pitot", "--", *command],
                       check=True, timeout=PATIENCE, env={**environment, "PITOT_LIBRARY": str(library)}, cwd=tmp_path)
        reasons[name] = " ".join(one["reason"] or "" for one in rows(tmp_path / "rec.pitot", "capability") if one["name"] == "cpu")
    assert "bpf" in reasons["no BPF"] and "CAP_BPF" in reasons["no BPF"], reasons
    assert "perf" in reasons["neither"], reasons
