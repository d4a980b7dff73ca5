"""A new table of GPU work is its declaration: report, flame graphs, exports, view and filters have it, and nothing else is touched.

A new analysis and a section of the report that shows it are their files and a line each, and so are an exporter, an importer
and a vendor of GPUs."""
import gzip
import json
import os
import re
import shutil
import subprocess

import pytest

from perfetto_trace import Trace

TABLE = '''T(video_decode, {id}, "pictures decoded by a GPU")'''
DECLARATION = '''
#define SCHEMA_video_decode(C, T) \\
	C(T, start_ns, TIME, MAYBE, NONE, "ns", "start on the GPU") \\
	C(T, end_ns, TIME, MAYBE, start_ns, "ns", "end on the GPU") \\
	C(T, codec, STRING, ALWAYS, NONE, "", "what the pictures are encoded with") \\
	C(T, correlation, U64, ALWAYS, NONE, "", "correlation id of the call") \\
	C(T, device, U32, ALWAYS, NONE, "", "CUDA ordinal") \\
	C(T, context, U32, ALWAYS, NONE, "", "context id") \\
	C(T, stream, U32, ALWAYS, NONE, "", "stream id") \\
	C(T, pictures, U64, MAYBE, NONE, "", "number of pictures")
#define TRAITS_video_decode(X, T) X(T, GPU_WORK) X(T, LABEL, codec) X(T, LAUNCHED_BY, launch) X(T, SHOWN, pictures)
'''
COUNT, ONE_NS = 10, 30000
PICTURES = [2 ** 33 + i for i in range(COUNT - 1)]  # the last row has none
SUPPORT = "make_recording.c", "temp_folder.c"


def declare(tables):
    """Adds the table to a copy of tables.h: one line in the list of tables, and its columns with its traits."""
    text = tables.read_text()
    rows = re.search(r"#define SCHEMA_TABLES\(T\).*?\n\n", text, re.S).group()
    last = rows.rstrip("\n")
    ids = [int(n) for n in re.findall(r"\tT\(\w+, (\d+),", rows)]
    text = text.replace(rows, f"{last} \\\n\t{TABLE.format(id=max(ids) + 1)}\n\n")
    tables.write_text(text.replace("\n#endif", DECLARATION + "\n#endif"))


def enter(header, text, name):
    """A line for `name` at the end of the list of analyses or sections."""
    lines = header.read_text()
    rows = re.search(rf"#define {text}\(X\).*?\n\n", lines, re.S).group()
    last = rows.rstrip("\n")
    header.write_text(lines.replace(rows, f"{last} \\\n\tX({name})\n\n"))


def add_analysis(src, files):
    """What CONTRIBUTING.md says under "an analysis with its section"."""
    for path in sorted(files.iterdir()):
        shutil.copy(path, src / ("report" if path.name.startswith("section_") else "analysis"))
    enter(src / "analysis" / "analyses.h", "ANALYSES", "work_kinds")
    enter(src / "report" / "section.h", "SECTIONS", "work_kinds")


def add_exporter(src, files):
    shutil.copy(files / "work_lines.c", src / "export")
    header = src / "export" / "exporter.h"
    text = header.read_text()
    rows = re.search(r"#define EXPORTERS\(F\).*?\n\n", text, re.S).group()
    last = rows.rstrip("\n")
    header.write_text(text.replace(rows, f'{last} \\\n\tF(lines, ".lines", false, false, false, false, lines_write)\n\n'))


def add_importer(src, files):
    """What CONTRIBUTING.md says under "an importer"."""
    shutil.copy(files / "toy.c", src / "import")
    header = src / "import" / "importer.h"
    text = header.read_text()
    rows = re.search(r"#define IMPORTERS\(F\).*?\n\n", text, re.S).group()
    last = rows.rstrip("\n")
    header.write_text(text.replace(rows, f'{last} \\\n\tF(toy, "recordings of a toy")\n\n'))


def add_vendor(src, files):
    """A vendor of GPUs: a folder for each half, and a line."""
    for half, names in ("vendor", ["toy.c", "toy_machine.c"]), ("capture", ["toy_source.c"]):
        (src / half / "toy").mkdir()
        for name in names:
            shutil.copy(files / name, src / half / "toy")
    header = src / "vendor" / "vendors.h"
    text = header.read_text()
    rows = re.search(r"#define VENDORS\(V, S\).*?\n\n", text, re.S).group()
    last = rows.rstrip("\n")
    header.write_text(text.replace(rows, f"{last} \\\n\tV(toy, S(toy))\n\n"))


@pytest.fixture(scope="module")
def tree(source, shared_folder):
    """Pitot built from a copy with the declaration, the analysis and its section."""
    return shared_folder("new-table", lambda tree: build_copy(source, tree))


def build_copy(source, tree):
    for name in "src", "include", "cmake", "python", "tests/support":
        shutil.copytree(source / name, tree / name)
    for name in "CMakeLists.txt", "LICENSE", "README.md":
        shutil.copy(source / name, tree)
    declare(tree / "src" / "schema" / "tables.h")
    add_analysis(tree / "src", source / "tests/integration/new_analysis")
    add_exporter(tree / "src", source / "tests/integration/new_exporter")
    add_importer(tree / "src", source / "tests/integration/new_importer")
    add_vendor(tree / "src", source / "tests/integration/new_vendor")
    subprocess.run(["cmake", "-S", tree, "-B", tree / "build", "-G", "Ninja", "-DPITOT_TESTS=OFF", "-DPITOT_BPF=OFF",
                    "-DPITOT_INSTALL=OFF", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=-O0", "--log-level=ERROR"], check=True)
    subprocess.run(["cmake", "--build", tree / "build", "--target", "pitot_cli", "--", "--quiet"], check=True)
    libraries = [tree / "build" / f"libpitot_{name}.a" for name in ("format", "schema", "base", "arch")]
    subprocess.run(["cc", "-D_GNU_SOURCE", "-I", tree / "src", "-I", tree / "tests", "-o", tree / "decode",
                    source / "tests/integration/new_table/decode.c", *(tree / "tests/support" / name for name in SUPPORT),
                    *libraries, "-lzstd", "-pthread"], check=True)
    subprocess.run([tree / "decode", tree / "decode.pitot"], check=True)


@pytest.fixture
def run(tree):
    """run("report", "--json"): what the program says of the recording."""

    def run(command, *options):
        return subprocess.run([tree / "build" / "pitot", command, *options, tree / "decode.pitot"], check=True,
                              capture_output=True, cwd=tree).stdout

    return run


def test_one_file_is_touched_and_one_line_each(source, tree):
    """Of the table the schema; of the analysis and of its section their own files, and a line in the list of each."""
    added, touched = set(), set()
    for path in sorted((tree / "src").rglob("*")):
        name = path.relative_to(tree / "src")
        original = source / "src" / name
        if not original.exists():
            added.add(str(name))
        elif path.is_file() and path.read_bytes() != original.read_bytes():
            lines = [set(file.read_text().replace(" \\\n", "\n").split("\n")) for file in (original, path)]
            touched.add((str(name), len({line.strip() for line in lines[1]} - {line.strip() for line in lines[0]})))
    assert added == {"analysis/work_kinds.h", "analysis/work_kinds.c", "report/section_work_kinds.c", "export/work_lines.c", "import/toy.c",
                     "vendor/toy", "vendor/toy/toy.c", "vendor/toy/toy_machine.c", "capture/toy", "capture/toy/toy_source.c"}
    assert {(name, count) for name, count in touched if name != "schema/tables.h"} == {
        ("analysis/analyses.h", 1), ("report/section.h", 1), ("export/exporter.h", 1), ("import/importer.h", 1), ("vendor/vendors.h", 1)}
    assert "schema/tables.h" in dict(touched)


def test_analysis_and_section(run):
    """In text and in JSON, by declaration; with filters, by what the analysis asks the selection."""
    rows = json.loads(run("report", "--json"))["work_kinds"]
    assert rows == [{"name": "video_decode", "count": COUNT, "total_ns": COUNT * ONE_NS}]
    text = run("report").decode()
    assert re.search(r"^GPU work by kind\n +kind +count +time +share\n  video_decode +10 +300 us +100.0%$", text, re.M)
    late = json.loads(run("report", "--json", "--since", "2ms"))["work_kinds"][0]["count"]
    assert 0 < late < COUNT


def test_importer(tree, tmp_path):
    """It is found by the content, in a file of any name, and help and errors have it."""

    def pitot(*words, **options):
        return subprocess.run([tree / "build" / "pitot", *words], capture_output=True, cwd=tmp_path, text=True, **options)

    kernels = [{"name": f"k{i % 2}", "start": 10 * i, "end": 10 * i + 5} for i in range(1000)]
    (tmp_path / "input.gz").write_bytes(gzip.compress(json.dumps({"toy": kernels}).encode()))
    said = json.loads(pitot("import", "input.gz", "-o", "toy.pitot", "--json", check=True).stdout)
    assert (said["format"], said["rows"], said["records"]) == ("toy", {"kernel": 1000}, 1000)
    items = json.loads(pitot("report", "toy.pitot", "--json", check=True).stdout)["hotspots"]["items"]
    assert {item["name"]: item["time"]["total_ns"] for item in items} == {"k0": 2500, "k1": 2500}
    assert "toy: recordings of a toy" in pitot("import", "--help", check=True).stdout
    (tmp_path / "none").write_text("none")
    assert ", toy; `pitot import --help` explains them" in pitot("import", "none").stderr
    cut = pitot("import", "-", "-o", "cut.pitot", input='{"toy": [{"name": "k"')
    assert cut.returncode == 1 and "line 1: the text ends within a value" in cut.stderr


def test_report(run):
    busy = json.loads(run("report", "--json"))["gpus"][0]["busy"]
    assert (busy["video_decode"]["count"], busy["sum_ns"], busy["union_ns"]) == (COUNT, COUNT * ONE_NS, COUNT * ONE_NS)
    assert "300 us" in run("report").decode()


def test_filters(run):
    """Of the ten, those from the third on, and those of one stream."""
    busy = json.loads(run("report", "--json", "--since", "2ms"))["gpus"][0]["busy"]
    assert 0 < busy["video_decode"]["count"] < COUNT
    stacks = run("flame", "--mode", "gpu", "--format", "folded", "--where", "stream=8").decode()
    assert "h264" in stacks and "av1" not in stacks


def test_flame(run):
    stacks = run("flame", "--mode", "gpu", "--format", "folded").decode()
    assert sorted(line.split(";")[-1] for line in stacks.splitlines()) == ["av1 150", "h264 150"]
    assert "[no launch]" not in stacks


def test_chrome(run):
    trace = json.loads(run("export", "--format", "json", "-o", "-"))
    work = [event for event in trace["traceEvents"] if event.get("cat") == "video_decode"]
    assert sorted(event["name"] for event in work) == ["av1"] * 5 + ["h264"] * 5
    assert all(event["dur"] == ONE_NS / 1000 for event in work)
    assert sorted(event["args"]["correlation"] for event in work) == list(range(1, COUNT + 1))
    assert sorted(event["args"]["pictures"] for event in work if "pictures" in event["args"]) == PICTURES
    assert sum(event["ph"] == "f" for event in trace["traceEvents"]) == COUNT


def test_page(run):
    text = run("export", "--format", "html", "-o", "-").decode()
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])
    assert {data["kinds"][kind] for kind, name, _ in data["classes"] if name == "h264"} == {"video_decode"}
    assert sorted(details["pictures"] for _, _, details in data["classes"] if "pictures" in details) == PICTURES
    assert sum(row[2] for track in data["tracks"] if track[1] == "stream" for row in track[4]) == COUNT
    assert json.loads(run("export", "--json", "--force", "-o", "out.html"))["arrows"] == COUNT


def test_exporter(run, tree):
    """By its name, by the file's, and for tables that it does not know."""
    lines = run("export", "--format", "lines", "-o", "-").decode().splitlines()
    assert lines == [f"video_decode,{codec},{ONE_NS}" for codec in ("av1", "h264") * (COUNT // 2)]
    result = json.loads(run("export", "--json", "--force", "-o", "work.lines"))
    assert result["format"] == "lines" and result["written"] == {"video_decode": COUNT}
    assert (tree / "work.lines").stat().st_size == result["bytes"]


def test_perfetto(run, tree):
    result = json.loads(run("export", "--json", "--force", "-o", "out.perfetto-trace"))
    assert result["written"]["video_decode"] == COUNT and result["arrows"] == COUNT and result["unlinked"] == 0
    written = (tree / "out.perfetto-trace").read_bytes()
    assert sorted(stage.args["pictures"] for stage in Trace(written).stages if "pictures" in stage.args) == PICTURES
    assert written.count(b"h264") == 1 and written.count(b"av1") == 1


def test_view(run):
    rows = [json.loads(line) for line in run("view", "--json", "video_decode").splitlines()]
    assert [row["codec"] for row in rows] == ["av1", "h264"] * (COUNT // 2)
    assert {row["duration_ns"] for row in rows} == {ONE_NS}


@pytest.fixture
def recorder(tree, tmp_path):
    """A library with the program's version, which is all that the program asks of the recorder before it injects it."""
    version = subprocess.run([tree / "build" / "pitot", "version"], check=True, capture_output=True, text=True).stdout.split()[1]
    path = tmp_path / "libpitot.so"
    subprocess.run(["cc", "-shared", "-xc", "-o", path, "-"], check=True, text=True,
                   input=f'const char *pitot_version(void) {{ return "{version}"; }}')
    return path


@pytest.fixture
def toy(tree, recorder, tmp_path):
    """toy("doctor", status=1): what the program with the toy vendor prints."""

    def toy(*arguments, status=0, **variables):
        result = subprocess.run([tree / "build" / "pitot", *arguments], capture_output=True, text=True, cwd=tmp_path,
                                env={**os.environ, "PITOT_LIBRARY": str(recorder), **variables})
        assert status in (result.returncode, None), result.stderr
        return result.stdout

    return toy


def test_vendor_on_this_machine(toy):
    """doctor and devices say of each vendor what is there; one that is ready is enough."""
    for variables, state in ({}, "missing"), ({"TOY_DRIVER": "7"}, "ok"):
        value = json.loads(toy("doctor", "--json", status=None, **variables))
        [check] = [check for check in value["checks"] if check["vendor"] == "Toy"]
        assert check["name"] == "driver" and check["state"] == state
    assert value["can_record_gpu_work"]
    assert re.search(r"^NVIDIA\ndriver .*^Toy\ndriver +ok +driver 7\n\nthis machine\nprocessor ", toy("doctor", TOY_DRIVER="7"), re.M | re.S)
    [gpu] = [gpu for gpu in json.loads(toy("devices", "--json", TOY_DRIVER="7")) if gpu["vendor"] == "Toy"]
    assert gpu["name"] == "Toy 1"


def test_vendor_loads_the_recorder(toy, recorder):
    printed = toy("record", "--quiet", "--no-cpu", "-o", "x.pitot", "--", "sh", "-c", "echo $TOY_INJECTION")
    assert printed.splitlines() == [str(recorder.resolve())]


def test_vendor_has_its_source(tree):
    """In the list of the recorder, which is not built here."""
    for path in "capture/core/sources.c", "capture/toy/toy_source.c":
        subprocess.run(["cc", "-D_GNU_SOURCE", "-DPITOT_WITHOUT_CUDA", "-I", tree / "src", "-c", "-o", tree / "half.o", tree / "src" / path],
                       check=True)
        symbols = subprocess.run(["nm", tree / "half.o"], check=True, capture_output=True, text=True).stdout
        assert "toy_source" in symbols
