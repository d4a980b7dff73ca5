#!/usr/bin/env python3
"""What scopes cost a Python program: nanoseconds for `with pitot.scope("forward"): pass`, less those of an empty loop.

Usage: PYTHONPATH=build/python bench/python_scopes.py
The median of 41 batches, each of which fits into half a thread's ring. Between two batches the collector takes what there is.
"""
import os
import platform
import tempfile
import time

import pitot

BATCHES, CALLS = 41, 7000


def made():
    for _ in range(CALLS):
        with pitot.scope("forward"):
            pass


def kept(scope=pitot.scope("forward")):
    for _ in range(CALLS):
        with scope:
            pass


def empty():
    for _ in range(CALLS):
        pass


def median(run):
    times = []
    for _ in range(BATCHES):
        begun = time.perf_counter_ns()
        run()
        times.append((time.perf_counter_ns() - begun) / CALLS)
        time.sleep(0.005)
    return sorted(times)[BATCHES // 2]


def main():
    os.environ["PITOT_OPTIONS"] = "cuda=0"
    loop = median(empty)
    said = f"CPython {platform.python_version()}: not recording {median(made) - loop:.0f} ns, kept {median(kept) - loop:.0f} ns"
    with tempfile.TemporaryDirectory() as folder, pitot.record(f"{folder}/a.pitot"):
        print(f"{said}; recording {median(made) - loop:.0f} ns, kept {median(kept) - loop:.0f} ns")


if __name__ == "__main__":
    main()
