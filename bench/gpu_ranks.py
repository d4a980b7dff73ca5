#!/usr/bin/env python3
"""Trainings on all GPUs of a machine, each with one known fault: what the report says; and what recording costs a collective.

usage: bench/gpu_ranks.py BUILD [--against BUILD] [--folder FOLDER] [--rounds N] [--repeat N] [--only SCENARIO,...], on a machine with
two GPUs and PyTorch.
With --repeat each scenario runs so many times, and a last line says how often which verdict came, with the shares of the time by which
ranks were late: of a balanced program none should be a rank's.
Prints for each scenario of bench/workloads/ranks.py the verdict and the cause that the report names first, then the time of small
all-reduces bare, recorded without NCCL's plug-in, with it, and by the other build, in turns within each round.
"""
import argparse
import collections
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

WORKLOADS = Path(__file__).resolve().parent / "workloads"
SCENARIOS = ("balanced sleep-1 sleep-3 sleep-10 alternating slow-gpu slow-data small small-sleep large overlap overlap-sleep pipeline "
             "mixed graph graph-sleep missing").split()
LIMIT = 100  # seconds for one run


def torchrun(workload, *arguments):
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", WORKLOADS / workload, *arguments]


def run(command, **variables):
    try:
        return subprocess.run([str(part) for part in command], env={**os.environ, **variables}, text=True, capture_output=True, timeout=LIMIT,
                              check=False)
    except subprocess.TimeoutExpired:
        return None


def scenario(pitot, folder, name):
    recording = folder / f"{name}.pitot"
    done = run([pitot, "record", "-q", "--force", "-o", recording, "--", *torchrun("ranks.py", name, "30")])
    print(f"== {name}: {'stopped' if done is None else f'status {done.returncode}'}", flush=True)
    text = run([pitot, "report", recording]).stdout
    job = json.loads(run([pitot, "report", recording, "--json"]).stdout or "{}").get("job") or {}
    verdict = text[text.find("verdict"):].split("\n\n")
    print("\n\n".join(verdict[:2]), flush=True)
    with open(folder / f"{name}.txt", "w", encoding="utf-8") as out:
        out.write(text + json.dumps(job, indent=1))
    evidence = job.get("evidence") or {}
    return job.get("kind"), job.get("rank"), [round(evidence[key], 1) if evidence.get(key) is not None else None for key in (
        "late_percent_low", "late_percent", "late_percent_high")]


def costs(builds, folder, rounds):
    options = ["record", "-q", "--force", "--no-cpu", "-o", folder / "cost.pitot", "--"]
    record, *other = [[build / "pitot", *options] for build in builds]
    ways = {"bare": ([], {}), "recorded, no plug-in": (record, {"NCCL_PROFILER_PLUGIN": "none"}), "recorded": (record, {})}
    if other:
        ways["the other build"] = (other[0], {})
    found = {way: [] for way in ways}
    for _ in range(rounds):
        for way, (prefix, variables) in ways.items():
            done = run([*prefix, *torchrun("collectives.py")], **variables)
            lines = [line for line in (done.stdout if done else "").splitlines() if line.startswith("{")]
            if lines:
                found[way].append(json.loads(lines[-1]))
                print(f"{way:22} {lines[-1]}", flush=True)
            else:
                print(f"{way:22} failed: {done.stderr[-300:] if done else 'stopped'}", flush=True)
    for way, rows in found.items():
        for size in rows[0] if rows else ():
            values = [row[size] for row in rows]
            print(f"{way:22} {int(size):7} bytes  {statistics.median(values):8.3f} us a call (best {min(values):.3f})")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("build", type=Path)
    arguments.add_argument("--against", type=Path)
    arguments.add_argument("--folder", type=Path)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--repeat", type=int, default=1)
    arguments.add_argument("--only", default=",".join(SCENARIOS))
    options = arguments.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    for name in filter(None, options.only.split(",")):
        found = [scenario(options.build / "pitot", folder, name) for _ in range(options.repeat)]
        if options.repeat > 1:
            print(f"== {name}: {dict(collections.Counter(kind if rank is None else f'{kind} {rank}' for kind, rank, _ in found))}, "
                  f"late by {[share for _, _, share in found]} %", flush=True)
    if options.rounds:
        costs(list(filter(None, (options.build, options.against))), folder, options.rounds)


if __name__ == "__main__":
    main()
