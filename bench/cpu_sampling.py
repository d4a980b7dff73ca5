#!/usr/bin/env python3
"""The cost of CPU sampling: bench/cpu_sampling.py BUILD [--rounds N] [--methods perf,ebpf] [--rates 99,999] [--program COMMAND]

Two threads do a fixed amount of work, alone and sampled, in turn. Prints two figures, both as shares of the sampled CPU time: the
CPU time of the sampler's own thread, and how much more CPU time the same work took (interrupts and copies of stacks are charged to
the program): of the shortest runs, and as the median over the rounds of the ratio to the run before it. Other work on the machine
affects the latter more.

With --program, another command is sampled instead. Then only the first figure is printed: the CPU time of the sampler's thread and
its programs in the operating system's kernel, relative to the CPU time in the samples; and how many Python frames have no name.
With --against OTHER_BUILD, several builds take turns.
"""
import argparse
import json
import os
import shlex
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
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return float(printed.split()[0])


def rows(pitot, recording, table):
    printed = subprocess.run([pitot, "view", recording, table, "--json", "--quiet", "--limit", "0"], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in printed.splitlines()]


def sampled(pitot, method, rate, command, folder):
    """Returns CPU seconds of the work and of the sampler's thread, the numbers of samples and of losses, and the size in bytes."""
    recording = Path(folder) / "sampled.pitot"
    spent = cpu_seconds([pitot, "record", "-q", "--force", "--cpu-only", "--no-symbols", f"--cpu-via={method}", f"--cpu={rate}",
                         "-o", recording, "--", *command])
    own = sum(row["total_ns"] for row in rows(pitot, recording, "cost") if row["kind"] == "sampler") / 1e9
    lost = sum(row["count"] for row in rows(pitot, recording, "loss"))
    size = sum(path.stat().st_size for path in recording.glob("cpu-*.pit"))
    return spent, own, len(rows(pitot, recording, "cpu_sample")), lost, size


def sample_program(pitot, method, rate, command, folder):
    """Returns CPU seconds in samples and of the sampler, the numbers of samples and of unnamed Python frames, and the share of complete stacks."""
    recording = Path(folder) / "sampled.pitot"
    subprocess.run([pitot, "record", "-q", "--force", "--cpu-only", "--no-symbols", f"--cpu-via={method}", f"--cpu={rate}",
                    "-o", recording, "--", *command], check=True, stdout=subprocess.DEVNULL)
    own = sum(row["total_ns"] for row in rows(pitot, recording, "cost") if row["kind"] == "sampler") / 1e9
    unnamed = sum(row["count"] for row in rows(pitot, recording, "loss") if row["reason"] == "unnamed_frames")
    samples = rows(pitot, recording, "cpu_sample")
    ends = {(row.get("pid"), row["id"]): row["end"] for row in rows(pitot, recording, "stack")}
    complete = sum(ends.get((row.get("pid"), row["stack"])) == "complete" for row in samples)
    return sum(row["weight_ns"] for row in samples) / 1e9, own, len(samples), unnamed, complete / max(1, len(samples))


def programs(options, configurations):
    """Measures options.program with each build in turn."""
    folders = [options.build, *options.against]
    results = {(build, *configuration): [] for build in folders for configuration in configurations}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for build, method, rate in results:
                results[build, method, rate].append(sample_program(build.resolve() / "pitot", method, rate,
                                                                shlex.split(options.program), folder))
    print(f"{processor()}, {os.cpu_count()} processors, Linux {os.uname().release}; {options.rounds} rounds of {options.program}")
    print("medians (range)")
    for (build, method, rate), runs in results.items():
        spent, own, samples, unnamed, complete = zip(*runs)
        share = [100 * o / s for s, o in zip(spent, own)]
        print(f"{str(build):24} {method:5}{rate:5} Hz: {statistics.median(spent):6.2f} s sampled, sampler "
              f"{1e3 * statistics.median(own):6.1f} ms ({1e3 * min(own):.1f} to {1e3 * max(own):.1f}), "
              f"{statistics.median(share):5.2f} % ({min(share):.2f} to {max(share):.2f}), {statistics.median(samples):.0f} samples, "
              f"{statistics.median(unnamed):.0f} ({min(unnamed)} to {max(unnamed)}) unnamed frames, "
              f"{100 * statistics.median(complete):.1f} % complete")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--millions", type=int, default=1500, help="steps of work per thread, in millions")
    parser.add_argument("--depth", type=int, default=50, help="frames per stack")
    parser.add_argument("--methods", default="perf")
    parser.add_argument("--rates", default="99,999")
    parser.add_argument("--program", help="command to sample instead")
    parser.add_argument("--against", type=Path, action="append", default=[], help="another build folder, for --program")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    options = parser.parse_args()
    pitot = options.build.resolve() / "pitot"
    configurations = [(method, int(rate)) for method in options.methods.split(",") for rate in options.rates.split(",")]
    if options.program:
        programs(options, configurations)
        return
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
    print(f"{'method':6}{'Hz':>6}{'sampler':>10}{'slow-down':>11}{'by rounds':>23}{'samples':>9}{'lost':>6}{'bytes each':>12}")
    figures = []
    for (method, rate), runs in results.items():
        least = 100 * (min(run[1] for run in runs) / min(run[0] for run in runs) - 1)
        slower = sorted(100 * (spent / bare - 1) for bare, spent, *_ in runs)
        own = statistics.median(100 * run[2] / run[1] for run in runs)
        samples, lost, size = (sum(run[i] for run in runs) for i in (3, 4, 5))
        print(f"{method:6}{rate:6}{own:9.2f}%{least:10.2f}%"
              f"{f'{statistics.median(slower):.2f}% ({slower[0]:.1f} to {slower[-1]:.1f})':>23}{samples:9}{lost:6}{size / max(samples, 1):12.1f}")
        figures.append({"method": method, "hz": rate, "sampler_percent": own, "slower_percent": slower, "samples": samples,
                        "lost": lost, "bytes": size})
    if options.json:
        options.json.write_text(json.dumps({"machine": processor(), "processors": os.cpu_count(),
                                            "linux": os.uname().release, "figures": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
