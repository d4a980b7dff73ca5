"""TraceSmith's Python calls: captures of a program, events of recordings, timelines, files, and the program's own events."""
import importlib
import json

import pytest

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(scope="session")
def ts(package):
    return importlib.import_module("pitot.tracesmith")


@pytest.fixture
def everything(ts):
    return ts.ProfilerConfig(capture_alloc=True, capture_callstacks=True)


def test_events_are_the_rows(ts, everything, package, path):
    recording = package.open(path)
    events = ts.events_of(recording, everything)
    assert [event.timestamp for event in events] == sorted(event.timestamp for event in events)
    kinds = {}
    for event in events:
        kinds[event.type.name] = kinds.get(event.type.name, 0) + 1
    assert kinds == {"KernelLaunch": 18, "MemcpyH2D": 1, "MemcpyD2D": 1, "MemsetDevice": 1, "StreamSync": 2, "DeviceSync": 2, "EventSync": 1,
                     "MemAlloc": 1}
    kernels = [event for event in events if event.type is ts.EventType.KernelLaunch]
    assert sum(event.duration for event in kernels) == recording.report()["hotspots"]["total_ns"]
    row = recording.kernels.where("pid=100", "name=*inside*").to_arrow().to_pylist()[0]
    first = next(event for event in kernels if "inside" in event.name)
    assert (first.timestamp, first.duration, first.stream_id, first.correlation_id, first.name) == (
        row["start_ns"], row["duration_ns"], row["stream"], row["correlation"], row["full_name"])
    assert first.metadata["gridDimX"] == str(row["grid_x"]) and first.metadata["registersPerThread"] == "32"
    calls = recording.launches.select("pid", "correlation", "thread").to_arrow().to_pylist()
    assert first.thread_id == next(c["thread"] for c in calls if (c["pid"], c["correlation"]) == (100, row["correlation"])) > 0
    copy = next(event for event in events if event.type is ts.EventType.MemcpyH2D)
    assert copy.metadata == {"bytes": "1048576", "srcKind": "pinned", "dstKind": "device"} and copy.name == "memcpy HtoD"
    allocation, = (event for event in events if event.type is ts.EventType.MemAlloc)
    assert allocation.metadata["bytes"] == "2097152" and allocation.duration == 0 and allocation.name == "allocation of device memory"


@pytest.mark.parametrize("option, gone", [
    ("capture_kernels", {"KernelLaunch"}), ("capture_memcpy", {"MemcpyH2D", "MemcpyD2D"}), ("capture_memset", {"MemsetDevice"}),
    ("capture_sync", {"StreamSync", "DeviceSync", "EventSync"}), ("capture_alloc", {"MemAlloc"})])
def test_what_is_not_wanted_is_not_there(ts, everything, package, path, option, gone):
    recording = package.open(path)
    before = {event.type.name for event in ts.events_of(recording, everything)}
    setattr(everything, option, False)
    assert before - {event.type.name for event in ts.events_of(recording, everything)} == gone


def test_stacks_end_at_the_launch(ts, everything, package, train):
    everything.callstack_depth = 3
    recording = package.open(train)
    events = [event for event in ts.events_of(recording, everything) if event.type is ts.EventType.KernelLaunch]
    frames = recording.kernels.select("start_ns", "stack.frames").to_arrow().sort_by("start_ns")["stack.frames"].to_pylist()
    assert sorted(event.call_stack for event in events) == sorted(stack[-3:] for stack in frames)
    assert not any(event.call_stack for event in ts.events_of(recording))


@pytest.mark.parametrize("name", ["training", "train", "path"])
def test_a_timeline_has_the_reports_utilization(ts, package, request, name):
    recording = package.open(request.getfixturevalue(name))
    timeline = ts.build_timeline(ts.events_of(recording))
    busy = [gpu["busy"] for gpu in recording.report()["gpus"]]
    assert timeline.total_duration == max(b["last_ns"] for b in busy) - min(b["first_ns"] for b in busy)
    expected = sum(b["union_ns"] for b in busy) / len(busy) / timeline.total_duration
    assert abs(timeline.gpu_utilization - expected) < 1e-9 and 0 < timeline.gpu_utilization <= 1
    if len(busy) == 1:
        pieces = [i for i, ns in enumerate(busy[0]["pieces_ns"]) if ns]
        assert timeline.max_concurrent_ops == max(pieces)


def test_timelines_of_events_made_by_hand(ts):
    def event(start, duration, device=0, type=ts.EventType.KernelLaunch):
        return ts.TraceEvent(type, "k", 1000 + start, duration, device)

    timeline = ts.build_timeline([event(50, 50), event(0, 60), event(10, 20), event(95, 0), event(0, 100, type=ts.EventType.StreamSync)])
    assert (timeline.total_duration, timeline.gpu_utilization, timeline.max_concurrent_ops) == (100, 1.0, 2)
    assert [span.start_time for span in timeline.spans] == [1000, 1010, 1050, 1095]
    timeline = ts.build_timeline([event(0, 10), event(10, 10), event(80, 20), event(0, 50, device=1)])
    assert timeline.gpu_utilization == (40 + 50) / 200 and timeline.max_concurrent_ops == 2
    assert ts.build_timeline([]) == ts.Timeline([], 0, 0.0, 0)


def test_perfetto_json(ts, everything, package, path, tmp_path):
    events = ts.events_of(package.open(path), everything)
    assert ts.export_perfetto(events, tmp_path / "trace.json")
    written = json.loads((tmp_path / "trace.json").read_text())
    assert written["displayTimeUnit"] == "ns"
    spans = [line for line in written["traceEvents"] if line["ph"] in "Xi"]
    assert [round(line["ts"] * 1000) for line in spans] == [event.timestamp for event in events]
    assert [(line["name"], line["pid"], line["tid"]) for line in spans if line["cat"] == "kernel"] == [
        (event.name, event.device_id, event.stream_id) for event in events if event.type is ts.EventType.KernelLaunch]
    assert {line["ph"] for line in spans if line["args"]["event_type"] == ts.EventType.MemAlloc} == {"i"}
    names = {(line["pid"], line.get("tid")): line["args"]["name"] for line in written["traceEvents"] if line["ph"] == "M"}
    assert names[0, None] == "GPU Device 0" and names[1, None] == "GPU Device 1" and names[0, 7] == "Stream 7"
    with pytest.raises(package.Error, match=r"profiler\.recording\.export"):
        ts.export_perfetto(events, tmp_path / "trace.pftrace", use_protobuf=True)


def test_what_is_not_there_says_so(ts, package):
    with pytest.raises(package.Error, match="no profiler for ROCm: Pitot records NVIDIA GPUs"):
        ts.create_profiler(ts.PlatformType.ROCm)
    assert [ts.EventType.MemFree, ts.EventType.NCCLComplete, ts.EventType.MemcpyH2D] == [16, 21, 3]
    assert ts.detect_platform() is (ts.PlatformType.CUDA if ts.is_cuda_available() else ts.PlatformType.Unknown)


def test_a_program_captures_itself(run, tmp_path):
    """As TraceSmith's page has it. Without a GPU nothing is in it but the scopes."""
    said = run("""
        import gc, tempfile
        import pitot.tracesmith as ts
        tempfile.tempdir = os.getcwd()
        profiler = ts.create_profiler(ts.PlatformType.CUDA)
        config = ts.ProfilerConfig()
        config.capture_kernels = True
        config.capture_callstacks = True
        done = [profiler.initialize(config), profiler.stop_capture(), profiler.start_capture(), profiler.start_capture(), profiler.is_capturing()]
        with pitot.scope("inside"):
            pass
        done += [profiler.get_events(), profiler.stop_capture(), profiler.is_capturing(), profiler.events_captured(), profiler.events_dropped()]
        first = profiler.recording.tables["nvtx"]
        timeline = ts.build_timeline(profiler.get_events())
        done += [profiler.start_capture(), profiler.recording is None, profiler.stop_capture(), profiler.recording.tables.get("nvtx", 0)]
        settings = [row["actual"] for row in profiler.recording.table("capability").to_arrow().to_pylist() if row["name"] == "settings"]
        folders = len([name for name in os.listdir() if name.startswith("pitot-")])
        del profiler
        gc.collect()
        print(json.dumps([done, first, timeline.gpu_utilization, settings, folders, [n for n in os.listdir() if n.startswith("pitot-")]]))
        """)
    done, first, utilization, settings, folders, left = said
    assert done == [True, False, True, False, True, [], True, False, 0, 0, True, True, True, 0] and first == 2 and utilization == 0
    assert "stacks=all (code)" in settings[0] and folders == 2 and left == []


def test_captures_are_off_where_recording_is(run):
    said = run("""
        import pitot.tracesmith as ts
        profiler = ts.create_profiler()
        print(json.dumps([profiler.start_capture(), profiler.stop_capture(), profiler.get_events(), profiler.events_dropped()]))
        """, PITOT_DISABLED="1")
    assert said == [False, False, [], 0]


def test_the_newest_events_are_kept(ts, package, training):
    profiler = ts.create_profiler()
    profiler.recording = package.open(training)
    everything = profiler.get_events()
    profiler.initialize(ts.ProfilerConfig(buffer_size=100))
    assert profiler.get_events() == everything[-100:] and profiler.events_captured() == 100
    assert profiler.events_dropped() == len(everything) - 100 > 0


def test_a_session_of_own_events(ts, tmp_path):
    session = ts.TracingSession()
    event = ts.TraceEvent()
    event.type, event.name, event.thread_id = ts.EventType.KernelLaunch, "my_kernel", 12345
    event.metadata["grid_dim"] = "256x256x1"
    assert not session.emit(event) and not session.emit_counter("x", 1) and not session.stop()
    config = ts.TracingConfig()
    config.buffer_size_kb, config.enable_counter_tracks = 1, True
    assert session.start(config) and not session.start(config) and session.is_active() and session.event_buffer_capacity() == 4
    for number in range(6):
        event.name = f"my_kernel {number}"
        assert session.emit(event) and session.emit_counter("GPU Memory (MB)", 1000.5 + number)
    assert session.stop() and not session.is_active()
    assert [kept.name for kept in session.get_events()] == [f"my_kernel {number}" for number in range(2, 6)]
    statistics = session.get_statistics()
    assert (statistics.events_emitted, statistics.counters_emitted, statistics.events_dropped) == (6, 6, 4)
    assert session.events_dropped() == 4 and session.event_buffer_size() == 4 and statistics.duration_ms() > 0
    assert event.timestamp == 0 and all(kept.timestamp > 0 for kept in session.get_events())
    session.export_to_file(tmp_path / "own.json")
    lines = json.loads((tmp_path / "own.json").read_text())["traceEvents"]
    assert [line["args"]["value"] for line in lines if line["ph"] == "C"] == [1002.5, 1003.5, 1004.5, 1005.5]
    assert lines[0]["args"]["grid_dim"] == "256x256x1" and lines[0]["args"]["thread_id"] == 12345
    assert session.start(ts.TracingConfig(enable_counter_tracks=False)) and session.get_events() == []
    event.timestamp = 77
    assert session.emit(event)
    event.metadata["grid_dim"] = "1x1x1"
    assert (session.get_events()[0].timestamp, session.get_events()[0].metadata) == (77, {"grid_dim": "256x256x1"})
    assert not session.emit_counter("x", 1) and session.emit(event)
    session.clear()
    assert session.get_events() == [] == session.get_counters()


def test_threads_share_a_session(run):
    said = run("""
        import threading
        import pitot.tracesmith as ts
        session = ts.TracingSession()
        session.start(ts.TracingConfig(buffer_size_kb=16))
        def work():
            for _ in range(1000):
                session.emit(ts.TraceEvent(name="x"))
        threads = [threading.Thread(target=work) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        s = session.get_statistics()
        print(json.dumps([s.events_emitted, s.events_dropped, len(session.get_events())]))
        """)
    assert said == [4000, 4000 - 64, 64]


def test_memory_of_a_recording(ts, package, make_recording, tmp_path):
    """The numbers of r.memory, of device memory."""
    recording = package.open(make_recording(tmp_path / "m.pitot", "memory"))
    report = ts.memory_report(recording)
    (device,) = (row for row in recording.memory["kinds"] if row["kind"] == "device")
    assert (report.kind, report.total_allocations, report.total_frees, report.peak_memory_usage, report.current_memory_usage) == (
        "device", device["allocations"], device["releases"], device["peak_bytes"], device["live_bytes"])
    assert report.live_allocation_count == device["live"] == sum(each.count for each in report.live_allocations)
    assert report.current_memory_usage == sum(each.size for each in report.live_allocations)
    assert max(size for _, _, size in report.timeline) == report.peak_memory_usage and report.details == recording.memory
    (leak,) = report.potential_leaks
    assert (leak.name, leak.bytes_per_step, leak.steps, leak.size) == ("train.py:40 log_loss", 4 << 20, 10, 40 << 20)


def test_a_program_profiles_its_memory(run, tmp_path):
    """It allocates nothing on a GPU here: zeros, in each state of the profiler, and no leftover."""
    said = run("""
        import json, pitot.tracesmith as ts
        profiler = ts.MemoryProfiler(ts.MemoryProfilerConfig(track_call_stacks=False))
        done = [profiler.is_active(), profiler.stop(), profiler.get_peak_usage(), profiler.start(), profiler.start(), profiler.is_active()]
        done += [profiler.get_current_usage(), profiler.stop(), profiler.is_active()]
        done += [profiler.get_live_allocation_count(), profiler.get_live_allocations(), profiler.detect_leaks(), profiler.recording is None]
        profiler.clear()
        done += [profiler.recording is None, profiler.generate_report() == ts.MemoryReport()]
        print(json.dumps(done))
        """)
    assert said == [False, False, 0, True, False, True, 0, True, False, 0, [], [], False, True, True]


#: Names of TraceSmith's documents that are not here.
PROMISED = """
SBTFile StackCapture CallStack StackFrame StackCaptureConfig MemorySnapshot MemoryEvent profile_memory FrameCapture
FrameCaptureConfig CapturedFrame DrawCallInfo ResourceState ResourceTracker CaptureState ResourceType resource_type_to_string
DeterminismChecker TimelineBuilder TimelineViewer TimelineViewConfig PerfettoExporter PerfettoProtoExporter PerfettoFormat is_protobuf_available
GPUStateMachine GPUStreamState GPUState StateTransition InstructionStreamBuilder OperationDependency DependencyType XRayEntryType BPFTracer
bpf_event_type_to_string is_bpf_available GPUTopology GPULink GPULinkType MultiGPUProfiler NVLinkTransfer PeerAccess get_link_bandwidth link_type_to_string
TimeSync TimeSyncMethod SyncResult ClockCorrelator DriftModel NCCLTracker NCCLOpType CommAnalysis CommMatrix LoadImbalance nccl_op_type_to_string
time_sync_method_to_string string_to_time_sync_method CounterEvent FlowInfo FlowType DeviceInfo XCTraceProfiler profile_with_xctrace
is_metal_available get_metal_device_count is_cluster_available is_nvml_available is_nccl_available get_cuda_device_count event_type_to_string
platform_type_to_string format_bytes format_duration OverflowPolicy TracingState TracingMode
""".split()


@pytest.mark.parametrize("name", PROMISED)
def test_names_that_are_missing_name_what_to_use(ts, name):
    assert not hasattr(ts, name)
    with pytest.raises(AttributeError, match=f"pitot.tracesmith has no {name}: "):
        getattr(ts, name)


def test_other_names_are_unknown(ts):
    with pytest.raises(AttributeError, match="^module 'pitot.tracesmith' has no attribute 'kernels'$"):
        ts.kernels


def test_replay(ts, make_recording, tmp_path):
    """The plan of a recording and of events; without a GPU the reason is an error of the result."""
    engine = ts.ReplayEngine()
    assert engine.load_trace(make_recording(tmp_path / "r.pitot", "training"))
    planned = engine.replay(ts.ReplayConfig(ts.ReplayMode.DryRun))
    assert planned.success and not planned.deterministic
    assert planned.operations_total == sum(s["operations"] for s in planned.details["streams"]) > 0
    assert planned.operations_executed == planned.operations_skipped == planned.replay_duration == 0 < planned.original_duration
    assert f"0 of {planned.operations_total} operations" in planned.summary()
    failed = engine.replay()
    assert failed.success == (not failed.errors) and not (failed.errors and failed.operations_executed)
    kernels = [ts.TraceEvent(ts.EventType.KernelLaunch, "k", 1000 + 100 * i, 50, stream_id=i % 2, correlation_id=i + 1) for i in range(10)]
    assert ts.replay_trace(kernels, ts.ReplayMode.DryRun).operations_total == 10
    with pytest.raises(Exception, match="choose the part"):
        engine.replay(ts.ReplayConfig(ts.ReplayMode.Partial))
    with pytest.raises(Exception, match="nothing is loaded"):
        ts.ReplayEngine().replay()


def test_a_platform_prints_its_name(run):
    said = run("""
        import pitot.tracesmith as ts
        print(json.dumps([str(ts.PlatformType.CUDA), f"{ts.detect_platform()}" in ("PlatformType.CUDA", "PlatformType.Unknown")]))
        """)
    assert said == ["PlatformType.CUDA", True]


TORCH = """
import sys, types
torch = types.ModuleType("torch")
torch.version = types.SimpleNamespace(hip=None)
torch.backends = types.SimpleNamespace(mps=types.SimpleNamespace(is_available=lambda: False))
torch.cuda = types.SimpleNamespace(is_available=lambda: True, synchronize=lambda: done.append("wait"), memory_allocated=lambda: 4096,
    get_device_properties=lambda n: types.SimpleNamespace(name="GPU", total_memory=3 << 29))
torch.device = lambda name: name
torch.ones = lambda *shape, device, dtype: [shape, device]
sys.modules["torch"] = torch
done = []
"""


def test_a_benchmark(run):
    """Each call is timed by itself, between waits; the GPU's time is from a recording, in which there is none here."""
    said = run(TORCH + """
import pitot.tracesmith as ts
dm = ts.DeviceManager()
results = ts.benchmark(lambda: done.append("call"), warmup=2, iterations=3, dm=dm)
print(json.dumps([dm.get_device_name(), dm.memory_allocated(), dm.ones(2, 3), dm.is_gpu, results, done]))
""")
    name, allocated, ones, is_gpu, results, done = said
    assert (name, allocated, ones, is_gpu) == ("GPU (cuda:0, 1.5 GB)", 4096, [[2, 3], "cuda"], True)
    assert done[:15] == ["wait", "call", "wait"] * 5 and done[15:] == ["call"] * 3 + ["wait"]
    assert results["min_ms"] <= results["mean_ms"] <= results["max_ms"] and results["iterations"] == 3
    assert results["std_ms"] >= 0 and results["gpu_mean_ms"] is None


def test_devices_without_a_gpu(run):
    said = run("""
import sys
sys.modules["torch"] = None
import pitot.tracesmith as ts
dm, errors = ts.DeviceManager(), []
for wrong in (lambda: dm.randn(2), lambda: ts.DeviceManager("cuda"), lambda: ts.benchmark(int, iterations=0)):
    try:
        wrong()
    except pitot.Error as error:
        errors.append(str(error))
print(json.dumps([dm.get_device_name(), dm.is_gpu, dm.memory_allocated(), ts.benchmark(int, iterations=1)["std_ms"], errors]))
""")
    assert said == ["CPU", False, 0, 0.0, ["tensors need PyTorch, which is not installed", "there is no device 'cuda' here, but cpu",
                                           "0 iterations are none"]]
