#!/usr/bin/env python3
"""The cost of CPU samples by the timer inside the process: bench/cpu_timer.py BUILD [--hz 99] [--rounds 15].

A fixed amount of work runs without and with the timer in turn. Prints the CPU time (user and system, including Pitot's thread) of the
process: the minimum of all rounds, which other work on the machine disturbs least, and the median ratio of adjacent runs; then the
cost by Pitot's own account (handlers and thread), and the additional cost of each process that is started.
"""
import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PYTHON = """
import sys
class Thing:
    def __init__(self, x): self.x = x
    def get(self): return self.x + 1
def down(n): return down(n - 1) + 1 if n else 0
total = 0
for i in range(int(sys.argv[1])):
    total += Thing(i).get() + down(10) + sum(j for j in range(20))
"""
SPAWN = """
import os, sys
for i in range(int(sys.argv[1])):
    os.waitpid(os.posix_spawn("/bin/true", ["true"], os.environ), 0)
"""


def cpu_seconds(command, environment):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def own_cost(pitot, folder):
    """Seconds by Pitot's own account: in signal handlers, and of its thread."""
    rows = [json.loads(line) for line in subprocess.run([pitot, "view", folder, "cost", "--json"], check=True, text=True,
                                                        stdout=subprocess.PIPE).stdout.splitlines()]
    return {kind: sum(row["total_ns"] for row in rows if row["kind"] == kind) / 1e9 for kind in ("timer_sample", "collector")}


def compare(command, options, rounds):
    bare, timed, own, plain = [], [], [], {k: v for k, v in os.environ.items() if not k.startswith("PITOT_")}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            bare.append(cpu_seconds(command, plain))
            timed.append(cpu_seconds(command, {
                **plain, "LD_PRELOAD": str(options.build / "libpitot.so"), "PITOT_RECORDING": folder,
                "PITOT_OPTIONS": f"preload=all;cuda=0;cpu={options.hz}"}))
            if list(Path(folder).glob("*.pit")):
                own.append(own_cost(options.build / "pitot", folder))
    return bare, timed, own


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=lambda text: Path(text).resolve())
    parser.add_argument("--hz", type=int, default=99)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("-o", "--output", help="JSON file to write the figures to")
    options = parser.parse_args()
    results = {"command": "bench/cpu_timer.py BUILD " + " ".join(sys.argv[2:]), "hz": options.hz}
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "cpu_work"
        subprocess.run([shutil.which("cc"), "-O2", "-o", program, HERE / "workloads/cpu_work.c", "-lpthread"], check=True)
        workloads = {"C, 1 thread": [program, "1", "15000000"], "C, 2 threads": [program, "2", "7500000"],
                     "Python": [sys.executable, "-c", PYTHON, "1500000"]}
        for name, command in workloads.items():
            bare, timed, own = compare(list(map(str, command)), options, options.rounds)
            ratios = [t / b for t, b in zip(timed, bare)]
            account = statistics.median((o["timer_sample"] + o["collector"]) / t for o, t in zip(own, timed))
            results[name] = {"bare_s": bare, "timed_s": timed, "own_account": account}
            low, _, high = statistics.quantiles(ratios, n=4)
            print(f"{name:14} {min(bare):.2f} s of CPU alone, {100 * (min(timed) / min(bare) - 1):+.2f} % with the timer; "
                  f"median ratio {100 * (statistics.median(ratios) - 1):+.2f} % (quartiles {100 * (low - 1):+.2f}, "
                  f"{100 * (high - 1):+.2f}); by its own account {100 * account:.2f} %")
        bare, timed, _ = compare([sys.executable, "-c", SPAWN, "300"], options, options.rounds)
        each = [(t - b) / 300 * 1e6 for t, b in zip(timed, bare)]
        results["process_us"] = each
        print(f"{'each process':14} {statistics.median(each):.0f} us more CPU time")
    if options.output:
        Path(options.output).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
