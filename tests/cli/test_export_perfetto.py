"""`pitot export` to Perfetto, read with the official protobuf classes and compared with what `pitot view` says."""
from collections import Counter

import pytest

from exported import KERNELS, PATTERNS, make_exported, timed, view
from perfetto_trace import COMPUTE, Trace


@pytest.fixture(scope="module", params=PATTERNS + ("varied", "processes"))
def recording(request, make_recording, tmp_path_factory):
    return make_exported(make_recording, request.param, tmp_path_factory.mktemp(request.param) / "r.pitot")


@pytest.fixture(scope="module")
def varied(make_recording, tmp_path_factory):
    return make_exported(make_recording, "varied", tmp_path_factory.mktemp("varied") / "r.pitot")


traces = {}  # by recording and options: many tests look at the same one


def export(pitot, recording, tmp_path, *options):
    key = recording, *options
    if key not in traces:
        out = tmp_path / "out.perfetto-trace"
        result = pitot("export", recording, "-o", out, *options)
        traces[key] = Trace(out.read_bytes()), result
    return traces[key]


def origin(trace, rows):
    """What view's times are relative to."""
    return min(stage.start for stage in trace.kernels()) - min(row["start_ns"] for row in rows)


def test_every_kernel_is_there_once(pitot, recording, tmp_path):
    trace, _ = export(pitot, recording, tmp_path)
    rows = timed(view(pitot, recording, "kernel"))
    zero = origin(trace, rows)
    assert len(rows) > 10
    assert Counter((k.start - zero, k.duration, k.args["stream"], k.args["device"], k.pid) for k in trace.kernels()) == \
        Counter((r["start_ns"], r["duration"], r["stream"], r["device"], r["pid"]) for r in rows)
    assert sum(k.duration for k in trace.kernels()) == sum(r["duration"] for r in rows)


@pytest.mark.parametrize("options", [(), ("--split-size", "4K")])
def test_the_critical_path_is_a_track(pitot, make_recording, tmp_path, options):
    """Its slices tile the time as the report's; a call on it has a flow from it, and work an arrow. Files can be opened alone."""
    recording = make_exported(make_recording, "train", tmp_path / "r.pitot")
    pitot("export", recording, "-o", tmp_path / "x.pftrace", "--critical-path", "--no-stacks", *options)
    traces = [Trace(path.read_bytes()) for path in sorted(tmp_path.glob("x*.pftrace"))]
    assert (len(traces) > 1) == bool(options)
    on_path = sorted((s for trace in traces for s in trace.slices if s.category == "critical_path"), key=lambda s: s.start)
    path = pitot("report", "--critical-path", "--json", recording, json_output=True)["critical_path"]
    assert sum(s.end - s.start for s in on_path) == path["window_ns"] and all(a.end == b.start for a, b in zip(on_path, on_path[1:]))
    calls = {flow: s for trace in traces for s in trace.slices if s.category.startswith("cuda_") for flow in s.flows}
    stages = {stage.event_id: stage for trace in traces for stage in trace.stages}
    for s in on_path:
        if s.flows:
            call = calls[s.flows[0]]
            assert call.name == s.name and call.start <= s.start and s.end <= call.end
        for event in s.submitted:
            assert stages[event].start <= s.start and s.end <= stages[event].start + stages[event].duration
    assert {s.name for s in on_path if s.submitted} == {
        owner["name"] for owner in path["owners"] if owner["class"] in ("kernel", "copy", "memset", "graph")}


def test_copies_and_memsets(pitot, recording, tmp_path):
    trace, _ = export(pitot, recording, tmp_path)
    zero = origin(trace, timed(view(pitot, recording, "kernel")))
    for table, prefix in (("memcpy", "Memcpy "), ("memset", "Memset ")):
        rows = timed(view(pitot, recording, table))
        stages = [s for s in trace.stages if s.name.startswith(prefix)]
        assert all(s.category != COMPUTE for s in stages)
        assert Counter((s.start - zero, s.duration, s.args["bytes"]) for s in stages) == \
            Counter((r["start_ns"], r["duration"], r["bytes"]) for r in rows)


def test_every_call_is_a_slice_of_its_thread(pitot, recording, tmp_path):
    trace, _ = export(pitot, recording, tmp_path)
    zero = origin(trace, timed(view(pitot, recording, "kernel")))
    rows = view(pitot, recording, "api_call")
    calls = [s for s in trace.slices if s.category in ("cuda_runtime", "cuda_driver")]
    assert Counter((c.start - zero, c.end - zero, c.pid, c.tid, c.notes["correlation"]) for c in calls) == \
        Counter((r["start_ns"], r["end_ns"], r["pid"], r["thread"], r["correlation"]) for r in rows)
    assert not [c.name for c in calls if "_v" in c.name]


def test_arrows_lead_from_launches_to_their_work(pitot, recording, tmp_path):
    trace, _ = export(pitot, recording, tmp_path)
    launches = trace.launches()
    known = {(r["pid"], r["correlation"]) for r in view(pitot, recording, "api_call")}
    linked = 0
    for stage in trace.stages:
        if (stage.pid, stage.args["correlation"]) not in known or "event" in stage.args:
            assert stage.event_id not in launches
            continue
        call = launches[stage.event_id]
        assert (call.pid, call.notes["correlation"]) == (stage.pid, stage.args["correlation"])
        linked += 1
    assert linked == sum(len(c.submitted) for c in trace.slices) == len(launches)


def test_members_of_a_collective_wait_for_the_last_rank(pitot, rank_recording, tmp_path):
    """Rank 1 sleeps 3 ms in each of 14 steps: it is what rank 0 waits for, and the other way round almost nothing."""
    trace, _ = export(pitot, rank_recording("sleep-3"), tmp_path)
    stages = {stage.event_id: stage for stage in trace.stages}
    waiting = [stage for stage in trace.stages if stage.waited]
    for stage in waiting:
        (last,), waited_ns = stage.waited, stage.args["waited_for_ranks_ns"]
        assert stages[last].start - stage.start == waited_ns > 5000 and stage.duration >= waited_ns
        assert stages[last].gpu != stage.gpu and "AllReduce" in stages[last].name and "AllReduce" in stage.name
    long = [stage for stage in waiting if 2.5e6 < stage.args["waited_for_ranks_ns"] < 4e6]
    assert len(long) in range(11, 15) and {stage.gpu for stage in long} == {0}
    assert all("waited_for_ranks_ns" not in stage.args for stage in trace.stages if not stage.waited)


@pytest.mark.parametrize("name", ["varied", "shell"])
def test_ids_of_work_are_of_one_recording(pitot, make_recording, name, tmp_path):
    """Readers have one space of them for all traces that are opened together."""
    recordings = [make_recording(tmp_path / f"{name}-{i}.pitot", name) for i in range(2)]
    first, second = (export(pitot, recording, tmp_path, "--force")[0] for recording in recordings)
    ids = [{stage.event_id for stage in trace.stages} for trace in (first, second)]
    assert len(ids[0]) == len(ids[1]) == len(first.stages) >= 10
    assert not ids[0] & ids[1]
    assert all(0 < event_id < 2 ** 36 for event_id in ids[0] | ids[1])


def test_every_kernel_that_fits_has_its_waves(pitot, recording, tmp_path):
    """Blocks of the grid by those that are resident at once; also of a single block, where that is less than a thousandth."""
    trace, _ = export(pitot, recording, tmp_path)
    multiprocessors, kernels = {}, 0
    for kernel in trace.kernels():
        limits = [value for name, value in kernel.args.items() if name.startswith("occupancy_limit_")]
        if not limits or not min(limits):
            continue
        kernels += 1
        resident = kernel.args["grid_size"] / kernel.args["waves_per_multiprocessor"]
        found = multiprocessors.setdefault(kernel.gpu, round(resident / min(limits)))
        assert resident == pytest.approx(found * min(limits)) and found > 1
    assert kernels


def test_kernels_are_told_apart_by_their_names(pitot, recording, tmp_path):
    """Readers add up slices by their names: two kernels whose short names are equal are not one."""
    trace, _ = export(pitot, recording, tmp_path)
    rows = timed(view(pitot, recording, "kernel", "--full-names"))
    assert len({stage.name for stage in trace.kernels()}) == len({row["config"] for row in rows})


def test_result_says_what_was_written(pitot, recording, tmp_path):
    out = tmp_path / "out.perfetto-trace"
    result = pitot("export", recording, "-o", out, "--json", json_output=True)
    trace = Trace(out.read_bytes())
    assert result["bytes"] == out.stat().st_size and result["files"] == 1 and result["format"] == "perfetto"
    assert result["written"]["kernel"] == len(trace.kernels())
    assert result["written"]["api_call"] == len([s for s in trace.slices if s.category.startswith("cuda_r")
                                                 or s.category == "cuda_driver"])
    assert result["arrows"] == len(trace.launches())
    assert result["events"] == sum(result["written"].values())


def test_parts_are_complete_traces(pitot, recording, tmp_path):
    whole, _ = export(pitot, recording, tmp_path)
    out = tmp_path / "p.x.perfetto-trace"
    result = pitot("export", recording, "-o", out, "--split-size", "8K", "--json", json_output=True)
    files = [out] + [tmp_path / f"p.x-{n}.perfetto-trace" for n in range(2, result["files"] + 1)]
    assert result["files"] > 1 and sorted(files) == sorted(tmp_path.glob("p.x*"))
    parts = [Trace(file.read_bytes()) for file in files]
    assert result["bytes"] == sum(file.stat().st_size for file in files)
    for kind in ("stages", "slices", "instants"):
        assert sum(len(getattr(part, kind)) for part in parts) == len(getattr(whole, kind))
    assert Counter(s.event_id for part in parts for s in part.stages) == Counter(s.event_id for s in whole.stages)
    for before, after in zip(parts, parts[1:]):
        if before.stages and after.stages:
            assert max(s.start for s in before.stages) <= min(s.start for s in after.stages)
    assert all(part.gpus and part.processes() for part in parts)


def test_names_and_places(pitot, varied, tmp_path):
    trace, _ = export(pitot, varied, tmp_path)
    assert trace.processes() == {100: "app", 3: "app"}
    assert trace.threads()[100, 101] == "loader"
    assert [gpu.name for gpu in trace.gpus] == ["NVIDIA H200 #0", "NVIDIA H200 #1"]
    assert [(gpu.vendor, gpu.model) for gpu in trace.gpus] == [("NVIDIA", "NVIDIA H200")] * 2
    assert trace.gpus[0].pci_bdf == "0000:18:00.0" and len(trace.gpus[0].uuid) == 16
    saxpy = next(k for k in trace.kernels() if k.kernel.name == "_Z5saxpyifPfS_")
    assert saxpy.name == "saxpy" and saxpy.kernel.demangled_name == "saxpy(int, float, float*, float*)"
    assert saxpy.kernel.arch == "CC_90"
    assert saxpy.args["launch.grid_size"] == (128, 1, 1) and saxpy.args["launch.workgroup_size"] == (256, 1, 1)
    assert saxpy.args["registers_per_thread"] == 32 and saxpy.args["thread_count"] == 128 * 256
    assert saxpy.args["sm__maximum_warps_per_active_cycle_pct"] == 100
    assert {s.gpu for s in trace.stages} == {0, 1}
    queues = {(s.gpu, s.pid, s.args["stream"]): s.queue for s in trace.stages}
    assert len({(gpu, name) for (gpu, _, _), name in queues.items()}) == len(queues)


def test_hostile_names(pitot, varied, tmp_path):
    trace, _ = export(pitot, varied, tmp_path)
    names = {k.kernel.name for k in trace.kernels()}
    assert "bad\ufffd\ufffd\"\\\n\t\x01name\0end" in names
    assert "x" * 60000 in names


def test_missing_times_are_counted(pitot, varied, tmp_path):
    trace, result = export(pitot, varied, tmp_path)
    assert "left out: 2 rows without their times" in result.stderr
    assert "untimed" not in {k.name for k in trace.kernels()}


def test_graph_nodes_share_their_launch(pitot, varied, tmp_path):
    trace, _ = export(pitot, varied, tmp_path)
    launch = next(s for s in trace.slices if s.name == "cuGraphLaunch")
    nodes = {s.event_id: s.args for s in trace.stages if s.args.get("graph_id") == 9}
    assert sorted(launch.submitted) == sorted(nodes)
    assert sorted(args["graph_node_id"] for args in nodes.values()) == [21, 22, 23]


def test_waits(pitot, varied, tmp_path):
    trace, _ = export(pitot, varied, tmp_path)
    wait = next(s for s in trace.slices if s.name == "cudaStreamSynchronize")
    peer = next(s for s in trace.stages if "PtoP" in s.name)
    assert wait.waited == [peer.event_id] and wait.notes["synchronization"] == "Stream Sync"
    others = [s for s in trace.slices if s.track == "Synchronization"]
    assert Counter(s.name for s in others) == {"Context Sync": 2, "Event Sync": 1}
    assert others[1].start < others[0].end or others[2].start < others[1].end, "overlapping waits are both there"


def test_nvtx(pitot, varied, tmp_path):
    trace, result = export(pitot, varied, tmp_path)
    ranges = {s.name: s for s in trace.slices if s.category == "nvtx" and not s.track.startswith("NVTX on")}
    assert set(ranges) == {"step", "other domain", "a", "b", "never ends"}
    zero = ranges["step"].start - 600000
    assert {n: (r.start - zero, r.end - zero) for n, r in ranges.items()} == {
        "step": (600000, 622500), "other domain": (610000, 630000), "a": (640000, 660000), "b": (650000, 670000),
        "never ends": (680000, 1000000)}
    assert ranges["step"].tid == 100 and ranges["step"].track == "" and ranges["never ends"].tid == 101
    assert ranges["other domain"].track == "overlapping" and ranges["other domain"].notes["domain"] == "library"
    assert ranges["a"].track == ranges["b"].track == "NVTX ranges"
    assert ranges["never ends"].notes["unfinished"] == 1
    mark, = (i for i in trace.instants if i.category == "nvtx")
    assert mark.name == "mark" and mark.notes["category"] == "phase" and mark.notes["payload"] != mark.notes["payload"]
    assert "1 end of an NVTX range" in result.stderr


def test_nvtx_on_the_gpu(pitot, recording, tmp_path):
    """Each range is on each stream from the first to the last work that was launched inside it."""
    trace, _ = export(pitot, recording, tmp_path)
    launches = trace.launches()
    pushed = [s for s in trace.slices if s.category == "nvtx" and s.tid is not None]
    spans = {}
    for stage in trace.stages:
        call = launches.get(stage.event_id)
        for i, r in enumerate(pushed):
            if call and (call.pid, call.tid) == (r.pid, r.tid) and r.start <= call.start < r.end:
                start, end, _ = spans.get((i, stage.pid, stage.queue, stage.gpu), (stage.start, 0, r.name))
                spans[i, stage.pid, stage.queue, stage.gpu] = (
                    min(start, stage.start), max(end, stage.start + stage.duration), r.name)
    shown = [(s.start, s.end, s.name, s.pid, s.track) for s in trace.slices if s.track.startswith("NVTX on")]
    assert Counter(shown) == Counter((start, end, name, pid, f"NVTX on {queue}")
                                     for (_, pid, queue, _), (start, end, name) in spans.items())
    assert shown or not pushed


def test_counters(pitot, varied, tmp_path):
    trace, _ = export(pitot, varied, tmp_path)
    samples = trace.counters[0, "gpu_power"]
    zero = samples[0][0]
    # Values hold from when they were read until the next reading, in a format where they cover the time before.
    assert [(time - zero, round(value, 3)) for time, value in samples[:4]] == [
        (0, 0), (100000, 345.678), (200000, 346.678), (300000, 347.678)]
    assert samples[-1][1] == pytest.approx(348.678) and len(samples) == 5
    assert [value for _, value in trace.counters[100, "host_memory"]] == [-5]


def test_memory_and_clock_of_gpus(pitot, make_recording, tmp_path):
    """On the tracks that readers have for them, besides the counters, when they were read."""
    recording = make_recording(tmp_path / "r.pitot", "training")
    trace, _ = export(pitot, recording, tmp_path)
    rows = view(pitot, recording, "counter_sample")
    for name, tracks, factor in ("gpu_memory_used", trace.memory, 1), ("gpu_sm_clock", trace.frequencies, 1000):
        read = [row for row in rows if row["counter"] == name]
        zero = min(time for values in tracks.values() for time, _ in values) - min(row["time_ns"] for row in read)
        assert len(read) > 10 and {gpu: [(time - zero, value) for time, value in values] for gpu, values in tracks.items()} == {
            gpu: [(row["time_ns"], row["value"] * factor) for row in read if row["device"] == gpu] for gpu in {row["device"] for row in read}}
        assert len({value for values in tracks.values() for _, value in values}) > 1


def test_peaks_of_counters(pitot, make_recording, tmp_path):
    """What the device has of them, in the counter's unit; a peak that is unknown is not there."""
    for kind in "training", "varied", "counters":
        folder = tmp_path / kind
        folder.mkdir()
        recording = make_recording(folder / "r.pitot", kind)
        trace, _ = export(pitot, recording, folder)
        expected = {}
        for device in view(pitot, recording, "device"):
            clock, memory_clock, bus = (device.get(name) or 0 for name in ("clock_khz", "memory_clock_khz", "memory_bus_bits"))
            expected |= {(device["id"], name): value for name, value in {
                "gpu_sm_clock": clock // 1000, "gpu_memory_clock": memory_clock // 1000, "gpu_memory_used": device["memory_bytes"],
                "sm__cycles_elapsed.avg.per_second": clock * 1000, "dram__bytes.sum.per_second": memory_clock * 1000 * bus // 4}.items() if value}
        assert trace.peaks == {key: expected[key] for key in expected.keys() & trace.counters.keys()}, kind
        assert trace.peaks or kind != "training"


def test_kernels_have_what_readers_show_of_them(pitot, varied, tmp_path):
    """The arguments that Perfetto's tables of a kernel's launch and occupancy read, and none that is unknown."""
    trace, _ = export(pitot, varied, tmp_path)
    configs = {(row["pid"], row["name"]): row for row in view(pitot, varied, "kernel_config")}
    columns = {"registers_per_thread": "registers", "shared_mem_static": "static_shared_bytes", "shared_mem_dynamic": "dynamic_shared_bytes",
               "shared_mem_config_size": "executed_shared_bytes"}
    seen = Counter(tuple(k.args.get(name) for name in columns) for k in trace.kernels() if k.kernel)
    assert seen == Counter(tuple(configs[row["pid"], row["config"]][column] for column in columns.values())
                           for row in timed(view(pitot, varied, "kernel")) if row["config"])
    for k in trace.kernels():
        if k.kernel:
            assert k.kernel.name and k.kernel.demangled_name and k.kernel.arch and {"process_id", "process_name", "func_cache_config"} <= k.args.keys()
            assert ("grid_size" in k.args) == any(k.args["launch.grid_size"])


def test_losses_overheads_and_memory(pitot, varied, tmp_path):
    trace, _ = export(pitot, varied, tmp_path)
    loss, = (s for s in trace.slices if s.track == "Loss")
    assert loss.name == "ring_full" and loss.notes == {"count": 17, "detail": "thread 100"}
    assert [s.name for s in trace.slices if s.track == "CUPTI overhead"] == ["Buffer Flush"]
    memory, = (i for i in trace.instants if i.category == "memory")
    assert memory.notes["bytes"] == 1 << 21
    failed, = (s for s in trace.slices if "result" in s.notes)
    assert failed.notes["result"] == -2
    external, = (s for s in trace.slices if "external_id" in s.notes)
    assert external.notes["external_id"] == 4711


def test_clocks(pitot, varied, tmp_path):
    trace, _ = export(pitot, varied, tmp_path)
    assert trace.clocks == {1, 3, 6} and trace.boottime_offset == 0


def test_a_shell_and_an_exec(pitot, make_recording, tmp_path):
    """Each image is a process with its command; clocks are those of the one that read them; names of work say no process."""
    trace, _ = export(pitot, make_recording(tmp_path / "r.pitot", "shell"), tmp_path)
    assert trace.processes() == {90: "seen", 10000100: "app 100", 100: "app"}
    assert trace.commands == {90: (1, ["seen", "-c './train; true'"]), 100: (1, ["app", "--epochs 1"]),
                              10000100: (1, ["app 100", "A=1 ./train"])}
    assert trace.clocks == {1, 3, 6}
    assert {stage.queue for stage in trace.stages} == {"Stream  7", "Stream 13"}
    assert {stage.pid for stage in trace.stages} == {100}


def test_since_until(pitot, make_recording, tmp_path):
    path = tmp_path / "r.pitot"
    make_exported(make_recording, "train", path)
    trace, _ = export(pitot, path, tmp_path, "--since", "5ms", "--until", "6ms")
    rows = timed(view(pitot, path, "kernel", "--since", "5ms", "--until", "6ms"))
    assert 10 < len(rows) < KERNELS
    assert sum(k.duration for k in trace.kernels()) == sum(r["duration"] for r in rows)
    shown = {s.event_id for s in trace.stages}
    assert all(set(call.submitted) <= shown for call in trace.slices)


def test_kernel_by_name(pitot, varied, tmp_path):
    trace, _ = export(pitot, varied, tmp_path, "--kernel", "saxpy")
    assert {k.name for k in trace.kernels()} == {"saxpy"}
    launches = [s for s in trace.slices if s.name in ("cuLaunchKernel", "cuGraphLaunch")]
    assert launches and all(s.submitted for s in launches)
    assert [s for s in trace.stages if s.name.startswith("Memcpy")]


# --- stacks and samples ---


def names(stack):
    return [frame.name for frame in stack]


def test_calls_carry_their_stacks(pitot, sampled, tmp_path):
    trace, _ = export(pitot, sampled, tmp_path)
    calls = [s for s in trace.slices if s.category.startswith("cuda_")]
    assert calls and all(call.stack for call in calls)
    launch = next(call for call in calls if call.name == "cudaLaunchKernel")
    # What is behind the program's own call, in CUDA's libraries, is left out.
    assert names(launch.stack) == ["main", "<module> (train.py)", "step (train.py)",
                                   "Linear.forward (linear.py)", "at::native::addmm_out"]
    main, python, native = launch.stack[0], launch.stack[3], launch.stack[4]
    assert (main.mapping, main.build_id, main.address) == ("/usr/bin/python3.11", "00112233", 0x400110)
    assert (python.mapping, python.line, python.kind) == ("/[python]", 125, 3)
    assert python.file.endswith("/linear.py")
    assert (native.address, native.file, native.line, native.kind) == (0x110, "/build/linear.cpp", 88, 1)


def test_a_stack_counts_for_the_gpu_time_that_it_launched(pitot, sampled, tmp_path):
    trace, _ = export(pitot, sampled, tmp_path)
    durations = {stage.event_id: stage.duration for stage in trace.stages}
    for call in trace.slices:
        assert (call.weight or 0) == sum(durations[event] for event in call.submitted if call.stack)
    assert sum(call.weight or 0 for call in trace.slices) == sum(durations.values()) > 0


def test_samples_add_up(pitot, sampled, tmp_path):
    trace, result = export(pitot, sampled, tmp_path)
    rows = view(pitot, sampled, "cpu_sample")
    cpu = [s for s in trace.samples if s.source == "pitot CPU"]
    zero = min(s.time for s in cpu) - min(r["time_ns"] for r in rows)
    assert Counter((s.time - zero, s.pid, s.tid, s.weight) for s in cpu) == \
        Counter((r["time_ns"], r["pid"], r["thread"], r["weight_ns"]) for r in rows)
    rows = view(pitot, sampled, "off_cpu")
    off = [s for s in trace.samples if s.source == "pitot off CPU"]
    assert Counter((s.time - zero, s.pid, s.tid, s.weight) for s in off) == \
        Counter((r["start_ns"], r["pid"], r["thread"], r["end_ns"] - r["start_ns"]) for r in rows)
    assert "150 CPU samples" in result.stderr and "11 times off the CPU" in result.stderr


def test_samples_stand_below_the_process_that_they_are_of(pitot, sampled, tmp_path):
    trace, _ = export(pitot, sampled, tmp_path)
    assert set(trace.processes()) == {100, 101}
    assert trace.threads() == {(100, 100): "python", (100, 102): "pt_autograd_0", (101, 101): "python"}


def test_stacks_of_samples(pitot, sampled, tmp_path):
    trace, _ = export(pitot, sampled, tmp_path)
    cpu = {tuple(names(s.stack)[-2:]): s for s in trace.samples if s.source == "pitot CPU"}
    kernel = cpu["ksys_read", "copy_page_to_iter"].stack
    assert [f.kind for f in kernel[-3:]] == [1, 2, 2] and kernel[-1].mapping == "/[kernel]"
    # They end where the thread was, in CUDA's libraries too; what is not whole says so, and what is not there.
    assert cpu["cudaStreamSynchronize", "libcuda.so.1+0x500"]
    assert names(cpu["<module> (train.py)", "step (train.py)"].stack)[0] == "[truncated stack]"
    assert names(cpu["[no stack]", ].stack) == ["[no stack]"]
    off = {tuple(names(s.stack)[-2:]) for s in trace.samples if s.source == "pitot off CPU"}
    assert off == {("read", "[sleeping]"), ("[no stack]", "[waiting for a processor]")}


def test_parts_define_the_stacks_that_they_use(pitot, sampled, tmp_path):
    whole, _ = export(pitot, sampled, tmp_path)
    out = tmp_path / "p.pftrace"
    result = pitot("export", sampled, "-o", out, "--split-size", "4K", "--json", json_output=True)
    files = [out] + [tmp_path / f"p-{n}.pftrace" for n in range(2, result["files"] + 1)]
    assert result["files"] > 2
    parts = [Trace(file.read_bytes()) for file in files]
    for kind in ("slices", "samples"):
        assert Counter(tuple(names(s.stack or [])) for part in parts for s in getattr(part, kind)) == \
            Counter(tuple(names(s.stack or [])) for s in getattr(whole, kind))


def test_without_stacks(pitot, sampled, tmp_path):
    trace, _ = export(pitot, sampled, tmp_path, "--no-stacks")
    assert trace.slices and not trace.samples and not any(s.stack for s in trace.slices)


def test_samples_from_inside(make_recording, pitot, tmp_path):
    path = make_recording(tmp_path / "r.pitot", "cpu_inside")
    trace, _ = export(pitot, path, tmp_path)
    assert {s.pid for s in trace.samples} == {100} == set(trace.processes())
    assert sum(s.weight for s in trace.samples) == sum(r["weight_ns"] for r in view(pitot, path, "cpu_sample"))
