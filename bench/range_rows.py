"""Compares the counters of --measure range and graph with the expected ones. usage: range_rows.py RANGE_VALUE EXPECTED: the output of `pitot view
--json` for the table, and of bench/workloads/ranges.cu."""
import collections
import json
import sys


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    with open(sys.argv[2], encoding="utf-8") as file:
        expected = {(words[1], words[2]): float(words[3]) for words in map(str.split, file) if words and words[0] == "expect"}
    measured = collections.defaultdict(list)
    for row in rows:
        measured[row["kind"], row["name"], row["metric"]].append((row["value"], row["passes"], row["end_ns"] - row["start_ns"]))
    print(f"{'range':18} {'metric':64} {'n':>3} {'passes':>6} {'ms':>8} {'min':>14} {'max':>14} {'expected':>14}")
    for (kind, name, metric), found in sorted(measured.items()):
        values = [value for value, _, _ in found if value is not None]
        expected_value = expected.get((name.split()[0], metric))
        print(f"{kind + ' ' + name:18} {metric:64} {len(found):3} {max(passes for _, passes, _ in found):6} {sum(ns for _, _, ns in found) / len(found) / 1e6:8.2f} "
              f"{min(values, default=float('nan')):14.6g} {max(values, default=float('nan')):14.6g} {'' if expected_value is None else format(expected_value, '14.0f')}")


main()
