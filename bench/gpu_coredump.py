#!/usr/bin/env python3
"""--gpu-coredump on a GPU: what core files say of exceptions and of a hang, how large they are, and what enabling them costs.

usage: bench/gpu_coredump.py [BUILD [FOLDER]] [--seconds N] [--program FILE], on a machine with a GPU; BUILD: gpu/new. Takes at most N
seconds (95), and prints a line for each result as it comes. A line of a check begins with "right" or "WRONG". FOLDER (gpu-cores-of-DATE)
then has the recordings, with the core files. Without --program it compiles bench/workloads/gpu_core.cu with nvcc.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

WORKLOADS = Path(__file__).resolve().parent / "workloads"
SOURCE = WORKLOADS / "gpu_core.cu"
LIMIT = 40  # seconds for one command
CLEAN = {key: value for key, value in os.environ.items() if not key.startswith(("PITOT_", "CUDA_COREDUMP", "CUDA_ENABLE"))}
KERNELS = {"illegal": "writes_nowhere", "assert": "asserts", "misaligned": "writes_misaligned", "hang": "waits_for_flag"}


class Bench:
    def __init__(self, build, folder, seconds, program):
        self.pitot, self.folder, self.program = str(build / "pitot"), folder, program
        self.end, self.wrong = time.monotonic() + seconds, 0

    def check(self, what, is_right, detail=""):
        self.wrong += not is_right
        print(f"{'right' if is_right else 'WRONG'}  {what}{': ' if detail else ''}{detail}", flush=True)

    def record(self, name, *options):
        return [self.pitot, "record", "--no-cpu", "-f", "-o", str(self.folder / f"{name}.pitot"), *options, "--", str(self.program)]

    def rows(self, name, table):
        done = run([self.pitot, "view", self.folder / f"{name}.pitot", table, "--json"])
        return [json.loads(line) for line in done.stdout.splitlines()]

    def words(self, name):
        done = run([self.pitot, "report", self.folder / f"{name}.pitot", "--json"])
        return ((json.loads(done.stdout or "{}").get("last_words") or {}).get("text") or "").strip()

    def describe(self, name):
        """What is in a core file, however little of it was understood."""
        for path in sorted((self.folder / f"{name}.pitot" / "gpu-cores").glob("*")):
            print(f"       {name}: {path.name}, {path.stat().st_size / 1e6:.2f} MB", flush=True)
        for row in self.rows(name, "gpu_core")[:4]:
            print(f"       {name}: { {key: value for key, value in row.items() if value is not None} }", flush=True)


def run(command, **options):
    began = time.monotonic()
    try:
        done = subprocess.run(list(map(str, command)), text=True, capture_output=True, timeout=LIMIT, check=False, env=CLEAN, **options)
    except subprocess.TimeoutExpired as e:
        done = subprocess.CompletedProcess(command, 124, "", f"no end after {e.timeout} s")
    done.seconds = time.monotonic() - began
    return done


def request_core(pipe):
    """Returns False while the driver does not read the pipe."""
    try:
        descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return os.write(descriptor, b"1") == 1
    finally:
        os.close(descriptor)


def line_of(what):
    lines = SOURCE.read_text(encoding="utf-8").splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith(f"// line of {what}"))


def exception(bench, what, expected):
    bare = run([*bench.record(f"{what}-bare"), what])
    done = run([*bench.record(what, "--gpu-coredump"), what])
    bench.describe(what)
    rows, line = bench.rows(what, "gpu_core"), line_of(what)
    row = rows[0] if rows else {}
    bench.check(f"{what}: the program ends as without it", done.returncode == bare.returncode == 3, f"status {done.returncode}, without {bare.returncode}")
    bench.check(f"{what}: one core file, which was read", len({r["file"] for r in rows}) == 1 and not row.get("reason"), str(row.get("reason")))
    bench.check(f"{what}: the exception", expected in str(row.get("exception")), f"{row.get('exception')} ({row.get('code')})")
    bench.check(f"{what}: the kernel", KERNELS[what] in str(row.get("kernel")), str(row.get("kernel")))
    place = [row.get(f"{kind}_index_{axis}") for kind in ("block", "thread") for axis in "xyz"]
    bench.check(f"{what}: block and thread", place == [3, 0, 0, 5, 0, 0], str(place))
    bench.check(f"{what}: the line", row.get("line") == line, f"{row.get('source_file')}:{row.get('line')} instead of {line}")
    print(f"       {what}: {done.seconds:.2f} s with, {bare.seconds:.2f} s without", flush=True)
    print(f"       {what}: {' | '.join(bench.words(what).splitlines())}", flush=True)


def hang(bench):
    """A byte through the driver's pipe requests a core file of the kernel that hangs; what becomes of the program afterwards is only said."""
    with subprocess.Popen([*bench.record("hang", "--gpu-coredump", "-v"), "hang"], env=CLEAN, stderr=subprocess.PIPE, text=True) as record:
        began, cores, requested = time.monotonic(), bench.folder / "hang.pitot" / "gpu-cores", False
        while time.monotonic() - began < 25 and record.poll() is None and not any(cores.glob("*.nvcudmp")):
            time.sleep(0.05)
            if not requested and time.monotonic() - began > 3:
                requested = any(request_core(pipe) for pipe in cores.glob("*.pipe"))
        time.sleep(1)
        seconds, lives = time.monotonic() - began, record.poll() is None
        for child in run(["pgrep", "-P", record.pid]).stdout.split():
            os.kill(int(child), signal.SIGKILL)
        said = record.communicate(timeout=LIMIT)[1]
    bench.describe("hang")
    rows = bench.rows("hang", "gpu_core")
    bench.check("hang: the driver read the request", requested)
    bench.check("hang: a core file was written", bool(rows), f"after {seconds:.1f} s; the program {'lives' if lives else 'has ended'}")
    bench.check("hang: the kernel", any(KERNELS["hang"] in str(row["kernel"]) for row in rows))
    bench.check("hang: the line", any(row["line"] == line_of("hang") for row in rows), str([(row["line"], row["threads"]) for row in rows]))
    print(f"       hang: {' | '.join(bench.words('hang').splitlines())}", flush=True)
    if not rows:
        print(said[-2000:], flush=True)


def turns(bench):
    found = {"bare": [], "recorded": [], "with core files": []}
    while bench.end - time.monotonic() > 14 or not found["bare"]:
        for way, values in found.items():
            command = {"bare": [bench.program], "recorded": bench.record("steps", "-q"), "with core files": bench.record("steps", "-q", "--gpu-coredump")}[way]
            done = run([*command, "steps", "2"])
            if done.returncode == 0 and done.stdout.startswith("{"):
                values.append(json.loads(done.stdout))
            else:
                bench.check(f"steps, {way}", False, done.stderr[-300:])
                return
    for key in ("p10_us", "median_us", "first_use_us"):
        middle = {way: statistics.median(value[key] for value in values) for way, values in found.items()}
        print(f"{len(found['bare'])} turns, {key}: " + ", ".join(f"{way} {value:.1f} ({100 * (value / middle['recorded'] - 1):+.1f} %)"
                                                               for way, value in middle.items()), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=Path, default=Path("gpu/new"))
    parser.add_argument("folder", nargs="?", type=Path, default=Path(time.strftime("gpu-cores-of-%Y-%m-%d-%H%M%S")))
    parser.add_argument("--seconds", type=float, default=95)
    parser.add_argument("--program", type=Path)
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    program = (arguments.program or folder / "gpu_core").resolve()
    bench = Bench(arguments.build.resolve(), folder, arguments.seconds, program)
    if not arguments.program:
        subprocess.run(["nvcc", "-O2", "-lineinfo", "-arch=native", "-o", program, SOURCE], check=True)
    print(run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]).stdout.strip(), flush=True)
    parts = [lambda: exception(bench, "illegal", "illegal address"), lambda: exception(bench, "assert", "assertion"),
             lambda: exception(bench, "misaligned", "misaligned"), lambda: hang(bench), lambda: turns(bench)]
    for part in parts:
        try:
            part()
        except Exception as e:  # one part must not cost the others
            bench.check("the bench itself", False, repr(e))
    sys.exit(1 if bench.wrong else 0)


if __name__ == "__main__":
    main()
