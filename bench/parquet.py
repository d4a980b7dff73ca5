#!/usr/bin/env python3
"""How long `pitot import` of an Nsight Systems export and `pitot export --format parquet` take for each row, and the size of one.

Usage: bench/parquet.py PITOT [KERNELS]. Makes an export with as many kernels, calls and NVTX ranges as that, whose times have
the jitter of real ones (log-normal durations and gaps, 200 names, steps of 1,000 kernels).
"""
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROCESS = 1 << 48 | 4242 << 24


def make(path, kernels):
    r, db = random.Random(1), sqlite3.connect(path)
    db.executescript("""CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, "end", deviceId, contextId, streamId, correlationId, globalPid, demangledName, shortName,
            mangledName, launchType, registersPerThread, gridX, gridY, gridZ, blockX, blockY, blockZ, staticSharedMemory, dynamicSharedMemory,
            localMemoryPerThread, localMemoryTotal, sharedMemoryExecuted, graphNodeId);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, "end", eventClass, globalTid, correlationId, nameId, returnValue, callchainId);
        CREATE TABLE NVTX_EVENTS (start, "end", eventType, rangeId, category, color, text, globalTid, endGlobalTid, textId, domainId);""")
    db.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000)")
    db.executemany("INSERT INTO StringIds VALUES (?, ?)", [(i, f"_ZN2at6native{i}elementwise_kernelILi128ELi4E{'x' * 80}EEvT_") for i in range(200)] +
                   [(500, "cudaLaunchKernel_v7000")])
    step = [(r.randrange(200), r.lognormvariate(9, 1), r.lognormvariate(7.5, 1)) for _ in range(1000)]
    rows, calls, ranges, now = [], [], [], 10**9
    for i in range(kernels):
        name, ns, gap = step[i % 1000]
        now += int(gap * r.lognormvariate(0, 0.1))
        duration = int(ns * r.lognormvariate(0, 0.03))
        rows.append((now, now + duration, 0, 1, 7 + name % 3, i + 1, PROCESS, name, name, name, 1, 32, 64, 1, 1, 256, 1, 1, 0, 0, 0, 1 << 28, 32768, None))
        launch = now - int(r.lognormvariate(9, 0.3))
        calls.append((launch, launch + int(r.lognormvariate(8, 0.3)), 0, PROCESS | 4243, i + 1, 500, 0, None))
        ranges.append((launch - 500, launch + 5000, 60, None, None, None, f"aten::op{name}", PROCESS | 4243, None, None, 0))
        now += duration
    db.executemany(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({','.join('?' * 24)})", rows)
    db.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,?,?,?,?,?,?)", calls)
    db.executemany(f"INSERT INTO NVTX_EVENTS VALUES ({','.join('?' * 11)})", ranges)
    db.commit()
    db.close()


def timed(*command):
    """Seconds by the clock, and of processor time."""
    before, begin = os.times(), time.monotonic()
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    after = os.times()
    return time.monotonic() - begin, after.children_user + after.children_system - before.children_user - before.children_system


def main():
    pitot, kernels = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        make(path / "x.sqlite", kernels)
        wall, cpu = timed(pitot, "import", path / "x.sqlite", "-o", path / "x.pitot", "-q")
        print(f"nsys import      {3 * kernels / wall / 1e6:6.2f} M rows/s   {cpu / (3 * kernels) * 1e9:6.0f} ns of processor time a row")
        wall, cpu = timed(pitot, "export", path / "x.pitot", "-o", path / "x.parquet", "--format", "parquet", "-q")
        print(f"parquet export   {4 * kernels / wall / 1e6:6.2f} M rows/s   {cpu / (4 * kernels) * 1e9:6.0f} ns of processor time a row")
        print(f"                 {(path / 'x.parquet/kernel.parquet').stat().st_size / kernels:6.2f} bytes a kernel")


if __name__ == "__main__":
    main()
