"""Compares the counters of --engine range-profiler with the expected ones. usage: counter_rows.py KERNEL METRIC_VALUE [EXPECTED]: the output of
`pitot view --json` for these tables, and of bench/workloads/counters.cu."""
import collections
import json
import sys


def rows(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def expected_in(path):
    """Returns {(kernel, launch, metric): value}."""
    found = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if words and words[0] == "expect":
                found[words[1], int(words[2]), words[3]] = float(words[4])
    return found


def main():
    kernels, values = (rows(path) for path in sys.argv[1:3])
    expected = expected_in(sys.argv[3]) if len(sys.argv) > 3 else {}
    by_launch = collections.defaultdict(list)
    for kernel in kernels:
        by_launch[kernel["pid"], kernel["correlation"]].append(kernel)
    measured = collections.defaultdict(dict)
    for value in values:
        measured[value["pid"], value["correlation"]][value["metric"]] = value["value"]
    several = [key for key in measured if len(by_launch[key]) != 1]
    print(f"{len(kernels)} kernels, {len(values)} values of {len(measured)} launches; launches without exactly one kernel record: "
          f"{[(key, len(by_launch[key])) for key in several][:5]} ({len(several)})")
    number = collections.Counter()
    print(f"{'kernel':18} {'n':>3} {'metric':64} {'measured':>16} {'expected':>16} {'ratio':>7}")
    for key in sorted(measured):
        name = str(by_launch[key][0]["config"]) if by_launch[key] else "?"
        short = next((kernel for kernel, _, _ in expected if kernel in name), name[:60])
        launch = number[short]
        number[short] += 1
        for metric, value in measured[key].items():
            expected_value = expected.get((short, launch, metric))
            if expected_value is not None:
                ratio = value / expected_value if value is not None and expected_value else float("nan")
                print(f"{short:18} {launch:3} {metric:64} {value!s:>16} {expected_value:16.0f} {ratio:7.3f}")
            elif metric == "gpu__time_duration.sum" and by_launch[key]:
                kernel = by_launch[key][0]
                print(f"{short[:18]:18} {launch:3} {metric:64} {value!s:>16} {(kernel['end_ns'] or 0) - (kernel['start_ns'] or 0):16} (CUPTI's record)")
    missing = [key for key in expected if key[1] >= number[key[0]]]
    print(f"missing: {missing[:5]} ({len(missing)})")


main()
