"""`pitot import`: gpufl's logs, our own and as gpufl writes them, come back as a recording."""
import gzip
import json
import shutil
from collections import Counter

import pytest

from gpufl_lines import END, NAMES, S, START, T0, batch, detail, device_lines, kernels, scopes, write


@pytest.fixture
def bring(pitot, tmp_path):
    """Imports a folder; what --json says, and rows(table) of the recording."""

    def run(folder, out="back.pitot"):
        said = pitot("import", folder, "-o", out, "--force", "--json", json_output=True)
        assert said["recording"] == str(tmp_path / out) and said["format"] == "gpufl"

        def rows(table, *options):
            text = pitot("view", out, table, "--json", "--quiet", *options).stdout
            return [json.loads(line) for line in text.splitlines()]

        return said, rows

    return run


def forget_calls(logs):
    """Leaves out what gpufl's own logs lack: threads and times of calls."""
    for file in logs.glob("*/*.log.gz"):
        lines = [json.loads(line) for line in gzip.open(file, "rt")]
        for line in lines:
            for key in "thread_id", "api_start_ns", "api_exit_ns":
                if line.pop(key, None) is None and key in line.get("columns", ()) and line["type"] != "scope_event_batch":
                    column = line["columns"].index(key)
                    line["columns"].pop(column)
                    line["rows"] = [row[:column] + row[column + 1:] for row in line["rows"]]
        write(file, *lines)


def losses(rows):
    return Counter({(row["reason"], row["detail"]): row["count"] for row in rows("loss")})


# --- what we export comes back ---


def test_hardware_counters_of_kernels(pitot, bring, make_recording, tmp_path):
    """Those that the format has a member for, at the same launches."""
    pitot("export", make_recording(tmp_path / "r.pitot", "counters"), "-o", "logs.gpufl", "-q")
    _, rows = bring(tmp_path / "logs.gpufl")
    rate = "l1tex__t_sector_hit_rate.pct"
    assert [(row["correlation"], row["metric"], row["value"]) for row in rows("metric_value")] == [(1, rate, 10), (3, rate, 80)]
    lines = [json.loads(line) for file in (tmp_path / "logs.gpufl").glob("*/device.*.gz") for line in gzip.open(file, "rt")]
    found = [(line["true_corr_id"], line["kernel_name"], line["l1_hit_rate_pct"]) for line in lines if line["type"] == "kernel_perf_metric_event"]
    assert found == [(1, "gemm(float*)", 10), (2, "gemm(float*)", -1), (3, "gemm(float*)", 80)]


def test_hardware_counters_without_their_launch(bring, tmp_path):
    """gpufl's own records name only the rank of a kernel among those that it replayed, which are also kernels of its own."""
    record = {"type": "kernel_perf_metric_event", "pid": 42, "app": "app", "session_id": S, "device_id": 0, "range_index": 0, "range_name": "0",
              "kernel_name": "gemm", "launch_ordinal": 1, "sm_throughput_pct": 50.0, "dram_read_bytes": -1}
    write(tmp_path / "logs" / "device.1.log", START, NAMES, kernels([0, 7, 2, 1500, 99, 0, 64, 0, 0, 0]), record, {**record, "true_corr_id": 99})
    _, rows = bring(tmp_path / "logs")
    assert [(row["correlation"], row["metric"], row["value"]) for row in rows("metric_value")] == [(99, "sm__throughput.avg.pct_of_peak_sustained_elapsed", 50)]
    assert losses(rows)["unknown_record", "hardware counters of kernels that do not name the launch"] == 1

def test_hardware_counters_of_scopes(bring, tmp_path):
    """gpufl's own, one record for each scope."""
    record = {"type": "perf_metric_event", "pid": 42, "app": "app", "session_id": S, "name": "step", "start_ns": T0 + 10, "end_ns": T0 + 30, "device_id": 0,
              "sm_throughput_pct": 50.0, "l1_hit_rate_pct": -1.0, "l2_hit_rate_pct": -1.0, "dram_read_bytes": 4096, "dram_write_bytes": -1,
              "tensor_active_pct": -1.0, "user_scope": "step", "scope_depth": 0}
    write(tmp_path / "logs" / "scope.1.log", START, record)
    _, rows = bring(tmp_path / "logs")
    assert [(row["name"], row["kind"], row["end_ns"] - row["start_ns"], row["passes"], row["level"], row["metric"], row["value"]) for row in rows("range_value")] == [
        ("step", "scope", 20, 1, 0, "sm__throughput.avg.pct_of_peak_sustained_elapsed", 50), ("step", "scope", 20, 1, 0, "dram__bytes_read.sum", 4096)]
    assert not losses(rows)


WORK = {"kernel": "pid,start_ns,duration,stream,correlation,device,context,graph,graph_node,queued_ns,config.grid_x,config.grid_z,"
                  "config.block_x,config.registers,config.static_shared_bytes,config.dynamic_shared_bytes,config.local_bytes_per_thread,"
                  "config.local_bytes_total",
        "memcpy": "pid,start_ns,duration,bytes,kind,source_kind,destination_kind,correlation,device,context,stream,graph,graph_node",
        "memset": "pid,start_ns,duration,bytes,correlation,device,stream",
        "graph_launch": "pid,start_ns,duration,graph,correlation,device,stream",
        "allocation": "pid,time_ns,operation,kind,address,bytes,correlation,device",
        "synchronization": "pid,start_ns,duration,kind,correlation,context",
        "external_correlation": "pid,kind,id,correlation"}


def totals(report):
    return {
        "gpus": [(gpu["uuid"], gpu["busy"], gpu["idle"]["total_ns"]) for gpu in report["gpus"]],
        "kernels": sorted((item["name"], sorted(item["time"].items())) for item in report["hotspots"]["items"] if item["time"]["count"]),
        "copies": sorted((row["kind"], row["source"], row["destination"], row["count"], row["bytes"], row["total_ns"])
                         for row in report["copies"] if not row["set"]),
        "start": report["start_unix_ns"],
    }


@pytest.mark.parametrize("options", [{"kind": "varied"}, {"kind": "scopes"}, {"kernels": 3000, "stacks": 9}, {"kernels": 900, "pattern": "copies"},
                                     {"kernels": 2500, "pattern": "graph", "stacks": 4}, {"kernels": 800, "processes": 3, "pattern": "threads"}],
                         ids=lambda options: "-".join(map(str, options.values())))
@pytest.mark.parametrize("compact", [False, True], ids=["details", "compact"])
def test_what_is_exported_comes_back(make_recording, pitot, bring, tmp_path, options, compact):
    recording = make_recording(tmp_path / "r.pitot", **options)
    said = pitot("export", recording, "-o", "logs.gpufl", "--json", *["--compact"] * compact, json_output=True)
    imported, rows = bring("logs.gpufl")
    assert imported["unknown"] == imported["damaged"] == 0
    assert imported["rows"]["kernel"] == said["written"]["kernel"]
    ours, theirs = (totals(pitot("report", path, "--json", "--top", 1000, json_output=True)) for path in (recording, "back.pitot"))
    assert ours == theirs
    for table, columns in WORK.items():
        text = pitot("view", recording, table, "--json", "--quiet", "-c", columns).stdout
        had = [json.loads(line) for line in text.splitlines()]
        had = [row for row in had if row.get("start_ns", row.get("time_ns", 0)) is not None and row.get("duration", 0) is not None]
        if table == "synchronization" and not had:
            continue  # blocking calls are in the logs instead
        got = rows(table, "-c", columns) if said["written"].get(table, table in ("external_correlation",)) else []
        had, got = (Counter(map(str, some)) for some in (had, got))
        assert had == got, (table, had - got, got - had)


def test_exported_scopes_can_be_imported(make_recording, pitot, bring, tmp_path):
    """But for NVTX's, which the logs do not nest, and what is carried on to another thread: there the scope is the outermost."""
    recording = make_recording(tmp_path / "r.pitot", "scopes")
    pitot("export", recording, "-o", "logs.gpufl")
    bring("logs.gpufl")
    ours, theirs = ({item["path"]: item for item in pitot("report", path, "--scopes", "--json", json_output=True)["scopes"]["items"]}
                    for path in (recording, "back.pitot"))
    for path in "epoch", "epoch/step", "epoch/step/load", "epoch/step/forward", "epoch/step/backward":
        for key in "calls", "wall_ns", "repeats", "warmups":
            assert ours[path].get(key) == theirs[path].get(key), (path, key)
    assert theirs["epoch/step/forward"]["gpu_ns"] == ours["epoch/step/forward"]["gpu_ns"]
    [before], [after] = (pitot("report", path, "--json", json_output=True)["gpus"] for path in (recording, "back.pitot"))
    assert after["idle"]["cause_ns"]["host"] >= before["idle"]["cause_ns"]["host"] > 0, "calls without GPU work are not in the logs"
    forget_calls(tmp_path / "logs.gpufl")
    bring("logs.gpufl")
    [gpu] = pitot("report", "back.pitot", "--json", json_output=True)["gpus"]
    assert gpu["idle"]["cause_ns"]["host"] == 0 < gpu["idle"]["cause_ns"]["unknown"], "no gap is blamed on times that are unknown"
    assert theirs["bucket"]["gpu_ns"] == ours["epoch/step/backward/bucket"]["gpu_ns"] > 0


def occupancy_of(pitot, recording):
    """By kernel: of the report's commonest launch."""
    items = pitot("report", recording, "--json", "--top", 1000, json_output=True)["hotspots"]["items"]
    return {item["name"]: item["config"].get("occupancy") for item in items if item.get("config")}


def test_occupancy_comes_back(make_recording, pitot, bring, tmp_path):
    """The logs have no limits of multiprocessors: those of the compute capability."""
    recording = make_recording(tmp_path / "r.pitot", kernels=300)
    pitot("export", recording, "-o", "logs.gpufl")
    _, rows = bring("logs.gpufl")
    assert [row["reserved_shared_per_block_bytes"] for row in rows("device")] == [1024]
    ours = occupancy_of(pitot, recording)
    assert ours and all(ours.values()) and occupancy_of(pitot, "back.pitot") == ours


@pytest.mark.parametrize("vendor,compute,warps", [("NVIDIA", (8, 9), 48), (None, (7, 5), 32), ("AMD", (9, 0), None), ("NVIDIA", (99, 0), None)])
def test_occupancy_of_devices(bring, tmp_path, pitot, vendor, compute, warps):
    static = {"id": 0, "vendor": vendor, "compute_major": compute[0], "compute_minor": compute[1], "multi_processor_count": 10}
    start = {**START, "gpu_static_devices": [{key: value for key, value in static.items() if value is not None}]}
    write(tmp_path / f"logs/{S}/device.1.log", start, NAMES, kernels([0, 7, 2, 1500, 99, 16, 64, 1, 0, 0]), detail(99), END)
    _, rows = bring("logs")
    occupancy = occupancy_of(pitot, "back.pitot")["gemm"]
    assert (occupancy and occupancy["max_warps"]) == warps, occupancy
    assert [row["vendor"] for row in rows("device")] == [vendor and vendor.lower()]


def test_exported_stacks_can_be_imported(make_recording, pitot, bring, tmp_path):
    recording = make_recording(tmp_path / "r.pitot", kernels=3000, stacks=30)
    pitot("export", recording, "-o", "logs.gpufl")
    forget_calls(tmp_path / "logs.gpufl")
    _, rows = bring("logs.gpufl")
    kernels = [line for file in (tmp_path / "logs.gpufl").glob("*/device.*.gz") for line in gzip.open(file, "rt") if '"kernel_detail"' in line]
    wanted = {json.loads(line)["stack_trace"].replace("|", ";") for line in kernels}
    flame = pitot("flame", "back.pitot", "-o", "-", "--format", "folded", "--no-pager").stdout
    got = {line.split(";launch (time unknown)")[0].replace("[GPU];", "", 1) for line in flame.splitlines() if "[no launch]" not in line}
    assert got == wanted and len(wanted) > 9, (got - wanted, wanted - got)
    assert {row["name"]: row["state"] for row in rows("capability")}["api_call"] == "unavailable"
    report = pitot("report", "back.pitot", "--json", json_output=True)
    assert not report["calls"] and report["verdict"]["kind"] != "host"


def test_nvtx_ranges_come_back(make_recording, pitot, bring, tmp_path):
    """Push-pop ranges with their threads and nesting, and the launches inside."""
    recording = make_recording(tmp_path / "r.pitot", "names")
    pitot("export", recording, "-o", "logs.gpufl", "-q")
    _, rows = bring("logs.gpufl")
    text = pitot("view", recording, "nvtx", "--json", "--quiet").stdout
    ours, theirs = (sorted((row["thread"], row["kind"], row["message"] or "") for row in lines if row["kind"] in ("push", "pop"))
                    for lines in (map(json.loads, text.splitlines()), rows("nvtx")))
    assert ours == theirs
    ours, theirs = (pitot("report", path, "--json", json_output=True)["nvtx"] for path in (recording, "back.pitot"))
    assert ours == theirs and ours["gpu_ns"]


def test_nvtx_ranges_of_threads(bring, pitot, tmp_path):
    """They are logged when they end, the inner first; PyTorch's threads for the backward pass work for others."""
    ranges = [{"type": "nvtx_marker_event", "session_id": S, "name": name, "domain": "", "start_ns": T0 + start, "end_ns": T0 + end,
               "thread_id": 42, "depth": depth} for name, start, end, depth in
              [("inner", 10, 90, 1), ("outer", 10, 90, 0), ("empty", 90, 90, 1), ("next", 90, 200, 0)]]
    columns = "dt_ns kernel_id stream_id duration_ns corr_id thread_id api_start_ns api_exit_ns"
    work = batch("kernel_event_batch", columns, [300, 7, 1, 10, 1, 42, T0 + 20, T0 + 30], [400, 7, 1, 20, 2, 43, T0 + 100, T0 + 110],
                 [500, 7, 1, 40, 3, 0, 0, 0])
    thread = {"type": "pitot_thread", "session_id": S, "thread_id": 43, "ts_ns": T0, "name": "pt_autograd_0"}
    write(tmp_path / "logs/device.log", START, NAMES, work, END)
    write(tmp_path / "logs/scope.log", START, thread, {**thread, "thread_id": None}, {**thread, "ts_ns": 0}, *ranges, END)
    _, rows = bring("logs")
    assert [(row["tid"], row["name"]) for row in rows("thread")] == [(43, "pt_autograd_0")]
    assert [(row["time_ns"], row["kind"], row["message"], row["thread"], row["level"]) for row in rows("nvtx")] == [
        (10, "push", "outer", 42, 0), (10, "push", "inner", 42, 1), (90, "pop", None, 42, 1), (90, "pop", None, 42, 0),
        (90, "push", "next", 42, 0), (90, "push", "empty", 42, 1), (90, "pop", None, 42, 1), (200, "pop", None, 42, 0)]
    assert [(row["start_ns"], row["end_ns"], row["function"], row["thread"], row["correlation"]) for row in rows("api_call")] == [
        (20, 30, "launch", 42, 1), (100, 110, "launch", 43, 2)]
    assert {row["name"]: row["state"] for row in rows("capability")}["api_call"] == "degraded"
    assert losses(rows) == {("damaged_file", "records without thread_id"): 1, ("no_time", "pitot_thread"): 1}
    items = {item["name"]: item["gpu_ns"] for item in pitot("report", "back.pitot", "--json", json_output=True)["nvtx"]["items"]}
    assert items == {"inner": 10, "outer": 10, "next": 20, "empty": 0}


# --- what gpufl writes ---

def scope_lines():
    return [START, NAMES, scopes([500, 1, 1, 0, 0, 3, 1, T0 + 500], [600, 2, 2, 0, 1, 0, 0, 0], [700, 3, 1, 0, 0, 0, 0, 0],
                                 [800, 2, 2, 1, 1, 0, 0, 0], [900, 3, 1, 1, 0, 0, 0, 0], [1000, 1, 1, 1, 0, 0, 0, 0]),
            batch("synchronization_event_batch", "dt_ns duration_ns sync_type stream_id event_id context_id corr_id function_id",
                  [1, 5, 3, 7, 0, 1, 103, 4]),
            batch("memory_alloc_event_batch", "dt_ns duration_ns memory_op memory_kind address bytes device_id stream_id corr_id",
                  [1, 0, 1, 3, 2**63 + 5, 1024, 0, 0, 104]),
            batch("profile_sample_batch", "dt_ns corr_id device_id function_id pc_offset metric_id metric_value stall_reason sample_kind scope_name_id",
                  [1, 0, 0, 3, 16, 1, 12, 6, 0, 0], [2, 0, 0, 3, 32, 1, 5, 6, 0, 0], [3, 0, 0, 3, 16, 2, 9, 0, 1, 0],
                  [3, 0, 0, 3, 24, 2, 4, 0, 1, 0], [4, 0, 0, 3, 16, 2, 9, 0, 2, 0]),
            batch("pm_sample_batch", "sample_index dt_ns device_id metric_id value scope_name_id", [0, 1, 0, 2, 12.5, 0], [1, 2, 0, 2, 1.5e3, 0]),
            {"type": "nvtx_marker_event", "session_id": S, "name": "fwd", "domain": "", "start_ns": T0 + 10, "end_ns": T0 + 20},
            {"type": "graph_launch_event", "session_id": S, "start_ns": 0, "end_ns": 0, "graph_id": 3, "device_id": 0, "stream_id": 7, "corr_id": 105},
            {"type": "execution_signature", "session_id": S, "ts_ns": T0}, {"type": "execution_signature", "session_id": S, "ts_ns": T0}, END]


def system_lines():
    device = batch("device_metric_batch", "dt_ns device_id gpu_util mem_util temp_c power_mw used_mib total_mib clock_sm fan_speed_pct energy_uj",
                   [0, 0, 77, 0, 70, 150250, 2048, 24576, 1987, 0, 5000999], [5, 0, 0, 0, 71, 150000, 2048, 24576, 0, 33, 0])
    return [START, {"type": "system_start", "session_id": S, "name": "epoch", "ts_ns": T0 + 1}, device,
            batch("host_metric_batch", "dt_ns cpu_pct_x100 ram_used_mib ram_total_mib", [0, 2550, 2048, 65536]),
            {"version": 1, "type": "capture_capabilities", "session_id": S, "ts_ns": T0 + 1, "requested_engine": "nvidia.trace",
             "selected_engine": "nvidia.trace", "capabilities": [
                 {"feature": "kernel_events", "requested": True, "status": "collected", "mode": "x", "reason_code": "", "message": ""},
                 {"feature": "memory_activity", "requested": True, "status": "skipped", "mode": "disabled", "reason_code": "no_cuda_context", "message": ""}]},
            {"type": "pitot_loss", "session_id": S, "reason": "ring_full", "count": 17, "start_ns": T0 + 3, "end_ns": T0 + 4, "detail": "thread 9"},
            {**END, "synthetic": True, "exit_code": 0, "signaled": True, "signal": 15, "ts_ns": T0 + 9100}]


LAYOUTS = {"windows": f"{S}/{{}}.1.log.gz", "one session": "{}.1.log", "open": f"{S}/.tmp/{{}}.log", "before 1.3": f"{S}/{{}}.log", "flat": "app.{}.log",
           "group": f"run-app/{S}/{{}}.2.log.gz"}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_logs_of_gpufl(bring, tmp_path, pitot, layout):
    for channel, lines in ("device", device_lines()), ("scope", scope_lines()), ("system", system_lines()), ("sass", [START, END]):
        write(tmp_path / "logs" / LAYOUTS[layout].format(channel), *lines)
    said, rows = bring("logs")
    assert (said["sessions"], said["files"], said["unknown"], said["damaged"]) == (1, 4, 3, 0)
    [process] = rows("process")[-1:]
    assert (process["pid"], process["executable"], process["host"], process["start_ns"], process["end_ns"], process["exit_status"]) == \
        (42, "app", "vm", 0, 9100, 143)
    [device] = rows("device")
    assert (device["name"], device["memory_bytes"], device["compute_major"], device["multiprocessors"], device["l2_bytes"]) == \
        ("NVIDIA H200", 2**30, 9, 132, None)

    first, second = rows("kernel", "-c", "start_ns,duration,config,stream,correlation,device,graph,config.grid_y,config.block_x,config.registers,"
                                        "config.dynamic_shared_bytes,config.static_shared_bytes")
    assert list(first.values()) == [1900, 1000, "<&>|\"\\é", 3, 100, 0, None, None, None, 32, 0, None]
    assert list(second.values()) == [2000, 1500, "gemm", 2, 99, 0, None, 2, 256, 64, 16, 48]
    assert [(row["kind"], row["id"], row["correlation"]) for row in rows("external_correlation")] == [(4, 77, 100)]
    assert [(r["start_ns"], r["duration_ns"], r["bytes"], r["kind"], r["stream"], r["async"]) for r in rows("memcpy")] == [(800, 400, 4096, "HtoD", 5, None)]
    assert [(r["start_ns"], r["duration_ns"], r["bytes"], r["stream"], r["value"]) for r in rows("memset")] == [(900, 50, 64, 7, None)]
    assert [(r["start_ns"], r["end_ns"], r["graph"]) for r in rows("graph_launch")] == [(None, None, 3)]
    assert [(r["start_ns"], r["duration_ns"], r["kind"], r["stream"], r["event"]) for r in rows("synchronization")] == [(1, 5, "stream", 7, None)]
    assert [(r["operation"], r["kind"], r["address"], r["stream"]) for r in rows("allocation")] == [("allocation", "device", 2**63 + 5, None)]

    # two threads: the second "step" begins while the first is open
    ranges = [(r["time_ns"], r["kind"], r["message"], r["thread"], r["level"]) for r in rows("nvtx") if r["kind"] in ("push", "pop")]
    assert ranges == [(500, "push", "step", 1, 0), (600, "push", "inner", 1, 1), (700, "push", "step", 2, 0), (800, "pop", None, 1, 1),
                      (900, "pop", None, 2, 0), (1000, "pop", None, 1, 0)]
    assert [(r["time_ns"], r["kind"], r["message"]) for r in rows("nvtx") if r["kind"] not in ("push", "pop")] == \
        [(1, "mark", "system start: epoch"), (10, "start", "fwd"), (20, "end", None)]
    calls = [(r["start_ns"], r["duration_ns"], r["function"], r["thread"], r["correlation"]) for r in rows("api_call")]
    assert calls == [(1, 0, "launch (time unknown)", 0, 103), (600, 0, "launch (time unknown)", 1, 99)]

    assert [(r["function"], r["offset"], r["samples"]) for r in rows("pc_sample")] == [("gemm", 16, 12), ("gemm", 32, 5)]
    assert [(r["time_ns"], r["function"], r["offset"], r["metric"], r["value"]) for r in rows("sass_value")] == \
        [(3, "gemm", 16, "sm__warps_launched.sum", 9), (3, "gemm", 24, "sm__warps_launched.sum", 4)]
    assert {row["correlation"] for row in rows("sass_value")} == {None}
    readings = {}
    for row in rows("counter_sample"):
        readings.setdefault(row["counter"], []).append((row["time_ns"], row["device"], row["value"]))
    assert readings["gpu_utilization"] == [(0, 0, 77), (5, 0, 0)] and readings["gpu_temperature"] == [(0, 0, 70), (5, 0, 71)]
    assert readings["gpu_memory_used"][0] == (0, 0, 2048 << 20) and readings["gpu_sm_clock"] == [(0, 0, 1987)]
    assert readings["gpu_energy"] == [(0, 0, 5000)] and readings["fan_speed_pct"] == [(5, 0, 33)]
    assert readings["host_memory_available"] == [(0, None, 63488 << 20)] and readings["host_cpu_utilization"] == [(0, None, 2550)]
    assert len(readings["sm__warps_launched.sum"]) == 2
    capabilities = {row["name"]: (row["state"], row["actual"], row["reason"]) for row in rows("capability")}
    assert capabilities["engine"] == ("on", "nvidia.trace", None) and capabilities["allocation"] == ("unavailable", None, "no_cuda_context")
    assert capabilities["kernel"][0] == "on" and capabilities["import"][:2] == ("on", "gpufl's logs")
    assert losses(rows) == {("ring_full", "thread 9"): 17, ("unknown_record", "execution_signature"): 2, ("no_time", "graph_launch"): 1,
                            ("unknown_record", "rows of profile_sample_batch without a name, or of another kind"): 1,
                            **({("missing_segment", "windows of a channel"): 4} if layout == "group" else {})}


def test_records_in_any_order(bring, tmp_path):
    """Members in another order; kernels of one launch; a scope that begins with its kernel; logs that do not name the GPU."""
    two = {**START, "devices": [{"id": 0, "name": "a"}, {"id": 1, "name": "b"}], "gpu_static_devices": []}
    graph = batch("kernel_event_batch", "dt_ns kernel_id stream_id duration_ns corr_id true_corr_id", [600, 7, 2, 5, 1, 9], [700, 7, 2, 5, 2, 9],
                  [800, 7, 2, 5, 3, 10])
    other = dict(reversed(detail(2, grid="(3,1,1)").items()))
    said = {"type": "capture_capabilities", "session_id": S, "ts_ns": T0 + 1, "capabilities": [{"feature": "x", "status": "partial"}]}
    write(tmp_path / "logs/device.log", two, NAMES, graph, detail(1, "step|inner"), other, detail(3, "inner", "f"), said)
    write(tmp_path / "logs/scope.log", *scope_lines(), said)
    _, rows = bring("logs")
    kernels = rows("kernel", "-c", "start_ns,correlation,config.grid_x,config.static_shared_bytes,device")
    assert [list(row.values()) for row in kernels] == [[600, 9, 16, 48, 0], [700, 9, 3, 48, 0], [800, 10, 16, 48, 0]]
    assert [(row["start_ns"], row["correlation"]) for row in rows("api_call")] == [(1, 103), (600, 9), (800, 10)]
    capabilities = {row["name"]: (row["state"], row["reason"]) for row in rows("capability")}
    assert capabilities["device"] == ("unavailable", "the logs do not name the GPU of kernels; all are attributed to GPU 0")
    assert [row["other"] for row in rows("capability")].count("x") == 1


def test_instruction_counts_of_unknown_launches(bring, pitot, tmp_path):
    """They are shown, no launch is counted; a GPU that is not named is the only one, and a row without its time is a loss."""
    names = {**NAMES, "metric_dict": {"1": "smsp__sass_inst_executed", "2": "smsp__sass_thread_inst_executed"}}
    start = {**START, "devices": [{"id": 1, "name": "b"}], "gpu_static_devices": []}
    columns = "dt_ns corr_id function_id pc_offset metric_id metric_value sample_kind"
    counts = batch("profile_sample_batch", columns, [3, 0, 3, 16, 1, 90, 1], [4, 7, 3, 16, 1, 10, 1], [5, 0, 3, 16, 2, 640, 1])
    early = batch("profile_sample_batch", columns, [0, 0, 3, 16, 1, 5, 1], base=0)
    write(tmp_path / "logs/scope.log", start, names, counts, early, END)
    _, rows = bring("logs")
    assert [(row["device"], row["correlation"], row["value"]) for row in rows("sass_value")] == [(1, None, 90), (1, None, 10), (1, None, 640)]
    assert losses(rows) == {("no_time", "sass_value"): 1}
    instructions = pitot("report", "back.pitot", "--stalls", "--json", json_output=True)["instructions"]
    assert (instructions["launches"], instructions["executed"]) == (None, 100)
    report = pitot("report", "back.pitot", "--stalls", "-v").stdout
    assert "100 executed" in report and "measured launch" not in report
    source = pitot("source", "back.pitot", "--json", json_output=True)
    assert (source["launches"], source["executed"]) == (None, 100)
    source = pitot("source", "back.pitot").stdout
    assert source.startswith("100 executed instructions of kernels\n") and "6.4" in source


def test_memory_is_bounded(bring, tmp_path):
    """Of more kernels than may wait, those that came first go without their details; a line that is too long is left out."""
    count = 70000
    waiting = [kernels(*[[i, 7, 2, 5, i + 1, 0, 1, 1, 0, 0] for i in range(low, low + 2000)]) for low in range(0, count, 2000)]
    write(tmp_path / "logs/device.log.gz", START, NAMES, *waiting, *[detail(i + 1) for i in range(count)], "x" * (65 << 20) + "\n", END)
    said, rows = bring("logs")
    grids = [row["config.grid_x"] for row in rows("kernel", "-c", "start_ns,config.grid_x")]
    assert len(grids) == count and grids[:32768] == [None] * 32768 and set(grids[32768:]) == {16}
    assert losses(rows) == {("damaged_file", "lines longer than 64 MiB"): 1} and rows("process")[-1]["end_ns"] == 9000


def test_the_first_releases(bring, tmp_path):
    event = {"pid": 42, "app": "app", "session_id": S, "platform": "cuda", "device_id": "0", "stream_id": "7", "user_scope": "step|inner", "scope_depth": 1}
    kernel = {**event, "type": "kernel_event", "name": "gemm", "has_details": True, "stack_trace": "main|f", "start_ns": T0 + 1000, "end_ns": T0 + 2500,
              "api_start_ns": T0 + 100, "api_exit_ns": T0 + 400, "grid": "(16,1,1)", "block": "(256,1,1)", "dyn_shared_bytes": 8, "num_regs": 64,
              "static_shared_bytes": 4, "corr_id": 99, "occupancy": 0.5}
    copy = {**event, "type": "memcpy_event", "name": "memcpy", "stack_trace": "", "start_ns": T0, "end_ns": T0 + 400, "api_start_ns": 0, "api_exit_ns": 0,
            "corr_id": 100, "bytes": 4096, "copy_kind": "HtoD", "src_kind": "Pageable", "dst_kind": "Device"}
    write(tmp_path / "logs/app.kernel.log", {**START, "type": "init"}, kernel, {**kernel, "corr_id": 101, "start_ns": T0 + 3000, "end_ns": T0 + 3001}, copy, END)
    scope = {"session_id": S, "tag": "", "host": {}, "devices": []}
    write(tmp_path / "logs/app.scope.log", START,
          {**scope, "type": "scope_begin", "name": "step", "user_scope": "step", "scope_depth": 0, "ts_ns": T0 + 10},
          {**scope, "type": "scope_begin", "name": "inner", "user_scope": "step|inner", "scope_depth": 1, "ts_ns": T0 + 20},
          {**scope, "type": "scope_end", "name": "inner", "user_scope": "step|inner", "scope_depth": 1, "ts_ns": T0 + 500},
          {**scope, "type": "scope_end", "name": "step", "user_scope": "step", "scope_depth": 0, "ts_ns": T0 + 600},
          {"type": "synchronization_event", "session_id": S, "start_ns": T0 + 1, "end_ns": T0 + 6, "sync_type": 4, "context_id": 1, "corr_id": 3},
          {"type": "memory_alloc_event", "session_id": S, "start_ns": T0 + 7, "memory_op": 2, "memory_kind": 3, "address": 4096, "bytes": 1, "device_id": 0})
    said, rows = bring("logs")
    assert said["unknown"] == said["damaged"] == 0
    columns = "start_ns,duration,config.grid_x,config.registers,config.static_shared_bytes,config.dynamic_shared_bytes,stream,correlation"
    assert [list(row.values()) for row in rows("kernel", "-c", columns)] == [[1000, 1500, 16, 64, 4, 8, 7, 99], [3000, 1, 16, 64, 4, 8, 7, 101]]
    assert [(r["start_ns"], r["duration_ns"], r["function"], r["thread"]) for r in rows("api_call")] == \
        [(100, 300, "launch", 1), (100, 300, "launch", 1)]
    assert [(r["duration_ns"], r["kind"], r["source_kind"], r["destination_kind"]) for r in rows("memcpy")] == [(400, "HtoD", "pageable", "device")]
    assert [(r["time_ns"], r["kind"], r["message"]) for r in rows("nvtx")] == [(10, "push", "step"), (20, "push", "inner"), (500, "pop", None), (600, "pop", None)]
    assert [(r["duration_ns"], r["kind"]) for r in rows("synchronization")] == [(5, "context")]
    assert [(r["time_ns"], r["operation"]) for r in rows("allocation")] == [(7, "release")]


# --- values that cannot be ---

NO_ID = 2**32 - 1
UNKNOWN = (None, "unknown", NO_ID)
#: record -> the table that it becomes, its members, and those of them that are checked: bits -> {member: column}
RECORDS = {
    "kernel_event_batch": ("kernel", {"kernel_id": 7, "stream_id": 3, "duration_ns": 5, "corr_id": 9, "dyn_shared": 16, "num_regs": 64, "external_kind": 4, "external_id": 77},
                           {32: {"stream_id": "stream", "dyn_shared": "config.dynamic_shared_bytes", "num_regs": "config.registers", "external_kind": None},
                            64: {"kernel_id": None, "external_id": None, "corr_id": None}}),
    "memcpy_event_batch": ("memcpy", {"stream_id": 3, "duration_ns": 5, "bytes": 4096, "copy_kind": 1, "corr_id": 9},
                           {32: {"stream_id": "stream"}, 8: {"copy_kind": "kind"}, 64: {"bytes": "bytes", "corr_id": None}}),
    "memset_event": ("memset", {"device_id": "0", "stream_id": "3", "end_ns": 5, "corr_id": 9, "bytes": 64},
                     {32: {"stream_id": "stream", "device_id": None}, 64: {"bytes": "bytes", "corr_id": None}}),
    "graph_launch_event": ("graph_launch", {"device_id": 0, "stream_id": 3, "end_ns": 5, "corr_id": 9, "graph_id": 2},
                           {32: {"stream_id": "stream", "device_id": None, "graph_id": None}, 64: {"corr_id": None}}),
    "synchronization_event_batch": ("synchronization", {"duration_ns": 5, "sync_type": 3, "stream_id": 3, "event_id": 6, "context_id": 1, "corr_id": 9, "function_id": 4},
                                    {32: {"stream_id": "stream", "event_id": "event", "context_id": "context"}, 8: {"sync_type": "kind"},
                                     64: {"corr_id": None, "function_id": None}}),
    "memory_alloc_event_batch": ("allocation", {"memory_op": 1, "memory_kind": 3, "address": 4096, "bytes": 64, "device_id": 0, "stream_id": 3, "corr_id": 9},
                                 {32: {"stream_id": "stream", "device_id": None}, 8: {"memory_op": "operation", "memory_kind": "kind"},
                                  64: {"bytes": "bytes", "address": None, "corr_id": None}}),
    "scope_event_batch": ("nvtx", {"scope_instance_id": 1, "name_id": 1, "event_type": 0, "depth": 0, "repeat": 2, "warmup": 1},
                          {32: {"depth": "level", "repeat": None, "warmup": None}, 2: {"event_type": "kind"}, 64: {"scope_instance_id": "kind", "name_id": "message"}}),
    "profile_sample_batch": ("sass_value", {"device_id": 0, "function_id": 3, "pc_offset": 16, "metric_id": 2, "metric_value": 9, "sample_kind": 1},
                             {32: {"device_id": None}, 64: {"function_id": None, "pc_offset": "offset", "metric_id": None, "metric_value": "value", "sample_kind": None}}),
    "device_metric_batch": ("counter_sample", {"device_id": 0, "gpu_util": 50}, {32: {"device_id": "device"}, 63: {"gpu_util": "value"}}),
    "host_metric_batch": ("counter_sample", {"cpu_pct_x100": 2500, "ram_used_mib": 5, "ram_total_mib": 9},
                          {63: {"cpu_pct_x100": None}, 32: {"ram_used_mib": None, "ram_total_mib": None}}),
}
#: in the first releases, and in the detail of a kernel, which has no time of its own
DETAIL = {32: {"static_shared": "config.static_shared_bytes", "local_bytes": "config.local_bytes_per_thread", "shared_mem_executed_bytes": None},
          64: {"local_mem_total_bytes": "config.local_bytes_total"}, 2: {"cache_config_requested": "config.cache_config_requested"}}
VALUES = {"missing": ..., "null": None, "negative": -1, "2^32": 2**32, "2^63": 2**63, "2^64-1": 2**64 - 1, "2^64": 2**64, "text": "x", "fraction": 1.5, "list": [1]}


def made(kind, time, members):
    if kind.endswith("_batch"):
        return batch(kind, "dt_ns " + " ".join(members), [time, *members.values()])
    ends = {"end_ns": T0 + time + members["end_ns"]} if "end_ns" in members else {}
    return {"type": kind, "session_id": S, "start_ns": T0 + time, **members, **ends}


def with_value(members, key, value):
    return {k: value if k == key else v for k, v in members.items() if k != key or value is not ...}


def fits(value, bits):
    return isinstance(value, int) and 0 <= value < 2**bits


@pytest.mark.parametrize("value", VALUES)
def test_every_value_of_every_record(bring, tmp_path, value):
    """A number that cannot be is unknown, never 0 and never cut, and it is counted: once, with its member and its record."""
    value, lines, checks, expected = VALUES[value], [START, NAMES], [], Counter()
    absent = value is ... or value is None
    for kind, (table, members, widths) in RECORDS.items():
        for bits, columns in widths.items():
            for member, column in columns.items():
                time = 100 * (len(lines) + 1)
                lines.append(made(kind, time, with_value(members, member, value)))
                bad = not fits(value, bits) or (bits == 8 and value > 10)
                checks += [(table, time, column)] * (bad and column is not None and not (absent and column == "context"))  # gpufl has none
                expected["damaged_file", f"unusable values of {member} in {kind}"] += bad and not absent
    for bits, columns in DETAIL.items():
        for member, column in columns.items():
            time = 100 * (len(lines) + 1)
            bad = not fits(value, bits)
            record = {key: v for key, v in detail(time).items() if key != member} | ({} if value is ... else {member: value})
            lines += [kernels([time, 7, 3, 5, time, 0, 1, 1, 0, 0]), record]
            checks += [("kernel", time, column)] * (bad and column is not None)
            expected["damaged_file", f"unusable values of {member} in kernel_detail"] += bad and not absent
    write(tmp_path / "logs/device.log", *lines, END)
    _, rows = bring("logs")
    found = losses(rows)
    assert {key: count for key, count in found.items() if "unusable" in key[1]} == {key: count for key, count in (+expected).items()}
    columns = "start_ns,stream,config.dynamic_shared_bytes,config.registers,config.static_shared_bytes,config.local_bytes_per_thread," \
              "config.local_bytes_total,config.cache_config_requested"
    tables = {table: rows(table, *(["-c", columns] if table == "kernel" else [])) for table in {table for table, _, _ in checks}}
    for table, time, column in checks:
        at = [row for row in tables[table] if row.get("start_ns", row.get("time_ns")) == time]
        assert all(row[column] in UNKNOWN for row in at), (table, time, column, at)
        assert at or table in ("sass_value", "nvtx", "counter_sample")


@pytest.mark.parametrize("value", VALUES)
def test_impossible_times_are_unknown(bring, tmp_path, value):
    """What lasts impossibly long, or begins at no time, has no times: it counts neither as work of 0 ns nor as any other loss."""
    value = VALUES[value]
    lines = [START, NAMES, made("kernel_event_batch", 10, RECORDS["kernel_event_batch"][1])]
    lines += [made(kind, 10, with_value(RECORDS[kind][1], "duration_ns", value)) for kind in ("kernel_event_batch", "memcpy_event_batch", "synchronization_event_batch")]
    lines += [{**made(kind, 10, RECORDS[kind][1]), "end_ns": value} for kind in ("memset_event", "graph_launch_event")]
    lines += [{"type": "nvtx_marker_event", "session_id": S, "name": "fwd", "start_ns": T0, "end_ns": value}]
    lines = [{key: v for key, v in line.items() if v is not ...} for line in lines]
    write(tmp_path / "logs/device.log", *lines, END)
    _, rows = bring("logs")
    usable = fits(value, 33)  # as a duration; no end of an event that began in 2023
    assert Counter(row["duration_ns"] for row in rows("kernel")) == Counter([5, value if usable else None])
    for table in "memcpy", "synchronization":
        assert [row["duration_ns"] for row in rows(table)] == [value if usable else None]
    for table in "memset", "graph_launch":
        assert [row["duration_ns"] for row in rows(table)] == [None]
    assert not rows("nvtx") and rows("process")[-1]["end_ns"] == 9000
    lost = ("memset", "graph_launch", "nvtx_marker_event", *(() if usable else ("kernel", "memcpy", "synchronization")))
    assert losses(rows) == {("no_time", table): 1 for table in lost}


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("duration", [2**62, 2**52])
def test_no_work_outlasts_the_session(bring, tmp_path, ended, duration):
    """What ends long after the shutdown, or after today, has no end; nothing else is judged by it."""
    lines = [START, NAMES, kernels([0, 7, 2, 1500, 99, 0, 1, 0, 0, 0], [9, 7, 2, duration, 98, 0, 1, 0, 0, 0]),
             {"type": "memset_event", "session_id": S, "start_ns": T0, "end_ns": T0 + duration, "corr_id": 102, "bytes": 64}]
    write(tmp_path / "logs/device.log", *lines, *[END] * ended)
    _, rows = bring("logs")
    known = not ended and duration < 2**60
    assert [row["duration_ns"] for row in rows("kernel")] == ([1500, duration] if known else [None, 1500])
    assert [row["duration_ns"] for row in rows("memset")] == [duration if known else None]
    assert losses(rows) == ({} if known else {("no_time", "kernel"): 1, ("no_time", "memset"): 1})


def test_scopes_between_kernels(bring, tmp_path):
    """In one file a kernel belongs to the last scope of its path, also to one that begins after other kernels."""
    lines = [START, NAMES, scopes([500, 1, 1, 0, 0, 0, 0, 0], [510, 2, 2, 0, 1, 0, 0, 0], [520, 2, 2, 1, 1, 0, 0, 0], [600, 1, 1, 1, 0, 0, 0, 0]),
             kernels([550, 7, 2, 10, 1, 0, 1, 1, 0, 0]), detail(1, "step"), kernels([515, 7, 2, 10, 2, 0, 1, 1, 0, 0]), detail(2, "step|inner"),
             scopes([700, 3, 1, 0, 0, 0, 0, 0], [800, 3, 1, 1, 0, 0, 0, 0]),
             kernels([750, 7, 2, 10, 3, 0, 1, 1, 0, 0]), detail(3, "step"), kernels([760, 7, 2, 10, 4, 0, 1, 1, 0, 0]), detail(4, "step|inner"), END]
    write(tmp_path / "one.log", *lines)
    _, rows = bring(tmp_path / "one.log")
    assert sorted((row["correlation"], row["start_ns"]) for row in rows("api_call")) == [(1, 500), (2, 510), (3, 700), (4, 510)]


def test_types_with_escapes(bring, tmp_path):
    """A dictionary and a start that are read ahead, whatever way their type is written."""
    escaped = [json.dumps(line).replace("_", "\\u005f") + "\n" for line in (NAMES, START, END)]
    write(tmp_path / "logs/device.log", kernels([0, 7, 2, 1500, 99, 0, 1, 0, 0, 0]), *escaped)
    _, rows = bring("logs")
    [kernel] = rows("kernel", "-c", "config")
    assert kernel["config"] == "gemm" and rows("process")[-1]["executable"] == "app"
    assert not losses(rows)


@pytest.mark.parametrize("key", ["dt_ns", "base_time_ns"])
@pytest.mark.parametrize("value", [value for value in VALUES if value not in ("2^32",)])
def test_impossible_begins_are_unknown(bring, tmp_path, key, value):
    value = -2**63 if value == "negative" else VALUES[value]
    record = kernels([0, 7, 3, 5, 1, 0, 1, 0, 0, 0])
    if key == "dt_ns":
        record["rows"] = [[None if value is ... else value, 7, 3, 5, 1, 0, 1, 0, 0, 0]]
    else:
        record = {k: v for k, v in {**record, key: value}.items() if v is not ...}
    write(tmp_path / "logs/device.log", START, NAMES, record, END)
    _, rows = bring("logs")
    assert [row["start_ns"] for row in rows("kernel")] == [None] and losses(rows) == {("no_time", "kernel"): 1}
    assert rows("process")[-1]["end_ns"] == 9000


@pytest.mark.parametrize("grid", ["(4294967296,1,1)", "(-1,1,1)", "(0,1,1)", "(1,1)", "(1,1,1", "(1,1,1)x", "( 1,1,1)", "1,1,1", 7])
def test_sizes_that_cannot_be(bring, tmp_path, grid):
    write(tmp_path / "logs/device.log", START, NAMES, kernels([0, 7, 3, 5, 1, 0, 1, 1, 0, 0], [9, 7, 3, 5, 2, 0, 1, 1, 0, 0]), detail(1, grid=grid),
          detail(2, grid="(0,0,0)"), END)
    _, rows = bring("logs")
    assert [(row["config.grid_x"], row["config.block_x"]) for row in rows("kernel", "-c", "config.grid_x,config.block_x")] == [(None, None)] * 2
    assert losses(rows) == {("damaged_file", "unusable values of grid in kernel_detail"): 1}


def test_members_of_other_records(bring, tmp_path):
    """Of the session itself and of lists."""
    start = {**START, "pid": 2**32, "hostname": 5, "devices": [{"id": 2**32}, {"id": 0, "name": 7, "total_mib": -1}],
             "gpu_static_devices": [{"id": 0, "multi_processor_count": 1.5, "l2_cache_size_bytes": "x"}]}
    end = {**END, "exit_code": 256}
    write(tmp_path / "logs/device.log", start, NAMES, {**end, "exit_code": 0, "signaled": True, "signal": 128}, end)
    _, rows = bring("logs")
    [device] = rows("device")
    assert (device["multiprocessors"], device["l2_bytes"]) == (None, None) and rows("process")[-1]["exit_status"] is None
    unusable = [("pid", "job_start"), ("hostname", "job_start"), ("id", "devices"), ("name", "devices"), ("total_mib", "devices"),
                ("multi_processor_count", "gpu_static_devices"), ("l2_cache_size_bytes", "gpu_static_devices"), ("signal", "shutdown"), ("exit_code", "shutdown")]
    assert losses(rows) == {("damaged_file", f"unusable values of {key} in {kind}"): 1 for key, kind in unusable}


# --- names ---

@pytest.mark.parametrize("where", ["after", "next window", "other channel"])
def test_dictionaries_wherever_they_come(bring, tmp_path, where):
    """A name that is nowhere is shown as unknown, with its id, and is counted once."""
    work = [kernels([0, 7, 3, 5, 1, 0, 1, 0, 0, 0], [1, 99, 3, 5, 2, 0, 1, 0, 0, 0], [2, 99, 3, 5, 3, 0, 1, 0, 0, 0], [3, 0, 3, 5, 4, 0, 1, 0, 0, 0])]
    write(tmp_path / "logs/device.1.log", START, *work, *([NAMES] if where == "after" else []), END)
    if where != "after":
        write(tmp_path / ("logs/device.2.log" if where == "next window" else "logs/system.1.log"), START, NAMES, END)
    _, rows = bring("logs")
    assert [row["name"] for row in rows("kernel", "-c", "name")] == ["gemm", "unknown kernel 99", "unknown kernel 99", "unknown kernel"]
    assert losses(rows) == {("damaged_file", "ids that no kernel_dict has"): 1, ("damaged_file", "kernels without a name"): 1}


def test_a_dictionary_that_replaces_another(bring, tmp_path):
    other = {**NAMES, "kernel_dict": {"7": "conv"}}
    write(tmp_path / "logs/device.log", START, kernels([0, 7, 3, 5, 1, 0, 1, 0, 0, 0]), NAMES, kernels([1, 7, 3, 5, 2, 0, 1, 0, 0, 0]), other,
          kernels([2, 7, 3, 5, 3, 0, 1, 0, 0, 0]), END)
    _, rows = bring("logs")
    assert [row["name"] for row in rows("kernel", "-c", "name")] == ["gemm", "gemm", "conv"]


@pytest.mark.parametrize("bad", [r"a\u0000b", r"a\udcffb", r"a\ud800b", r"a\xb", "a\tb", "a\x01b", b"a\xffb"], ids=repr)
def test_a_bad_text_costs_itself(bring, tmp_path, bad):
    """And not the dictionary around it."""
    line = b'{"type":"dictionary_update","session_id":"%s","kernel_dict":{"1":"%s","2":"axpy"}}\n' % (S.encode(), bad if isinstance(bad, bytes) else bad.encode())
    path = tmp_path / "logs/device.log"
    write(path, START)
    path.write_bytes(path.read_bytes() + line)
    write(tmp_path / "rest", kernels([0, 1, 3, 5, 1, 0, 1, 0, 0, 0], [1, 2, 3, 5, 2, 0, 1, 0, 0, 0]), END)
    path.write_bytes(path.read_bytes() + (tmp_path / "rest").read_bytes())
    said, rows = bring("logs")
    first, second = (row["name"] for row in rows("kernel", "-c", "name"))
    assert first.startswith("a\N{REPLACEMENT CHARACTER}") and first.endswith("b") and second == "axpy"
    assert said["damaged"] == 0


# --- damage ---

@pytest.mark.parametrize("first,damage", [('{"version":1,"type":"job_st\n', 1), ('{"type":"kernel_event_batch","session_id":"x",\n', 1), ("x\ny\n", 2), ("\ufeff", 0)])
def test_damage_before_the_session_is_known(bring, tmp_path, pitot, first, damage):
    """It is counted for the session that follows; a byte order mark is none."""
    write(tmp_path / "logs" / S / "device.1.log", first, START, NAMES, kernels([0, 7, 3, 5, 1, 0, 1, 0, 0, 0]), END)
    said, rows = bring("logs")
    assert said["damaged"] == damage and len(rows("kernel")) == 1
    assert losses(rows) == ({("damaged_file", "lines of device.1.log"): damage} if damage else {})
    assert ("nothing lost" in pitot("report", "back.pitot").stdout) == (not damage)


def test_damage_is_a_reason_for_having_no_work(bring, tmp_path, pitot):
    write(tmp_path / "logs" / S / "device.1.log", START, NAMES, "x\n", END)
    bring("logs")
    text = pitot("report", "back.pitot").stdout
    assert "the recording is damaged or cut, and what can be read of it has none" in text and "did not use CUDA" not in text


def test_damage_of_files_without_any_session(bring, tmp_path):
    """For a session of another folder: before the first one, and behind the last one."""
    write(tmp_path / "logs/a/device.1.log", "x\n")
    write(tmp_path / "logs/b/device.1.log", START, NAMES, END)
    write(tmp_path / "logs/c/device.1.log", "x\n")
    said, rows = bring("logs")
    assert losses(rows) == {("damaged_file", "lines of device.1.log"): 2} and said["damaged"] == 2 and said["sessions"] == 1


def test_losses_have_the_time_of_the_recording(bring, tmp_path):
    """Not that of the machine that imports: also those that the writer of the recording finds."""
    write(tmp_path / "logs/device.log", START, {**NAMES, "kernel_dict": {"7": "n" * 100000}}, kernels([10, 7, 3, 5, 1, 0, 1, 0, 0, 0]), "x\n", END)
    _, rows = bring("logs")
    lost = rows("loss")
    assert {row["reason"] for row in lost} == {"string_limit", "damaged_file"}
    assert all(0 <= row["start_ns"] <= row["end_ns"] <= 9000 for row in lost), lost


# --- files ---

def test_sessions_and_windows(bring, tmp_path):
    """Two sessions in a folder, windows in the order of their numbers, each once; a missing one is a loss, and so is a marker."""
    other = "22222222-2222-4333-8444-555555555555"
    logs = tmp_path / "logs"
    for number, corr in (1, 1), (2, 2), (10, 3):
        write(logs / S / f"device.{number}.log.gz", START, NAMES, kernels([corr, 7, 2, 10, corr, 0, 1, 0, 0, 0]))
    write(logs / S / "device.2.log", START, NAMES, kernels([2, 7, 2, 10, 2, 0, 1, 0, 0, 0]))
    write(logs / S / ".tmp/device.10.log", NAMES, kernels([1, 7, 2, 10, 9, 0, 1, 0, 0, 0]))
    write(logs / S / ".tmp/device.11.log", kernels([11, 7, 2, 10, 4, 0, 1, 0, 0, 0]))
    write(logs / S / ".tmp/device.log", kernels([12, 7, 2, 10, 5, 0, 1, 0, 0, 0]), '{"type":"kernel_det')
    write(logs / S / ".gpufl-transport-loss.spool.0.json", {"type": "transport_window_loss", "reason": "spool_budget_exceeded"})
    write(logs / other / "device.1.log", *(json.loads(json.dumps(line).replace(S, other)) for line in
                                           [{**START, "pid": 43}, NAMES, kernels([1, 7, 2, 10, 1, 0, 1, 0, 0, 0]), END]))
    write(logs / other / "notes.txt", "device.log")
    write(logs / "other/device.txt", "x")
    said, rows = bring("logs")
    assert (said["sessions"], said["files"]) == (2, 6)
    assert [(row["pid"], row["correlation"]) for row in rows("kernel")] == [(42, 1), (42, 2), (42, 3), (42, 4), (42, 5), (43, 1)]
    found = losses(rows)
    assert found["missing_segment", "windows of a channel"] == 7 and found["truncated_file", "lines of .tmp/device.log"] == 1
    assert found["missing_segment", "spool_budget_exceeded"] == 1 and len(found) == 3
    assert {row["pid"] for row in rows("loss")} == {42}


def test_sessions_of_the_flat_layout(bring, tmp_path):
    lines = []
    for session, pid in ("a", 5), ("b", 6), ("a", 5):
        lines += [json.loads(json.dumps(line).replace(S, session)) for line in
                  [{**START, "pid": pid, "ts_ns": T0 + pid}, NAMES, kernels([pid + len(lines), 7, 2, 10, len(lines) + 1, 0, 1, 0, 0, 0])]]
    write(tmp_path / "logs/app.device.1.log.gz", *lines)
    write(tmp_path / "logs/app.device.log", kernels([50, 7, 2, 10, 50, 0, 1, 0, 0, 0]) | {"session_id": "b"})
    write(tmp_path / "logs/other.device.log", START, NAMES, kernels([60, 7, 2, 10, 60, 0, 1, 0, 0, 0]))
    said, rows = bring("logs")
    assert said["sessions"] == 3
    assert Counter(row["pid"] for row in rows("kernel")) == {5: 2, 6: 2, 42: 1}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_log_that_ends_in_the_middle(bring, tmp_path, packed):
    whole = tmp_path / "whole" / S / ("device.1.log.gz" if packed else "device.1.log")
    write(whole, *device_lines())
    content, seen = whole.read_bytes(), []
    for cut in sorted({*range(20, len(content), max(1, len(content) // 25)), len(content) - 1, len(content)}):
        path = tmp_path / "logs" / S / whole.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content[:cut])
        try:
            said, rows = bring("logs")
        except AssertionError as e:
            assert "no readable gpufl record" in str(e) and cut < len(content) // 2
            continue
        seen.append(len(rows("kernel")) if "kernel" in said["rows"] else 0)
        assert cut == len(content) or any(reason == "truncated_file" for reason, _ in losses(rows)) or content[cut - 1:cut] == b"\n" or \
            content[cut:cut + 1] == b"\n"
    assert seen == sorted(seen) and seen[0] == 0 and seen[-1] == 2


HOSTILE = [
    "\n", "[]\n", "{\n", "null\n", '{"type":5}\n', '{"a":' + "[" * 100000 + "\n", '{"a":' + "[" * 5000 + "]" * 5000 + "}\n", "\0\0\0\n", "\xff\xfe\n",
    '{"session_id":"%s","type":"kernel_event_batch"}\n' % S, '{"session_id":"%s","type":"kernel_event_batch","columns":{},"rows":[[1]]}\n' % S,
    '{"session_id":"%s","type":"kernel_event_batch","columns":["dt_ns"],"rows":[1,[2],{"a":1}]}\n' % S,
    '{"session_id":"%s","type":"kernel_event_batch","base_time_ns":"x","columns":["dt_ns",5,null,"duration_ns"],"rows":[["a",1,2,-5],[]]}\n' % S,
    '{"session_id":"%s","type":"scope_event_batch","base_time_ns":1,"columns":["dt_ns","scope_instance_id","event_type"],"rows":[[1,1,1],[1,-1,0],[0,1e300,0]]}\n' % S,
    '{"session_id":"%s","type":"dictionary_update","kernel_dict":{"-1":"a","99999999999999999999":"b","1":5,"2":{}},"scope_name_dict":[]}\n' % S,
    '{"session_id":"%s","type":"job_start","ts_ns":18446744073709551615,"devices":[{"id":64},{"id":-1},5,{"id":1.5}]}\n' % S,
    '{"session_id":"%s","type":"kernel_detail","corr_id":"x","grid":"(4294967296,-1,0)","stack_trace":"%s"}\n' % (S, "|" * 3000),
    '{"session_id":"%s","type":"kernel_detail","corr_id":99,"grid":7,"block":[],"user_scope":{},"stack_trace":"%s"}\n' % (S, "f|" * 3000),
    '{"session_id":"%s","type":"device_metric_batch","base_time_ns":9,"columns":["dt_ns","device_id","used_mib"],"rows":[[1,4294967296,1e18],[1,0,18446744073709551615]]}\n' % S,
    '{"session_id":"%s","type":"shutdown","ts_ns":-5,"exit_code":1e99}\n' % S, '{"session_id":{},"type":"shutdown"}\n', '{"session_id":"","type":"shutdown"}\n',
    '{"type":"memset_event","session_id":"%s","start_ns":%d,"end_ns":5}\n' % (S, T0), '{"%s":1,"session_id":"%s","type":"memset_event"}\n' % ("k" * 5000, S),
]


@pytest.mark.parametrize("line", range(len(HOSTILE)))
def test_unknown_lines_are_skipped(bring, tmp_path, pitot, line):
    """One such line between good ones: those are read."""
    good = device_lines()
    write(tmp_path / "logs" / S / "device.1.log", *good[:3], HOSTILE[line], *good[3:])
    write(tmp_path / "logs" / S / "scope.1.log", HOSTILE[line], *scope_lines())
    said, rows = bring("logs")
    assert {(r["start_ns"] is not None and r["duration_ns"], r["correlation"]) for r in rows("kernel")} >= {(1500, 99), (1000, 100)}
    assert len(rows("synchronization")) == 1
    pitot("report", "back.pitot")


def test_many_sessions_and_names(bring, tmp_path):
    lines = [json.dumps({**START, "session_id": f"s{i}"}) + "\n" for i in range(70)]
    write(tmp_path / "logs/device.log", *lines)
    said, rows = bring("logs")
    assert said["sessions"] == 64
    assert losses(rows) == {("unknown_record", "records of too many sessions, or of none"): 6}


def test_info_counts_processes_and_not_rows(bring, tmp_path, pitot):
    """A capability that a process names twice is one process's; of two processes they are two."""
    said = {"type": "capture_capabilities", "session_id": S, "capabilities": [{"feature": "nvtx_markers", "status": "partial", "message": "late"}]}
    for session, pid in (S, 42), ("other", 43):
        lines = [{**START, "pid": pid}, {**said, "ts_ns": T0 + 1}, *([{**said, "ts_ns": T0 + 2}] if pid == 42 else [])]
        write(tmp_path / "logs" / session / "device.log", *(json.loads(json.dumps(line).replace(S, session)) for line in lines))
    _, rows = bring("logs")
    assert [row["other"] for row in rows("capability")].count("nvtx_markers") == 3
    [line] = [line for line in pitot("info", "back.pitot").stdout.splitlines() if "nvtx_markers" in line]
    assert line.split()[:4] == ["2", "processes", "nvtx_markers", "degraded"]
    shutil.rmtree(tmp_path / "logs/other")
    bring("logs")
    [line] = [line for line in pitot("info", "back.pitot").stdout.splitlines() if "nvtx_markers" in line]
    assert line.split()[:2] == ["42", "nvtx_markers"]
