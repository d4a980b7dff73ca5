#!/usr/bin/env python3
"""How much a SIGKILL costs while only the GPU works: 300 kernels of 20 ms launched at once, killed after four seconds.

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
        time.sleep(4)
        children = subprocess.run(["pgrep", "-x", "quiet"], capture_output=True, text=True).stdout.split()
        killed = time.monotonic_ns()
        subprocess.run(["kill", f"-{signal.SIGKILL.value}", *children], check=True)
        p.wait()
        rows = [json.loads(line) for line in subprocess.run(
            [pitot, "view", recording, "kernel", "--json"], capture_output=True, text=True).stdout.splitlines()]
        start = json.loads((recording / "recording.json").read_text())
        if not rows:
            raise SystemExit(f"no kernels on disk: {subprocess.run([pitot, 'info', recording], capture_output=True, text=True)}")
        last = max(row["end_ns"] for row in rows)
        print(f"{len(rows)} kernels on disk; the last ended {last / 1e9:.3f} s after the recording's start")
        begun = start.get("start_monotonic_ns") or start.get("clock", {}).get("monotonic_ns")
        if begun:
            print(f"{(killed - begun - last) / 1e6:.0f} ms before the SIGKILL")


if __name__ == "__main__":
    main()
