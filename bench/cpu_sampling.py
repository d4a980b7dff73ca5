#!/usr/bin/env python3
"""What CPU sampling costs: bench/cpu_sampling.py BUILD [--rounds N] [--ways perf,ebpf] [--rates 99,999]

Two threads do a fixed amount of work, alone and sampled, in turn. Two figures, both as shares of the CPU time that was
sampled: what the sampler's own thread took, and how much more CPU time the same work took (interrupts and copies of stacks
are charged to the program): of the shortest runs, and the median over the rounds of the ratio to the run before it. Other
work on the machine is in the second, less in the first.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


def cpu_seconds(command):
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return float(said.split()[0])


def rows(pitot, recording, table):
    said = subprocess.run([pitot, "view", recording, table, "--json", "--quiet", "--limit", "0"], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in said.splitlines()]


def sampled(pitot, way, rate, command, folder):
    """CPU seconds of the work, of the sampler's thread, number of samples and of lost ones, size in bytes."""
    recording = Path(folder) / "sampled.pitot"
    spent = cpu_seconds([pitot, "record", "-q", "--force", "--cpu-only", "--no-symbols", f"--cpu-via={way}", f"--cpu={rate}",
                         "-o", recording, "--", *command])
    own = sum(row["total_ns"] for row in rows(pitot, recording, "cost") if row["kind"] == "sampler") / 1e9
    lost = sum(row["count"] for row in rows(pitot, recording, "loss"))
    size = sum(path.stat().st_size for path in recording.glob("cpu-*.pit"))
    return spent, own, len(rows(pitot, recording, "cpu_sample")), lost, size


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--millions", type=int, default=1500, help="of steps of work of each thread")
    parser.add_argument("--depth", type=int, default=50, help="frames of each stack")
    parser.add_argument("--ways", default="perf")
    parser.add_argument("--rates", default="99,999")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    options = parser.parse_args()
    pitot = options.build.resolve() / "pitot"
    configurations = [(way, int(rate)) for way in options.ways.split(",") for rate in options.rates.split(",")]
    results = {configuration: [] for configuration in configurations}
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "cpu_busy"
        subprocess.run(["cc", "-O2", "-fomit-frame-pointer", "-o", program, HERE / "workloads" / "cpu_busy.c", "-pthread"],
                       check=True)
        command = [program, str(options.millions), str(options.depth)]
        for _ in range(options.rounds):
            for configuration in configurations:
                bare = cpu_seconds(command)
                results[configuration].append((bare, *sampled(pitot, *configuration, command, folder)))
    print(f"{processor()}, {os.cpu_count()} processors, Linux {os.uname().release}; "
          f"{options.rounds} rounds, two threads, {options.depth} frames")
    print(f"{'way':6}{'Hz':>6}{'sampler':>10}{'slow-down':>11}{'by rounds':>23}{'samples':>9}{'lost':>6}{'bytes each':>12}")
    figures = []
    for (way, rate), runs in results.items():
        least = 100 * (min(run[1] for run in runs) / min(run[0] for run in runs) - 1)
        slower = sorted(100 * (spent / bare - 1) for bare, spent, *_ in runs)
        own = statistics.median(100 * run[2] / run[1] for run in runs)
        samples, lost, size = (sum(run[i] for run in runs) for i in (3, 4, 5))
        print(f"{way:6}{rate:6}{own:9.2f}%{least:10.2f}%"
              f"{f'{statistics.median(slower):.2f}% ({slower[0]:.1f} to {slower[-1]:.1f})':>23}{samples:9}{lost:6}{size / max(samples, 1):12.1f}")
        figures.append({"way": way, "hz": rate, "sampler_percent": own, "slower_percent": slower, "samples": samples,
                        "lost": lost, "bytes": size})
    if options.json:
        options.json.write_text(json.dumps({"machine": processor(), "processors": os.cpu_count(),
                                            "linux": os.uname().release, "figures": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
