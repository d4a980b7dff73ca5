"""Deep recursion of Python: all frames up to the limit (STACK_PYTHON_MAX), and never a stack without its outer frames that does not say
so. By every method, in every CPython that pythons.py finds."""
import os
import re
import subprocess
from collections import Counter

import pytest

from perf_events import may_read, perf_errno
from pythons import interpreters, is_known, label, some
from waiting import PATIENCE

LIMIT = 16384  # STACK_PYTHON_MAX

# Recursion to a depth, of Python alone or with C between every two frames; the work is at its end.
PROGRAM = """
import sys, threading, time
sys.setrecursionlimit(100_000)
threading.stack_size(512 << 20)
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
def dig(left):
    if left:
        dig(left - 1)
    else:
        bottom()
def through(left):
    return max([left], key=call) if left else bottom()
def call(left):
    return through(left - 1)
def bottom():
    print("ready", flush=True)
    burn(SECONDS)
def begin():
    WHAT(DEPTH)
thread = threading.Thread(target=begin)
thread.start()
thread.join()
"""
FRAME = re.compile(r"(\w+) \(deep\.py:\d+\)")


def write(folder, what, depth, seconds=0.1):
    path = folder / "deep.py"
    path.write_text(PROGRAM.replace("WHAT", what).replace("DEPTH", str(depth)).replace("SECONDS", str(seconds)))
    return path


@pytest.fixture(params=["ebpf", "timer", "running"])
def sample(request, program, stacks, environment, library, tmp_path):
    """Samples the program by a method: at its start, or while it runs by perf events. Its stacks at the bottom: {(frame, …): us}."""
    way = request.param
    record = [program, "record", "-q", "--cpu-only", "--cpu=499", "-o", tmp_path / "deep.pitot"]

    def run(facts, what, depth):
        variables = {**environment, **facts["environment"], "PITOT_LIBRARY": str(library)}
        command = [facts["path"], write(tmp_path, what, depth, 60 if way == "running" else 0.1)]
        if way != "running":
            result = subprocess.run([*record, "--cpu-via", way, "--", *command], capture_output=True, text=True, timeout=PATIENCE,
                                    env=variables)
            if result.returncode and ("no eBPF" in result.stderr or "without eBPF" in result.stderr):
                pytest.skip(result.stderr.strip())
            assert (result.returncode, result.stderr) == (0, ""), result.stderr
        else:
            if perf_errno(0) or not may_read(os.geteuid()):
                pytest.skip("other processes may not be sampled, or not be read")
            with subprocess.Popen(command, stdout=subprocess.PIPE, env=variables) as target:
                try:
                    assert target.stdout.readline() == b"ready\n"
                    subprocess.run([*record, "--cpu-via", "perf", "--duration", "1s", "-p", str(target.pid)], check=True,
                                   timeout=PATIENCE, env=environment)
                finally:
                    target.kill()
        found = Counter()
        for stack, us in stacks(tmp_path / "deep.pitot"):
            if any(frame.startswith("burn (deep.py") for frame in stack):
                found[tuple(stack)] += us
        if way == "running" and not found:
            pytest.skip("the machine is too busy: no sampled thread stood still until its frames were read")
        assert found
        return found

    return run


def python_frames(stack):
    return Counter(match.group(1) for match in map(FRAME.match, stack) if match)


@pytest.mark.parametrize("what, depth", [("dig", 5000), ("through", 250)])
@pytest.mark.parametrize("python", some(filter(is_known, interpreters())), ids=label)
def test_all_frames_are_there(sample, python, what, depth):
    for stack in sample(python, what, depth):
        frames = python_frames(stack)
        assert (frames["begin"], frames[what]) == (1, depth + 1), (frames, stack[:4])
        assert what == "dig" or frames["call"] == depth


@pytest.mark.parametrize("python", some(filter(is_known, interpreters())), ids=label)
def test_deeper_stacks_say_so(sample, python):
    for stack in sample(python, "dig", 20000):
        frames = python_frames(stack)
        assert stack[0] == "[deeper frames]"
        assert sum(frames.values()) == LIMIT and frames["burn"] == 1 and not frames["begin"], frames
