"""pitot calibrate: against a stand-in driver whose calls are slower below `pitot record`; and when what-if uses its result."""
import json
import os
import re
import signal
import stat
import subprocess

import pytest

from waiting import PATIENCE, wait_until

COST_NS = 50_000
HOST = os.uname().nodename


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "new" / "cache"


@pytest.fixture
def calibrate(pitot, build, cache):
    driver = build / "standin/replay"
    if not driver.is_dir():
        pytest.skip("needs CUDA's headers")

    def run(*options, fault=f"recorded={COST_NS}", status=0, **env):
        return pitot("calibrate", "--rounds", "3", *options, status=status,
                     env={"LD_LIBRARY_PATH": str(driver), "PITOT_REPLAY_FAULT": fault, "XDG_CACHE_HOME": str(cache), **env})

    cache.parent.mkdir()
    return run


def test_the_known_cost_is_found(calibrate, cache, source):
    printed = calibrate("--json").stdout
    found = json.loads(printed)
    for call in "launch", "synchronize":
        assert COST_NS / 2 <= found[f"{call}_ns"] <= 20 * COST_NS
    assert COST_NS / 2 <= found["graph_launch_ns"] and COST_NS / 2 <= found["eager_ns"]
    # Of the stand-in: a hundredth of the cost for each node of a call, and between nodes, on a clock of its own.
    assert COST_NS / 400 <= found["node_call_ns"]
    assert (found["node_gap_ns"], found["node_gap_bare_ns"], found["node_latency_ns"]) == (COST_NS // 100, 1000, 300)
    assert found["replay_floor_ns"] >= 1000 and found["timer_step_ns"] == 32
    assert 0 < found["graph_launch_bare_ns"] and 0 < found["eager_bare_ns"]
    assert (found["host"], found["gpu"], found["driver_version"], found["rounds"]) == (HOST, "stand-in 0", 13000, 3)
    assert [file.name for file in (cache / "pitot").iterdir()] == ["calibration.json"]
    stored = cache / "pitot/calibration.json"
    assert stored.read_text() == printed
    assert [stat.S_IMODE(path.stat().st_mode) for path in (cache, cache / "pitot", stored)] == [0o700, 0o700, 0o600]
    assert set(found) <= set(re.findall(r"`(\w+)`", (source / "docs/calibrate.md").read_text()))


def test_nodes_without_a_latency(calibrate):
    assert "recorded nodes follow each other at once, without what recording adds\n" in calibrate(fault=f"stretched={COST_NS}").stdout


def test_nodes_that_were_not_recorded(calibrate, cache):
    done = calibrate(fault=f"unseen={COST_NS}")
    assert "nodes were not recorded, so that the latency between their recorded times is unknown\n" in done.stdout
    found = json.loads((cache / "pitot/calibration.json").read_text())
    assert found["node_latency_ns"] is None and found["node_latency_spread_ns"] is None and found["node_gap_ns"] == COST_NS // 100


def test_text(calibrate, cache):
    lines = calibrate().stdout.splitlines()
    assert re.fullmatch(r"recording adds [\d.]+ us \(\+/- .*\) to a launching call and [\d.]+ us \(\+/- .*\) to a synchronizing one", lines[0])
    time = r"[\d.]+ [nu]s"
    assert re.fullmatch(rf"and {time} \(\+/- .*\) to a launch in a loop like that of an eager framework", lines[1])
    for line, what in zip(lines[2:5], ["a launch of a CUDA graph of one kernel", "each further node of the launch", "the GPU from node to node"]):
        assert re.fullmatch(rf"{what} takes ({time}|too little to be measured), and {time} \(\+/- .*\) more when recorded", line)
    assert re.fullmatch(r"recorded nodes follow each other after 300 ns \(\+/- .*\)", lines[5])
    assert re.fullmatch(rf"replayed kernels are at least {time} apart; the GPU's timer has steps of 32 ns", lines[6])
    assert lines[7:] == ["measured in 3 rounds on stand-in 0; `pitot what-if` uses it for recordings of this machine",
                         f"stored in {cache}/pitot/calibration.json"]


@pytest.mark.parametrize("fault, said", [
    ("cuInit", "cuInit: another error (error 100); `pitot doctor` shows what is missing"), ("devices=0", "the driver shows no GPU; `pitot doctor` shows what is missing"), ("cuLaunchKernel=9", "unspecified launch failure (error 719); `pitot doctor`"),
    ("", "the recording has 0 kernels of the loops' 6144, so nothing can be compared; `pitot doctor` shows what is missing")])
def test_nothing_is_stored_that_was_not_measured(calibrate, cache, fault, said):
    done = calibrate(fault=fault, status=1)
    assert said in done.stderr and done.stderr.count("\n") == 1 and not done.stdout
    assert not cache.exists()


def test_below_another_recorder(calibrate):
    assert "CUDA_INJECTION64_PATH is set" in calibrate(status=1, CUDA_INJECTION64_PATH="/x.so").stderr


def test_a_folder_that_cannot_be_made(calibrate, cache):
    cache.write_text("a file")
    done = calibrate(status=1)
    assert f"cannot write '{cache}/pitot/calibration.json': Not a directory" in done.stderr and not done.stdout


@pytest.mark.skipif(os.getuid() != 0, reason="needs a second user")
@pytest.mark.parametrize("variable", ["HOME", "XDG_CACHE_HOME"])
def test_root_makes_no_folder_in_the_home_of_a_user(calibrate, tmp_path, variable):
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 12345, 12345)
    done = calibrate(status=1, **{"XDG_CACHE_HOME": "", variable: str(home)})
    assert "belongs to another user" in done.stderr and not list(home.iterdir())


def test_ctrl_c(program, environment, build, calibrate, cache, tmp_path):
    log = tmp_path / "calls"
    process = subprocess.Popen([program, "calibrate"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={
        **environment, "LD_LIBRARY_PATH": str(build / "standin/replay"), "XDG_CACHE_HOME": str(cache), "PITOT_REPLAY_LOG": str(log)})
    wait_until(lambda: log.exists() and "pitot_deadline" in log.read_text(), "a launch", process)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=PATIENCE) == (b"", b"") and process.returncode == 128 + signal.SIGINT
    assert not cache.exists()


# --- what-if ---


@pytest.fixture(scope="module")
def record_tape(build, source, tmp_path_factory, program):
    player, folder = build / "standin/tape-play", tmp_path_factory.mktemp("calibrated")
    if not player.exists():
        pytest.skip("needs CUDA's headers")
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("CUDA_", "PITOT_"))}

    def run(name, path=None, **env):
        path = path or folder / f"{name}.pitot"
        subprocess.run([program, "record", "--no-cpu", "--stacks", "none", "-o", path, "--", player, "--now",
                        source / f"tests/data/tapes/{name}.tape"], check=True, capture_output=True, env={**clean, **env})
        return path

    return run


@pytest.fixture(scope="module")
def recording(record_tape):
    return record_tape("train")


@pytest.fixture
def what_if(pitot, recording, cache):
    """what_if(calibration): its JSON, and what it says. A calibration is the bytes of the file, or changes of one that fits."""
    device = json.loads(pitot("view", recording, "device", "--json").stdout.splitlines()[0])
    version = pitot("version", "--json", json_output=True)["version"]
    fitting = {"version": version, "host": HOST, "gpu": device["name"], "driver_version": device["driver_version"], "rounds": 7,
               "launch_ns": 3000, "launch_spread_ns": 0, "synchronize_ns": 500, "synchronize_spread_ns": 10}

    def run(calibration, *options, transform="gpu x0.9", status=0, of=recording):
        file = cache / "pitot/calibration.json"
        if calibration is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(calibration if isinstance(calibration, str) else json.dumps({**fitting, **calibration}))
        done = pitot("what-if", *options, of, transform, status=status, env={"XDG_CACHE_HOME": str(cache)})
        return json.loads(done.stdout) if "--json" in options and not status else done.stdout, done.stderr

    return run


def test_recordings_have_it(pitot, what_if, record_tape, cache, tmp_path):
    """Where they are read, another calibration, or none, does not matter."""
    what_if({"launch_ns": 3210})  # writes the file

    def record(path):
        record_tape("launch", path, XDG_CACHE_HOME=str(cache))
        rows = [json.loads(line) for line in pitot("view", path, "capability", "--json").stdout.splitlines()]
        return path, [(row["state"], row["reason"], row["method"]) for row in rows if row["name"] == "calibration"]

    def predict(path, **env):
        done = pitot("what-if", "--json", path, "gpu x0.9", env={"XDG_CACHE_HOME": str(tmp_path / "elsewhere"), **env})
        assert not done.stderr
        found = json.loads(done.stdout)
        return found["call_cost_source"], found["call_cost_ns"], found["synchronize_cost_ns"]

    path, said = record(tmp_path / "a.pitot")
    assert said == [("on", None, None)] and predict(path) == ("calibration", 3210, 500)
    what_if({"launch_ns": 9999})
    assert predict(path, XDG_CACHE_HOME=str(cache)) == ("calibration", 3210, 500)
    what_if({"host": "another", "launch_ns": 3211})
    path, said = record(tmp_path / "b.pitot")
    assert said == [("on", None, None)] and predict(path) == ("assumption", 1400, 0)
    what_if("{}")
    path, said = record(tmp_path / "c.pitot")
    assert said == [("unavailable", "it is damaged: 'version' has no possible value", None)]
    assert not pitot("view", path, "calibration", "--json").stdout


def test_used(what_if):
    assumed, said = what_if(None, "--json")
    assert not said and (assumed["call_cost_ns"], assumed["call_cost_source"], assumed["synchronize_cost_ns"]) == (1400, "assumption", 0)
    found, said = what_if({}, "--json")
    assert not said and (found["call_cost_ns"], found["call_cost_source"], found["synchronize_cost_ns"]) == (3000, "calibration", 500)
    assert found["recorded"] == assumed["recorded"]
    for spread, cost in (35, 2984), (350, 2200), (10**9, 1400):  # the wider the less it counts, beside 1.4 us +/- 350 ns
        assert what_if({"launch_spread_ns": spread}, "--json")[0]["call_cost_ns"] == pytest.approx(cost, abs=1)
    assert "weighed with the usual 1.40 us (+/- 350 ns): +/- 247 ns" in what_if({"launch_spread_ns": 350})[0]
    assert found["corrected"]["span_ns"] < assumed["corrected"]["span_ns"]
    assert what_if({"eager_ns": 4000}, "--json")[0]["call_cost_ns"] == 4000
    cheap, _ = what_if({"launch_ns": 100, "synchronize_ns": 0}, "--json")
    assert cheap["uncertainty"]["recording_ns"] < assumed["uncertainty"]["recording_ns"]
    assert cheap["corrected"] == what_if({}, "--json", "--call-cost", "100ns")[0]["corrected"]
    given, _ = what_if({}, "--json", "--call-cost", "1us")
    assert (given["call_cost_ns"], given["call_cost_source"], given["synchronize_cost_ns"]) == (1000, "option", 0)
    printed = " ".join(what_if({})[0].split())
    assert "launching calls takes 3.00 us less than recorded, as `pitot calibrate` measured" in printed


def test_a_graph_where_the_recording_has_none(what_if):
    """An old file, as all others here, does not know what a graph costs."""
    assert "or measure it on the recorded machine with `pitot calibrate`" in what_if({}, transform="graph step", status=2)[1]
    graphs = {"graph_launch_bare_ns": 6000, "node_call_bare_ns": 20, "node_latency_ns": 300}
    rule = what_if(graphs, "--json", transform="graph step")[0]["transforms"][0]
    assert rule["graph_launch_ns"] > 6000 and rule["node_latency_ns"] == 300
    assert rule["graph_launch_source"] == rule["node_latency_source"] == "calibration"
    rule = what_if({**graphs, "node_latency_ns": None}, "--json", transform="graph step launch=10us")[0]["transforms"][0]
    assert (rule["graph_launch_ns"], rule["graph_launch_source"], rule["node_latency_source"]) == (10000, "option", "assumption")
    printed = " ".join(what_if(graphs, transform="graph step")[0].split())
    assert "as `pitot calibrate` measured; its nodes follow each other after 300 ns, as `pitot calibrate` measured" in printed


def test_launches_of_recorded_graphs(what_if, record_tape):
    """Recording adds more to them, for each node, and to the nodes."""
    graphs, of = {"graph_launch_ns": 5000, "node_call_ns": 700, "node_gap_ns": 120}, record_tape("kinds")
    assumed, known = [what_if(costs, "--json", of=of)[0] for costs in ({}, graphs)]
    keys = "graph_launches", "graph_launch_cost_ns", "node_call_cost_ns", "node_gap_cost_ns"
    launches = known["graph_launches"]
    assert launches and [[found[key] for key in keys] for found in (assumed, known)] == [[launches, 0, 0, 0], [launches, 5000, 700, 90]]
    assert known["corrected"]["span_ns"] < assumed["corrected"]["span_ns"]
    printed = " ".join(what_if(graphs, of=of)[0].split())
    assert f"those of graphs ({launches}) take 5.00 us less, and 700 ns for each further node; such a node takes 90 ns (+/- 120 ns) less on the GPU" in printed
    assert "those of graphs" not in what_if({}, of=of)[0]


@pytest.mark.parametrize("calibration, said", [
    ({"version": "0.0.9"}, "it is of Pitot 0.0.9; `pitot calibrate` renews it"), ({"host": "elsewhere"}, "it is of host 'elsewhere', the recording of"),
    ({"host": ""}, "it is of host ''"), ({"gpu": "a toaster"}, "it is of GPU 'a toaster', the recording of 'NVIDIA"),
    ({"driver_version": 1}, "it is of another driver"), ({"launch_ns": "many"}, "it is damaged: 'launch_ns' has no possible value"),
    ({"launch_ns": -5}, "'launch_ns' has no"), ({"launch_ns": 10**10}, "'launch_ns' has no"), ({"synchronize_ns": None}, "'synchronize_ns' has no"), ({"node_gap_ns": -1}, "'node_gap_ns' has no"),
    ('{"version": "0.1', "it is damaged"), ("[]", "it is damaged"), ("", "it is damaged"), ("x" * 70000, "limit")])
def test_ignored(what_if, cache, calibration, said):
    found, stderr = what_if(calibration, "--json")
    assert (found["call_cost_ns"], found["call_cost_source"]) == (1400, "assumption")
    assert f"'{cache}/pitot/calibration.json' is ignored: " in stderr and said in stderr and stderr.count("\n") == 1
