"""The verdict against the tables of the same report: for every recording that tests have, and tapes of every engine."""
import re

import pytest

TAPES = [
    ("train", ""), ("kinds", ""), ("sync", ""), ("launch", ""), ("graphs-launch", "graphs=launch"),
    ("engines/sass-metrics", "engine=sass-metrics;kernel_count=12"), ("engines/range-profiler", "engine=range-profiler;kernel_count=12"),
    ("engines/pc-sampling", "engine=pc-sampling"),
]
MADE = ["varied", "shell", "cpu_all", "cpu_cpu", "cpu_inside", "cpu_none", "scopes", "training", "stalls", "sass", "names", "counters",
        "roofline", "ranges", "hostile_chain", "hostile_pushes"]
PARTS = ["gpu_ns", "copy_ns", "latency_ns", "false_dependency_ns", "default_stream_ns", "host_function_ns", "wait_ns", "synchronize_ns",
         "launch_ns", "launch_call_ns", "graph_nodes_ns", "allocation_ns", "off_cpu_ns", "host_ns", "unknown_ns"]
GPU = PARTS[:7]
UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
NUMBER = re.compile(r"(\d[\d,]*(?:\.(\d+))?)(%| (?:ns|us|ms|s)\b|)")


def check_numbers(evidence, verdict):
    """Each number of the sentence is a value of the verdict's JSON, or a share of the time that the sentence is about."""
    whole = verdict["span_ns"] + verdict["measuring_ns"] + verdict["pause_ns"]
    durations = [verdict[key] for key in (*PARTS, "span_ns", "busy_ns", "pause_ns", "measuring_ns", "launch_mean_ns")]
    durations += [whole, whole - verdict["measuring_ns"]]
    parts = [verdict[key] for key in (*PARTS, "busy_ns")] + [sum(verdict[key] for key in GPU)]
    shares = [100 * part / verdict["span_ns"] for part in parts] if verdict["span_ns"] else []
    counts = [verdict[key] for key in ("gpu", "launches", "measured", "synchronizing_calls")]
    evidence = evidence.replace("of 100 us or more", "").replace("shorter than 100 us", "")  # the limit, which docs/report.md says
    evidence = re.sub(r"most of it: .*, ", "", evidence)  # of latency_ns
    for text, decimals, unit in NUMBER.findall(evidence):
        scale = UNITS.get(unit.strip(), 1)
        known = shares if unit == "%" else durations if unit else counts
        half = 0.51 * 10 ** -len(decimals) * scale
        assert any(abs(float(text.replace(",", "")) * scale - value) <= half for value in known), (text + unit, evidence, verdict)


def check(report):
    """The verdict's numbers are those of the tables, and the parts of the path tile the time."""
    verdict = report["verdict"]
    if verdict["kind"] in ("no_work", "untimed", "no_duration"):
        return verdict["kind"]
    check_numbers(verdict["evidence"], verdict)
    assert sum(verdict[part] for part in PARTS) == verdict["span_ns"]
    if verdict["kind"] not in ("measured", "undecided"):
        kinds = report["bounds"]["kinds"]
        assert [kind["total_ns"] for kind in kinds] == sorted((verdict[part] for part in PARTS if verdict[part]), reverse=True)
        for kind in kinds:
            assert kind["total_ns"] == verdict[kind["kind"].replace("idle", "unknown") + "_ns"]
    if len(report["gpus"]) == 1 and len({process["pid"] for process in report["processes"]}) == 1:
        busy = report["gpus"][0]["busy"]
        assert verdict["busy_ns"] == busy["union_ns"]
        assert verdict["span_ns"] + verdict["pause_ns"] + verdict["measuring_ns"] == busy["last_ns"] - busy["first_ns"]
    calls = [report["launches"][name] for name in ("kernel_calls", "graph_calls")]
    assert verdict["launches"] == sum(call["count"] for call in calls)
    if verdict["launches"]:
        assert verdict["launch_mean_ns"] == sum(call.get("total_ns", 0) for call in calls) // verdict["launches"]
    assert verdict["synchronizing_calls"] == sum(wait["count"] for wait in report["waits"] if "Synchronize" in wait["function"])
    return verdict["kind"]


@pytest.mark.parametrize("kind", MADE)
def test_recordings(pitot, make_recording, tmp_path, kind):
    make_recording(tmp_path / "r.pitot", kind)
    check(pitot("report", "r.pitot", "--json", "--top", "1000", json_output=True))


@pytest.mark.parametrize("pattern", ["train", "graph", "streams", "threads", "copies"])
def test_patterns(pitot, make_recording, tmp_path, pattern):
    make_recording(tmp_path / "r.pitot", kernels=2000, pattern=pattern, stacks=8)
    check(pitot("report", "r.pitot", "--json", json_output=True))


@pytest.mark.parametrize("tape, options", TAPES)
def test_tapes(pitot, record, tape, options):
    kind = check(pitot("report", record(tape, options, "--now"), "--json", json_output=True))
    measured = "sass" in tape or "range" in tape
    assert (kind == "measured") == measured


def test_what_pitot_measured_is_no_launch_of_the_program(pitot, record):
    """The long calls are those that Pitot measured: the program's own launches take a few microseconds."""
    folder = record("engines/sass-metrics", "engine=sass-metrics;kernel_count=12", "--now")
    launches = pitot("report", folder, "--json", json_output=True)["launches"]
    assert launches["measured_calls"]["count"] == 12 and launches["measured_calls"]["max_ns"] > 50_000_000
    assert launches["kernel_calls"]["max_ns"] < 1_000_000
    text = pitot("report", folder).stdout
    assert "12 measurements by Pitot kept the GPU idle for " in text and "launch-bound" not in text
    assert "a recording without --engine" in text
