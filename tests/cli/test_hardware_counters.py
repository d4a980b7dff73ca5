"""Hardware counters of kernels: `pitot report --counters`, and in exports."""
import json
import re
from xml.etree import ElementTree

import pytest

from golden import check_golden
from perfetto_trace import Trace, schema

TIME, BYTES, HIT_RATE = "gpu__time_duration.sum", "dram__bytes_read.sum.per_second", "l1tex__t_sector_hit_rate.pct"
METRICS = (TIME, BYTES, HIT_RATE)
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def recording(make_recording, tmp_path_factory):
    return make_recording(tmp_path_factory.mktemp("counters") / "r.pitot", "counters")


@pytest.fixture(scope="module")
def roofline(make_recording, tmp_path_factory):
    return make_recording(tmp_path_factory.mktemp("roofline") / "r.pitot", "roofline")


def counters(pitot, recording, *options):
    value = pitot("report", recording, "--json", *options, json_output=True)["counters"]
    return value["launches"], {(row["kernel"], row["metric"]): row for row in value["metrics"]}


def test_means(pitot, recording):
    """Rates are weighted by the time of the launches that have a value, amounts are not; ids of two processes are not mixed up."""
    launches, rows = counters(pitot, recording)
    assert launches == 5
    assert list(rows) == [("gemm", TIME), ("gemm", BYTES), ("gemm", HIT_RATE), ("copy", TIME)]
    time, rate, hits, copy = rows.values()
    assert (time["count"], time["mean"], time["min"], time["max"]) == (3, 300000, 90000, 540000)
    assert (rate["count"], rate["mean"], rate["min"], rate["max"]) == (3, (1e9 * 100 + 2e9 * 300 + 4e9 * 600) / 1000, 1e9, 4e9)
    assert (hits["count"], hits["mean"]) == (2, (10 * 100 + 80 * 600) / 700)
    assert (copy["count"], copy["mean"], copy["min"], copy["max"]) == (2, 27000, 18000, 36000)
    assert [row["weighted_by_time"] for row in rows.values()] == [False, True, True, False]
    assert (rate["unit"], rate["symbol"]) == ("byte/second", "_Z4gemmPf")


@pytest.mark.parametrize("options, launches, kernels", [
    (["--kernel", "copy"], 2, {"copy"}), (["--process", "200"], 1, {"copy"}), (["--process", "100", "--kernel", "gemm"], 3, {"gemm"}),
    (["--since", "4ms"], 1, {"copy"}), (["--kernel", "nothing"], 0, set())])
def test_filters(pitot, recording, options, launches, kernels):
    counted, rows = counters(pitot, recording, *options)
    assert counted == launches and {kernel for kernel, _ in rows} == kernels


def test_what_measuring_cost(pitot, recording):
    """It is in the gaps of the GPUs, so there is no verdict on them."""
    cost = pitot("report", recording, "--json", json_output=True)["cost"]
    assert (cost["replay"]["count"], cost["replay"]["total_ns"]) == (4, 2700000) and cost["target_ns"] >= 2700000
    text = " ".join(pitot("report", recording).stdout.split())
    assert "3 measurements by Pitot kept the GPU idle for 2.10 ms of the 4.02 ms from the first to the last GPU work" in text
    assert "launch call measured by Pitot 4 4.00 us" in text and "measured launches 2.70 ms" in text


def section(text):
    return "counters" + text.split("\ncounters")[1].split("\n\n")[0] + "\n"


def test_text(pitot, recording):
    lines = [line.split() for line in section(pitot("report", recording, "--counters", env={"COLUMNS": "140"}).stdout).splitlines()]
    assert lines[0][:8] == ["counters", "5", "launches", "of", "2", "kernels", "measured;", "means"]
    assert [" ".join(line) for line in lines[8:13]] == [
        f"gemm {TIME} 3 300 us 90.0 us 540 us", f"(memory) {BYTES} 3 3.10 GB/s 1.00 GB/s 4.00 GB/s", f"{HIT_RATE} 2 70.0% 10.0% 80.0%",
        f"copy {TIME} 2 27.0 us 18.0 us 36.0 us", "metrics that are 0 are not shown; to show them: --top 0"]
    assert "counters  5 launches of 2 kernels measured; for their metrics: pitot report --counters" in pitot("report", recording).stdout
    assert "no measured launch matches the filters" in pitot("report", recording, "--counters", "-k", "nothing").stdout


def test_kernels_without_times(pitot, roofline):
    """CUPTI gives kernels that it replays none: they last as long as was measured, else as their record says."""
    shown = pitot("report", roofline, "--json", json_output=True)
    assert shown["untimed"] == 6 and shown["hotspots"]["untimed"] == 6
    assert [(k["kernel"], k["launches"], k["mean_ns"]) for k in shown["counters"]["kernels"]] == [
        ("cached", 1, 10000), ("gemm", 2, 2000), ("copy", 1, 2000), ("half", 2, 100), ("barrier", 1, None)]


@pytest.mark.parametrize("options, expected", [
    (["--since", "1500us"], {"gemm": 1, "copy": 1, "half": 2, "barrier": 1, "cached": 1}), (["--until", "2500us"], {"gemm": 2}),
    (["--since", "3500us", "--until", "5500us"], {"half": 2}), (["--kernel", "gemm"], {"gemm": 2}), (["--device", "0", "--stream", "8"], {})])
def test_filters_of_kernels_without_times(pitot, roofline, options, expected):
    shown = pitot("report", roofline, "--json", *options, json_output=True)["counters"]
    assert {k["kernel"]: k["launches"] for k in shown["kernels"]} == expected and shown["launches"] == sum(expected.values())


def test_golden_of_counters(pitot, roofline):
    text = "".join(section(pitot("report", roofline, *options, env={"COLUMNS": columns}).stdout)
                   for columns, options in (("140", ["--counters", "--kernel", "gemm"]), ("80", ["--counters", "--kernel", "copy", "--top", "0"]), ("100", [])))
    check_golden("report-counters.txt", text)
    page = pitot("report", roofline, "--counters", "-o", "-").stdout
    assert "<td class=\"text\">tensor BF16</td>" in page and "memory-bound: DRAM 87.0% of peak, SM 31.0%" in page


def points(pitot, recording, *options):
    shown = pitot("report", recording, "--json", *options, json_output=True)["counters"]["roofline"]
    keys = ("flops", "bandwidth", "intensity", "peak_flops", "peak_bandwidth", "attainable_flops", "attainable_percent", "limit")
    return {(p["kernel"], p["type"], p["level"]): tuple(p[key] for key in keys) for p in shown}


def test_roofline(pitot, roofline):
    """Two launches: 400,000 operations and 40,000 bytes in 4 us, under a clock of 1.75 GHz on average over that time."""
    found = points(pitot, roofline)
    assert found.pop(("gemm", "FP32", "DRAM")) == (1e11, 1e10, 10, 3.5e11, 2e10, 2e11, 50, "DRAM")
    assert found.pop(("gemm", "FP32", "L2")) == (1e11, 2e10, 5, 3.5e11, None, None, None, None)  # no peak was measured
    assert found.pop(("gemm", "FP32", "L1")) == (1e11, 0, None, 3.5e11, 1.75e12, 3.5e11, pytest.approx(100 / 3.5), "FP32")  # no bytes
    assert found.pop(("gemm", "tensor BF16", "DRAM")) == (5e8, 1e10, .05, 1.75e12, 2e10, 1e9, 50, "DRAM")
    assert found.pop(("copy", "none", "DRAM")) == (0, 1.5e10, 0, None, 2e10, None, 75, "DRAM")  # it does not compute
    assert found.pop(("half", "FP16", "DRAM")) == (8e9, 1e10, .8, None, None, None, None, None)  # of pairs; FP32 lacks a value
    assert found.pop(("cached", "FP32", "L1")) == pytest.approx((1e11, 4e9, 25, 2e11, 1e12, 2e11, 50, "FP32"))
    assert set(found) == {("gemm", "tensor BF16", "L2"), ("gemm", "tensor BF16", "L1")}  # and no other types, no barrier
    second = points(pitot, roofline, "--since", "1500us", "--kernel", "gemm")
    assert second["gemm", "FP32", "DRAM"][0] == 1e11 and second["gemm", "FP32", "DRAM"][3] == 4e11


def test_share_of_attainable(pitot, roofline):
    """It is what was achieved, of the smaller one of peak and intensity times bandwidth."""
    known = [p for p in points(pitot, roofline).values() if p[5] is not None]
    assert len(known) == 5
    for flops, _, intensity, peak, width, attainable, percent, _ in known:
        assert attainable == pytest.approx(min(peak, intensity * width) if intensity is not None else peak)
        assert percent == pytest.approx(100 * flops / attainable)


PREFIXES = {"FLOP/s": 1, "kFLOP/s": 1e3, "MFLOP/s": 1e6, "GFLOP/s": 1e9, "TFLOP/s": 1e12}


def axis(svg, name):
    """What a pixel stands for, by the labels of an axis."""
    ticks = [(float(t.get(name)), float(t.text.split()[0]) * (PREFIXES[t.text.split()[1]] if name == "y" else 1))
             for t in svg.iter(SVG + "text") if name in t.get("class", "").split()]
    (first, low), (last, high) = ticks[0], ticks[-1]
    offset = 4 if name == "y" else 0  # of the baseline
    return lambda pixel: low * (high / low) ** ((float(pixel) + offset - first) / (last - first))


def test_roofline_picture(pitot, roofline, tmp_path):
    """Points and roofs are where the axes say; each point that has a place on them is there."""
    pitot("report", roofline, "-o", tmp_path / "x.svg")
    svg = ElementTree.fromstring((tmp_path / "x.svg").read_text())
    x, y = axis(svg, "x"), axis(svg, "y")
    shown = pitot("report", roofline, "--json", json_output=True)["counters"]["roofline"]
    expected, found = {}, {}
    for p in shown:
        if p["flops"] and p["intensity"]:
            expected[p["kernel"], p["type"], p["level"]] = p["intensity"], p["flops"]
    for group in svg.iter(SVG + "g"):
        for mark in group:
            title = mark.findtext(SVG + "title")
            if not title:
                continue
            place = (mark.get("cx"), mark.get("cy")) if mark.tag == SVG + "circle" else re.match(r"M([\d.]+) ([\d.]+)l([\d.]+)", mark.get("d")).groups()
            kernel, of_type, level = re.match(r"(\w+): .*?FLOP/s ([\w ]+), .* FLOP/byte of (\w+)", title).groups()
            found[kernel, of_type, level] = x(place[0]), y(float(place[1]) + (float(place[2]) if len(place) > 2 else 0))
            assert group.get("class") == f"l{('DRAM', 'L2', 'L1').index(level)}" and ("tensor" in of_type) == (mark.tag != SVG + "circle")
    assert len(expected) > 5 and found == {key: pytest.approx(value, rel=1e-3) for key, value in expected.items()}
    for level, name in enumerate(("DRAM", "L2", "L1")):
        peak = max((p["peak_bandwidth"] or 0 for p in shown if p["level"] == name), default=0)
        ends = [re.match(r"M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)", p.get("d")).groups() for p in svg.iter(SVG + "path") if p.get("class") == f"level l{level}"]
        assert len(ends) == (peak > 0)
        for x0, y0, x1, y1 in ends:
            assert y(y0) / x(x0) == pytest.approx(peak, rel=1e-3) == y(y1) / x(x1)
    roofs = sorted(y(re.search(r" ([\d.]+)H", p.get("d")).group(1)) for p in svg.iter(SVG + "path") if p.get("class") == "type")
    assert roofs == pytest.approx(sorted({p["type"]: max(q["peak_flops"] or 0 for q in shown if q["type"] == p["type"])
                                          for p in shown if p["peak_flops"]}.values()), rel=1e-3)


def test_roofline_picture_in_a_page(pitot, roofline, tmp_path):
    pitot("report", roofline, "--counters", "-o", tmp_path / "x.html")
    pitot("report", roofline, "-o", tmp_path / "x.svg")
    assert (tmp_path / "x.svg").read_text() in (tmp_path / "x.html").read_text()
    assert (tmp_path / "x.svg").read_text() not in pitot("report", roofline, "-o", "-").stdout


def test_no_roofline_picture(pitot, recording, tmp_path):
    failed = pitot("report", recording, "-o", tmp_path / "x.svg", status=1)
    assert "no selected kernel has operations and bytes" in failed.stderr and "--metrics roofline,tensor" in failed.stderr
    assert not (tmp_path / "x.svg").exists()


def test_occupancy_and_hints(pitot, roofline):
    kernels = {k["kernel"]: k for k in pitot("report", roofline, "--json", json_output=True)["counters"]["kernels"]}
    gemm, barrier = kernels["gemm"], kernels["barrier"]
    assert [gemm[f"{unit}_percent"] for unit in ("sm", "memory", "dram", "l2", "l1", "occupancy", "theoretical")] == [31, 88, 87, 88, None, 40, 100]
    assert (gemm["limiter"], barrier["limiter"], barrier["theoretical_percent"]) == ("warps", "blocks", 50)
    blocks = {o["kernel"]: o for o in pitot("report", roofline, "--json", json_output=True)["counters"]["occupancy"]}
    keys = ("active_warps", "warps", "max_warps", "blocks", *(f"blocks_by_{unit}" for unit in ("warps", "registers", "shared_memory", "blocks")))
    assert [blocks["gemm"][key] for key in keys] == [pytest.approx(25.6), 64, 64, 2, 2, 2, 228, 32]
    assert [blocks["barrier"][key] for key in keys] == [None, 32, 64, 32, 64, 64, 228, 32] and set(blocks) == set(kernels)
    assert {name: k["hint"] for name, k in kernels.items()} == {
        "gemm": "memory-bound: DRAM 87.0% of peak, SM 31.0%; occupancy 40.0% of theoretical 100.0% (limited by warps); "
                "tail: 300 blocks on 132 SMs x 2 slots, the last 36 fill 13.6% of the slots",
        "copy": "memory-bound: L2 89.0% of peak, SM 5.0%",
        "half": "compute-bound: SM 75.0% of peak, memory 30.0%; occupancy 10.0% of theoretical 100.0% (limited by warps)",
        "barrier": "neither SM nor memory reaches 60% of its peak: memory 2.0% of peak, SM 1.0%",
        "cached": ""}


def test_many_kernels(pitot, roofline):
    """As many as --top says, with their hints, points and metrics: of 20,000 kernels nobody reads all."""
    text = section(pitot("report", roofline, "--counters", "--top", "2").stdout)
    assert "7 launches of 5 kernels measured; 2 of 5 shown; means" in " ".join(text.split())
    assert {name for name in ("cached", "gemm", "copy", "half", "barrier") if re.search(rf"^  {name}\b", text, re.M)} == {"cached", "gemm", "copy"}
    assert set(re.findall(r"^  (\w+): ", text, re.M)) == {"gemm", "copy", "roofline"}, "hints of the first kernels that have any"
    assert all(len(re.findall(rf"^  {name}  ", text, re.M)) == 4 for name in ("cached", "gemm"))
    assert " of 5 shown" not in pitot("report", roofline, "--counters", "--top", "5").stdout
    shown = pitot("report", roofline, "--json", "--top", "2", json_output=True)["counters"]
    for part in ("kernels", "occupancy", "roofline", "metrics"):
        assert {row["kernel"] for row in shown[part]} == {"cached", "gemm"}


@pytest.mark.parametrize("options, measured", [
    ([], {"graph 7": 2, "step": 2, "open": 1, "lost": 1, "forward": 1, "outer": 1, "empty": 1}), (["--device", "1"], {"step": 1}),
    (["--device", "0"], {"graph 7": 2, "step": 1, "open": 1, "lost": 1, "forward": 1, "outer": 1, "empty": 1}),
    (["--since", "5500us", "--until", "9ms"], {"outer": 1}), (["--stream", "7"], {}), (["--kernel", "step"], {}), (["--process", "200"], {})])
def test_filters_of_ranges(pitot, ranges, options, measured):
    shown = pitot("report", ranges, "--json", *options, json_output=True)["counters"]
    assert {row["range"]: row["measurements"] for row in shown["ranges"]} == measured
    assert shown["measurements"] == sum(measured.values())


def test_many_ranges(pitot, ranges):
    text = section(pitot("report", ranges, "--counters", "--top", "1").stdout)
    assert "7 ranges measured 9 times; 1 of 7 shown" in text and "\n  range     metric" in text
    assert "graph 7" in text and "step" not in text


def test_without_counters(pitot, make_recording, tmp_path):
    plain = make_recording(tmp_path / "plain.pitot", "scopes")
    assert "counters" not in pitot("report", plain).stdout
    assert "to record them: pitot record --engine range-profiler" in " ".join(pitot("report", plain, "--counters").stdout.split())
    assert counters(pitot, plain) == (0, {})


def test_view(pitot, recording):
    rows = [json.loads(line) for line in pitot("view", recording, "metric_value", "--json", "-q").stdout.splitlines()]
    assert [row["value"] for row in rows if row["metric"] == HIT_RATE] == [10, None, 80]
    assert "1000000000" in pitot("view", recording, "metric_value").stdout


def test_chrome(pitot, recording, tmp_path):
    pitot("export", recording, "-o", tmp_path / "out.json")
    kernels = [e for e in json.loads((tmp_path / "out.json").read_text())["traceEvents"] if e.get("cat") == "kernel"]
    found = [{key: value for key, value in kernel["args"].items() if "__" in key} for kernel in sorted(kernels, key=lambda e: (e["ts"], -e["dur"]))]
    assert found == [{TIME: 90000, BYTES: 1e9, HIT_RATE: 10}, {TIME: 36000}, {TIME: 270000, BYTES: 2e9}, {TIME: 540000, BYTES: 4e9, HIT_RATE: 80}, {}, {},
                     {TIME: 18000}]


def test_perfetto(pitot, recording, tmp_path):
    """In interned descriptors: 0 at the start of a kernel, the value at its end; and as arguments of the launch."""
    out = tmp_path / "out.perfetto-trace"
    pitot("export", recording, "-o", out)
    trace = Trace(out.read_bytes())
    kernels = sorted(trace.kernels(), key=lambda kernel: (kernel.start, -kernel.duration))
    assert [{key: value for key, value in kernel.args.items() if key in METRICS} for kernel in kernels] == [
        {TIME: 90000, BYTES: 1e9, HIT_RATE: 10}, {TIME: 36000}, {TIME: 270000, BYTES: 2e9}, {TIME: 540000, BYTES: 4e9, HIT_RATE: 80}, {}, {},
        {TIME: 18000}]
    descriptors, samples = {}, {}
    for packet in schema.Trace.FromString(out.read_bytes()).packet:
        for interned in packet.interned_data.gpu_counter_descriptors:
            specs = interned.counter_descriptor.specs
            descriptors[interned.iid] = (interned.gpu_id, {spec.counter_id: spec for spec in specs})
        if packet.HasField("gpu_counter_event"):
            event = packet.gpu_counter_event
            gpu, specs = descriptors[event.counter_descriptor_iid]
            for counter in event.counters:
                samples.setdefault((gpu, specs[counter.counter_id].name), []).append((packet.timestamp, counter.double_value))
    expected = {}
    for kernel in kernels:
        for name, value in kernel.args.items():
            if name in METRICS:
                expected.setdefault((kernel.gpu, name), []).extend([(kernel.start, 0), (kernel.start + kernel.duration, value)])
    assert {key: sorted(pairs) for key, pairs in samples.items()} == {key: sorted(pairs) for key, pairs in expected.items()}
    [[_, specs]] = descriptors.values()
    units = {spec.name: (list(spec.numerator_units), list(spec.denominator_units), list(spec.groups)) for spec in specs.values()}
    assert units == {TIME: ([19], [], [6]), BYTES: ([7], [22], [6]), HIT_RATE: ([37], [], [6])}


@pytest.fixture(scope="module")
def ranges(make_recording, tmp_path_factory):
    return make_recording(tmp_path_factory.mktemp("ranges") / "r.pitot", "ranges")


READ = "dram__bytes_read.sum"
# Process, thread, name, start and end in us -> arguments. Only those that were measured.
SHOWN = {
    (100, 100, "step", 3000, 4000): {"passes": 2, TIME: 700, READ: 4096},
    (100, 101, "step", 5000, 6000): {"passes": 1, TIME: 800, READ: 64},
    (100, 100, "outer", 7500, 8500): {"passes": 1, TIME: 900},
    (100, 100, "forward", 10000, 11000): {"passes": 1, TIME: 1000, READ: 0},
    (100, 100, "empty", 11200, 11800): {"passes": 1},
    (100, 100, "cuGraphLaunch", 12000, 12500): {"passes": 3, TIME: 1100, READ: 1}}
ALONE = {
    ("graph 7", 12600, 12700): {"passes": 1, TIME: 1200, READ: 2},
    ("lost", 13000, 14000): {"passes": 1, TIME: 1300, READ: 3},
    ("open", 15000, 16000): {"passes": 1, TIME: 1400, READ: 4}}


def of_ranges(args):
    return {key: value for key, value in args.items() if key in ("passes", TIME, READ)}


def test_ranges_in_chrome(pitot, ranges, tmp_path):
    """Each value is at its own range; those whose range is not in the recording are a slice of their own."""
    pitot("export", ranges, "-o", tmp_path / "out.json")
    events = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    found = {(e["pid"], e["tid"], e["name"], round(e["ts"]), round(e["ts"] + e["dur"])): of_ranges(e["args"])
             for e in events if of_ranges(e.get("args", {})) and e["cat"] != "hardware_counters"}
    assert found == SHOWN
    alone = [e for e in events if e.get("cat") == "hardware_counters" and e["ph"] == "X"]
    assert {(e["name"], round(e["ts"]), round(e["ts"] + e["dur"])): e["args"] for e in alone} == ALONE
    assert [e["dur"] for e in alone] == [100.02, 1000.02, 1000.02]
    assert sum(e.get("name") == "step" and e["ph"] == "X" for e in events) == 8


def test_ranges_in_perfetto(pitot, ranges, tmp_path):
    pitot("export", ranges, "-o", tmp_path / "out.pftrace")
    trace = Trace((tmp_path / "out.pftrace").read_bytes())
    start = min(made.start for made in trace.slices if made.name == "step") - 1_000_000

    def times(made):
        return round((made.start - start) / 1000), round((made.end - start) / 1000)

    measured = [made for made in trace.slices if of_ranges(made.notes)]
    assert {(made.pid, made.tid, made.name, *times(made)): of_ranges(made.notes) for made in measured if made.category != "hardware_counters"} == SHOWN
    alone = [made for made in measured if made.category == "hardware_counters"]
    assert {(made.name, *times(made)): made.notes for made in alone} == ALONE
    assert {(made.pid, made.track) for made in alone} == {(100, "Hardware counters")}


def test_ranges_in_a_window(pitot, ranges, tmp_path):
    """A range that is left out takes its values with it."""
    for since, until, names in ("4500us", "9ms", {"step", "outer"}), ("13500us", "20ms", {"open"}), ("12550us", "13500us", {"graph 7", "lost"}):
        pitot("export", ranges, "--since", since, "--until", until, "-o", tmp_path / "out.json", "--force")
        events = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
        assert {e["name"] for e in events if of_ranges(e.get("args", {}))} == names


def test_keys(source, pitot, roofline):
    text = (source / "docs" / "report.md").read_text()
    shown = pitot("report", roofline, "--json", json_output=True)["counters"]
    assert all(f"`{key}`" in text for name in ("kernels", "roofline", "metrics") for row in shown[name] for key in row)
