"""Python frames of launch stacks, in every CPython that pythons.py finds."""
import os
import platform
import subprocess
from pathlib import Path

import pytest

from pythons import interpreters, is_known, label, with_jit

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
FILES = HERE / "python_frames"
FLAGS = ["-std=gnu17", "-D_GNU_SOURCE", "-O2", "-g", "-Wall", "-Wextra", f"-I{TOP / 'src'}"]
ARCH = sorted((TOP / "src/arch" / platform.machine()).glob("*.c"))
SOURCES = [*ARCH, *sorted((TOP / "src/stack/python").glob("python_*.c")),
           *(TOP / "src" / name for name in ("elf/cfa_expression.c", "elf/eh_frame.c", "elf/elf_file.c", "elf/import_slots.c",
                                             "elf/loaded_libraries.c", "base/clock.c", "base/error.c", "base/io.c", "base/safe_memory.c",
                                             "base/sparse_file.c", "base/strbuf.c", "base/utf8.c"))]

PYTHONS = interpreters()
KNOWN = [python for python in PYTHONS if is_known(python)]


def each(facts):
    return pytest.mark.parametrize("python", facts, ids=label)


def run(command, **options):
    options.setdefault("timeout", 300)
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            errors="replace", **options)
    assert result.returncode == 0, f"{command}\nstatus {result.returncode}\n{result.stdout}"
    return result.stdout


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("python_frames")


def build(folder):
    """Once for all workers, and the frames' sources once for both."""
    run(["cc", *FLAGS, "-fPIC", "-fvisibility=hidden", "-c", *SOURCES], cwd=folder)
    objects = sorted(folder.glob("*.o"))
    run(["cc", *FLAGS, "-fPIC", "-shared", "-fvisibility=hidden", "-o", folder / "probe.so", FILES / "probe.c", *objects, "-lpthread"])
    run(["cc", *FLAGS, "-o", folder / "embed", FILES / "embed.c", *objects, "-lpthread", "-ldl"])


@pytest.fixture(scope="session")
def probe(shared_folder):
    return shared_folder("python-frames", build) / "probe.so"


@pytest.fixture(scope="session")
def embed(shared_folder):
    return shared_folder("python-frames", build) / "embed"


@each(with_jit(KNOWN))
def test_stacks_are_what_python_says(python, probe):
    said = run([python["path"], FILES / "scenarios.py", probe], env={**os.environ, **python["environment"]})
    lines = said.splitlines()
    assert len(lines) >= 25 and int(lines[-1].split()[1]) > 4000, said


@each([p for p in KNOWN if p["version"] >= [3, 12]])
def test_perf_trampolines(python, probe, tmp_path):
    """With -X perf there is code made at run time between any two evaluations."""
    run([python["path"], "-X", "perf", FILES / "scenarios.py", probe, "do_nested", "do_c_callbacks", "do_generators", "do_asyncio"],
        env={**os.environ, "TMPDIR": str(tmp_path)})


@each([p for p in KNOWN if p["free_threaded"] or p["version"] >= [3, 14]])
def test_options(python, probe):
    """What later versions can be started with, and whose structures it might concern."""
    options = ["-X", "gil=1"] if python["free_threaded"] else ["-X", "disable-remote-debug"]
    run([python["path"], *options, FILES / "scenarios.py", probe, "do_nested", "do_c_callbacks", "do_generators", "do_threads"])


@each(KNOWN)
def test_stripped_interpreter(python, probe, folder):
    """Without .symtab the parts of the evaluation loop are found by the jumps that lead to them."""
    if not python["library"]:
        pytest.skip("no libpython of its own")
    copy = folder / python["full"]
    copy.mkdir(exist_ok=True)
    library = copy / Path(python["library"]).resolve().name
    run(["strip", "-s", "-o", library, python["library"]])
    environment = {**os.environ, "LD_LIBRARY_PATH": str(copy)}
    run([python["path"], FILES / "scenarios.py", probe, "do_nested", "do_c_callbacks", "do_class_bodies", "do_exceptions",
         "do_asyncio", "do_generators", "do_imports"], env=environment)


@pytest.mark.parametrize("threaded", [False, True], ids=["gil", "free-threaded"])
@each([p for p in KNOWN if p["version"] >= [3, 14]])
def test_offsets_are_those_of_the_headers(python, threaded, folder):
    """Of builds that are not there, too: the compiler says how their structures look."""
    include = Path(python["include"])
    if not (include / "internal" / "pycore_debug_offsets.h").exists():
        pytest.skip("no headers")
    if python["free_threaded"] and not threaded:
        pytest.skip("its headers are for the other")
    program = folder / f"offsets-{python['full']}-{threaded}"
    run(["cc", *FLAGS[:2], f"-I{TOP / 'src'}", *(["-DPy_GIL_DISABLED=1"] if threaded and not python["free_threaded"] else []),
         f"-I{include}", f"-I{include.parent}", "-o", program, FILES / "offsets.c", TOP / "src/stack/python/python_offsets.c", *ARCH,
         *(TOP / "src" / name for name in ("base/error.c", "base/safe_memory.c", "elf/import_slots.c", "elf/loaded_libraries.c")), "-ldl"])
    assert run([program]) == "ok\n"


@pytest.mark.parametrize("damage", ["shoff", "shnum", "links", "sizes", "names", "headers"])
def test_damaged_sections(damage, probe, folder):
    """A file whose section headers lie is as good as a stripped one: the loader does not read them either."""
    python = next((p for p in KNOWN if p["library"]), None)
    if not python:
        pytest.skip("no libpython")
    source = Path(python["library"]).resolve()
    elf = bytearray(source.read_bytes())
    table, count = int.from_bytes(elf[40:48], "little"), int.from_bytes(elf[60:62], "little")

    def put(at, size, value):
        elf[at:at + size] = value.to_bytes(size, "little")

    for i in range(count):
        if damage == "links":
            put(table + 64 * i + 40, 4, 0xfffe)
        elif damage == "sizes":
            put(table + 64 * i + 32, 8, (1 << 64) - 24)
        elif damage == "names":
            put(table + 64 * i + 24, 8, 0)  # every section, strings too, begins at the file's begin
        elif damage == "headers":
            elf[table + 64 * i:table + 64 * i + 64] = b"\xff" * 64
    if damage == "shoff":
        put(40, 8, len(elf) - 100)
    elif damage == "shnum":
        put(60, 2, 0xffff)
    copy = folder / f"damaged-{damage}"
    copy.mkdir()
    (copy / source.name).write_bytes(elf)
    run([python["path"], FILES / "scenarios.py", probe, "do_nested", "do_c_callbacks"],
        env={**os.environ, "LD_LIBRARY_PATH": str(copy)})


@each(KNOWN)
def test_embedded_interpreter(python, embed):
    if not python["library"]:
        pytest.skip("no libpython")
    prefix = Path(python["path"]).resolve().parent.parent
    assert run([embed, python["library"]], env={**os.environ, "PYTHONHOME": str(prefix)}).endswith("ok\n")


@each(KNOWN)
def test_daemon_threads_walk_while_it_ends(python, probe):
    """The process ends as it should although threads without the GIL walk all the time."""
    script = """
import ctypes, sys, threading, time
probe = ctypes.CDLL(sys.argv[1])
assert probe.probe_open(ctypes.create_string_buffer(1000), 1000) == 0
for _ in range(4):
    threading.Thread(target=lambda: probe.probe_spin(10000), daemon=True).start()
time.sleep(0.02)
class Late:
    def __del__(self):
        probe.probe_depth()
late = Late()
late.self = late
"""
    for _ in range(6):
        assert run([python["path"], "-c", script, probe]) == ""


@each([p for p in PYTHONS if not is_known(p)])
def test_unknown_interpreters_are_refused(python, probe):
    script = """
import ctypes, sys
reason = ctypes.create_string_buffer(1000)
assert ctypes.CDLL(sys.argv[1]).probe_open(reason, 1000) < 0
print(reason.value.decode())
"""
    said = run([python["path"], "-c", script, probe])
    assert ("debug build" if python["debug"] else "is not supported") in said


def test_at_least_one_interpreter():
    assert KNOWN
