"""HIP programs, against stand-ins that follow the protocol of ROCprofiler-SDK's headers and source: no AMD GPU has run here.

The stand-in writes what it told the recorder; every row has to say the same."""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import amd_machine

ROUNDS = 3
BLOCKED = 1 << 30  # streams that stand for a hardware queue


@pytest.fixture
def hip(pitot, build, tmp_path):
    """hip(fault=None, program=…, library=True): the recording of a HIP program, and what the stand-in told."""
    rocm = build / "standin/rocm"

    def record(*options, fault=None, rounds=ROUNDS, env=None, status=7, command=None):
        truth = tmp_path / "truth"
        truth.unlink(missing_ok=True)
        variables = {"ROCM_PATH": str(rocm), "STANDIN_ROCM_TRUTH": str(truth), **(env or {})}
        if fault:
            variables["STANDIN_ROCM_FAULT"] = fault
        done = pitot("record", "--no-cpu", "--force", "-o", "hip.pitot", *options, "--",
                     *(command or [build / "standin/hip_program", rounds]), env=variables, status=status)
        lines = truth.read_text().splitlines() if truth.exists() else []
        return done, [json.loads(line) for line in lines]

    return record


@pytest.fixture
def table(rows):
    """table("kernel"): the rows of hip.pitot."""
    return lambda name, *options: rows("hip.pitot", name, *options)


CONFIG = ("name", *(f"{part}_{axis}" for part in ("grid", "block") for axis in "xyz"), "registers", "static_shared_bytes",
          "dynamic_shared_bytes", "local_bytes_per_thread")
KERNEL = ("-c", ",".join(("start_ns", "end_ns", "correlation", "device", "stream", "channel", *(f"config.{c}" for c in CONFIG))))


def by_correlation(rows):
    return {row["correlation"]: row for row in rows}


def test_every_kernel_is_what_the_sdk_told(hip, table):
    _, truth = hip()
    rows = by_correlation(table("kernel", *KERNEL))
    kernels = [t for t in truth if t["what"] == "kernel"]
    assert len(kernels) == len(rows) == 3 * ROUNDS
    offset = kernels[0]["start"] - rows[kernels[0]["correlation"]]["start_ns"]
    for told in kernels:
        row = rows[told["correlation"]]
        config = {name: row[f"config.{name}"] for name in CONFIG}
        assert config["name"] + ".kd" == told["name"]
        assert (row["start_ns"] + offset, row["end_ns"] + offset) == (told["start"], told["end"])
        assert (row["device"], row["stream"], row["channel"]) == (told["gpu"], told["stream"], told["queue"])
        assert [config[f"block_{axis}"] for axis in "xyz"] == told["workgroup"]
        assert [config[f"grid_{axis}"] for axis in "xyz"] == [-(-i // g) for i, g in zip(told["items"], told["workgroup"])]
        assert config["static_shared_bytes"] == 1024 and config["registers"] == 72
        assert config["dynamic_shared_bytes"] == told["group_bytes"] - 1024
        assert config["local_bytes_per_thread"] == told["private_bytes"]
    assert any(r["config.grid_x"] == 16 for r in rows.values())  # of 1000 items in groups of 64


def test_work_begins_after_its_call(hip, table):
    """The SDK's clock and the calls' are different ones."""
    hip()
    calls = by_correlation(table("api_call"))
    for work in table("kernel") + table("memcpy"):
        assert 0 <= work["start_ns"] - calls[work["correlation"]]["start_ns"] < 1_000_000_000


def test_every_copy_is_what_the_sdk_told(hip, table):
    _, truth = hip()
    rows = by_correlation(table("memcpy"))
    copies = [t for t in truth if t["what"] == "copy"]
    assert len(copies) == len(rows) == 3 * ROUNDS
    for told in copies:
        row = rows[told["correlation"]]
        peers = told["to"] != told["from"] and 99 not in (told["to"], told["from"])
        assert row["bytes"] == told["bytes"] and row["end_ns"] - row["start_ns"] == told["end"] - told["start"]
        assert row["kind"] == ("PtoP" if peers else {2: "HtoD", 3: "DtoH", 4: "DtoD"}[told["operation"]])
        assert row["device"] == (told["to"] if told["to"] != 99 else told["from"]) - 100
        assert (row["source_device"], row["destination_device"]) == ((0, 1) if peers else (None, None))


def test_calls_lead_to_lines_of_the_program(hip, table, pitot):
    hip()
    calls = table("api_call")
    names = [c["function"] for c in calls]
    assert {n: names.count(n) for n in names} == {
        "hipDeviceSynchronize": 2, "hipLaunchKernel": 2 * ROUNDS, "hipExtModuleLaunchKernel": ROUNDS,
        "hipMemcpyAsync": 2 * ROUNDS, "hipMemcpy": ROUNDS, "hipStreamSynchronize": 1}
    assert [c["result"] for c in calls if c["result"]] == [400]
    assert all(c["end_ns"] >= c["start_ns"] and c["stack"] for c in calls)
    launched = {c["correlation"] for c in calls}
    assert launched >= {k["correlation"] for k in table("kernel") + table("memcpy")}
    report = pitot("report", "hip.pitot").stdout
    assert "launch_all" in report and "AMD Instinct MI210" in report and "hipStreamSynchronize" in report


def test_ranges_of_roctx(hip, table):
    hip()
    events = [(e["kind"], e["message"]) for e in table("nvtx")]
    assert events == [("start", "the whole"), *[("push", "round"), ("pop", None)] * ROUNDS, ("mark", "a mark"), ("end", None)]
    whole = [e["range"] for e in table("nvtx") if e["kind"] in ("start", "end")]
    assert whole[0] == whole[1]


def graph_of(work):
    """(graph, node of its launch, stream): what names a piece of work in a graph."""
    assert work["graph_node"] is None or work["graph_node"] >> 32 == work["graph"]
    return work["graph"], work["graph_node"] and work["graph_node"] & 0xffffffff, work["stream"]


def test_nodes_of_graphs(hip, table, build, pitot):
    """Each dispatch and copy of a launch of a graph is a node, the same one in each launch; other work is none."""
    _, truth = hip(command=[build / "standin/hip_program", ROUNDS, "graphs"])
    launches = {c["correlation"]: i for i, c in enumerate(c for c in table("api_call") if c["function"] == "hipGraphLaunch")}
    assert len(launches) == 2 * ROUNDS
    found = {correlation: [] for correlation in launches}
    for work in sorted(table("kernel") + table("memcpy"), key=lambda work: work["start_ns"]):
        if work["correlation"] in launches:
            found[work["correlation"]].append(graph_of(work))
        else:
            assert graph_of(work)[:2] == (None, None)
    for correlation, nodes in found.items():
        graph, stream = (5, 6) if launches[correlation] % 2 else (3, 4)
        assert nodes == [(graph, 1 + i, stream) for i in range(graph + 1)]
        assert len([t for t in truth if t["correlation"] == correlation]) == graph + 1
    graphs = json.loads(pitot("report", "--json", "hip.pitot").stdout)["graphs"]
    assert {(g["graph"], g["launches"], g["nodes"]) for g in graphs} == {(3, ROUNDS, 4 * ROUNDS), (5, ROUNDS, 6 * ROUNDS)}


def test_an_sdk_that_does_not_tell_graphs(hip, table, build):
    hip(command=[build / "standin/hip_program", ROUNDS, "graphs"], fault="no-graphs")
    assert {graph_of(work)[:2] for work in table("kernel") + table("memcpy")} == {(None, None)}
    assert [(c["state"], c["reason"]) for c in table("capability") if c["name"] == "graph_node"] == [
        ("degraded", "ROCprofiler-SDK 1.2.1 does not tell graphs apart, 1.3 does")]


def test_launches_of_graphs_as_one(hip, table, build):
    """What was asked for is not there, so more is recorded, and that is said."""
    hip("--graphs", "launch", command=[build / "standin/hip_program", 1, "graphs"])
    assert len([k for k in table("kernel") if k["graph"]]) == 8 and table("graph_launch") == []
    assert [c["state"] for c in table("capability") if c["name"] == "graph_launch"] == ["unavailable"]


MEMORY = "operation", "kind", "address", "bytes", "device"


def test_allocations(hip, table, build, pitot):
    """Every allocation and release is what the SDK told; a release says what it released, by its address."""
    _, truth = hip("--memory", command=[build / "standin/hip_program", 1, "memory"])
    told = [t for t in truth if t["what"] == "memory" and t["address"]]
    rows = table("allocation")
    assert len(rows) == len(told) == 8
    offset = told[0]["end"] - rows[0]["time_ns"]
    calls = by_correlation(table("api_call"))
    live = {}
    for row, tells in zip(rows, told):
        is_release = tells["operation"] in (3, 4)
        if not is_release:
            place = ("pinned", 0) if tells["agent"] == 99 else ("device", tells["agent"] - 100)
            live[tells["address"]] = place[0], tells["address"], tells["bytes"], place[1]
        expected = live.pop(tells["address"], ("unknown", tells["address"], None, 0)) if is_release else live[tells["address"]]
        assert tuple(row[name] for name in MEMORY) == ("release" if is_release else "allocation", *expected)
        assert row["time_ns"] + offset == tells["start" if is_release else "end"]
        assert row["correlation"] == tells["correlation"] and calls[row["correlation"]]["stack"]
    assert {kind for kind, *_ in live.values()} == {"device"} and len(live) == 1
    assert len(table("kernel")) == len(table("memcpy")) == 3
    report = pitot("report", "--memory", "hip.pitot").stdout
    assert "device, device 1" in report and "2.0 MiB" in report and "never released" in report


def test_allocations_only_if_wanted(hip, table, build):
    hip(command=[build / "standin/hip_program", 1, "memory"])
    assert table("allocation") == []
    assert {"hipMalloc", "hipHostFree"} <= {c["function"] for c in table("api_call")}


def test_an_sdk_that_refuses_allocations(hip, table, build):
    hip("--memory", command=[build / "standin/hip_program", 1, "memory"], fault="no-allocations")
    assert table("allocation") == [] and len(table("kernel")) == 3
    assert [(c["state"], c["reason"]) for c in table("capability") if c["name"] == "allocation"] == [
        ("unavailable", "ROCprofiler-SDK 1.3.5 refuses to record them")]


@pytest.fixture
def root(tmp_path):
    """A machine with the two GPUs that the stand-in has, as their driver shows them."""
    amd_machine.make(tmp_path / "root")
    amd_machine.add_card(tmp_path / "root", 2, "0000:84:00.0", gpu_busy_percent="3\n", pp_dpm_mclk=None)
    amd_machine.add_node(tmp_path / "root", 2, 12346, "0000:84:00.0")
    return tmp_path / "root"


def readings(table):
    """{(device, counter): values}"""
    found = {}
    for sample in table("counter_sample"):
        found.setdefault((sample["device"], sample["counter"]), set()).add(sample["value"])
    return found


def test_readings_beside_the_trace(hip, table, root):
    """Those of both GPUs, by the numbers that HIP gives them."""
    hip("--counters=20ms", rounds=3000, env={"PITOT_AMD_ROOT": str(root)})
    found = readings(table)
    assert [found[gpu, "gpu_utilization"] for gpu in (0, 1)] == [{87}, {3}] and found[1, "gpu_power"] == {215000}
    assert (0, "gpu_memory_clock") in found and (1, "gpu_memory_clock") not in found
    assert [(c["state"], c["reason"]) for c in table("capability") if c["name"] == "counters"] == [
        ("degraded", "device 1 has no gpu_memory_clock: not supported")]
    assert [d["id"] for d in table("device")] == [0, 1] and len(table("kernel")) == 9000


def test_readings_without_a_trace(hip, table, root):
    """The engine that only reads."""
    hip("--engine", "monitor", "--counters=20ms", rounds=2000, env={"PITOT_AMD_ROOT": str(root)})
    assert [(d["id"], d["vendor"], d["pci"]) for d in table("device")] == [(0, "amd", "0000:83:00.0"), (1, "amd", "0000:84:00.0")]
    assert readings(table)[1, "gpu_utilization"] == {3}


def test_collectives_of_rccl(hip, table, build, pitot):
    """RCCL has NCCL's profiler plug-in: each collective is joined with HIP's launch of its kernel."""
    hip(command=[build / "standin/hip_program", ROUNDS, "rccl"])
    kernels = {k["correlation"]: k for k in table("kernel", *KERNEL) if "nccl" in k["config.name"]}
    found = table("collective")
    assert [c["sequence"] for c in found] == list(range(ROUNDS)) and {c["correlation"] for c in found} == set(kernels)
    assert [(c["hash"], c["ranks"], c["rank"]) for c in table("communicator")] == [(77, 2, 0)]
    expected = {"function": "all_reduce", "count": 1000, "datatype": "float32", "bytes": 4000, "algorithm": "RING", "protocol": "LL",
                "channels": 4, "captured": 0}
    assert all({name: c[name] for name in expected} == expected for c in found)
    groups = json.loads(pitot("report", "--json", "--collectives", "hip.pitot").stdout)["collectives"]
    assert str(groups).count("all_reduce") and f"'count': {ROUNDS}" in str(groups), groups


def test_gpus(hip, table):
    hip()
    devices = table("device")
    assert [(d["id"], d["vendor"], d["pci"], d["multiprocessors"], d["warp_size"]) for d in devices] == [
        (0, "amd", "0000:83:00.0", 104, 64), (1, "amd", "0000:84:00.0", 105, 64)]
    limits = "clock_khz", "shared_per_multiprocessor_bytes", "max_threads_per_block"
    assert {tuple(d[name] for name in limits) for d in devices} == {(1700000, 65536, 1024)}
    assert devices[0]["memory_bytes"] == 64 << 30 and devices[0]["max_threads_per_multiprocessor"] == 2048
    assert {c["name"]: c["state"] for c in table("capability")}["rocm"] == "on"


def test_what_the_sdk_does_not_know_of_a_gpu_is_missing(hip, table):
    hip(fault="bare-agents")
    unknown = ("warp_size", "clock_khz", "shared_per_multiprocessor_bytes", "max_threads_per_multiprocessor")
    assert all(device[name] is None for device in table("device") for name in unknown)
    assert [device["multiprocessors"] for device in table("device")] == [104, 105]


def test_many_records_and_none_is_lost(hip, table):
    _, truth = hip(rounds=6000)
    assert len(table("kernel")) == len([t for t in truth if t["what"] == "kernel"]) == 18000
    assert table("loss") == []


@pytest.mark.parametrize("fault, reasons", [
    ("short", {"unknown_record": 9}),
    ("kinds", {"unknown_record": 18, "missing_kernels": 18}),
    ("reversed", {"reversed_time": 18}),
    ("no-times", {"no_time": 18}),
    ("ticks", {"no_time": 18}),
    ("drops", {"gpu_records_dropped": 3}),
    ("longer", {}),
    ("no-symbols", {}),
])
def test_what_the_sdk_does_wrong_is_a_loss(hip, table, fault, reasons):
    hip(fault=fault)
    losses = {}
    for loss in table("loss"):
        losses[loss["reason"]] = losses.get(loss["reason"], 0) + loss["count"]
    assert losses == reasons
    assert len(table("kernel")) == (0 if fault in ("short", "kinds") else 9)
    assert len(table("memcpy")) == (0 if fault == "kinds" else 9)
    if fault in ("reversed", "no-times", "ticks"):
        assert all(k["start_ns"] is None for k in table("kernel"))
    if fault == "no-symbols":
        assert {c["name"] for c in table("kernel_config")} == {"unknown kernel"}


@pytest.mark.parametrize("fault", ["no-streams", "many-streams", "status:configure_external_correlation_id_request_service"])
def test_work_without_a_stream_is_shown_by_its_queue(hip, table, fault):
    hip(fault=fault)
    assert all(k["stream"] == BLOCKED | k["channel"] for k in table("kernel"))
    assert [(c["state"], c["actual"]) for c in table("capability") if c["name"] == "stream"] == [("degraded", "queues")]


@pytest.mark.parametrize("fault, why", [
    ("old", "ROCprofiler-SDK 0.6.0 has another interface than 1.x"),
    ("status:create_context", "rocprofiler_create_context: Service is not there"),
    ("status:configure_callback_tracing_service", "rocprofiler_configure_callback_tracing_service: Service is not there"),
    ("status:create_buffer", "rocprofiler_create_buffer: Service is not there"),
])
def test_an_sdk_that_refuses(hip, table, fault, why):
    done, _ = hip(fault=fault)
    assert done.stdout == "done\n" and table("kernel") == []
    assert [(c["state"], c["reason"]) for c in table("capability") if c["name"] == "rocm"] == [("unavailable", why)]


API = (Path(__file__).parents[2] / "src/capture/amd/amd_api.h").read_text()
FUNCTIONS, COUNTING = (re.findall(r"\bF\((\w+), int,", part) for part in API.split("#define AMD_COUNTER_FUNCTIONS"))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_each_function_that_fails(hip, table, function):
    """The program goes on as without; either nothing is recorded, which is said, or what is recorded is whole."""
    done, truth = hip(fault=f"status:{function}")
    assert done.stdout == "done\n"
    state = [c["state"] for c in table("capability") if c["name"] == "rocm"][-1]
    assert state == ("on" if function in HARMLESS else "unavailable")
    told = {t["correlation"] for t in truth} if state == "on" and function != "flush_buffer" else set()
    assert {w["correlation"] for w in table("kernel") + table("memcpy")} == told
    assert ("missing_kernels" in {loss["reason"] for loss in table("loss")}) == (function == "flush_buffer")
    no_calls = [c for c in table("capability") if c["name"] == "api_call" and c["state"] == "unavailable"]
    assert bool(no_calls) == (function in NAMING)


NAMING = {"iterate_callback_tracing_kind_operations", "query_callback_tracing_kind_operation_name"}
HARMLESS = {"stop_context", "flush_buffer", "configure_external_correlation_id_request_service", *NAMING}


COUNT = ("--engine", "range-profiler", "--metrics")


def values_of(truth):
    return {(t["correlation"], t["name"]): t["value"] for t in truth if t["what"] == "value"}


def test_counters_of_all_kernels(hip, table):
    """Each value is the sum of a counter's instances, of the launch that it belongs to; the trace is as without."""
    _, truth = hip(*COUNT, "default")
    metrics = {m["name"] for m in table("metric")}
    told = values_of(truth)
    rows = {(v["correlation"], v["metric"]): v["value"] for v in table("metric_value")}
    assert rows == told and len(table("kernel")) == 9
    # of four counters of shader engines in the set, hardware counts three; the others of the set no GPU has
    assert metrics == {"GRBM_COUNT", "GRBM_GUI_ACTIVE", "SQ_WAVES", "SQ_BUSY_CYCLES", "SQ_INSTS_VALU"}
    assert len(told) == 9 * len(metrics)
    notes = {c["name"]: (c["state"], c["reason"]) for c in table("capability")}
    assert notes["engine"] == ("on", "5 counters of AMD's GPUs, in one pass; kernels run one after the other")
    assert notes["metrics"] == ("degraded", "; ".join(["SQ_INSTS_SALU: cannot be counted with the others"] * 2))


def test_counters_of_chosen_kernels(hip, table, pitot):
    _, truth = hip(*COUNT, "SQ_INSTS_*,GRBM_COUNT,NONSENSE", "--kernels", "matmul", "--skip", "2", "--count", "3")
    names = {t["correlation"]: t["name"] for t in truth if t["what"] == "kernel"}
    matmul = [c for c in sorted(names) if "matmul" in names[c]]
    values = table("metric_value")
    assert sorted({v["correlation"] for v in values}) == matmul[2:5]
    assert {m["name"]: m["description"] for m in table("metric")} == {
        "SQ_INSTS_VALU": "vector instructions", "SQ_INSTS_SALU": "scalar instructions", "GRBM_COUNT": "cycles"}
    assert len(values) == len(values_of(truth)) == 9
    assert "NONSENSE: no such counter" in [c["reason"] for c in table("capability") if c["name"] == "metrics"][0]
    report = pitot("report", "--counters", "hip.pitot").stdout
    assert "matmul" in report and "SQ_INSTS_VALU" in report


@pytest.mark.parametrize("options, why", [
    (("--metrics", "NONSENSE"), "no GPU has the counters (NONSENSE: no such counter; NONSENSE: no such counter)"),
    (("--measure", "graph"), "of AMD's GPUs, only kernels are measured, not ranges or graphs"),
    (("--nvtx", "round"), "ranges of ROCTx do not select what is measured"),
])
def test_what_cannot_be_counted(hip, table, options, why):
    _, truth = hip("--engine", "range-profiler", *options)
    assert table("metric_value") == [] and len(table("kernel")) == 9 and not values_of(truth)
    assert [(c["state"], c["reason"]) for c in table("capability") if c["name"] == "engine"] == [("unavailable", why)]


def test_engines_that_amd_does_not_have(hip, table):
    hip("--engine", "pc-sampling")
    assert [(c["state"], c["reason"]) for c in table("capability") if c["name"] == "engine"] == [
        ("unavailable", "of AMD's GPUs only --engine range-profiler measures")]
    assert len(table("kernel")) == 9


@pytest.mark.parametrize("function", COUNTING)
def test_each_function_of_counters_that_fails(hip, table, function):
    """The trace is whole all the same, and what is not counted has a reason or is a loss."""
    _, truth = hip(*COUNT, "GRBM_COUNT", fault=f"status:{function}")
    assert len(table("kernel")) == 9 and table("metric_value") == []
    state = [c["state"] for c in table("capability") if c["name"] == "engine"]
    lost = sum(loss["count"] for loss in table("loss") if loss["reason"] == "unknown_record")
    assert (state, lost) == ((["on"], 9) if function == "query_record_counter_id" else (["unavailable"], 0))


def test_a_flush_that_hangs_is_not_waited_for(hip, table):
    done, _ = hip(fault="hang")
    assert done.stdout == "done\n" and len(table("api_call")) > 0


def test_the_commands_own_tool_stays(hip, build, table, tmp_path):
    hip(env={"ROCP_TOOL_LIBRARIES": str(build / "libpitot-rocm.so")}, command=[
        "/bin/sh", "-c", f'echo "$ROCP_TOOL_LIBRARIES" > tools; exec {build}/standin/hip_program 1'])
    assert (tmp_path / "tools").read_text().strip() == f"{build}/libpitot-rocm.so:" * 2
    assert len(table("kernel")) == 3


def test_without_an_sdk_nothing_is_told(pitot, build, tmp_path):
    """A program that is told of a tool where no SDK is would be aborted by ROCm's libraries."""
    empty = {"ROCM_PATH": str(tmp_path), "LD_LIBRARY_PATH": "", "PITOT_AMD_ROOT": str(tmp_path)}
    done = pitot("record", "--no-cpu", "-o", "hip.pitot", "--", build / "standin/hip_program", env=empty, status=7)
    assert done.stdout == "done\n"
    done = pitot("record", "--no-cpu", "-f", "-o", "hip.pitot", "--", "env", env=empty)
    assert "ROCP" not in done.stdout
    old = tmp_path / "lib"
    old.mkdir()
    (old / "librocprofiler-sdk.so.0").touch()
    done = pitot("record", "--no-cpu", "-f", "-o", "hip.pitot", "--", "env", env=empty)
    assert "ROCP_" not in done.stdout


NOTHING_ELSE = "void rocprofiler_set_api_table(void) {}"
BROKEN = {
    "garbage": ("file too short", None),
    "no-symbols": ("it lacks rocprofiler_set_api_table", "int nothing;"),
    "crashes": ("crash or hang", NOTHING_ELSE + "__attribute__((constructor)) static void f(void) { __builtin_trap(); }"),
    "needs": ("undefined symbol: absent", "extern int absent; int *needed = &absent;" + NOTHING_ELSE),
}


@pytest.fixture
def broken_sdk(tmp_path):
    """broken_sdk(C source or None): a folder of ROCm whose SDK is that."""

    def make(source):
        library = tmp_path / "broken/lib/librocprofiler-sdk.so.1"
        library.parent.mkdir(parents=True)
        if source is None:
            library.write_text("?")
        else:
            subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,librocprofiler-sdk.so.1", "-x", "c", "-", "-o", library], input=source, text=True, check=True)
        return tmp_path / "broken"

    return make


@pytest.mark.parametrize("what", BROKEN)
def test_an_sdk_that_does_not_load_is_not_told(hip, table, pitot, broken_sdk, root, what):
    """ROCm would abort the program: it runs as without Pitot, and the recording and doctor say why nothing is recorded."""
    why, source = BROKEN[what]
    env = {"ROCM_PATH": str(broken_sdk(source)), "PITOT_AMD_ROOT": str(root)}
    done, _ = hip(env=env)
    assert done.stdout == "done\n" and table("api_call") == []
    assert "ROCprofiler-SDK does not load: " in done.stderr and why in " ".join(done.stderr.split())
    checks = json.loads(pitot("doctor", "--json", env=env, status=None).stdout)["checks"]
    detail, = [c["detail"] for c in checks if c["vendor"] == "AMD" and c["name"] == "GPU work"]
    assert why in detail and "ROCm would abort programs" in detail


@pytest.mark.parametrize("file, version", [("librocprofiler-sdk.so.0.6.0", "0.6.0"), ("../sdk-of-a-store", "0")])
def test_the_sdk_of_rocm_6_is_refused_with_its_version(hip, table, pitot, root, tmp_path, file, version):
    """The version is in the name of the file, or in that of the link to one."""
    folder = tmp_path / "rocm-6/lib"
    folder.mkdir(parents=True)
    (folder / file).touch()
    (folder / "librocprofiler-sdk.so.0").symlink_to(file)
    env = {"ROCM_PATH": str(folder.parent), "PITOT_AMD_ROOT": str(root)}
    done, _ = hip(env=env)
    assert done.stdout == "done\n" and table("api_call") == []
    assert f"ROCprofiler-SDK {version} has another interface than 1.x" in done.stderr
    assert f"Pitot records by ROCprofiler-SDK 1.x, not {version}" in pitot("doctor", "--json", env=env, status=None).stdout


def test_a_good_sdk_behind_a_broken_one(hip, table, build, broken_sdk):
    """The one that works is found, and named to the program."""
    hip(env={"LD_LIBRARY_PATH": str(broken_sdk(None) / "lib"), "ROCM_PATH": str(build / "standin/rocm")})
    assert len(table("kernel")) == 9


def test_an_sdk_that_has_other_functions(hip, table, broken_sdk):
    """It loads, and calls the tool, but what the tool needs is not there."""
    folder = broken_sdk("""
        #include <dlfcn.h>
        #include <stdlib.h>
        struct client { unsigned long size; const char *name; unsigned handle; };
        struct configured { unsigned long size; int (*initialize)(void *, void *); };
        int rocprofiler_set_api_table(void)
        {
            struct client client = { sizeof(client) };
            struct configured *(*configure)(unsigned, const char *, unsigned, struct client *) =
                dlsym(dlopen(getenv("ROCP_TOOL_LIBRARIES"), RTLD_LAZY), "rocprofiler_configure");
            struct configured *c = configure(10305, "", 0, &client);
            return c && c->initialize(0, 0);
        }""")
    done, _ = hip(env={"ROCM_PATH": str(folder)})
    assert done.stdout == "done\n" and table("kernel") == []
    notes, = [(c["state"], c["reason"]) for c in table("capability") if c["name"] == "rocm"]
    assert notes == ("unavailable", "librocprofiler-sdk.so.1 lacks rocprofiler_get_status_string")
    assert "lacks rocprofiler_get_status_string" in done.stderr


def test_no_gpu_in_a_container(hip, table, pitot, root):
    """Without /dev/kfd the SDK sees no GPU: calls fail as without Pitot, and are recorded with their results."""
    (root / "dev/kfd").unlink()
    done, _ = hip(fault="no-gpus", env={"PITOT_AMD_ROOT": str(root)})
    assert done.stdout == "done\n" and table("kernel") == table("device") == []
    assert {c["result"] for c in table("api_call") if c["function"] == "hipLaunchKernel"} == {100}
    why = "ROCprofiler-SDK sees no GPU: `pitot doctor` checks /dev/kfd"
    assert [c["reason"] for c in table("capability") if c["name"] == "device"] == [why]
    assert why in " ".join(done.stderr.split()) and why in pitot("report", "hip.pitot").stdout.replace("\n  ", " ")
    checks = json.loads(pitot("doctor", "--json", env={"PITOT_AMD_ROOT": str(root)}, status=None).stdout)["checks"]
    assert [c["state"] for c in checks if c["name"] == "/dev/kfd"] == ["missing"]


@pytest.fixture
def other_tool(tmp_path):
    """other_tool(variable): the environment in which that names another tool; `.counted()` is how many kernels it got."""

    def make(variable):
        tool = tmp_path / "tool.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-I", Path(__file__).parents[2] / "src",
                        Path(__file__).parents[1] / "standin/amd/other_tool.c", "-o", tool], check=True)
        return {variable: str(tool), "OTHER_TOOL_COUNT": str(tmp_path / "count")}

    make.counted = lambda: int((tmp_path / "count").read_text())
    return make


def test_another_tool_first(hip, table, other_tool):
    """It gets its records, and so does Pitot."""
    hip(env=other_tool("ROCP_TOOL_LIBRARIES"))
    assert other_tool.counted() == 9 and len(table("kernel")) == len(table("memcpy")) == 9


def test_another_tool_whose_records_are_discarded(hip, table, other_tool):
    """The SDK forgets what comes while that tool is reading; Pitot has all."""
    hip(rounds=1000, env={**other_tool("ROCP_TOOL_LIBRARIES"), "OTHER_TOOL_DISCARDS": "1"})
    assert 0 < other_tool.counted() < 3000 and len(table("kernel")) == 3000 and table("loss") == []


LOCKED = 7


@pytest.mark.parametrize("when, fault, status, counted, recorded", [
    ("forced", None, 0, 9, 9),
    ("forced-later", None, 0, 6, 9),
    ("forced-later", "no-graphs", LOCKED, None, 9),  # before 1.3.2
    ("forced", "late", 0, 9, 9),
    ("forced-later", "late", 0, 6, 6),
])
def test_a_tool_that_the_program_forces(hip, table, build, other_tool, tmp_path, when, fault, status, counted, recorded):
    """Whenever it comes, it has its kernels and Pitot has all that the SDK saw; an SDK that refuses it goes on with Pitot."""
    done, truth = hip(fault=fault, env=other_tool("FORCED_TOOL"), command=[build / "standin/hip_program", ROUNDS, when])
    assert done.stdout == f"forced: {status}\ndone\n"
    assert (other_tool.counted() if (tmp_path / "count").exists() else None) == counted
    assert len([t for t in truth if t["what"] == "kernel"]) == len(table("kernel")) == len(table("memcpy")) == recorded
    assert {c["name"]: c["state"] for c in table("capability")}["rocm"] == "on" and table("loss") == []


@pytest.mark.parametrize("first", ["HIP", "CUDA"])
def test_a_program_with_the_gpus_of_both_vendors(hip, table, player, build, source, root, first):
    """All of both, and no GPU of one vendor passes for one of the other."""
    tape = source / "tests/data/tapes/launch.tape"
    play = [player, "--realtime", "--client", build / "standin/libhip-client.so", tape]
    env = {"PITOT_AMD_ROOT": str(root), **({"HIP_FIRST": "1"} if first == "HIP" else {})}
    hip(status=0, command=play[:2] + [tape], env=env)
    alone = len(table("kernel"))
    (root / "proc/driver/nvidia/gpus").mkdir(parents=True)
    hip("--counters=20ms", status=0, command=play, env=env)
    vendors = {d["id"]: d["vendor"] for d in table("device")}
    assert vendors == {0: "nvidia", 32: "amd", 33: "amd"}
    kernels = table("kernel")
    assert len([k for k in kernels if vendors[k["device"]] == "amd"]) == 9
    assert alone and len([k for k in kernels if vendors[k["device"]] == "nvidia"]) == alone
    assert {(32, "gpu_power"), (33, "gpu_power")} <= set(readings(table))


def test_hip_on_nvidia(hip, table, player, source, root):
    """HIP's calls are CUDA's there. An SDK of ROCm on the machine changes nothing."""
    done, truth = hip(status=0, command=[player, "--now", source / "tests/data/tapes/launch.tape"], env={"PITOT_AMD_ROOT": str(root)})
    assert table("kernel") and truth == [] and {d["vendor"] for d in table("device")} == {"nvidia"}
    assert [c for c in table("capability") if c["name"] == "rocm"] == []


def test_the_standin_aborts_as_rocm_does(build, tmp_path):
    """The rule that the recorder has to respect, so that the test above can fail."""
    done = subprocess.run([build / "standin/hip_program"], capture_output=True, check=False, cwd=tmp_path, env={
        **os.environ, "ROCP_TOOL_LIBRARIES": str(build / "libpitot-rocm.so"), "ROCPROFILER_REGISTER_LIBRARY": "nowhere.so"})
    assert done.returncode == -6 and b"rocprofiler-register: no nowhere.so" in done.stderr


def test_a_tool_that_is_left_alone_wants_nothing(build, tmp_path):
    """As in a container that has this library and no other of Pitot: a tool that cannot be loaded aborts the program."""
    alone = shutil.copy(build / "libpitot-rocm.so", tmp_path)
    needed = subprocess.run(["readelf", "-d", alone], capture_output=True, text=True, check=True).stdout
    assert re.findall(r"NEEDED.*\[(.*)\]", needed) == ["libc.so.6"]
    done = subprocess.run([build / "standin/hip_program"], capture_output=True, check=False, cwd=tmp_path, env={
        **os.environ, "ROCP_TOOL_LIBRARIES": alone, "ROCPROFILER_REGISTER_LIBRARY": str(build / "standin/rocm/lib/librocprofiler-sdk.so")})
    assert (done.returncode, done.stdout) == (7, b"done\n"), done.stderr


def test_the_recorders_library_is_no_tool_of_its_own(build):
    symbols = subprocess.run(["nm", "-D", "--defined-only", build / "libpitot.so"], capture_output=True, text=True, check=True).stdout
    assert "pitot_rocm_configure" in symbols and "rocprofiler_configure" not in symbols


# Ours, AMD's: members at the same place.
LAYOUTS = {
    "amd_agent": ("rocprofiler_agent_v0_t", {
        "type": "type", "waves_per_simd": "max_waves_per_simd", "lds_kib": "lds_size_in_kb", "wave_size": "wave_front_size",
        "xccs": "num_xcc", "compute_units": "cu_count", "gfx_version": "gfx_target_version", "location": "location_id",
        "domain": "domain", "max_clock_mhz": "max_engine_clk_fcompute", "waves_per_unit": "max_waves_per_cu",
        "workgroup_max": "workgroup_max_size", "memory_bytes": "local_mem_size", "name": "name", "product": "product_name",
        "node": "node_id", "ordinal": "logical_node_type_id", "visible": "runtime_visibility", "uuid": "uuid"}),
    "amd_dispatch": ("rocprofiler_buffer_tracing_kernel_dispatch_record_t", {
        "operation": "operation", "correlation": "correlation_id", "start": "start_timestamp", "end": "end_timestamp",
        "agent": "dispatch_info.agent_id", "queue": "dispatch_info.queue_id", "kernel": "dispatch_info.kernel_id",
        "private_bytes": "dispatch_info.private_segment_size", "group_bytes": "dispatch_info.group_segment_size",
        "workgroup": "dispatch_info.workgroup_size", "grid": "dispatch_info.grid_size"}),
    "amd_callback": ("rocprofiler_callback_tracing_record_t", {
        "thread": "thread_id", "correlation": "correlation_id", "kind": "kind", "operation": "operation", "phase": "phase",
        "payload": "payload"}),
    "amd_counted": ("rocprofiler_dispatch_counting_service_data_t", {
        "correlation": "correlation_id", "start": "start_timestamp", "agent": "dispatch_info.agent_id",
        "kernel": "dispatch_info.kernel_id", "dispatch": "dispatch_info.dispatch_id"}),
    "amd_counter_value": ("rocprofiler_counter_record_t", {"value": "counter_value", "dispatch": "dispatch_id"}),
    "amd_counter": ("rocprofiler_counter_info_v0_t", {"name": "name", "description": "description", "block": "block"}),
    "amd_symbol": ("rocprofiler_callback_tracing_code_object_kernel_symbol_register_data_t", {
        "kernel": "kernel_id", "name": "kernel_name", "group_bytes": "group_segment_size", "sgprs": "sgpr_count",
        "vgprs": "arch_vgpr_count", "agprs": "accum_vgpr_count"}),
}
NUMBERS = {
    "AMD_CALLBACK_HIP_RUNTIME": "CALLBACK_TRACING_HIP_RUNTIME_API", "AMD_CALLBACK_MARKER_CORE": "CALLBACK_TRACING_MARKER_CORE_API",
    "AMD_CALLBACK_CODE_OBJECT": "CALLBACK_TRACING_CODE_OBJECT", "AMD_CALLBACK_HIP_STREAM": "CALLBACK_TRACING_HIP_STREAM",
    "AMD_BUFFER_MEMORY_COPY": "BUFFER_TRACING_MEMORY_COPY", "AMD_BUFFER_KERNEL_DISPATCH": "BUFFER_TRACING_KERNEL_DISPATCH",
    "AMD_LOSSLESS": "BUFFER_POLICY_LOSSLESS", "AMD_CATEGORY_TRACING": "BUFFER_CATEGORY_TRACING", "AMD_STREAM_SET": "HIP_STREAM_SET",
    "AMD_ENTER": "CALLBACK_PHASE_ENTER", "AMD_EXIT": "CALLBACK_PHASE_EXIT", "AMD_AGENT_GPU": "AGENT_TYPE_GPU",
    "AMD_CODE_OBJECT_SYMBOL": "CODE_OBJECT_DEVICE_KERNEL_SYMBOL_REGISTER", "AMD_COPY_HTOD": "MEMORY_COPY_HOST_TO_DEVICE",
    "AMD_COPY_DTOH": "MEMORY_COPY_DEVICE_TO_HOST", "AMD_COPY_DTOD": "MEMORY_COPY_DEVICE_TO_DEVICE",
    "AMD_AGENT_VERSION": "AGENT_INFO_VERSION_0",
}


def test_layouts_are_those_of_amds_headers(source, tmp_path):
    headers = Path(os.environ.get("PITOT_ROCM_HEADERS", "/opt/rocm/include"))
    if not (headers / "rocprofiler-sdk/fwd.h").exists():
        pytest.skip("no headers of ROCprofiler-SDK (PITOT_ROCM_HEADERS=FOLDER)")
    lines = [f"#include <rocprofiler-sdk/{name}.h>" for name in ("fwd", "agent", "buffer_tracing", "callback_tracing", "counters", "dispatch_counting_service")]
    lines += ["#define _Static_assert static_assert", '#include "capture/amd/amd_api.h"']
    lines += [f"static_assert(offsetof({ours}, {a}) == offsetof({theirs}, {b}), \"{ours}.{a}\");"
              for ours, (theirs, members) in LAYOUTS.items() for a, b in members.items()]
    lines += [f"static_assert((int)({ours}) == (int)(ROCPROFILER_{theirs}), \"{ours}\");" for ours, theirs in NUMBERS.items()]
    (tmp_path / "layouts.cc").write_text("\n".join(lines))
    # Some of them are not C++ without its leniency.
    subprocess.run(["g++", "-fpermissive", "-w", "-fsyntax-only", "-D__HIP_PLATFORM_AMD__", "-I", headers, "-I", source / "src",
                    tmp_path / "layouts.cc"], check=True)


def test_windows(hip, table):
    """Nothing of a time without a window is recorded, and what was enqueued in one is."""
    hip("--delay", "100s", rounds=2)
    assert table("kernel") == [] and table("api_call") == []


def test_a_child_of_a_fork(hip, table, build):
    """ROCm does not work there: the child is not disturbed, and the parent's recording goes on."""
    hip(command=[build / "standin/hip_program", 3, "fork"])
    assert len(table("kernel")) == len(table("memcpy")) == 9
    assert len([c for c in table("api_call") if c["function"] == "hipMemcpyAsync"]) == 6


def test_processes(hip, table, build):
    done, _ = hip(command=["/bin/sh", "-c", f"{build}/standin/hip_program 1; {build}/standin/hip_program 2"])
    assert done.stdout == "done\ndone\n" and len(table("kernel")) == 9
