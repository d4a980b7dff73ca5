"""Sums up the samples of --engine pc-sampling. usage: pc_rows.py PC_READING PC_SAMPLE CUBIN KERNEL: the output of `pitot view --json` for these."""
import collections
import json
import sys


def rows(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def main():
    readings, samples, cubins, kernels = (rows(path) for path in sys.argv[1:5])
    total, dropped, other = (sum(r[key] for r in readings) for key in ("total", "dropped", "other"))
    found = sum(s["samples"] for s in samples)
    print(f"readings {len(readings)}: total {total}, dropped {dropped}, other {other}, with an instruction {found}, "
          f"adds up: {total == dropped + other + found}; periods {sorted({r['period_cycles'] for r in readings})}, "
          f"contexts {sorted({(r['pid'], r['context']) for r in readings})}; rows {len(samples)}, kernels {len(kernels)}")
    sums = collections.Counter()
    by_reading = collections.Counter()
    functions = collections.Counter()
    for s in samples:
        by_reading[s["pid"], s["reading"]] += s["samples"]
        functions[s["function"]] += s["samples"]
        sums[s["function"], s["reason"]] += s["samples"]
    wrong = [r["id"] for r in readings if by_reading[r["pid"], r["id"]] + r["other"] + r["dropped"] != r["total"]]
    print(f"readings that do not add up: {wrong[:5]}")
    gaps = sorted((r["end_ns"] - r["start_ns"]) / 1e6 for r in readings)
    if gaps:
        print(f"ms between readings: min {gaps[0]:.1f}, median {gaps[len(gaps) // 2]:.1f}, max {gaps[-1]:.1f}")
    for function, count in functions.most_common(8):
        print(f"  {count / max(found, 1):6.1%} {function[:80]}")
        for (_, reason), part in [item for item in sums.most_common() if item[0][0] == function][:5]:
            print(f"      {part / count:6.1%} {reason}")
    time = collections.Counter()
    for k in kernels:
        time[str(k["config"])[:80]] += (k["end_ns"] or 0) - (k["start_ns"] or 0)
    for name, ns in time.most_common(5):
        print(f"  {ns / max(sum(time.values()), 1):6.1%} of kernel time: {name}")
    print("cubins:", [(f"{c['crc']:016x}", c["file"], c["size_bytes"]) for c in cubins][:6], len(cubins))
    without = {s["crc"] for s in samples} - {c["crc"] for c in cubins}
    print("checksums without a row of cubin:", [f"{crc:016x}" for crc in without])


main()
