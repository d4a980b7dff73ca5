#!/usr/bin/env python3
"""How much a SIGKILL loses while only the GPU works: launches 300 kernels of 20 ms, then kills the program after four seconds. The loss should be
at most 250 ms plus the seven kernels that share a buffer with one that is still running: 410 ms.

usage: bench/gpu_quiet.py BUILD
"""
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

SOURCE = r"""
#include <cstdio>
__global__ void spin(long long ns) { long long t0, t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t0));
	do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); while (t - t0 < ns); }
int main() { spin<<<1, 1>>>(1000); cudaDeviceSynchronize(); for (int i = 0; i < 300; i++) spin<<<1, 1>>>(20000000);
	puts("launched"); fflush(stdout); cudaDeviceSynchronize(); }
"""


def last_end(pitot, recording):
    """Returns when the last kernel on disk ended, relative to the recording's start; 0: none."""
    lines = subprocess.run([pitot, "view", recording, "kernel", "--json"], capture_output=True, text=True).stdout.splitlines()
    return max((json.loads(line)["end_ns"] for line in lines), default=0)


def begun(recording):
    start = json.loads((recording / "recording.json").read_text())
    return start.get("start_monotonic_ns") or start["clock"]["monotonic_ns"]


def main():
    pitot = str(pathlib.Path(sys.argv[1]).resolve() / "pitot")
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        (folder / "quiet.cu").write_text(SOURCE)
        subprocess.run(["nvcc", "-arch=native", "-o", folder / "quiet", folder / "quiet.cu"], check=True)
        recording = folder / "quiet.pitot"
        p = subprocess.Popen([pitot, "record", "-q", "--no-symbols", "-o", recording, "--", folder / "quiet"],
                             stdout=subprocess.PIPE, text=True)
        p.stdout.readline()
        launched, lags = time.monotonic_ns(), []
        while time.monotonic_ns() - launched < 4e9:
            time.sleep(0.05)
            now = time.monotonic_ns()
            last = last_end(pitot, recording)
            if last:
                lags.append((now - begun(recording) - last) / 1e6)
        print("ms from a kernel's end to the disk, every 50 ms:", " ".join(f"{lag:.0f}" for lag in lags))
        children = subprocess.run(["pgrep", "-x", "quiet"], capture_output=True, text=True).stdout.split()
        killed = time.monotonic_ns()
        subprocess.run(["kill", f"-{signal.SIGKILL.value}", *children], check=True)
        p.wait()
        last = last_end(pitot, recording)
        if not last:
            raise SystemExit(f"no kernels on disk: {subprocess.run([pitot, 'info', recording], capture_output=True, text=True)}")
        print(f"the last kernel on disk ended {(killed - begun(recording) - last) / 1e6:.0f} ms before the SIGKILL")


if __name__ == "__main__":
    main()
