"""The Python package against the command line: same rows, same numbers, same words."""
import gc
import json
import re
import shutil
import subprocess
import sys
import threading

import pytest

from package_pythons import EVERY, FREE_THREADED, FREE_THREADED_PYTHONS

pyarrow = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def varied(package, path):
    return package.open(path)


def run(folder, code, *arguments):
    return subprocess.run([sys.executable, "-c", code, *map(str, arguments)], env={"PYTHONPATH": str(folder)}, check=True,
                          capture_output=True, text=True).stdout


def rows_of(table):
    arrow = pyarrow.table(table)
    arrow.validate(full=True)
    return arrow.to_pylist()


def test_all_rows_are_those_of_view(varied, path, pitot):
    assert varied.tables == {name: n for name, n in pitot("view", path, "--json", json_output=True)["tables"].items() if n}
    for name in varied.tables:
        table = varied.table(name)
        times = [column for column, about in table.columns.items() if about.get("clock")]
        rows = rows_of(table)
        for row in rows:
            row.update({time: row[time] - varied.start_ns for time in times if row[time] is not None})
            for column in [column for column in row if column.endswith(".row")]:
                del row[column]
        if name in ("kernel", "kernel_config"):  # `view --json` has them as the compiler made them
            column = "config" if name == "kernel" else "name"
            for row, mangled in zip(rows, rows_of(table.select("mangled_name"))):
                row[column] = mangled["mangled_name"]
        assert rows == [json.loads(line) for line in pitot("view", path, name, "--json").stdout.splitlines()], name


def test_rows_are_chosen_while_decoding(varied, package):
    table = varied.kernels.select("name", "start_ns", "stream", "duration_ns")
    rows = rows_of(table)
    first = min(row["start_ns"] for row in rows if row["start_ns"]) - varied.start_ns
    assert rows_of(table.where("stream=7", "duration>=10us")) == [
        row for row in rows if row["stream"] == 7 and (row["duration_ns"] or 0) >= 10000]
    assert rows_of(table.where("stream=7").where("duration>=10us")) == rows_of(table.where("stream=7", "duration>=10us"))
    window = rows_of(table.between(first / 1e9, (first + 100_000) / 1e9))
    assert window == [row for row in rows if row["start_ns"] and 0 <= row["start_ns"] - varied.start_ns - first < 100_000]
    assert 0 < len(window) < len(rows)
    assert rows_of(table.between(0, 0)) == []
    assert rows_of(table.where("name=no such kernel")) == []
    with pytest.raises(package.UsageError, match="-1 is not a time"):
        table.between(-1)


def test_launches_are_calls_that_launch(varied):
    launches = rows_of(varied.launches)
    assert launches and launches == [row for row in rows_of(varied.calls) if row["function.kind"] in ("launch", "graph_launch")]


def test_fields_have_units_and_meanings(varied):
    schema = pyarrow.schema(varied.kernels)
    assert schema.metadata == {b"table": b"kernel", b"meaning": b"kernel executions on a GPU"}
    assert schema.field("start_ns").metadata == {b"unit": b"ns", b"meaning": b"start on the GPU", b"clock": b"CLOCK_MONOTONIC"}
    for name, about in varied.kernels.columns.items():
        assert {key.decode(): value.decode() for key, value in schema.field(name).metadata.items()} == about


@pytest.mark.parametrize("options, words", [
    ({}, []),
    ({"by": "caller"}, ["--by", "caller"]),
    ({"since": 0.0002, "until": 0.0006, "stream": 7}, ["--since", "200us", "--until", "600us", "--stream", "7"]),
    ({"kernel": "saxpy", "pid": 100, "device": 0}, ["--kernel", "saxpy", "--process", "100", "--device", "0"]),
])
def test_the_report_is_that_of_the_command(varied, path, pitot, options, words):
    expected = pitot("report", path, *words, "--json", json_output=True)
    assert varied.report(**options) == expected
    if not options:
        assert varied.verdict == expected["verdict"] and varied.loss == expected["loss"]
        assert [dict(gpu["idle"], gpu=gpu["gpu"]) for gpu in expected["gpus"]] == varied.idle
        assert varied.copies_by_kind == expected["copies"] and expected["copies"]
        assert varied.scopes == pitot("report", path, "--scopes", "--json", json_output=True)["scopes"]["items"]
        assert [gpu["gpu"] for gpu in varied.overlap] == [gpu["gpu"] for gpu in expected["gpus"]]
        for gpu, busy in zip(varied.overlap, (gpu["busy"] for gpu in expected["gpus"])):
            assert all(value == busy[key] for key, value in gpu.items() if key != "gpu") and busy["copy_ns"] >= gpu["overlap_ns"]
    if "by" in options:
        assert varied.hotspots(by="caller") == expected["hotspots"]["items"]


def test_a_gpu_without_work_is_left_out(varied, monkeypatch):
    """The report says of it neither when it was busy nor why not."""
    report = varied.report(until=0.0001)
    monkeypatch.setattr(type(varied), "report", lambda self, **options: report)
    assert len(report["gpus"]) == 2 and [gpu["gpu"] for gpu in varied.idle] == [gpu["gpu"] for gpu in varied.overlap] == [0]


def test_an_export_is_that_of_the_command(varied, path, package, pitot, tmp_path):
    events = pitot("export", path, "-o", tmp_path / "command.json", "--json", json_output=True)["events"]
    assert varied.export(tmp_path / "package.json") == events
    written = (tmp_path / "package.json").read_bytes()
    assert written == (tmp_path / "command.json").read_bytes().replace(b"command.json", b"package.json")
    with pytest.raises(package.FileError, match="exists"):
        varied.export(tmp_path / "package.json")
    assert varied.export(tmp_path / "package.json", overwrite=True, kernel="saxpy") < events
    with pytest.raises(package.UsageError, match="no format matches .*: give one of perfetto"):
        varied.export(tmp_path / "package.txt")


def test_consumers_agree(varied):
    durations = [row["duration_ns"] for row in rows_of(varied.kernels) if row["duration_ns"] is not None]
    pandas = pytest.importorskip("pandas")
    assert varied.kernels.to_pandas()["duration_ns"].sum() == sum(durations)
    assert pandas.DataFrame.from_arrow(varied.kernels)["duration_ns"].sum() == sum(durations)
    rows = pandas.DataFrame(varied.kernels)
    assert list(rows.columns) == list(varied.kernels.columns) and rows["duration_ns"].sum() == sum(durations)
    assert list(varied.kernels) == rows_of(varied.kernels) == varied.kernels.to_arrow().to_pylist() and not list(varied.kernels.where("stream=77"))


def test_polars_and_duckdb_agree(varied):
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    kernels = varied.kernels
    total = sum(row["duration_ns"] or 0 for row in rows_of(kernels))
    assert kernels.to_polars()["duration_ns"].sum() == polars.DataFrame(kernels)["duration_ns"].sum() == total
    assert duckdb.sql("select sum(duration_ns) from kernels").fetchall() == [(total,)]


def test_mistakes_are_the_commands_errors(varied, package, path, pitot, tmp_path):
    (tmp_path / "none").write_text("x" * 5000)
    for wrong in (tmp_path / "nothing", tmp_path / "none", tmp_path):
        said = pitot("info", wrong, status=1).stderr.splitlines()[0]
        with pytest.raises(package.Error) as caught:
            package.open(wrong)
        assert said == f"pitot info: error: {caught.value}"
        assert isinstance(caught.value, (package.FileError, package.FormatError))
    assert issubclass(package.FileError, OSError) and issubclass(package.UsageError, ValueError)
    for wrong, said in [
        (lambda: varied.table("kernels"), "unknown table 'kernels', did you mean 'kernel'?"),
        (lambda: varied.kernels.select("sream").columns, "table kernel has no column 'sream', did you mean 'stream'?"),
        (lambda: varied.hotspots(by="calller"), "kernels cannot be grouped by 'calller', did you mean 'caller'?"),
        (lambda: varied.report(device=9), "no GPU with CUDA ordinal 9 in this recording; its GPUs: 0, 1"),
    ]:
        with pytest.raises(package.UsageError, match=re.escape(said)):
            wrong()
    with pytest.raises(AttributeError, match="a recording has no 'kernel', did you mean 'kernels'?"):
        varied.kernel
    for wrong in (lambda: varied.kernels.select("a\0b").columns, lambda: package.open("a\0b")):
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises(TypeError):
        package.open(3.5)


def test_damage_is_an_error_or_less_rows(package, train, tmp_path):
    whole = pyarrow.table(package.open(train).kernels).num_rows
    for part in range(1, 8):
        copy = tmp_path / f"{part}.pitot"
        shutil.copytree(train, copy)
        segment = max(copy.glob("*.pit"), key=lambda file: file.stat().st_size)
        content = bytearray(segment.read_bytes()[:segment.stat().st_size * part // 8])
        content[len(content) // 2] ^= 0x55
        segment.write_bytes(content)
        assert pyarrow.table(package.open(copy).kernels).num_rows < whole
    for segment in copy.glob("*.pit"):
        segment.write_bytes(b"")
    with pytest.raises(package.FormatError):
        package.open(copy)


def test_hostile_bytes_are_read(package, make_recording, tmp_path):
    for kind in ("hostile_chain", "hostile_pushes", "hostile_clock"):
        hostile = package.open(make_recording(tmp_path / f"{kind}.pitot", kind))
        for name in hostile.tables:
            rows_of(hostile.table(name))


def test_arrays_outlive_their_recording(package, path):
    recording = package.open(path)
    expected = rows_of(recording.table("kernel"))
    arrow = pyarrow.table(recording.table("kernel"))
    column = arrow.column("start_ns").chunk(0)
    del recording, arrow
    gc.collect()
    assert column.to_pylist() == [row["start_ns"] for row in expected]


def test_threads_share_a_recording(package, train):
    recording, results = package.open(train), []
    threads = [threading.Thread(target=lambda: results.append(pyarrow.table(recording.kernels))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and all(result.equals(results[0]) for result in results)


def test_modules_for_another_python_say_so(folder):
    """CPython 3.13 takes those of the limited API, too, when it is free-threaded, where objects begin otherwise."""
    for python in FREE_THREADED_PYTHONS:
        said = subprocess.run([python["path"], "-c", "import pitot"], capture_output=True, text=True, env={"PYTHONPATH": str(folder)})
        assert said.returncode == 1 and re.search("^(ImportError: .*package for CPython with the GIL|ModuleNotFoundError)", said.stderr, re.M)


@FREE_THREADED
def test_free_threaded_python(folder_of, train, environment, python):
    """Its module leaves the GIL off, and threads may share a recording."""
    code = """
import sys, threading, pitot
r = pitot.open(sys.argv[1])
def use():
    for _ in range(10):
        for t in r.kernels, r.table("api_call"), r.kernels.where("stream=7"):
            t.__arrow_c_stream__(), t.columns
        try:
            r.table("x")
        except pitot.UsageError:
            done.append(r.tables["kernel"])
done = []
threads = [threading.Thread(target=use) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sys._is_gil_enabled(), len(done), set(done))
"""
    said = subprocess.run([python["path"], "-c", code, train], env={**environment, "PYTHONPATH": str(folder_of(python))}, check=True,
                          capture_output=True, text=True)
    assert said.stdout == "False 40 {20000}\n", said


def test_nothing_leaks(folder, path):
    """Memory after many rounds is that after few."""
    code = """
import sys, pitot
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
def rounds(n):
    for _ in range(n):
        r = pitot.open(sys.argv[1])
        for t in r.kernels, r.table("string"), r.kernels.where("stream=7"):
            t.__arrow_c_stream__(), t.__arrow_c_schema__(), t.columns
        r.report(), r.tables
        for wrong in lambda: r.table("x"), lambda: r.kernels.where("x").columns, lambda: pitot.open("/x"):
            try:
                wrong()
            except pitot.Error:
                pass
rounds(50)
before = resident()
rounds(200)
print(resident() - before)
"""
    assert int(run(folder, code, path)) < 2 << 20


@EVERY
def test_subinterpreters_are_refused(folder_of, environment, train, python):
    """With words, and the main interpreter goes on, whichever of them comes first."""
    code = r"""
import importlib, sys
path = sys.argv[1]
for name in ("_interpreters", "_xxsubinterpreters"):
    try:
        module = importlib.import_module(name)
        break
    except ImportError:
        pass
def shared():  # with the GIL of the main one
    for arguments in (("legacy",), ()):
        try:
            return module.create(*arguments)
        except TypeError:
            pass
for _ in range(2):
    for interpreter in shared(), module.create():
        said = module.run_string(interpreter, "import sys; sys.path[:] = %r\ntry: import pitot\nexcept ImportError as e: print(e)" % sys.path)
        assert said is None, said
        module.destroy(interpreter)
    import pitot
    sys.stdout.flush()
    try:
        pitot.open("/none")
    except pitot.FileError:
        print(pitot.open(path).tables["kernel"])
"""
    said = subprocess.run([python["path"], "-c", code, train], env={**environment, "PYTHONPATH": str(folder_of(python))},
                          capture_output=True, text=True)
    lines = said.stdout.splitlines()
    assert said.returncode == 0 and len(lines) == 6 and lines.count("20000") == 2, said.stdout + said.stderr
    assert len([line for line in lines if "not" in line and "subinterpreter" in line]) == 4


def test_the_version_is_the_programs(package, pitot):
    import importlib

    assert f"pitot {package.__version__}\n" == pitot("version").stdout
    assert importlib.import_module("pitot.tracesmith").__version__ == package.__version__


def test_import_brings_nothing_else(folder):
    loaded = run(folder, "import sys, pitot; print(*sys.modules)").split()
    assert not {"numpy", "pandas", "pyarrow", "polars", "typing", "json"} & set(loaded)


def test_the_command_is_in_the_package(folder, plain):
    command = [sys.executable, "-m", "pitot", "--version"]
    said = subprocess.run(command, env={"PYTHONPATH": str(folder)}, check=True, capture_output=True).stdout
    assert said == subprocess.run([plain / "pitot", "--version"], check=True, capture_output=True).stdout


def check_installed(package, environment, path):
    """A package that lies anywhere: it reads, and it and its program find the recorder beside themselves."""
    code = """
import sys, tempfile, pitot
print(pitot.open(sys.argv[1]).tables["kernel"])
with tempfile.TemporaryDirectory() as folder:
    with pitot.record(f"{folder}/a.pitot") as rec, pitot.scope("x"):
        pass
    print(rec.open().tables["nvtx"], "scope" in rec.report(), pitot._record.library()[0])
"""
    said = run(package.parent, code, path).splitlines()
    assert int(said[0]) > 0 and said[-1] == f"2 True {package / 'libpitot.so'}"
    doctor = subprocess.run([sys.executable, "-m", "pitot", "doctor", "--json"], capture_output=True, text=True,
                            env={**environment, "PYTHONPATH": str(package.parent)}).stdout
    library = next(check for check in json.loads(doctor)["checks"] if check["name"] == "libpitot")
    assert library["state"] == "ok" and library["detail"] == str(package / "libpitot.so")


def test_the_installed_component_is_whole(folder, plain, environment, path, tmp_path, source):
    subprocess.run(["cmake", "--install", plain, "--component", "python", "--prefix", tmp_path], check=True, capture_output=True)
    shutil.copytree(source / "python/pitot", tmp_path / "pitot", dirs_exist_ok=True)
    check_installed(tmp_path / "pitot", environment, path)


def test_what_the_package_says_of_itself(source):
    """The licence as an expression, and the extras that gpufl's and TraceSmith's documents install."""
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    assert project["license"] == "Apache-2.0" and project["license-files"] == ["LICENSE"]
    assert {"numba", "viz", "analyzer", "visualization", "all"} <= set(project["optional-dependencies"])


def test_a_wheel_has_everything(source, environment, path, tmp_path):
    pytest.importorskip("scikit_build_core")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
               "-Ccmake.build-type=Debug", "-Ccmake.define.CMAKE_C_FLAGS_DEBUG=-O0", "-w", tmp_path, source]  # all but how fast it is
    subprocess.run(command, check=True)
    wheel, = tmp_path.glob("pitot-*-cp39-abi3-*.whl")
    assert wheel.stat().st_size < 8 << 20
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target",
                    tmp_path / "installed", wheel], check=True)
    check_installed(tmp_path / "installed/pitot", environment, path)
    said = subprocess.run([tmp_path / "installed/bin/pitot", "--version"], check=True, capture_output=True, text=True,
                          env={"PYTHONPATH": str(tmp_path / "installed")}).stdout
    assert said == f"pitot {wheel.name.split('-')[1]}\n"


def test_examples_work(folder, train, source, environment, tmp_path):
    code = """
import doctest, sys, pitot
flags, names = doctest.ELLIPSIS, {"recording": sys.argv[1]}
for result in (doctest.testmod(pitot, extraglobs=names, optionflags=flags),
               doctest.testfile(sys.argv[2], module_relative=False, globs=names, optionflags=flags)):
    assert result.attempted > 5 and not result.failed
"""
    result = subprocess.run([sys.executable, "-c", code, train, source / "docs/python-package.md"], cwd=tmp_path, capture_output=True,
                            text=True, env={**environment, "PYTHONPATH": str(folder), "PITOT_OPTIONS": "cuda=0"})
    assert result.returncode == 0, result.stdout + result.stderr
