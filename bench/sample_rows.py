"""Compares the samples of --engine pm-sampling with the expected ones. usage: sample_rows.py FOLDER [EXPECTED]: FOLDER contains the output of
`pitot view --json` as rows-TABLE; EXPECTED is the output of bench/workloads/phases.cu. Without it, prints one line."""
import bisect
import collections
import json
import sys

ACTIVE = "sm__cycles_active.avg.pct_of_peak_sustained_elapsed"


def rows(folder, table):
    with open(f"{folder}/rows-{table}", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def samples_in(folder):
    """Returns {metric: (starts, ends, values, usual length)} in order of time. Each sample gets the usual (median) length."""
    counters = {key: row for row in rows(folder, "counter") if "__" in row["name"] for key in (row["id"], row["name"])}
    found = collections.defaultdict(list)
    for row in rows(folder, "counter_sample"):
        counter = counters.get(row["counter"])
        if counter:
            found[counter["name"]].append((row["time_ns"], row["value"] / 10 ** counter["decimals"]))
    series = {}
    for name, points in found.items():
        points.sort()
        starts = [time for time, _ in points]
        lengths = sorted(b - a for a, b in zip(starts, starts[1:]))
        usual = lengths[len(lengths) // 2] if lengths else 0
        series[name] = starts, [start + usual for start in starts], [value for _, value in points], usual
    return series


def covered(series, spans):
    """Returns time and integral (value times seconds) of the samples within spans; samples that are partly inside count partly."""
    starts, ends, values, _ = series
    time = integral = 0
    for begin, end in spans:
        for i in range(max(bisect.bisect_left(starts, begin) - 1, 0), bisect.bisect_left(starts, end)):
            part = max(min(ends[i], end) - max(starts[i], begin), 0)
            time += part
            integral += values[i] * part / 1e9
    return time, integral


def merged(spans, gap):
    out = []
    for begin, end in sorted(spans):
        if out and begin - out[-1][1] < gap:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([begin, end])
    return out


def print_summary(folder, series):
    starts, _, _, usual = series.get(ACTIVE) or next(iter(series.values()))
    seconds = (starts[-1] - starts[0]) / 1e9
    lost = sum(row["count"] for row in rows(folder, "loss") if row["count"])
    print(f"{len(starts)} samples of {len(series)} counters in {seconds:.2f} s: {len(starts) / max(seconds, 1e-9):.0f} per second, "
          f"usually {usual / 1000:.1f} us apart, at most {max((b - a for a, b in zip(starts, starts[1:])), default=0) / 1e6:.2f} ms; lost {lost}")


def phases_of(folder):
    """Returns {phase: spans}: consecutive work is merged; `idle` is the time between work, without its edges."""
    spans = collections.defaultdict(list)
    for kernel in rows(folder, "kernel"):
        name = next((name for name in ("stream_kernel", "full_kernel", "half_kernel") if name in str(kernel["config"])), None)
        if name and kernel["start_ns"] and kernel["end_ns"]:
            spans[name].append((kernel["start_ns"], kernel["end_ns"]))
    spans["copies"] = [(row["start_ns"], row["end_ns"]) for row in rows(folder, "memcpy") if row["start_ns"]]
    phases = {name: merged(found, 5e6) for name, found in spans.items()}
    work = merged([span for found in phases.values() for span in found], 5e6)
    phases["idle"] = [(a[1] + 5e6, b[0] - 5e6) for a, b in zip(work, work[1:]) if b[0] - a[1] > 20e6]
    return phases


def main():
    folder = sys.argv[1]
    series = samples_in(folder)
    if not series:
        print("no samples")
        return
    print_summary(folder, series)
    if len(sys.argv) < 3:
        return
    phases = phases_of(folder)
    print(f"{'mean over':68}" + "".join(f"{phase:>14}" for phase in phases))
    for name in sorted(series):
        cells = []
        for spans in phases.values():
            time, integral = covered(series[name], [(a + 1e6, b - 1e6) for a, b in spans if b - a > 4e6])
            cells.append(f"{integral / (time / 1e9):14.4g}" if time else f"{'-':>14}")
        print(f"{name:68}" + "".join(cells))
    with open(sys.argv[2], encoding="utf-8") as file:
        for phase, name, value in (line.split()[1:] for line in file if line.startswith("expect ")):
            if name not in series or not phases.get(phase):
                print(f"expected {phase} {name} {value}: missing")
                continue
            rate = name.endswith("per_second")
            margin = -1e6 if rate else 1e6  # a rate: the whole integral, with margins; else the mean without the edges
            time, integral = covered(series[name], [(a + margin, b - margin) for a, b in phases[phase] if b - a > 4e6])
            found = integral if rate else integral / (time / 1e9) if time else float("nan")
            ratio = f"ratio {found / float(value):.4f}" if float(value) else ""
            print(f"expected {phase:14} {name:60} {float(value):14.6g} found {found:14.6g} {ratio}")
    starts, ends, values, _ = series.get(ACTIVE, ((), (), (), 0))
    edges = []
    for begin, _ in phases.get("full_kernel", []):
        i = bisect.bisect_left(starts, begin - 3e6)
        while i < len(values) and values[i] < 10:
            i += 1
        if i < len(values):
            # The sample in which the kernel begins is busy for a part of its time only.
            edges.append((ends[i] - values[i] / 100 * (ends[i] - starts[i]) - begin) / 1000)
    print("us from the start of a kernel's record until the multiprocessors are active:", [round(edge, 1) for edge in edges])


main()
