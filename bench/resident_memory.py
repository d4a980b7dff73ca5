#!/usr/bin/env python3
"""Resident memory of a recorded program over time: bench/resident_memory.py BUILD PROGRAM-THAT-LAUNCHES-FOREVER [SECONDS]

Prints the resident set size in MiB, every ten seconds, of the program alone, with the cheapest CUPTI client (floor), and recorded.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import gpu_bench


def rss_mib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def samples(command, program, seconds, **variables):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env={**os.environ, **variables})
    values = []
    for _ in range(seconds // 10):
        time.sleep(10)
        found = subprocess.run(["pgrep", "-n", "-x", pathlib.Path(program).name[:15]], capture_output=True, text=True)
        values.append(rss_mib(int(found.stdout)))
    subprocess.run(["pkill", "-x", pathlib.Path(program).name[:15]])
    process.wait()
    return values


def main():
    build, program = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    seconds = int(sys.argv[3]) if len(sys.argv) > 3 else 300
    folder = tempfile.mkdtemp(prefix="pitot-memory-")
    alone = samples([program, "loop"], program, 20)
    gpu_bench.build(pathlib.Path(folder))
    floor = samples([program, "loop"], program, 20, CUDA_INJECTION64_PATH=f"{folder}/libfloor.so", FLOOR="1")
    recorded = samples([build / "pitot", "record", "-q", "-o", f"{folder}/r.pitot", "--", program, "loop"], program,
                       seconds)
    print("resident MiB alone:   ", *(f"{v:.0f}" for v in alone))
    print("resident MiB floor:   ", *(f"{v:.0f}" for v in floor))
    print("resident MiB recorded:", *(f"{v:.0f}" for v in recorded))
    info = subprocess.run([build / "pitot", "info", f"{folder}/r.pitot"], capture_output=True, text=True).stdout
    print(*[line for line in info.splitlines() if line.startswith("size") or " kernel " in line], sep="\n")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
