"""Python frames of CPU samples, by eBPF and by the timer: of each stack, every line is one from which the next function can be
called, and the innermost one is of its function. In every CPython that pythons.py finds."""
import ast
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from pythons import interpreters, is_known, label, some, with_jit
from waiting import PATIENCE

PROGRAM = Path(__file__).parent / "cpu_programs" / "python_kinds.py"
FRAME = re.compile(r"(?:.*\.)?(\S+) \(python_kinds\.py:(\d+)\)")


class Source:
    """What the program says of itself."""

    def __init__(self):
        lines = PROGRAM.read_text().splitlines()
        self.calls = {number: set(line.split("#> ")[1].split()) for number, line in enumerate(lines, 1) if "#> " in line}
        self.lines = {"<module>": [range(1, len(lines) + 1)], "<lambda>": [], "<listcomp>": []}
        for node in ast.walk(ast.parse("\n".join(lines))):
            name = {ast.Lambda: "<lambda>", ast.ListComp: "<listcomp>"}.get(type(node)) or getattr(node, "name", None)
            if name:
                self.lines.setdefault(name, []).append(range(node.lineno, node.end_lineno + 1))

    def fault(self, outer, inner):
        """What is wrong with one frame as the caller of another; the innermost has no inner one."""
        (function, line), called = outer, inner and inner[0]
        if not any(line in lines for lines in self.lines.get(function, [])):
            return f"line {line} is not of {function}"
        if called and called not in self.calls.get(line, ()):
            return f"{function} does not call {called} in line {line}"
        return None


def parse(frame):
    match = FRAME.fullmatch(frame)
    return (match.group(1), int(match.group(2))) if match else None


@pytest.fixture(params=["ebpf", "timer"])
def sample(request, program, stacks, environment, library, tmp_path):
    """Records a command in one of the two ways, and gives its stacks: {(frame, …): us}."""
    way = request.param

    def run(command, variables):
        recording = tmp_path / "cpu.pitot"
        hz = {"ebpf": 997, "timer": 200}[way]
        result = subprocess.run([program, "record", "--cpu-only", "--cpu-via", way, f"--cpu={hz}", "-q", "-o", recording, "--",
                                 *command], capture_output=True, text=True, timeout=PATIENCE,
                                env={**environment, **variables, "PITOT_LIBRARY": str(library)})
        if result.returncode and ("no eBPF" in result.stderr or "without eBPF" in result.stderr):
            pytest.skip(result.stderr.strip())
        assert (result.returncode, result.stderr) == (0, ""), result.stderr
        found = Counter()
        for stack, us in stacks(recording):
            found[tuple(stack)] += us
        return found

    return run


@pytest.mark.parametrize("python", some(with_jit(filter(is_known, interpreters()))), ids=label)
def test_frames_of_every_kind(sample, python):
    source, wrong, functions, good = Source(), Counter(), Counter(), 0
    stacks = sample([python["path"], PROGRAM, "2"], python["environment"])
    for stack, us in stacks.items():
        frames = [parse(frame) for frame in stack]
        ours = [frame for frame in frames if frame]
        functions.update({function: us for function, _ in ours})
        faults = []
        for i, frame in enumerate(frames):
            following = frames[i + 1:]
            inner = next((f for f in following if f), None)
            # Only what follows at once: between them may be a library that calls back.
            direct = inner if inner and following[0] == inner else None
            if frame:
                faults.append(source.fault(frame, direct))
        faults = [fault for fault in faults if fault]
        good += us if ours and not faults else 0
        for fault in faults:
            wrong[fault] += us
    # Code of the JIT notes its place in a frame only where it leaves the code: now and then a sample has the line before.
    most = 0.01 * sum(stacks.values()) if "PYTHON_JIT" in python["environment"] else 0
    assert sum(wrong.values()) <= most, wrong.most_common(10)
    assert good > 300000, (good, sum(stacks.values()), stacks.most_common(5))
    missing = {"leaf", "numbers", "awaited", "throws", "down", "key", "__init__", "__call__", "__del__", "<lambda>"} - set(functions)
    assert len(missing) < 3, missing  # samples are few


# Each function is freed after some ten microseconds, long before anybody outside could read its name.
SHORT_LIVED = """
import time, types
def pattern(n):
    for _ in range(n):
        pass
def churn():
    end, i = time.process_time() + 0.3, 0
    while time.process_time() < end:
        i += 1
        types.FunctionType(pattern.__code__.replace(co_name=f"made_{i}", co_firstlineno=1000 + i), {"range": range})(2000)
churn()
"""


@pytest.mark.parametrize("python", some(filter(is_known, interpreters())), ids=label)
def test_code_has_its_name_although_it_is_freed_at_once(sample, rows, python, tmp_path):
    path = tmp_path / "short.py"
    path.write_text(SHORT_LIVED)
    made = Counter()
    for stack, us in sample([python["path"], path], python["environment"]).items():
        name = next((frame for frame in reversed(stack) if "(short.py:" in frame), "")
        made[bool(re.match(r"made_|pattern ", name))] += us
    assert made[True] > made[False], made
    assert not [row for row in rows(tmp_path / "cpu.pitot", "loss") if row["reason"] == "unnamed_frames"]
