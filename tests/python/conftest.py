"""The package; programs in Python that record themselves, and what is in their recordings."""
import importlib
import json
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pythons import label
from waiting import PATIENCE


@pytest.fixture(scope="session")
def folder(plain):
    """Where the package was built: without sanitizers, which an interpreter would have to be started with."""
    if not list((plain / "python/pitot").glob("_record.*.so")):
        pytest.skip("the package was not built: no Python.h (python3-dev)")
    return plain / "python"


@pytest.fixture(scope="session")
def folder_of(folder, plain, source, shared_folder):
    """The package for an interpreter: for a free-threaded one its modules are compiled anew, as cmake would with its headers."""

    def compile(python, place):
        shutil.copytree(folder, place, symlinks=True, ignore=shutil.ignore_patterns("*.abi3.so", "__pycache__"), dirs_exist_ok=True)
        for name, files, libraries in (("read", [], [f"-L{plain}", "-lpitotread", f"-Wl,-rpath,{plain}"]),
                                       ("record", ["record_library.c", "record_operators.c", "record_options.c", "record_scopes.c"], [plain / "libpitot_schema.a", plain / "libpitot_base.a", plain / "libpitot_arch.a", "-Wl,--exclude-libs,ALL"])):
            sources = [source / "python" / file for file in (f"{name}_module.c", *files)]
            subprocess.run(["cc", "-std=gnu17", "-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-isystem", python["include"],
                            f"-I{source / 'include'}", f"-I{source / 'src'}", *sources, "-o", place / f"pitot/_{name}{python['suffix']}",
                            *libraries], check=True)

    def folder_of(python):
        if not python["free_threaded"]:
            return folder
        if not (Path(python["include"]) / "Python.h").exists() or not shutil.which("cc"):
            pytest.skip(f"no compiler, or no Python.h of {label(python)}")
        return shared_folder(f"python-{label(python)}", lambda place: compile(python, place))

    return folder_of


@pytest.fixture(scope="session")
def package(folder):
    sys.path.insert(0, str(folder))
    return importlib.import_module("pitot")


@pytest.fixture(scope="session")
def path(shared_folder, make_recording):
    return shared_folder("python-varied", lambda f: make_recording(f / "varied.pitot", "varied")) / "varied.pitot"


@pytest.fixture(scope="session")
def train(shared_folder, make_recording):
    def fill(folder):
        make_recording(folder / "train.pitot", kernels=20000, processes=2, pattern="train", stacks=50)

    return shared_folder("python-train", fill) / "train.pitot"


@pytest.fixture(scope="session")
def training(shared_folder, make_recording):
    """Eight steps on a GPU with readings, allocations and scopes."""
    return shared_folder("python-training", lambda f: make_recording(f / "t.pitot", "training")) / "t.pitot"


@pytest.fixture
def run(folder, folder_of, environment, tmp_path):
    """What a program prints as JSON: run("print(json.dumps(1))")."""

    def run(code, python=None, wrap=(), status=0, stdin=None, arguments=(), **variables):
        path = tmp_path / "program.py"
        path.write_text("import json, os, sys, pitot\n" + textwrap.dedent(code))
        command = [*wrap, python["path"] if python else sys.executable, path, *arguments]
        result = subprocess.run(list(map(str, command)), cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, input=stdin,
                                env={**environment, "PYTHONPATH": str(folder_of(python) if python else folder), "PITOT_OPTIONS": "cuda=0", **variables})
        assert result.returncode == status, result.stdout + result.stderr
        return json.loads(result.stdout) if result.stdout and not status else result

    return run


@pytest.fixture
def launcher(build, source):
    """Variables for programs that launch without a GPU: ctypes.CDLL(os.environ["LAUNCHER"]).launch()."""
    library = build / "standin/libcaller.so"
    if not library.exists():
        pytest.skip("built without CUDA's headers")
    variables = {"LAUNCHER": str(library), "LD_LIBRARY_PATH": str(library.parent), "PITOT_OPTIONS": "",
                 "PITOT_STANDIN_TAPE": str(source / "tests/data/tapes/launch.tape")}
    if b"libasan" in library.read_bytes():
        name = subprocess.run(["cc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True).stdout.strip()
        variables.update(LD_PRELOAD=name, ASAN_OPTIONS="detect_leaks=0")
    return variables


@pytest.fixture
def spans(rows):
    """Scopes and marks as a program says them: "outer( inner( ) mark )"."""

    def spans(recording):
        forms = {"push": "{message}(", "pop": ")", "mark": "{message}"}
        return " ".join(forms[row["kind"]].format(**row) for row in rows(recording, "nvtx"))

    return spans


@pytest.fixture
def launched_from(package):
    """Launches of a recording that `function` of the program has made, and all."""
    pyarrow = pytest.importorskip("pyarrow")

    def count(path, function):
        stacks = pyarrow.table(package.open(path).launches.select("stack.frames")).column(0).to_pylist()
        return sum(any(frame.startswith(f"{function} (program.py:") for frame in stack or ()) for stack in stacks), len(stacks)

    return count
