"""Programs with TraceSmith's C++ calls: compiled and run on Pitot as they are."""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sbt_bytes import DTOH, KERNEL, MARK, Reader, Sbt


def run(command, **options):
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, **options)
    assert result.returncode == 0, f"{command}\n{result.stdout}"
    return result.stdout


@pytest.fixture(scope="session")
def compiled(plain, source):
    """compiled(program, output): compiles with the headers of the tree."""

    def compile(program, output, compiler="c++", *options):
        run([compiler, "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", *options, "-I", source / "include", program, "-o", output, f"-L{plain}",
             "-lpitot", "-lpitotread", f"-Wl,-rpath,{plain}"])
        return output

    return compile


@pytest.fixture(scope="session")
def consumer(compiled, source, tmp_path_factory):
    folder, program = tmp_path_factory.mktemp("tracesmith"), source / "tests/integration/consumer-tracesmith/main.cpp"
    if shutil.which("clang++"):
        compiled(program, folder / "clang", "clang++")
    return compiled(program, folder / "consumer")


def test_a_program_captures_itself(consumer, environment, tmp_path):
    """Without a GPU only its scope is in it."""
    (tmp_path / "tmp").mkdir()
    lines = run([consumer], cwd=tmp_path, env={**environment, "TMPDIR": str(tmp_path / "tmp")}).splitlines()
    assert lines[0] == "capturing 10" and lines[1] == "first 1" and lines[2].startswith("captured ") and lines[2].endswith(" 0")
    kinds = {line.split()[1]: line for line in lines if line.startswith("event ")}
    assert kinds["RangeStart"].endswith(" inside") and kinds["RangeEnd"].endswith(" inside")
    assert "written 100 " in lines and "exported 1" in lines
    assert not list((tmp_path / "tmp").iterdir())
    assert len(Reader((tmp_path / "trace.sbt").read_bytes()).events) == len([line for line in lines if line.startswith("event ")])
    off = run([consumer], cwd=tmp_path, env={**environment, "PITOT_DISABLED": "1"}).splitlines()
    assert off[:3] == ["capturing 00", "first 0", "captured 0 0"] and "Empty timeline" in off


def test_files(consumer, environment, tmp_path):
    s = Sbt().event(KERNEL, 'k "<1>"\n', 0, 600, correlation=1, kernel=range(1, 9), thread=5, frames=[(1, "launch", "a.c", 7), (2, "main", "a.c", 9)])
    s.event(KERNEL, "k2", 200, 800, stream=8, correlation=1).event(DTOH, "c", 1500, 500, device=1, memory=(1, 2, 64)).event(MARK, "m", 1600, thread=6)
    (tmp_path / "in.sbt").write_bytes(bytes(s))
    out = run([consumer, "in.sbt"], cwd=tmp_path, env=environment)
    base = s.base
    assert f'event KernelLaunch {base} 600 0 7 1 5 4 0 2 k "<1>"\n' in out and f"event MemcpyD2H {base + 1500} 500 1 7 0 0 0 64 0 c" in out
    assert "utilization 0.375 2000 2" in out  # (1000 + 500) ns of 2000 ns on two devices
    rows = re.findall(r"GPU (\d) stream (\d): \|(.*)\|", out)
    assert [(d, t, len(r), r.count("#")) for d, t, r in rows] == [("0", "7", 80, 24), ("0", "8", 80, 32), ("1", "7", 80, 20)]
    again, before = Reader((tmp_path / "trace.sbt").read_bytes()).events, Reader(bytes(s)).events
    assert again == before
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [e for e in trace if e["ph"] == "X"]
    assert [(e["name"], round(e["dur"] * 1000)) for e in spans] == [('k "<1>"\n', 600), ("k2", 800), ("c", 500)]
    assert spans[0]["args"]["grid_dim"] == [1, 2, 3] and [e["ph"] for e in trace if e["name"] == "Dependency"] == ["s", "f"]
    assert [(e["name"], e["ts"], e["args"]["value"]) for e in trace if e["ph"] == "C"] == [('a "name"', 1.001, 1.5)]
    (tmp_path / "in.sbt").write_bytes(bytes(s)[:200])
    out = run([consumer, "in.sbt"], cwd=tmp_path, env=environment)
    assert "valid 0 the file ends, or cannot be read, after event 2 of 4" in out
    out = run([consumer, "none.sbt"], cwd=tmp_path, env=environment)
    assert "error cannot read 'none.sbt': No such file or directory\nvalid 0" in out and "Empty timeline" in out
    (tmp_path / "trace.sbt").unlink()
    (tmp_path / "trace.sbt").mkdir()
    assert "written 000 " in run([consumer], cwd=tmp_path, env=environment)


def test_the_timeline_is_that_of_the_report(consumer, make_recording, pitot, environment, tmp_path):
    recording = make_recording(tmp_path / "r.pitot", kernels=3000, stacks=9)
    pitot("export", recording, "-o", "in.sbt", "-q")
    report = pitot("report", recording, "--json", json_output=True)
    out = run([consumer, "in.sbt"], cwd=tmp_path, env=environment)
    [(utilization, total)] = re.findall(r"utilization (\S+) (\d+)", out)
    busy = [gpu["busy"] for gpu in report["gpus"]]
    assert int(total) == max(b["last_ns"] for b in busy) - min(b["first_ns"] for b in busy)
    assert abs(float(utilization) - sum(b["union_ns"] for b in busy) / len(busy) / int(total)) < 1e-5


def test_the_examples_of_its_own_page(compiled, environment, tmp_path):
    """As they stand in the README of its source package; what they leave to the reader is added behind the includes."""
    source = os.environ.get("PITOT_TRACESMITH")
    if not source:
        pytest.skip("PITOT_TRACESMITH does not name the unpacked source package of TraceSmith")
    blocks = [block for block in re.findall(r"```cpp\n(.*?)```", Path(source, "README.md").read_text(), re.S) if "int main()" in block]
    assert len(blocks) >= 2
    for number, block in enumerate(blocks):
        if "captureEvents()" in block:
            block = block.replace("int main()", "static std::vector<TraceEvent> captureEvents() { return {}; }\nint main()", 1)
        (tmp_path / f"{number}.cpp").write_text(block)
        run([compiled(tmp_path / f"{number}.cpp", tmp_path / f"example-{number}")], cwd=tmp_path, env=environment)
    assert Reader((tmp_path / "trace.sbt").read_bytes()).metadata and json.loads((tmp_path / "trace.json").read_text())
