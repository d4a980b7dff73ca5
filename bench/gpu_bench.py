#!/usr/bin/env python3
"""The cost of recording on a machine with a GPU, compared with no tool at all and with the cheapest possible CUPTI client.

usage: bench/gpu_bench.py BUILD [--rounds N] [--only launch,launch-20,launch-50,train,graph,decode] [--configurations C,...]
       [--against BUILD] [--json FILE] [--keep DIR]

Configurations take turns within a round, so that a drifting machine affects all of them. Prints medians over the rounds;
costs are differences to the floor of the same run. BUILD is the folder with `pitot` and `libpitot.so`.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CUDA = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))


# Levels of workloads/floor.c: kernel activity only; with an empty callback at launches.
FLOORS = {"floor": "1", "floor-callbacks": "3"}


def build(work):
    """Builds the workloads that need a compiler; returns their folder."""
    subprocess.run(["nvcc", "-arch=native", "-O2", "-o", work / "launch", HERE / "workloads/launch.cu"], check=True)
    libraries = [CUDA / "lib64", CUDA / "extras/CUPTI/lib64"]
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{CUDA}/include", f"-I{CUDA}/extras/CUPTI/include", "-o",
                    work / "libfloor.so", HERE / "workloads/floor.c", *[f"-L{p}" for p in libraries], "-lcupti",
                    *[f"-Wl,-rpath,{p}" for p in libraries]], check=True)


def workloads(work):
    return {
        "launch": ([str(work / "launch")], r"us_per_launch=([\d.]+)", "us per launch"),
        "launch-20": ([str(work / "launch"), "200000", "20"], r"us_per_launch=([\d.]+)", "us per launch"),
        "launch-50": ([str(work / "launch"), "200000", "50"], r"us_per_launch=([\d.]+)", "us per launch"),
        "train": ([sys.executable, str(HERE / "workloads/train.py")], r"median=([\d.]+)", "ms per step"),
        "decode": ([sys.executable, str(HERE / "workloads/decode.py")], r"ms_per_token=([\d.]+)", "ms per token"),
        "graph": ([sys.executable, str(HERE / "workloads/graph.py")], r"median=([\d.]+)", "ms per replay"),
    }


class Runner:
    def __init__(self, args, work):
        self.args, self.work = args, work
        self.pitot = str(pathlib.Path(args.build).resolve() / "pitot")
        self.other = str(pathlib.Path(args.against).resolve() / "pitot") if args.against else None
        self.recordings = {}

    def command(self, configuration, name, command):
        env = dict(os.environ)
        if configuration == "bare":
            return command, env
        if configuration in FLOORS:
            env.update(CUDA_INJECTION64_PATH=str(self.work / "libfloor.so"), FLOOR=FLOORS[configuration])
            return command, env
        target = self.work / f"{name}-{configuration}.pitot"
        shutil.rmtree(target, ignore_errors=True)
        self.recordings[name, configuration] = target
        which, *options = configuration.split("+")
        return [self.other if which == "other" else self.pitot, "record", "-q", "-o", str(target), *options, "--", *command], env

    def run(self, configuration, name, command, pattern):
        command, env = self.command(configuration, name, command)
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        match = re.search(pattern, done.stdout)
        if not match:
            raise SystemExit(f"{configuration} {name}: status {done.returncode}\n{done.stdout}{done.stderr}")
        print(f"{name:9} {configuration:30} {match.group(1)}{self.threads(name, configuration)}", flush=True)  # remains if the run is interrupted
        return float(match.group(1))

    def threads(self, name, configuration):
        """CPU time of the recorder's own threads in the last run, for a kernel with its call."""
        target = self.recordings.get((name, configuration))
        if not target:
            return ""
        view = [self.pitot, "view", "-q", "--json", str(target)]
        cost = subprocess.run([*view, "cost"], capture_output=True, text=True).stdout
        own = sum(row["total_ns"] for row in map(json.loads, cost.splitlines()) if row["kind"] == "collector")
        kernels = self.info(name, configuration)["kernels"]
        return f"  recorder's threads {own / kernels / 1e3:.3f} us a kernel" if kernels else ""

    def info(self, name, configuration):
        target = self.recordings.get((name, configuration))
        if not target:
            return {}
        done = subprocess.run([self.pitot, "info", "--json", str(target)], capture_output=True, text=True)
        if done.returncode:
            return {"error": done.stderr}
        info, loss = json.loads(done.stdout), {}
        for row in info["loss"]:
            loss[row["reason"]] = loss.get(row["reason"], 0) + row["count"]
        return {"bytes": info["bytes"], "kernels": info["tables"]["kernel"]["rows"], "loss": loss}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="launch,train,graph")
    parser.add_argument("--configurations", default="bare,floor,pitot",
                        help="bare, floor, floor-callbacks, pitot, other (of --against), or pitot+OPTION+OPTION for "
                             "record's options")
    parser.add_argument("--against", help="folder of another build, for the configuration other")
    parser.add_argument("--json")
    parser.add_argument("--keep", help="folder to copy the last recordings to")
    args = parser.parse_args()
    work = pathlib.Path(tempfile.mkdtemp(prefix="pitot-bench-"))
    build(work)
    runner, configurations = Runner(args, work), args.configurations.split(",")
    gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                         capture_output=True, text=True).stdout.strip()
    results = {"machine": gpu, "kernel": os.uname().release, "cpus": os.cpu_count(), "rounds": args.rounds,
               "figures": {}, "recordings": {}}
    for name, (command, pattern, unit) in workloads(work).items():
        if name not in args.only.split(","):
            continue
        values = {c: [] for c in configurations}
        for _ in range(args.rounds):
            for c in configurations:
                values[c].append(runner.run(c, name, command, pattern))
        results["figures"][name] = {"unit": unit, **values}
        results["recordings"][name] = {c: runner.info(name, c) for c in configurations if c.startswith(("pitot", "other"))}
        print_table({**results, "figures": {name: results["figures"][name]}})
        for c, info in results["recordings"][name].items():
            print(f"{name:9} {c:30} {info}", flush=True)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(results, indent=1) + "\n")
    if args.keep:
        for (name, c), target in runner.recordings.items():
            shutil.copytree(target, pathlib.Path(args.keep) / target.name, dirs_exist_ok=True)
    shutil.rmtree(work)


def print_table(results):
    print(f"{results['machine']}; kernel {results['kernel']}; {results['cpus']} CPUs; "
          f"median of {results['rounds']} rounds (min, max)")
    for name, figures in results["figures"].items():
        unit = figures["unit"]
        medians = {c: statistics.median(v) for c, v in figures.items() if c != "unit"}
        for c, values in figures.items():
            if c == "unit":
                continue
            line = f"{name:9} {c:30} {medians[c]:9.4f} {unit:14} ({min(values):.4f}, {max(values):.4f})"
            if c != "bare" and "bare" in medians:
                line += f"  {100 * (medians[c] / medians['bare'] - 1):+6.1f}% over bare"
            if c.startswith(("pitot", "other")) and "floor" in medians:
                # Differences within rounds: a drifting machine affects all configurations of a round.
                pairs = [a - b for a, b in zip(values, figures["floor"])]
                over = statistics.median(pairs)
                line += f"  {over:+.4f} over floor, {min(values) - min(figures['floor']):+.4f} best to best"
                if "bare" in medians:
                    line += f" = {statistics.median(100 * p / n for p, n in zip(pairs, figures['bare'])):+.1f} points"
            print(line)


if __name__ == "__main__":
    main()
