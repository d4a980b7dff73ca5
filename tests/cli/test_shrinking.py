"""Files that somebody truncates and writes again while they are read: an error or damage that is counted, never a signal."""
import os
import subprocess
import sys

import pytest

ROUNDS = 8
# Changes the files in place until it is killed, and says when it has begun.
REWRITER = """
import os, sys
files = [(os.open(path, os.O_RDWR), open(path, "rb").read()) for path in sys.argv[1:]]
print("begun", flush=True)
while True:
    for fd, contents in files:
        os.ftruncate(fd, len(contents) // 3)
        os.pwrite(fd, contents, 0)
        os.ftruncate(fd, 0)
        os.pwrite(fd, contents, 0)
"""
COMMANDS = [["info"], ["report"], ["report", "--json"], ["view", "kernel"], ["export", "-o", "-", "--format", "json"],
            ["flame", "--mode", "gpu", "--format", "folded"], ["symbolize", "--json"]]


@pytest.fixture
def rewrite():
    """Starts to change these files."""
    started = []

    def start(*files):
        process = subprocess.Popen([sys.executable, "-c", REWRITER, *files], stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout.readline() == b"begun\n"
    yield start
    for process in started:
        process.kill()
        process.communicate()


def check(program, environment, command):
    for _ in range(ROUNDS):
        result = subprocess.run([program, *command], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True)
        assert result.returncode in (0, 1), (command, result)
        assert "Sanitizer" not in result.stderr, result.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_recordings(program, environment, make_recording, rewrite, tmp_path, command):
    path = make_recording(tmp_path / "r.pitot", kernels=20000)
    rewrite(*path.iterdir())
    check(program, environment, [*command, path])


def test_imports(program, environment, make_recording, rewrite, tmp_path):
    path, logs = make_recording(tmp_path / "r.pitot", kernels=20000), tmp_path / "logs"
    subprocess.run([program, "export", "-q", "-o", logs, "--format", "gpufl", path], env=environment, check=True)
    rewrite(*(file for file in logs.rglob("*") if file.is_file()))
    check(program, environment, ["import", "-q", "--force", "-o", tmp_path / "imported.pitot", logs])
