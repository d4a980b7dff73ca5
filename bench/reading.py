#!/usr/bin/env python3
"""How fast a recording is read, reported and exported: bench/reading.py BUILD [MILLIONS OF KERNELS] [--against OTHER BUILD].

Each command runs three times after a first run that fills the page cache; prints the medians, with the required values
beside them. --against: two builds in turns, least and median of nine runs, on a recording that the other one can read.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 3
TAPE = Path(__file__).resolve().parent.parent / "tests/data/tapes/train.tape"
TAPE_KERNELS = 2092


def run(command):
    """Returns wall time and CPU time in seconds, and peak resident memory in bytes."""
    began = time.perf_counter()
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{command} failed")
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def measure(command):
    results = [run(command) for _ in range(ROUNDS + 1)]
    return (statistics.median(r[0] for r in results[1:]), statistics.median(r[1] for r in results[1:]),
            max(r[2] for r in results))


def play_tape(build, recording, kernels):
    """Plays a tape of PyTorch training on an H200 through the real recorder until it has that many kernels."""
    recording.mkdir()
    library = str(build / "libpitot.so")
    subprocess.run([build / "standin/tape-play", "--rate", "0", "--repeat", str(-(-kernels // TAPE_KERNELS)), TAPE],
                   check=True, stdout=subprocess.DEVNULL,
                   env=dict(os.environ, PITOT_RECORDING=str(recording), CUDA_INJECTION64_PATH=library,
                            NVTX_INJECTION64_PATH=library))


def line(name, figure, required, good):
    print(f"{name:<22}{figure:>24}   {required:<26}{'' if good else '  missed'}")


def compare(builds, recording):
    commands = {"info": ["info"], "report": ["report", "-q"], "flame --mode gpu": ["flame", "-q", "--mode", "gpu", "--format", "folded"],
                "export to Perfetto": ["export", "-q", "--format", "perfetto", "-o", "-"], "export to JSON": ["export", "-q", "--format", "json", "-o", "-"]}
    for name, words in commands.items():
        results = {build: [] for build in builds}
        for _ in range(10):
            for build in builds:
                results[build].append(run([build / "pitot", *words, recording]))
        for build, runs in results.items():
            wall, processor = ([r[i] for r in runs[1:]] for i in (0, 1))
            print(f"{name:<20}{min(wall):8.3f} {statistics.median(wall):8.3f} s   CPU {min(processor):8.3f} {statistics.median(processor):8.3f} s"
                  f"   {max(r[2] for r in runs) >> 20:6} MiB   {build}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("millions", type=float, nargs="?", default=10)
    parser.add_argument("--against", type=Path)
    arguments = parser.parse_args()
    build, millions = arguments.build.resolve(), arguments.millions
    pitot = build / "pitot"
    with tempfile.TemporaryDirectory(prefix="pitot-bench-") as folder:
        folder = Path(folder)
        recording = folder / "big.pitot"
        play_tape(build, recording, int(millions * 1e6))
        if arguments.against:
            compare([build, arguments.against.resolve()], recording)
            return
        info = json.loads(subprocess.run([pitot, "info", "--json", recording], capture_output=True, check=True).stdout)
        rows = sum(table["rows"] for table in info["tables"].values())
        size = sum(file.stat().st_size for file in recording.iterdir())
        print(f"{millions:g} million kernels, {rows / 1e6:.1f} million rows, {size / 1e6:.0f} MB, "
              f"{size / (millions * 1e6):.1f} bytes per kernel with its launch")

        wall, _, _ = measure([pitot, "info", recording])
        line("info", f"{wall * 1e3:.0f} ms", "at most 50 ms", wall <= 0.05)
        wall, _, memory = measure([pitot, "report", recording])
        line("report", f"{wall:.2f} s", "at most 2 s", wall <= 2)
        line("  memory", f"{memory / rows:.0f} bytes per row", "under 100 bytes per row", memory / rows < 100)
        for name, file, least in (("export to Perfetto", "t.pftrace", 3e6), ("export to JSON", "t.json", 2e6),
                                  ("export to JSON, gzip", "t.json.gz", 0)):
            target = folder / file
            result = subprocess.run([pitot, "export", "-q", "--json", "-o", target, recording], capture_output=True,
                                    check=True)
            events = json.loads(result.stdout)["events"]
            wall, processor, memory = measure([pitot, "export", "-q", "--force", "-o", target, recording])
            line(name, f"{events / wall / 1e6:.2f} M events/s", f"at least {least / 1e6:.0f} M events/s" if least else "",
                 events / wall >= least)
            line("  CPU time", f"{events / processor / 1e6:.2f} M events/s", "", True)
            line("  file", f"{target.stat().st_size / events:.0f} bytes per event", "", True)
            line("  memory", f"{memory / rows:.0f} bytes per row", "under 100 bytes per row", memory / rows < 100)
            target.unlink()


if __name__ == "__main__":
    main()
