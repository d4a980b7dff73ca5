"""Recordings of a few KB that ask for the work of hours: each command ends soon, and with little memory."""
import os
import resource
import subprocess

import pytest

CPU_SECONDS = 60  # what they take is less than one; what they took before was more than a thousand
MEMORY_BYTES = 1 << 30
KINDS = ("chain", "pushes", "clock")
COMMANDS = [["info"], ["info", "--json"], ["report"], ["report", "--json", "--top", "0"], ["report", "--by", "scope"],
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
def test_little_is_needed(program, environment, hostile, tmp_path, command):
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
