"""Compares the counts of --engine sass-metrics with the expected ones. usage: sass_rows.py RECORDING PITOT [EXPECTED]; EXPECTED is the output of
bench/workloads/warps.cu."""
import collections
import json
import subprocess
import sys

PREFIX = "smsp__sass_"
UNROLLED = 64  # FFMAs


def lines(*command):
    return [json.loads(line) for line in subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()]


def texts_of(recording, pitot):
    """Returns {(function, offset): instruction}, and the hints."""
    printed = json.loads(subprocess.run([pitot, "source", "--json", recording], capture_output=True, text=True, check=False).stdout or "{}")
    texts = {(code["symbol"], item["offset"]): item["text"] or "" for code in printed.get("kernels", []) for item in code["instructions"]}
    return texts, printed.get("hints", [])


def found_in(values, texts, operation, metric, expected):
    """Returns the sum that a launch has of an expected value. Without nvdisasm: checks for as many instructions with such values."""
    if metric not in {name for _, _, name in values}:
        return "unknown"
    if any(texts.values()):
        return sum(n for (function, offset, name), n in values.items() if name == metric and operation in texts.get((function, offset), ""))
    unrolled = UNROLLED if operation == "FFMA" else 1
    alike = sum(n == expected // unrolled for (_, _, name), n in values.items() if name == metric)
    return expected if alike >= unrolled else f"in {alike} instructions of {unrolled}"


def check(path, launches, names, texts):
    """Compares each expected value with that of the i-th measured launch of the kernel."""
    with open(path, encoding="utf-8") as file:
        words = [line.split()[1:] for line in file if line.startswith("expect ")]
    for kernel, number, operation, metric, value in words:
        of_kernel = [key for key in sorted(launches) if kernel in names.get(key, "")]
        if int(number) < len(of_kernel):
            found = found_in(launches[of_kernel[int(number)]], texts, operation, metric, int(value))
            print(f"{kernel} {number}: {operation} {metric} {found} of {value}: {'exact' if found == int(value) else 'DIFFERS'}")


def main():
    recording, pitot = sys.argv[1:3]
    rows = lines(pitot, "view", "-q", "--json", recording, "sass_value")
    kernels = collections.defaultdict(list)
    for row in lines(pitot, "view", "-q", "--json", recording, "kernel"):
        kernels[row["pid"], row["correlation"]].append(row)
    texts, hints = texts_of(recording, pitot)
    launches = collections.defaultdict(collections.Counter)
    names = {key: kernels[key][0]["config"] for key in kernels}
    for row in rows:
        key = row["pid"], row["correlation"]
        launches[key][row["function"], row["offset"], row["metric"]] += row["value"]
    timed = sum(kernel["end_ns"] is not None for key in kernels for kernel in kernels[key] if key in launches)
    print(f"{len(rows)} values of {len(launches)} launches; with a record of their kernel {sum(len(kernels[key]) == 1 for key in launches)}, {timed} of these "
          f"with an end; texts of {sum(map(bool, texts.values()))} of {len(texts)} instructions; "
          f"metrics {' '.join(sorted({row['metric'].removeprefix(PREFIX) for row in rows}))}")
    if len(sys.argv) > 3:
        check(sys.argv[3], launches, names, texts)
    for hint in hints[:4]:
        print(hint["text"])


main()
