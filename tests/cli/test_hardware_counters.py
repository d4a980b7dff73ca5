"""Hardware counters of kernels: `pitot report --counters`, and in exports."""
import json

import pytest

from perfetto_trace import Trace, schema

TIME, BYTES, HIT_RATE = "gpu__time_duration.sum", "dram__bytes_read.sum.per_second", "l1tex__t_sector_hit_rate.pct"
METRICS = (TIME, BYTES, HIT_RATE)


@pytest.fixture(scope="module")
def recording(make_recording, tmp_path_factory):
    return make_recording(tmp_path_factory.mktemp("counters") / "r.pitot", "counters")


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


def test_text(pitot, recording):
    text = pitot("report", recording, "--counters").stdout
    lines = text.split("\ncounters")[1].split("\n\n")[0].splitlines()
    assert lines[0] == "  5 launches measured; means of rates and shares are weighted by time"
    assert [line.split() for line in lines[1:]] == [
        ["kernel", "metric", "launches", "mean", "least", "most", "unit"],
        ["gemm", TIME, "3", "300,000", "90,000", "540,000", "nanosecond"],
        [BYTES, "3", "3,100,000,000", "1,000,000,000", "4,000,000,000", "byte/second"],
        [HIT_RATE, "2", "70", "10", "80", "percent"],
        ["copy", TIME, "2", "27,000", "18,000", "36,000", "nanosecond"]]
    assert "counters  5 launches measured: --counters shows them" in pitot("report", recording).stdout
    assert "none of the launches that were measured match" in pitot("report", recording, "--counters", "-k", "nothing").stdout


def test_without_counters(pitot, make_recording, tmp_path):
    plain = make_recording(tmp_path / "plain.pitot", "scopes")
    assert "counters" not in pitot("report", plain).stdout
    assert "`pitot record --engine range-profiler` records them" in " ".join(pitot("report", plain, "--counters").stdout.split())
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


def test_keys(source, pitot, recording):
    text = (source / "docs" / "report.md").read_text()
    for row in counters(pitot, recording)[1].values():
        assert all(f"`{key}`" in text for key in row)
