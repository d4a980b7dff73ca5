#!/usr/bin/env python3
"""The cost of recording for a Python program: nanoseconds for `with pitot.scope("forward"): pass`, with
a new or a reused scope, minus those of an empty loop, and milliseconds for start and stop.

Usage: bench/python_recording.py BUILD…, with the python whose cost it is
The builds take turns, each turn is a process. Prints the 10th percentile of all turns' batches, each of
which fits into half of a thread's ring. The collector drains the ring between batches.
"""
import json
import os
import platform
import subprocess
import sys
import tempfile

TURNS, BATCHES, CALLS = 7, 41, 7000

MEASURE = """
import json, os, sys, time
import pitot

if sys.argv[4] != "without asyncio":
    import asyncio
batches, calls, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
kept = pitot.scope("forward")

def new():
    for _ in range(calls):
        with pitot.scope("forward"):
            pass

def reused(scope=kept):
    for _ in range(calls):
        with scope:
            pass

def empty():
    for _ in range(calls):
        pass

def batch_ns(run):
    times = []
    for _ in range(batches):
        begun = time.perf_counter_ns()
        run()
        times.append((time.perf_counter_ns() - begun) / calls)
        time.sleep(0.005)
    return times

def measure():
    loop = min(batch_ns(empty))
    times = {"off": batch_ns(new), "off, reused": batch_ns(reused)}
    with pitot.record(f"{folder}/first"):
        times.update({"on": batch_ns(new), "on, reused": batch_ns(reused)})
    times = {name: [value - loop for value in values] for name, values in times.items()}
    times["start and stop"] = []
    for i in range(batches):
        begun = time.perf_counter()
        pitot.start(f"{folder}/{i}").stop()
        times["start and stop"].append((time.perf_counter() - begun) * 1e3)
    return times

async def task():
    return measure()

print(json.dumps(asyncio.run(task()) if sys.argv[4] == "in a task" else measure()))
"""


def turn(build, where):
    with tempfile.TemporaryDirectory() as folder:
        said = subprocess.run([sys.executable, "-c", MEASURE, str(BATCHES), str(CALLS), folder, where], check=True,
                              stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": f"{build}/python", "PITOT_OPTIONS": "cuda=0"})
    return json.loads(said.stdout)


def main():
    builds = sys.argv[1:]
    if not builds:
        sys.exit(__doc__)
    for where in "without asyncio", "with asyncio", "in a task":
        times = {build: {} for build in builds}
        for _ in range(TURNS):
            for build in builds:
                for name, values in turn(build, where).items():
                    times[build].setdefault(name, []).extend(values)
        for build, found in times.items():
            tenths = {name: sorted(values)[len(values) // 10] for name, values in found.items()}
            print(f"CPython {platform.python_version()}, {where}: " + ", ".join(
                f"{name} {value:.1f} ms" if name == "start and stop" else f"{name} {value:.0f} ns" for name, value in tenths.items()) + f"  {build}", flush=True)


if __name__ == "__main__":
    main()
