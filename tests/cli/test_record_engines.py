"""Options of engines, which `pitot record` passes on: what it says of those that do nothing."""
import json
import os
import re

import pytest


def test_options_of_an_engine_without_one(pitot, tmp_path):
    """COMMAND may start an engine itself, so record runs it."""
    for engine, expected in ((), 2), (("--engine", "trace"), 2), (("--engine", "range-profiler"), 0):
        result = pitot("record", "--force", "-o", tmp_path / "rec", "--no-cpu", "--metrics", "x", "--count", "3", *engine, "--", "true")
        assert [line for line in result.stderr.splitlines() if "has no effect" in line] == [
            f"pitot record: warning: --{option} has no effect without --engine, unless COMMAND starts an engine" for option in ("metrics", "count")][:expected]
    assert "has no effect" not in pitot("record", "--force", "-o", tmp_path / "rec", "--perfetto=./none", "--metrics", "x", "--", "true").stderr
    for cpu_only in ["--cpu-only", "--", "true"], ["--pid", os.getpid(), "--duration", "10ms"]:
        result = pitot("record", "--force", "-o", tmp_path / "rec", "--metrics", "x", *cpu_only, status=None, env={"PITOT_ENGINE": "deep"})
        assert "warning: --metrics has no effect without GPU work\n" in result.stderr, result.stderr


@pytest.mark.parametrize("engine, options", [
    ("pc-sampling", {"pc-period"}), ("pm-sampling", {"pm-interval", "metrics"}), ("sass-metrics", {"metrics", "kernels", "skip", "count", "nvtx"}),
    ("range-profiler", {"metrics", "kernels", "skip", "count", "nvtx", "measure"}),
    ("deep", {"pc-period", "metrics", "kernels", "skip", "count", "nvtx"}), ("monitor", set())])
def test_options_of_another_engine(pitot, tmp_path, engine, options):
    values = {"pc-period": "12", "pm-interval": "1ms", "metrics": "x", "kernels": "x", "skip": "1", "count": "1", "nvtx": "x", "measure": "range"}
    given = [text for option, value in values.items() for text in (f"--{option}", value)]
    said = pitot("record", "--force", "-o", tmp_path / "rec", "--no-cpu", "--engine", engine, *given, "--", "true").stderr
    assert set(re.findall(r"warning: --([a-z-]+) has no effect", said)) == values.keys() - options
    when = f"with --engine {engine}, unless COMMAND starts another engine" if engine != "monitor" else "without --engine"
    assert said.count(when) == len(values) - len(options)


def test_metrics_that_no_gpu_has(pitot, tmp_path):
    """A GPU says what it has only while it is measured, but names and sets are known before. record runs the command."""
    metrics = "memory,memorry,dram__bytes.sum,*warps*,rooflines"
    said = pitot("record", "--force", "-o", tmp_path / "rec", "--no-cpu", "--engine", "range-profiler", "--metrics", metrics, "--", "true").stderr
    assert re.findall(r"warning: --metrics: '(\w+)' is neither a metric nor a set of metrics, did you mean '(\w+)'", said) == [
        ("memorry", "memory"), ("rooflines", "roofline")] and said.count("neither") == 2
    said = pitot("record", "--force", "-o", tmp_path / "rec", "--no-cpu", "--engine", "range-profiler", "--metrics", "xyz", "--", "true").stderr
    assert "'xyz' is neither a metric nor a set of metrics; `pitot metrics` lists them" in said


def test_engine_of_a_recording_of_the_cpu_only(pitot, tmp_path):
    for engine in "pc-sampling", "monitor":
        refused = pitot("record", "--cpu-only", "--engine", engine, "--", "true", status=2)
        assert "--engine needs GPU work; leave out --cpu-only" in refused.stderr
    for options, env in (["--engine", "trace"], {}), ([], {"PITOT_ENGINE": "deep"}):
        pitot("record", "--force", "-o", "rec", "--cpu-only", *options, "--", "true", env=env)
        identity = json.loads((tmp_path / "rec/recording.json").read_text())
        assert identity["engine"] == "trace" and "engine=deep" not in identity["options"]
