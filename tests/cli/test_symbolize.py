"""pitot symbolize."""
import json
import pathlib
import shutil
import subprocess

import pytest

SOURCE = pathlib.Path(__file__).with_name("stack_recording.c")


def line_of(mark):
    return next(n for n, line in enumerate(SOURCE.read_text().splitlines(), 1) if f"LINE: {mark} */" in line)


@pytest.fixture
def recording(build, tmp_path):
    path = tmp_path / "stacks.pitot"
    subprocess.run([build / "tests/cli/make-stack-recording", path], check=True)
    return path


def symbols(pitot, recording):
    lines = pitot("view", recording, "symbol", "--json").stdout.splitlines()
    return [json.loads(line) for line in lines]


def test_functions_and_lines(pitot, recording):
    summary = pitot("symbolize", recording, "--json", json_output=True)
    assert summary["addresses"] == 4
    assert summary["by"]["symbols"] == 2
    rows = [row for row in symbols(pitot, recording) if row["module"] and "make-stack" in row["module"]]
    assert [(row["function"], row["line"], row["inline_depth"]) for row in rows if row["function"] == "main"] == [
        ("main", line_of("call"), 0)
    ]
    inlined = [row for row in rows if row["function"] != "main"]
    assert [(row["function"], row["line"], row["inline_depth"]) for row in inlined] == [
        ("known_outer", line_of("inlined call"), 0),
        ("known_inner", line_of("innermost"), 1),
    ]
    assert len({row["function_start"] for row in inlined}) == 1
    assert all(pathlib.Path(row["file"]).name == SOURCE.name for row in rows)


def test_what_is_unknown_is_told(pitot, recording):
    modules = pitot("symbolize", recording, "--json", json_output=True)["modules"]
    kernel = next(m for m in modules if m["path"] == "[kernel]")
    assert kernel["unknown"] == 1 and "another machine" in kernel["reason"]
    assert next(m for m in modules if m["path"] == "[unknown]")["unknown"] == 1
    text = pitot("symbolize", recording).stdout
    assert "4 addresses: 2 with a function, 2 with a line, 2 unknown" in text
    assert "[kernel]" in text and "another machine" in text
    unknown = [row for row in symbols(pitot, recording) if row["function"] is None]
    assert len(unknown) == 2 and all(row["function_start"] is None for row in unknown)


def test_again_replaces(pitot, recording):
    pitot("symbolize", recording)
    first = symbols(pitot, recording)
    files = sorted(file.name for file in recording.iterdir())
    pitot("symbolize", recording)
    assert symbols(pitot, recording) == first
    assert sorted(file.name for file in recording.iterdir()) == files
    assert [name for name in files if name.startswith("symbols.")] == ["symbols.0.pit"]
    pitot("symbolize", "--no-lines", recording)
    rows = symbols(pitot, recording)
    assert {row["function"] for row in rows} == {"main", "known_outer", None}
    assert all(row["line"] is None for row in rows)


def test_no_process_is_added(pitot, recording):
    before = pitot("info", recording, "--json", json_output=True)
    pitot("symbolize", recording)
    after = pitot("info", recording, "--json", json_output=True)
    for key in ("processes", "loss", "start_monotonic_ns", "duration_ns"):
        assert after[key] == before[key], key
    assert after["tables"]["symbol"]["rows"] == 5


def test_another_build_is_refused(pitot, recording, build, tmp_path):
    """The program is no longer the one that was recorded."""
    copy = tmp_path / "copy"
    shutil.copy(build / "tests/cli/make-stack-recording", copy)
    other = tmp_path / "other.pitot"
    subprocess.run([copy, other], check=True)
    shutil.copy("/bin/true", copy)
    modules = pitot("symbolize", other, "--json", json_output=True)["modules"]
    gone = next(m for m in modules if m["path"] == str(copy))
    assert gone["unknown"] == 2
    assert "another build" in gone["reason"]


def test_separate_debug_files(pitot, build, tmp_path):
    """The program is gone, and its symbols lie elsewhere, by build id."""
    program = tmp_path / "program"
    shutil.copy(build / "tests/cli/make-stack-recording", program)
    recording = tmp_path / "separate.pitot"
    subprocess.run([program, recording], check=True)
    notes = subprocess.run(["readelf", "-n", program], check=True, capture_output=True, text=True).stdout
    build_id = notes.split("Build ID: ")[1].split()[0]
    folder = tmp_path / "debug" / ".build-id" / build_id[:2]
    folder.mkdir(parents=True)
    shutil.move(program, folder / f"{build_id[2:]}.debug")
    assert pitot("symbolize", recording, "--json", json_output=True)["named"] == 0
    summary = pitot("symbolize", recording, "--debug-path", tmp_path / "debug", "--json", json_output=True)
    assert summary["by"]["debug_file"] == 2 and summary["with_line"] == 2


def test_nothing_to_do(pitot, build, tmp_path):
    path = tmp_path / "python.pitot"
    subprocess.run([build / "tests/cli/make-stack-recording", path, "none"], check=True)
    before = sorted(path.iterdir())
    assert pitot("symbolize", path, "--json", json_output=True)["addresses"] == 0
    assert "no native call stacks" in pitot("symbolize", path).stderr
    assert sorted(path.iterdir()) == before


def test_errors(pitot, recording, tmp_path):
    assert "gone.pitot" in pitot("symbolize", tmp_path / "gone.pitot", status=1).stderr
    assert "one recording" in pitot("symbolize", recording, "another", status=2).stderr
    segment = next(recording.glob("*.pit"))
    assert "folder" in pitot("symbolize", segment, status=2).stderr
