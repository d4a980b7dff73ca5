#!/usr/bin/env python3
"""How many frames agree with libunwind: bench/stack_agreement.py [--python PYTHON] [--seconds N] [--json FILE]

Runs PyTorch (of PYTHON), NumPy with OpenBLAS, C++ and Rust with tests/integration/agreement/walk_agreement.c in them. It interrupts
their threads at arbitrary places, unwinds each stack with Pitot's walker and with libunwind, and compares the two.
"""
import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/integration/agreement"))
import agreement as agree  # noqa: E402


def commands(folder, python, seconds):
    if subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0:
        yield "PyTorch", [python, agree.HERE / "agreed_torch.py", 4 * seconds]
    yield "Python, NumPy", [python, agree.HERE / "agreed_work.py", seconds]
    yield "C++", [agree.build_cpp(folder), seconds]
    rust = agree.build_rust(folder)
    if rust:
        yield "Rust", [rust, seconds]


def figures(found):
    names = ("stacks", "complete", "partial", "truncated", "depth", "frames", "same", "with_us", "with_them", "neither")
    return {"processes": found.processes, **{name: found.total(name) for name in names},
            "modules": {name: numbers for name, numbers in sorted(found.modules.items(), key=lambda item: -item[1][0])[:20]}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=os.path.realpath(sys.executable), help="a Python with torch, for that part")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--period", type=int, default=500, help="microseconds between interruptions")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results, sum_of_all = {}, agree.Agreement()
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    with tempfile.TemporaryDirectory() as folder:
        library = agree.build(folder)
        for name, command in commands(folder, options.python, options.seconds):
            found, printed = agree.compare(library, command, environment, period_us=options.period, calls=500, timeout=1200)
            if not found:
                sys.exit("no libunwind: apt-get install libunwind8")
            print(f"{name}: {' '.join(printed.split())}: {found}")
            print(*found.differences[:5], sep="\n")
            results[name] = figures(found)
            sum_of_all.add(found)
    print(f"all: {sum_of_all}")
    results["all"] = figures(sum_of_all)
    if options.json:
        options.json.write_text(json.dumps({"machine": platform.processor() or platform.machine(), "parts": results}, indent=1) + "\n")
    if sum_of_all.share() < 0.999:
        sys.exit("fewer than 99.9 % of the frames agree")


main()
