#!/usr/bin/env python3
"""The cost of `pitot monitor`: CPU time of the whole program, split into its start (NVML's is long) and each second after that.

Usage: bench/monitor.py [--build DIR] [--interval TIME] [--seconds N] [--runs N]
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile

MODES = {"nothing shown": ["-q"], "json": ["--json"], "recorded": ["-o", "m.pitot", "-f", "-q"]}


def cpu_seconds(pitot, options, seconds, folder):
    process = subprocess.Popen([pitot, "monitor", "--duration", f"{seconds}s", *options], cwd=folder, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, status
    return usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path(__file__).parents[1] / "build")
    parser.add_argument("--interval", default="100ms")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, options in MODES.items():
            command = [arguments.build.resolve() / "pitot", ["--interval", arguments.interval, *options]]
            runs = []
            for _ in range(arguments.runs):
                start = cpu_seconds(*command, 1, folder)
                runs.append((100 * (cpu_seconds(*command, 1 + arguments.seconds, folder) - start) / arguments.seconds, start))
            shares, starts = zip(*runs)
            print(f"{name:14} {statistics.median(shares):.3f} % of one processor ({min(shares):.3f} to {max(shares):.3f}), "
                  f"start {statistics.median(starts) * 1e3:.0f} ms", flush=True)


if __name__ == "__main__":
    main()
