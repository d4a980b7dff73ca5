#!/usr/bin/env python3
"""The cost of the recorder inside a short program with large libraries: bench/cpu_timer_torch.py BUILD... [--python PYTHON] [--rounds N].

`import torch`, and three seconds of training on the CPU, sampled by the timer at 99 Hz, with each BUILD in turn. Prints the CPU time
of signal handlers and of Pitot's thread by the recording's own account (table `cost`), and private memory (RssAnon) at the end,
compared with the program alone.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAM = """
import runpy, sys, time
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
time.sleep(1)
with open("/proc/self/status") as file:
    print(next(int(line.split()[1]) for line in file if line.startswith("RssAnon")))
"""


def run(command, build):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PITOT_")}
    with tempfile.TemporaryDirectory() as folder:
        if build:
            environment |= {"LD_PRELOAD": str(build / "libpitot.so"), "PITOT_RECORDING": folder,
                            "PITOT_OPTIONS": "preload=all;cuda=0;cpu=99"}
        printed = subprocess.run(command, env=environment, check=True, text=True, stdout=subprocess.PIPE).stdout
        costs = {"timer_sample": 0, "collector": 0}
        if build:
            rows = subprocess.run([build / "pitot", "view", folder, "cost", "--json"], check=True, text=True, stdout=subprocess.PIPE)
            for row in map(json.loads, rows.stdout.splitlines()):
                costs[row["kind"]] = costs.get(row["kind"], 0) + row["total_ns"] / 1e6
        return {"handlers": costs["timer_sample"], "thread": costs["collector"], "memory": int(printed.split()[-1]) / 1024}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("builds", nargs="+", type=lambda text: Path(text).resolve())
    parser.add_argument("--python", default=sys.executable, help="a Python with torch")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.NamedTemporaryFile("w", suffix=".py") as importer:
        importer.write("import torch\n")
        importer.flush()
        for name, words in {"import torch": [importer.name], "training": [HERE / "workloads/train_small.py", "3"]}.items():
            command = [options.python, "-W", "ignore", "-c", PROGRAM, *map(str, words)]
            results = {build: [] for build in (None, *options.builds)}
            for _ in range(options.rounds):
                for build, runs in results.items():
                    runs.append(run(command, build))
            bare = statistics.median(r["memory"] for r in results[None])
            for build in options.builds:
                median = {what: statistics.median(r[what] for r in results[build]) for what in results[build][0]}
                print(f"{name}, {build}: handlers {median['handlers']:.1f} ms, thread {median['thread']:.1f} ms "
                      f"({min(r['thread'] for r in results[build]):.1f}–{max(r['thread'] for r in results[build]):.1f}), "
                      f"memory {median['memory'] - bare:+.1f} MiB")


main()
