#!/usr/bin/env python3
"""The cost of recording for a Python program: milliseconds for start and stop, and nanoseconds for `with pitot.scope("forward"): pass`, with
a new or a reused scope, minus those of an empty loop.

Usage: PYTHONPATH=build/python bench/python_recording.py
Prints the median of 41 batches, each of which fits into half of a thread's ring. The collector drains the ring between batches.
"""
import os
import platform
import tempfile
import time

import pitot

BATCHES, CALLS = 41, 7000


def new_scope():
    for _ in range(CALLS):
        with pitot.scope("forward"):
            pass


def reused_scope(scope=pitot.scope("forward")):
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
    text = f"CPython {platform.python_version()}: not recording {median(new_scope) - loop:.0f} ns, reused {median(reused_scope) - loop:.0f} ns"
    with tempfile.TemporaryDirectory() as folder:
        with pitot.record(f"{folder}/first"):
            text += f"; recording {median(new_scope) - loop:.0f} ns, reused {median(reused_scope) - loop:.0f} ns"
        times = []
        for i in range(BATCHES):
            begun = time.perf_counter()
            pitot.start(f"{folder}/{i}").stop()
            times.append((time.perf_counter() - begun) * 1e3)
    print(f"{text}; start and stop {sorted(times)[BATCHES // 2]:.1f} ms")


if __name__ == "__main__":
    main()
