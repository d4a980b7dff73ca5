"""Builds walk_agreement.so and runs commands with it: for test_agreement.py and bench/stack_agreement.py."""
import platform
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent.parent
WALKER = [*sorted((SOURCE / "src/arch" / platform.machine()).glob("*.c")),
          "src/elf/cfa_expression.c", "src/elf/eh_frame.c", "src/elf/loaded_libraries.c", "src/base/safe_memory.c",
          *(f"src/stack/unwind/{name}.c" for name in ("module_build", "modules", "rule_lookup", "unwind_all_registers",
                                                     "unwind_parts", "unwind_self", "unwind_snapshot")),
          *(f"src/base/{name}.c" for name in ("arena", "clock", "map", "vec"))]
NO_LIBUNWIND = 77


@dataclass
class Agreement:
    """Sums over the processes of a command. `figures` by (kind, name), `modules`: [frames, innermost] by file name."""
    processes: int = 0
    figures: Counter = field(default_factory=Counter)
    modules: dict = field(default_factory=dict)
    differences: list = field(default_factory=list)

    def total(self, name):
        return sum(number for (_, figure), number in self.figures.items() if figure == name)

    def share(self):
        return self.total("same") / max(self.total("frames"), 1)

    def take(self, text):
        self.processes += 1
        for line in text.splitlines():
            words = line.split(" ")
            if words[0] == "differ":
                self.differences.append(line)
            elif words[0] == "module":
                frames, innermost = int(words[-3]), int(words[-1])
                mine = self.modules.setdefault(Path(words[1]).name, [0, 0])
                mine[0] += frames
                mine[1] += innermost
            else:
                for name, number in zip(words[1::2], words[2::2]):
                    self.figures[words[0], name] += int(number)

    def add(self, other):
        self.processes += other.processes
        self.figures += other.figures
        self.differences += other.differences
        for name, (frames, innermost) in other.modules.items():
            mine = self.modules.setdefault(name, [0, 0])
            mine[0] += frames
            mine[1] += innermost

    def frames_in(self, pattern):
        return sum(frames for name, (frames, _) in self.modules.items() if re.search(pattern, name))

    def innermost_in(self, pattern):
        return sum(innermost for name, (_, innermost) in self.modules.items() if re.search(pattern, name))

    def __str__(self):
        differ = self.total("frames") - self.total("same")
        return (f"{self.total('stacks')} stacks of {self.processes} processes, {self.total('complete')} complete, "
                f"{self.total('partial')} partial, {self.total('truncated')} truncated; {self.total('frames')} frames, "
                f"{100 * self.share():.4f} % the same, {differ} not; glibc with us {self.total('with_us')}, with libunwind "
                f"{self.total('with_them')}, with neither {self.total('neither')}")


LIBRARY = "walk_agreement.so"


def build(folder):
    """walk_agreement.so, optimised, without sanitizers: it goes into programs of others."""
    library = Path(folder) / LIBRARY
    subprocess.run(["cc", "-std=gnu17", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared",
                    "-fvisibility=hidden", f"-I{SOURCE / 'src'}", f"-I{SOURCE / 'tests/unit/stack'}", "-o", library,
                    HERE / "walk_agreement.c", *(SOURCE / name for name in WALKER), "-lpthread", "-ldl"], check=True)
    return library


def build_cpp(folder):
    program = Path(folder) / "agreed_cpp"
    subprocess.run(["c++", "-std=c++17", "-O3", "-fomit-frame-pointer", "-o", program, HERE / "agreed_work.cpp", "-pthread"],
                   check=True)
    return program


def build_rust(folder):
    """None without a compiler of Rust that works."""
    program = Path(folder) / "agreed_rust"
    compiler = shutil.which("rustc")
    if not compiler or subprocess.run([compiler, "-O", "-o", program, HERE / "agreed_work.rs"]).returncode:
        return None
    return program


def compare(library, command, environment, period_us=200, calls=50, timeout=300):
    """The agreement, and what the command said; None where there is no libunwind."""
    with tempfile.TemporaryDirectory() as folder:
        variables = {**environment, "LD_PRELOAD": str(library), "AGREEMENT_OUT": f"{folder}/out",
                     "AGREEMENT_US": str(period_us), "AGREEMENT_CALLS": str(calls)}
        result = subprocess.run([str(word) for word in command], env=variables, capture_output=True, text=True, timeout=timeout)
        if result.returncode == NO_LIBUNWIND and "no libunwind" in result.stderr:
            return None, ""
        if result.returncode:
            raise RuntimeError(f"{command}: status {result.returncode}\n{result.stdout}{result.stderr}")
        agreement = Agreement()
        for path in sorted(Path(folder).iterdir()):
            agreement.take(path.read_text())
        return agreement, result.stdout
