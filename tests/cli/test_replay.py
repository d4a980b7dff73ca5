"""pitot replay: against a stand-in driver that logs its calls; and what it refuses."""
import json
import signal
import subprocess
from collections import Counter

import pytest

from golden import check_golden
from waiting import PATIENCE


@pytest.fixture(scope="module")
def folder(make_recording, tmp_path_factory):
    folder = tmp_path_factory.mktemp("replay")
    make_recording(folder / "training.pitot", "training")
    make_recording(folder / "varied.pitot", "varied")
    make_recording(folder / "replay.pitot", "replay")
    for pattern in ("graph", "streams"):
        make_recording(folder / f"{pattern}.pitot", kernels=2000, pattern=pattern)
    return folder


@pytest.fixture
def replay(pitot, build, folder, tmp_path):
    """replay("training", "--pace", "free"): what it says as JSON, and the driver's calls after its preparation, by name."""
    driver = build / "standin/replay"
    if not driver.is_dir():
        pytest.skip("needs CUDA's headers")

    def run(name, *options, fault="", status=0, json_output=True):
        log = tmp_path / "calls"
        env = {"LD_LIBRARY_PATH": str(driver), "PITOT_REPLAY_LOG": str(log), "PITOT_REPLAY_FAULT": fault}
        done = pitot("replay", *(["--json"] if json_output else []), *options, folder / f"{name}.pitot", env=env, status=status)
        calls = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        return (json.loads(done.stdout) if json_output and done.stdout else done), calls

    return run


def plan(pitot, folder, name, *options):
    return pitot("replay", "--dry-run", "--json", *options, folder / f"{name}.pitot", json_output=True)


def launched(calls):
    """Of the calls the ones after the preparation, which ends with a synchronization."""
    last = max(i for i, call in enumerate(calls) if call[0] == "cuCtxSynchronize" and i < len(calls) - 3)
    return calls[last + 1:]


@pytest.mark.parametrize("name", ["training", "varied", "graph", "streams"])
def test_golden_plan(pitot, folder, name):
    printed = pitot("replay", "--dry-run", folder / f"{name}.pitot").stdout
    check_golden(f"replay-{name}.txt", "\n".join(line for line in printed.splitlines() if "process" not in line) + "\n")


@pytest.mark.parametrize("name", ["training", "varied", "graph", "streams"])
def test_everything_planned_is_executed(replay, pitot, folder, name):
    planned = plan(pitot, folder, name)
    found, calls = replay(name, "--pace", "free", "--repeat", "2")
    assert found["planned"] == planned["planned"]
    assert found["executed"] == {kind: 2 * count for kind, count in planned["planned"].items()}
    assert found["order_violations"] == 0 and len(found["replayed_ns"]) == 2 and not found["stopped"]
    for stream in found["streams"]:
        assert stream["replayed_kernels"] == stream["kernels"]
    names = Counter(call[0] for call in calls)
    assert names["cuGraphLaunch"] >= 2 * planned["planned"]["graph"]
    assert names["cuStreamCreate"] == sum(not stream["default"] for stream in found["streams"])
    assert sum(stream["operations"] for stream in found["streams"]) + sum(found["skipped"].values()) \
        == pitot("view", "kernel", "--json", folder / f"{name}.pitot").stdout.count("\n") + sum(
            pitot("view", table, "--json", folder / f"{name}.pitot").stdout.count("\n") for table in ("memcpy", "memset", "graph_launch"))


def test_kernels_take_what_was_recorded(replay):
    """Within what the floor of short ones allows; twice as long at half the speed."""
    found, _ = replay("training", "--pace", "free")
    slow, _ = replay("training", "--pace", "free", "--speed", "0.5")
    for stream, twice in zip(found["streams"], slow["streams"]):
        allowed = 0.01 * stream["recorded_kernel_ns"] + 1000 * found["substituted"]["floor"]
        assert abs(stream["replayed_kernel_ns"] - stream["recorded_kernel_ns"]) <= allowed
        assert abs(twice["replayed_kernel_ns"] - 2 * stream["recorded_kernel_ns"]) <= 2 * allowed


def test_the_pace(replay, pitot, folder):
    """The host's time is kept, and divided by the speed; without it the GPU's remains."""
    recorded = plan(pitot, folder, "training")["recorded_ns"]
    gaps, _ = replay("training")
    fast, _ = replay("training", "--pace", "recorded", "--speed", "4")
    free, _ = replay("training", "--pace", "free")
    assert gaps["replayed_ns"][0] >= 0.9 * recorded
    assert fast["replayed_ns"][0] >= 0.9 * recorded / 4
    assert free["replayed_ns"][0] >= max(stream["recorded_kernel_ns"] for stream in free["streams"]) / 2


def test_parts(replay, pitot, folder):
    whole = plan(pitot, folder, "training")
    found, _ = replay("training", "--pace", "free", "--ops", "11..40")
    work = {kind: found["executed"][kind] for kind in ("kernel", "memcpy", "memset", "graph")}
    assert sum(work.values()) == 30 and found["skipped"]["numbers"] == whole["operations"] - 30
    assert found["simulated_ns"] is None
    stream = max(whole["streams"], key=lambda s: s["kernels"])
    found, _ = replay("streams", "--pace", "free", "--stream", str(stream["id"]))
    assert [s["id"] for s in found["streams"]] == [stream["id"]] and found["skipped"]["streams"] > 0
    found, _ = replay("training", "--pace", "free", "--since", "5ms", "--until", "10ms")
    start = pitot("info", "--json", folder / "training.pitot", json_output=True)["start_unix_ns"]
    rows = pitot("sql", folder / "training.pitot", "--csv", f"select count(*) from kernel k join api_call a on a.rowid = k.call "
                 f"where a.start_ns - {start} between 5000000 and 9999999").stdout
    assert found["executed"]["kernel"] - found["substituted"]["in_flight"] == int(rows.split()[1]) > 0


def test_work_in_the_recorded_shape(replay):
    """Within what the GPU has: 256 threads and 64 KiB of shared memory, in the stand-in; the rest is counted."""
    found, calls = replay("training", "--pace", "free", "--stand-in", "work")
    shapes = {tuple(call[3:5]) for call in calls if call[0] == "pitot_work"}
    assert len(shapes) > 1 and found["substituted"]["shapes"] > 0
    for _, block in shapes:
        x, y, z = map(int, block.split(","))
        assert 1 <= x * y * z <= 256
    for stream in found["streams"]:
        assert abs(stream["replayed_kernel_ns"] - stream["recorded_kernel_ns"]) <= 0.01 * stream["recorded_kernel_ns"] + 3000 * stream["kernels"]


def test_memory_is_bounded(replay):
    found, calls = replay("training", "--pace", "free", "--memory", "64K")
    pools = [int(call[1]) for call in calls if call[0] in ("cuMemAlloc", "cuMemHostAlloc")]
    slots = 64 * (2 + 4096)
    assert max(pools) <= max(64 << 10, slots) + 1
    sizes = [int(call[1]) for call in calls if call[0] in ("HtoD", "DtoH", "copy", "memset")]
    assert max(sizes) <= max(64 << 10, slots)
    assert found["substituted"]["large_copies"] > 0


def test_an_order_that_is_wrong_is_seen(replay):
    found, _ = replay("streams", "--pace", "free", fault="swap", status=1)
    assert found["order_violations"] > 0


def test_calls_are_as_recorded(replay):
    """Of a recording with everything, in each of its rounds: events, copies by direction, and a graph with two branches."""
    found, calls = replay("replay", "--repeat", "2")
    assert found["order_violations"] == 0 and found["executed"] == {kind: 2 * n for kind, n in found["planned"].items()}
    rounds = {"kernel": 4, "memcpy": 4, "memset": 0, "graph": 1, "host_function": 1, "event_record": 1, "event_wait": 1, "stream_synchronize": 1}
    assert {kind: count for kind, count in found["planned"].items() if kind in rounds} == {kind: 20 * count for kind, count in rounds.items()}
    made = [call[1:] for call in calls if call[0] == "node" and call[1:3] != ["kernel", "5000"]]
    assert [(node[0], node[3]) for node in made] == [("kernel", "0"), ("copy", "1"), ("memset", "1"), ("kernel", "2")]
    assert made[1][1] == "4096" and made[2][1] == "512" and made[2][5] == "7"
    assert Counter(call[:2] == ["HtoD", "3000"] for call in map(list, calls))[True] == 40
    assert [sum(call[:2] == pair for call in calls) for pair in (["DtoH", "2000"], ["copy", "1000"], ["copy", "5000"])] == [40, 40, 40]
    assert found["substituted"]["peers"] == 20
    waits = [int(call[6]) for call in calls if call[0] == "pitot_deadline" and int(call[6])]
    assert waits == list(range(1, 41)), "each kernel behind a wait checks that the n-th kernel of the other stream has ended"
    streams = [call[1:] for call in calls if call[0] == "cuStreamCreate"]
    assert streams == [["1", "free", "-2"], ["2", "free", "-2"]]
    pools = [int(call[1]) for call in calls if call[0] == "cuMemHostAlloc"]
    assert pools == [4, 2001]


def test_fewer_gpus(replay, make_recording, folder):
    found, _ = replay("varied", "--pace", "free", fault="devices=1")
    assert found["gpus"] == 1
    assert bool(found["substituted"]["devices"]) == any(stream["device"] > 0 for stream in found["streams"])
    found, _ = replay("varied", "--pace", "free", fault="devices=8")
    assert found["gpus"] == max(stream["device"] for stream in found["streams"]) + 1 and not found["substituted"]["devices"]


@pytest.mark.parametrize("fault", ["cuLaunchKernel=300", "cuMemcpyHtoDAsync_v2=1", "cuStreamCreateWithPriority=1", "cuMemAlloc_v2=1", "cuMemHostAlloc=1",
                                   "cuMemHostAlloc=2", "cuModuleLoadData=1", "cuCtxSynchronize=2", "cuMemcpyDtoHAsync_v2=1", "cuDevicePrimaryCtxRetain=1",
                                   "cuLaunchKernel=1"])
def test_a_failing_driver(replay, fault):
    done, _ = replay("training", "--pace", "free", fault=fault, status=1, json_output=False)
    assert "unspecified launch failure (error 719); `pitot replay --dry-run` needs no GPU" in done.stderr and not done.stdout


@pytest.mark.parametrize("fault", ["cuGraphCreate=1", "cuGraphAddKernelNode=3", "cuGraphInstantiateWithFlags=1", "cuGraphLaunch=2"])
def test_a_driver_that_fails_with_graphs(replay, fault):
    assert "error 719" in replay("graph", "--pace", "free", fault=fault, status=1, json_output=False)[0].stderr


def test_without_a_gpu(replay, pitot, folder, tmp_path):
    for fault in ("cuInit", "devices=0"):
        said = replay("training", fault=fault, status=1, json_output=False)[0].stderr
        assert said.count("\n") == 1 and "`pitot replay --dry-run` needs no GPU" in said


def test_ctrl_c(program, environment, build, folder, tmp_path):
    log = tmp_path / "calls"
    env = {**environment, "LD_LIBRARY_PATH": str(build / "standin/replay"), "PITOT_REPLAY_LOG": str(log)}
    process = subprocess.Popen([program, "replay", "--json", "--speed", "0.001", folder / "training.pitot"], env=env, stdout=subprocess.PIPE, text=True)
    while not log.exists() or log.read_text().count("pitot_deadline") < 270:
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    found = json.loads(process.communicate(timeout=PATIENCE)[0])
    assert process.returncode == 128 + signal.SIGINT
    assert found["stopped"] and not found["replayed_ns"] and found["executed"]["kernel"] < found["planned"]["kernel"]


def test_wrong_usage(pitot, folder):
    recording = folder / "training.pitot"
    for words, said in ((["--ops", "7"], "--ops takes the first and the last number"), (["--ops", "3..2"], "not '3..2'"), (["--ops", "0..2"], "not '0..2'"),
                        (["--stream", "7,x"], "--stream takes stream ids"), (["--speed", "0"], "--speed takes a number"), (["--speed", "2x"], "not '2x'"),
                        (["--stream", ",".join("1" * 65)], "at most 64 streams"), (["--process", "5000000000"], "below 2^32"),
                        (["--process", "1"], "process 1 has no GPU work")):
        assert said in pitot("replay", "--dry-run", *words, recording, status=2).stderr
    assert "select none of" in pitot("replay", "--dry-run", "--ops", "900000..900001", recording, status=1).stderr


def test_without_work(pitot, make_recording, tmp_path):
    said = pitot("replay", "--dry-run", make_recording(tmp_path / "cpu.pitot", "cpu_only"), status=1).stderr
    assert "there is no GPU work to replay in this recording" in said


def test_the_stand_ins_compile(source, tmp_path):
    """For the oldest and the newest GPUs that an assembler at hand knows."""
    try:
        known = subprocess.run(["ptxas", "--help"], capture_output=True, text=True).stdout
    except FileNotFoundError:
        pytest.skip("needs ptxas")
    for target in ("sm_70", "sm_75", "sm_80", "sm_90", "sm_100", "sm_120"):
        if f"'{target}'" in known:
            subprocess.run(["ptxas", f"-arch={target}", source / "src/replay/stand_in.ptx", "-o", tmp_path / "x.cubin"], check=True)
