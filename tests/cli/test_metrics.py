"""`pitot metrics`: over the stand-in for CUPTI, and over a real one where there is one."""
import json
from pathlib import Path

import pytest

REAL = [path for path in Path("/usr/local").glob("cuda*/lib64/libcupti.so") if (path.parent / "libnvperf_host.so").exists()]


@pytest.fixture
def metrics(pitot, build):
    """metrics("--chip", "GH100", …): the program with the stand-in."""
    def run(*arguments, **more):
        return pitot("metrics", *arguments, env={"PITOT_CUPTI": str(build / "standin/libcupti.so.13")}, **more)

    return run


def names(result):
    return [metric["name"] for metric in result["metrics"]]


def test_chips(metrics):
    assert metrics("--chip", "list").stdout == "AD102\nGH100\n"
    assert metrics("--chip", "gh100").stdout == metrics("--chip", "GH100").stdout
    assert metrics("--chip", "list", "--json", json_output=True) == ["AD102", "GH100"]


def test_all_base_metrics_by_name(metrics):
    result = metrics("--chip", "AD102", "--json", json_output=True)
    assert names(result) == ["CTC.TriageCompute.ctc__rx", "dram__bytes_read", "gpu__time_duration", "l1tex__t_sector_hit_rate",
                             "launch__correlation", "sm__cycles_active", "sm__throughput", "sm__warps_active"]
    assert result["chip"] == "AD102" and result["passes"] == 4
    assert {metric["name"]: metric["passes"] for metric in result["metrics"] if metric["passes"] != 1} == {
        "dram__bytes_read": 2, "sm__throughput": 4}
    assert result["metrics"][1] == {"name": "dram__bytes_read", "unit": "byte", "hardware": "dram", "description": "# of bytes read", "passes": 2}


def test_text(metrics):
    lines = metrics("--chip", "GH100", "*__*active").stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["metric", "unit", "passes", "meaning"], ["sm__cycles_active", "cycle", "1", "#", "of", "cycles", "with", "warps"],
        ["sm__warps_active", "warp", "1", "#", "of", "warps"], [], ["2", "metrics,", "1", "pass", "together"]]


@pytest.mark.parametrize("pattern, expected", [
    ("sm__throughput", ["sm__throughput", "sm__throughput.avg.pct_of_peak_sustained_elapsed"]),
    ("sm__cycles_active.avg", ["sm__cycles_active.avg"]),
    ("sm__*active.avg*", [f"sm__{what}_active.avg{end}" for what in ("cycles", "warps") for end in ("", ".per_second")]),
    ("*.ratio", ["l1tex__t_sector_hit_rate.ratio"]),
    ("CTC.TriageCompute.ctc__rx.sum", ["CTC.TriageCompute.ctc__rx.sum"]),
    ("CTC.TriageCompute.ctc__rx", [f"CTC.TriageCompute.ctc__rx{end}" for end in ("", ".avg", ".avg.per_second", ".max", ".sum")]),
    ("CTC*", ["CTC.TriageCompute.ctc__rx"]),
    ("roofline", ["gpu__time_duration.sum"]),
    ("memory", ["gpu__time_duration.sum", "dram__bytes_read.sum", "l1tex__t_sector_hit_rate.pct"]),
])
def test_patterns_and_sets(metrics, pattern, expected):
    assert names(metrics("--chip", "GH100", pattern, "--json", json_output=True)) == expected


@pytest.mark.parametrize("pattern, said", [
    ("sm__warp_active", "chip GH100 has no metric 'sm__warp_active', did you mean 'sm__warps_active'?"),
    ("sm__", "chip GH100 has no metric 'sm__', did you mean 'sm__cycles_active' or 'sm__throughput' or 'sm__warps_active'?"),
    ("sm__warps_active.agv", "'sm__warps_active' has no '.agv', did you mean 'sm__warps_active.avg'?"),
    ("memry", "chip GH100 has no metric 'memry', did you mean 'memory'?"),
    ("xyz", "chip GH100 has no metric 'xyz'; `pitot metrics` lists them"),
    ("x*z", "chip GH100 has no metric like 'x*z'"),
    ("sm__*.x*z", "chip GH100 has no metric like 'sm__*.x*z'"),
])
def test_wrong_names(metrics, pattern, said):
    result = metrics("--chip", "GH100", pattern, status=2)
    assert result.stderr == f"pitot metrics: error: {said}\n" and not result.stdout


def test_a_wrong_chip(metrics):
    stderr = metrics("--chip", "GH10", status=1).stderr
    assert "CUPTI does not know chip 'GH10'" in stderr and "`pitot metrics --chip list`" in stderr


def test_without_cupti(pitot):
    stderr = pitot("metrics", "--chip", "list", status=1, env={"PITOT_CUPTI": "/nowhere/libcupti.so"}).stderr
    assert "PITOT_CUPTI='/nowhere/libcupti.so' cannot be used: /nowhere/libcupti.so: cannot open shared object file" in stderr


def test_with_a_library_that_is_no_cupti(pitot, build):
    stderr = pitot("metrics", "--chip", "list", status=1, env={"PITOT_CUPTI": str(build / "standin/libcuda.so.1")}).stderr
    assert "lacks cuptiProfilerHostInitialize: it is older than CUDA 12.6" in stderr


def test_without_a_gpu(pitot, build):
    """A driver that shows none."""
    standin = {"PITOT_CUPTI": str(build / "standin/libcupti.so.13"), "LD_LIBRARY_PATH": str(build / "standin")}
    stderr = pitot("metrics", "sm__throughput", status=1, env=standin).stderr
    assert "cannot query a GPU for its chip: " in stderr and stderr.endswith("; name a chip: `pitot metrics --chip list` lists them\n")


def test_the_gpu_of_the_machine(pitot, build, source):
    standin = {"PITOT_CUPTI": str(build / "standin/libcupti.so.13"), "LD_LIBRARY_PATH": str(build / "standin"),
               "PITOT_STANDIN_TAPE": str(source / "tests/data/tapes/train.tape")}
    assert pitot("metrics", "default", "--json", env=standin, json_output=True)["chip"] == "GH100"


@pytest.mark.skipif(not REAL, reason="no CUPTI with libnvperf_host.so in /usr/local")
def test_the_real_cupti(pitot):
    """Needs no GPU. A build with AddressSanitizer cannot load libnvperf_host.so."""
    def run(*arguments, **more):
        result = pitot("metrics", *arguments, status=None, env={"PITOT_CUPTI": str(REAL[0])})
        if "RTLD_DEEPBIND" in result.stderr:
            pytest.skip("built with a sanitizer that libnvperf_host.so cannot be loaded beside")
        return result

    chips = run("--chip", "list").stdout.split()
    assert {"GA100", "GH100"} <= set(chips)
    for chip in "GA100", "GH100":
        for name, least in ("default", 24), ("memory", 17), ("compute", 14), ("tensor", 8), ("roofline", 17):
            listed = json.loads(run("--chip", chip, name, "--json").stdout)
            assert len(listed["metrics"]) >= least and 1 <= listed["passes"] <= 20
    [metric] = json.loads(run("--chip", "GH100", "dram__bytes_read.sum.per_second", "--json").stdout)["metrics"]
    assert metric == {"name": "dram__bytes_read.sum.per_second", "unit": "byte/second", "hardware": "dram",
                      "description": "# of bytes read from DRAM", "passes": 1}
    assert "did you mean 'sm__warps_active'" in run("--chip", "GH100", "sm__warps_activ").stderr
    assert len(json.loads(run("--chip", "GH100", "--json").stdout)["metrics"]) > 1000
