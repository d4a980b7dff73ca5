#!/usr/bin/env python3
"""Kills a program of PyTorch at random moments: what its recording has of its last ones, against the program's own count.

usage: bench/gpu_kill.py BUILD [KILLS], on a machine with a GPU and PyTorch. Prints a line for each kill: launches and kernels of the
program, of which some had not begun or ended, those that were recorded, and how long `pitot record` needed afterwards.
"""
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = r"""
import mmap, os, struct, sys, torch
counts = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 16)
x = torch.zeros(64, device="cuda")
torch.cuda.synchronize()
launched = 1
while True:
    x.add_(1)
    launched += 1
    counts[0:8] = struct.pack("<q", launched)
    if launched % 200 == 0:
        torch.cuda.synchronize()
        counts[8:16] = struct.pack("<q", launched)
"""


def rows(pitot, recording, table):
    done = subprocess.run([pitot, "view", recording, table, "--json"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def kill(pitot, folder):
    counts, program, recording = folder / "counts", folder / "program.py", folder / "killed.pitot"
    counts.write_bytes(bytes(16))
    program.write_text(PROGRAM, encoding="utf-8")
    with subprocess.Popen([pitot, "record", "-q", "--no-cpu", "-o", recording, "--", sys.executable, program, counts]) as record, \
            open(counts, "r+b") as file:
        view = mmap.mmap(file.fileno(), 16)
        while view[8:16] == bytes(8) and record.poll() is None:
            time.sleep(0.01)
        time.sleep(0.3 + random.random())
        for child in subprocess.run(["pgrep", "-P", str(record.pid)], capture_output=True, text=True, check=True).stdout.split():
            os.kill(int(child), signal.SIGKILL)
        began = time.monotonic()
        record.wait()
        seconds = time.monotonic() - began
        launched, ended = struct.unpack("<qq", view[0:16])
    calls = sum("LaunchKernel" in row for row in rows(pitot, recording, "api_call"))
    kernels = len(rows(pitot, recording, "kernel"))
    print(f"program: {launched} launches, {ended} kernels ended; recorded: {calls} launches, {kernels} kernels; {seconds:.2f} s", flush=True)
    for row in rows(pitot, recording, "loss"):
        print(f"  {row}")


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    for _ in range(int(sys.argv[2]) if len(sys.argv) == 3 else 10):
        with tempfile.TemporaryDirectory() as folder:
            kill(Path(sys.argv[1]) / "pitot", Path(folder))


if __name__ == "__main__":
    main()
