"""Recordings of a few KB that ask for the work of hours: each command ends soon, and with little memory."""
import os
import resource
import shutil
import subprocess
from pathlib import Path

import pytest

from waiting import PATIENCE

CPU_SECONDS = 60  # what they take is less than one; what they took before was more than a thousand
MEMORY_BYTES = 1 << 30
KINDS = ("chain", "pushes", "clock")
COMMANDS = [["timeline"], ["timeline", "--json"], ["what-if"], ["replay", "--dry-run"], ["report", "--memory", "--critical-path", "--states"],
            ["info"], ["info", "--json"], ["report"], ["report", "--json", "--top", "0"], ["report", "--by", "scope"],
            ["report", "--scopes"], ["report", "--scopes", "--json", "--scope", "x/y"], ["view", "nvtx", "-c", "scope"],
            ["report", "--by", "caller"], ["flame", "--by", "scope", "--format", "text"], ["flame", "-i", "--format", "text"],
            ["flame", "--by", "scope", "-o", "x.svg"], ["flame", "-o", "x.html"], ["flame", "-o", "x.json"],
            ["export", "-o", "x.json"], ["export", "-o", "x.html"], ["report", "-o", "x.html"], ["symbolize"], ["view", "-n", "3", "kernel"], ["view", "context"]]
# pprof's and Perfetto's files have each stack in full: of a chain these are large.


@pytest.fixture(scope="module", params=KINDS)
def hostile(request, make_recording, tmp_path_factory):
    path = make_recording(tmp_path_factory.mktemp("hostile") / f"{request.param}.pitot", f"hostile_{request.param}")
    assert sum(file.stat().st_size for file in path.iterdir()) < 10_000
    return path


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_hostile_recordings_cost_little(program, environment, hostile, tmp_path, command):
    limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    process = subprocess.Popen([program, *command, *(["--force"] if "-o" in command else []), hostile], cwd=tmp_path,
                               env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, preexec_fn=limit)
    said = process.stderr.read().decode(errors="replace")
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in (0, 1) and "runtime error" not in said and "Sanitizer" not in said, said
    assert process.returncode == 0 or said.count("\n") == 1, said
    assert used.ru_maxrss * 1024 < MEMORY_BYTES or "asan" in subprocess.run(["ldd", program], capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def recorded(make_recording, tmp_path_factory):
    return make_recording(tmp_path_factory.mktemp("recorded") / "r.pitot", "varied")


@pytest.mark.parametrize("put", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), Path.mkdir], ids=["fifo", "zero", "folder"])
@pytest.mark.parametrize("name", ["recording.json", "SEGMENT", "symbols.0.pit", "9.0.pit", "cubins", "cubins/0123456789abcdef.cubin", "cpu-handover"])
def test_other_things_than_files(program, environment, recorded, tmp_path, name, put):
    """tar and cp keep FIFOs, devices and links: nothing waits for them or reads them, and what is in the other files is shown."""
    path = tmp_path / "r.pitot"
    shutil.copytree(recorded, path)
    segment = max(path.glob("*.pit"), key=lambda file: file.stat().st_size)
    place = path / name.replace("SEGMENT", segment.name)
    place.parent.mkdir(exist_ok=True)
    shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
    put(place)
    for command in (["report"], ["info", "--verify"], ["view", "kernel"], ["flame", "--format", "text"], ["source"], ["export", "-o", "x.json", "--force"],
                    ["symbolize"], ["import", "-o", "i.pitot", "--force"], ["upload", "--dry-run"]):
        result = subprocess.run([program, *command, path], cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                                text=True, timeout=PATIENCE)
        assert result.returncode in (0, 1) and "Sanitizer" not in result.stderr, (command, result.stderr)
        if command == ["report"] and name != "SEGMENT":
            assert result.returncode == 0 and "kernels" in result.stdout
