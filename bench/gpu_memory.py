#!/usr/bin/env python3
"""Resident memory of a recorded program over time: bench/gpu_memory.py BUILD PROGRAM-THAT-LAUNCHES-FOR-EVER [SECONDS]

Prints the resident set of the program alone and recorded, in MiB, every ten seconds.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time


def rss_mib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def samples(command, program, seconds):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
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
    recorded = samples([build / "pitot", "record", "-q", "-o", f"{folder}/r.pitot", "--", program, "loop"], program,
                       seconds)
    print("resident MiB alone:   ", *(f"{v:.0f}" for v in alone))
    print("resident MiB recorded:", *(f"{v:.0f}" for v in recorded))
    info = subprocess.run([build / "pitot", "info", f"{folder}/r.pitot"], capture_output=True, text=True).stdout
    print(*[line for line in info.splitlines() if line.startswith("size") or " kernel " in line], sep="\n")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
