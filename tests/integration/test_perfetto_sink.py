"""The live trace of a program that a tape plays: the same as what an export of its recording has."""
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace as Packets

from perfetto_service import connect, field, live_trace, packets_of
from perfetto_trace import Trace
from waiting import PATIENCE, wait_until


@pytest.fixture
def live(start_play, service, tmp_path):
    """A program that waits for these data sources, and then plays the tape: the play and its connection, with nothing read yet."""

    def start(tape, *sources, arguments=(), config=b"", **variables):
        play = start_play(tape, *arguments, clock="", PITOT_PERFETTO=str(tmp_path / "socket"),
                          __TRACE_STARTUP=",".join(sources), **variables)
        connection = connect(service)
        for instance, source in enumerate(sources):
            connection.start(instance + 1, source, config=config)
        return play, connection

    return start


def finish(play, connection):
    """Takes all that comes until the program has ended."""
    reader = threading.Thread(target=connection.rest)
    reader.start()
    play.touch("end")
    play.end()
    reader.join(PATIENCE)
    assert not reader.is_alive()


def kernel(stage):
    name = stage.kernel and stage.kernel.name
    return stage.name, stage.start, stage.duration, stage.pid, stage.gpu, tuple(sorted(stage.args.items())), name


def of_the_cpu(trace):
    """Without what an export knows in the end: ranges as the GPU saw them."""
    return [made for made in trace.slices if not made.track.startswith("NVTX on") and made.category != "overhead"]


def call(made):
    return made.name, made.category, made.start, made.end, made.pid, made.tid, made.notes.get("correlation"), made.stack


@pytest.mark.parametrize("tape, arguments", [("train", []), ("train", ["--realtime"]), ("kinds", []), ("graphs-launch", []), ("sync", [])])
def test_live_trace_equals_the_export(live, pitot, tmp_path, tape, arguments):
    play, connection = live(tape, "gpu.renderstages", "gpu.track_event", options="stacks=all", arguments=arguments)
    finish(play, connection)
    trace = live_trace(connection)
    pitot("export", play.recording, "-o", tmp_path / "x.pftrace", "-q")
    export = Trace((tmp_path / "x.pftrace").read_bytes())
    assert len(trace.stages) > 10 and sorted(map(kernel, trace.stages), key=str) == sorted(map(kernel, export.stages), key=str)
    assert sorted(map(call, trace.slices), key=str) == sorted(map(call, of_the_cpu(export)), key=str)
    stacks = [made.stack for made in trace.slices if made.stack]
    assert len(stacks) > 10 and all(any("tape-play" in frame.mapping and frame.build_id for frame in stack) for stack in stacks)
    assert trace.threads() == export.threads()
    assert [gpu.name for gpu in trace.gpus] == [gpu.name for gpu in export.gpus]
    assert trace.commands == export.commands

    def launched(made):
        calls = made.launches()
        return {(stage.start, calls[stage.event_id].start) for stage in made.stages
                if stage.event_id in calls}

    assert launched(trace) == launched(export) and launched(trace)
    nodes = [stage.event_id for stage in trace.stages if "graph_node_id" in stage.args]
    assert set(nodes) <= set(trace.launches()) and (len(nodes) > 50 or tape != "train")


def test_counters(live, pitot, tmp_path):
    play, connection = live("train", "gpu.counters.nv", arguments=["--realtime"])
    connection.until(lambda: connection.count() > 30)
    finish(play, connection)
    trace = live_trace(connection)
    pitot("export", play.recording, "-o", tmp_path / "x.pftrace", "-q")
    export = Trace((tmp_path / "x.pftrace").read_bytes())
    assert not trace.stages and not trace.slices
    assert {name for gpu, name in trace.counters if gpu == 0} >= {"gpu_power", "gpu_temperature", "gpu_memory_used"}
    assert trace.peaks == export.peaks and trace.peaks[0, "gpu_memory_used"] > 0
    for tracks in "memory", "frequencies":
        live, exported = getattr(trace, tracks), getattr(export, tracks)
        assert live and live.keys() == exported.keys()
        assert all(values and set(values) <= set(exported[gpu]) for gpu, values in live.items()), tracks
    for key, values in trace.counters.items():
        # The first is 0, and the last is the end's: of the recording another time.
        assert set(values[1:-1]) <= set(export.counters[key]), key


def test_a_part_of_a_gpu(live, make_tape, pitot, environment, tmp_path):
    """MIG: the driver's name, a UUID of its own, and readings that are of the whole GPU."""
    environment["PITOT_STANDIN_MACHINE"] = "tape"
    play, connection = live(make_tape("part"), "gpu.counters", arguments=["--repeat", "20"])
    connection.until(lambda: any(p.HasField("gpu_counter_event") for packets in connection.packets.values() for p in packets))
    finish(play, connection)
    pitot("export", play.recording, "-o", tmp_path / "x.pftrace", "-q")
    trace = live_trace(connection)
    for made in trace, Trace((tmp_path / "x.pftrace").read_bytes()):
        assert [(gpu.name, gpu.uuid) for gpu in made.gpus] == [("Synthetic GPU MIG 1g.5gb", bytes(range(1, 17)))]
    assert any("nvml: device 0" in text and "readings are of the whole" in text for _, _, text in trace.warnings)
    assert "MIG-01020304-0506" in pitot("view", play.recording, "device", "--json").stdout


def test_no_service_costs_nothing(start_play, tmp_path):
    """Between attempts to connect the producer's thread sleeps, also when the program's input is ready to be read, as /dev/null is."""
    play = start_play("kinds", PITOT_PERFETTO=str(tmp_path / "nobody"))
    play.until(lambda: play.count("kernel"), "kernels")

    def spent():
        threads = Path(f"/proc/{play.process.pid}/task").glob("*/stat")
        return [sum(map(int, stat.read_text().rsplit(")", 1)[1].split()[11:13])) for stat in threads]

    def mostly_sleeps():
        before = sum(spent())
        time.sleep(1)
        return sum(spent()) - before < 0.5 * os.sysconf("SC_CLK_TCK")

    wait_until(mostly_sleeps, "less than half a processor in a second", play.process)
    play.end()


def test_work_is_in_a_trace_once(service, start_play, tmp_path):
    """perfetto-cupti-gpu-compute has it in gpu.counters."""
    play = start_play("train", clock="", PITOT_PERFETTO=str(tmp_path / "socket"), __TRACE_STARTUP="gpu.renderstages,gpu.counters")
    connection = connect(service)
    connection.start(1, "gpu.counters", buffer=1)
    connection.start(2, "gpu.counters", buffer=2)
    connection.start(3, "gpu.renderstages.nv", buffer=1)
    connection.until(lambda: len(connection.started) == 3)
    connection.start(4, "gpu.renderstages", buffer=3)
    finish(play, connection)
    counts = [len(live_trace(connection, buffer).stages) for buffer in (1, 2, 3)]
    assert counts[0] == counts[1] == counts[2] > 2000


def test_clear_flush_and_stop(live):
    play, connection = live("train", "gpu.renderstages", "gpu.track_event", arguments=["--realtime", "--repeat", "100"])
    connection.until(lambda: connection.count() > 1000)
    for round in range(3):
        before = connection.count()
        connection.clear(1, 2)
        connection.flush(round + 1, 1, 2)
        connection.until(lambda: connection.acknowledged.count(round + 1) == 1 and connection.count() > before + 500)  # noqa: B023
    connection.stop(1)
    connection.until(lambda: connection.stopped == [1])
    stages = connection.count()
    connection.stop(2)
    connection.until(lambda: connection.stopped == [1, 2])
    trace = live_trace(connection)
    cleared = sum(packet.sequence_flags & 1 for packets in connection.packets.values() for packet in packets)
    assert cleared >= 4 * 2 and len(trace.stages) > 500 and stages > len(trace.stages)
    # Nobody traces: nothing comes any more, and another session can begin.
    connection.start(3, "gpu.renderstages")
    connection.until(lambda: connection.count() > stages + 500)
    play.process.terminate()
    connection.rest()


def test_trace_that_starts_inside_ranges(service, start_play, tmp_path):
    """Ranges and calls that are under way when a trace begins; a service that dies and comes again."""
    play = start_play("train", "--repeat", "100", PITOT_PERFETTO=str(tmp_path / "socket"))
    for _ in range(2):
        connection = connect(service)
        connection.start(1, "gpu.track_event")
        connection.until(lambda: sum(p.track_event.type == 2 for packets in connection.packets.values() for p in packets) > 3000)
        trace = Packets.FromString(packets_of(connection))
        open_slices = {}
        for packet in trace.packet:
            sequence = packet.trusted_packet_sequence_id
            if packet.track_event.type in (1, 2):
                open_slices[sequence] = open_slices.get(sequence, 0) + (1 if packet.track_event.type == 1 else -1)
                assert open_slices[sequence] >= 0, "an end without a beginning"
        connection.socket.close()
    play.process.kill()


def injected(build, environment, tape, *arguments, **variables):
    library = str(build / "libpitot.so")
    return subprocess.Popen([build / "standin" / "tape-play", *arguments, tape], env={
        **environment, "CUDA_INJECTION64_PATH": library, "NVTX_INJECTION64_PATH": library,
        "LSAN_OPTIONS": f"suppressions={Path(__file__).parent}/leaks.txt:print_suppressions=0", **variables},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_connects_by_the_injection_variable_alone(service, player, build, environment, source, tmp_path):
    tape = source / "tests" / "data" / "tapes" / "train.tape"
    for variables in {}, {"INJECTION_DATA_SOURCE_NAME": "gpu.mine", "INJECTION_DATA_SOURCE_NAME_SUFFIX": "x"}:
        wanted = variables.get("INJECTION_DATA_SOURCE_NAME", "gpu.counters")
        suffix = variables.get("INJECTION_DATA_SOURCE_NAME_SUFFIX", "nv")
        program = injected(build, environment, tape, PERFETTO_PRODUCER_SOCK_NAME=str(tmp_path / "socket"), __TRACE_STARTUP=wanted, **variables)
        connection = connect(service, [wanted, f"gpu.counters.{suffix}", "gpu.renderstages", f"gpu.renderstages.{suffix}", "gpu.track_event",
                                       "pitot.cpu_samples"])
        connection.start(1, wanted)
        connection.rest()
        assert program.wait(PATIENCE) == 0 and program.stdout.read() == ""
        assert len(live_trace(connection).kernels()) > 1000


METRICS = "gpu__time_duration.sum", "launch__correlation.sum", "sm__cycles_active.avg"


@pytest.fixture
def profiled(service, player, build, environment, made_tape, tmp_path):
    """A program alone, whose kernels are measured from the start: the trace, and the measured kernels with a metric."""

    def run(metric, config=b"", sources="gpu.counters", rounds=1, fault="", **variables):
        (tmp_path / "faults").write_text(fault + "\n")
        program = injected(build, environment, made_tape, "--repeat", str(rounds), "--faults", str(tmp_path / "faults"), PERFETTO_PRODUCER_SOCK_NAME=str(tmp_path / "socket"),
                           __TRACE_STARTUP=sources, **variables)
        connection = connect(service)
        for instance, source in enumerate(sources.split(","), 1):
            connection.start(instance, source, config=config)
        connection.rest()
        assert program.wait(PATIENCE) == 0 and program.stdout.read() == ""
        trace = live_trace(connection)
        assert len(trace.kernels()) == rounds * 408
        return trace, [kernel for kernel in trace.kernels() if metric in kernel.args]

    return run


@pytest.mark.parametrize("asked", ["configuration", "environment", "gpu.counters.nv,gpu.renderstages", "gpu.renderstages.nv,gpu.counters"])
def test_hardware_counters(profiled, asked):
    """The stand-in's counters say whose they are: each is an argument of its own kernel, and a counter of its time."""
    if asked != "environment":
        sources = asked if "," in asked else "gpu.counters"
        trace, measured = profiled(METRICS[0], field(108, field(3, 1) + b"".join(field(6, name) for name in METRICS)), sources=sources)
    else:
        trace, measured = profiled(METRICS[0], INJECTION_METRICS="; ".join(METRICS))
    assert len(measured) == 24 * 12
    for kernel in measured:
        assert kernel.args["launch__correlation.sum"] == kernel.args["correlation"]
        values = trace.counters[0, "launch__correlation.sum"]
        assert (kernel.start, 0) in values and (kernel.start + kernel.duration, kernel.args["correlation"]) in values
    assert {name for _, name in trace.counters} >= set(METRICS)
    assert len(trace.counters[0, METRICS[0]]) == 2 * len(measured)


@pytest.mark.parametrize("ranges, wanted", [
    ([field(1, 3) + field(2, 4)], lambda all: all[3:7]),
    ([field(1, 200) + field(2, 2), field(2, 3), field(1, 2) + field(2, 3)], lambda all: all[:5] + all[200:202]),
    ([field(1, 5) + field(2, 1), field(1, 280)], lambda all: all[5:6] + all[280:]),
    ([field(1, 100_000 * 100_000 % 2**32 + i) + field(2, 100_000_000) for i in range(63)] + [b""], lambda all: []),
], ids=["one", "several", "to the end", "too many"])
def test_chosen_kernels(profiled, ranges, wanted):
    """Ranges of the configuration; the rest of the work is there without counters."""
    trace, measured = profiled(METRICS[1], field(108, field(5, b"".join(field(5, range) for range in ranges)) + field(6, METRICS[1])))
    launched = sorted(kernel.args["correlation"] for kernel in trace.kernels() if "graph_node_id" not in kernel.args)
    assert len(launched) == 24 * 12
    assert sorted(kernel.args["correlation"] for kernel in measured) == wanted(launched)
    assert all(kernel.args[METRICS[1]] == kernel.args["correlation"] for kernel in measured)


@pytest.mark.parametrize("globs, names, said", [
    (["gpu__time_dur*"], METRICS[:1], []),
    (["*time_duration.sum", METRICS[1], "gpu__time_duration.s?m"], METRICS[:2], []),
    (["*__*_active.avg"], [METRICS[2], METRICS[0]], []),
    (["?launch*", METRICS[1]], METRICS[:2], [r"metrics: no metric of the named sets matches '\?launch\*'"]),
    (["*none"], [], [r"engine: no metric of '\*none' can be collected: no metric of the named sets matches '\*none'"]),
], ids=["one", "twice", "several", "unknown", "nothing"])
def test_globs_of_counters(profiled, globs, names, said):
    """Of those that are announced; beside them always the time."""
    trace, _ = profiled(METRICS[1], field(108, field(3, 1) + b"".join(field(6, glob) for glob in globs)))
    metrics = {name for kernel in trace.kernels() for name in kernel.args if "__" in name and "." in name}
    assert metrics == set(names)
    found = [text for text in told(trace) if text != GRAPHS]
    assert len(found) == len(said) and all(re.match(*both) for both in zip(said, found)), found


def test_counters_by_their_ids(profiled):
    """Those of the announcement; one that it has not is told of."""
    trace, _ = profiled("", field(108, field(3, 1) + field(2, 9) + field(2, 9999)))
    metrics = {name for kernel in trace.kernels() for name in kernel.args if "__" in name and "." in name}
    assert metrics == {METRICS[0], METRICS[2]}
    assert [text for text in told(trace) if text != GRAPHS] == [
        "perfetto: 1 name, pattern, id or range of the configuration is left out: it is too long, too many, or not announced"]


def test_counters_without_sampling(profiled):
    """What is missing is said."""
    trace, measured = profiled(METRICS[0], field(108, field(6, METRICS[0])))
    assert not measured and [text for text in told(trace) if text.startswith("perfetto")] == [
        "perfetto: the configuration's counters are measured per kernel; add 'instrumented_sampling: true'"]


@pytest.mark.parametrize("config, calls, ranges", [
    (field(1, "*") + field(2, "nvtx"), False, True),
    (field(2, "*") + field(1, "cuda_runtime") + field(1, "cuda_driver"), False, True),
    (field(1, "nvt?") + field(1, "scope"), True, False),
    (field(1, "*") + field(2, "cuda*"), True, False),
    (field(2, "cuda_driver") + field(1, "cuda_driver") + field(1, "cuda_runtime"), True, True),
    (field(1, "*"), False, False),
], ids=["ranges", "names before patterns", "calls", "patterns", "enabled first", "nothing"])
def test_categories(live, config, calls, ranges):
    play, connection = live("train", "gpu.track_event", config=field(113, config))
    finish(play, connection)
    found = {made.category for made in live_trace(connection).slices}
    assert ("cuda_driver" in found, "nvtx" in found) == (calls, ranges), found


def told(trace):
    """What the trace says that it has not, without whose words these are. The tape has no readings of NVML: whether one is due in so short a time is luck."""
    assert all(tag == "pitot" and re.match(r"tape-play \d+: ", text) for _, tag, text in trace.warnings)
    texts = [text.split(": ", 1)[1] for _, _, text in trace.warnings]
    return [text for text in texts if not text.startswith("nvml: device 0 has no ")]


GRAPHS = "graph_metrics: kernels of CUDA graphs are not measured"


@pytest.mark.parametrize("names, fault, said", [
    ([METRICS[1]], "", []),
    ([METRICS[1], "sm__cycle_active.avg", "nonsense"], "",
     ["metrics: chip GH100 has no metric 'sm__cycle_active.avg', did you mean 'sm__cycles_active' .*; chip GH100 has no metric 'nonsense'"]),
    (["nonsense"], "", ["engine: no metric of 'nonsense' can be collected"]),
    ([METRICS[1]], "call cuptiRangeProfilerEnable returns 35", ["engine: .*that needs the rights of an administrator"]),
    (["n" * 128, "x" * 127, *(i * "y" for i in range(120, 127)), METRICS[1]], "",
     ["perfetto: 6 names, patterns, ids or ranges of the configuration are left out", "engine: no metric of 'xxx"]),
], ids=["nothing", "two names", "all names", "rights", "too long"])
def test_engine_notes_are_in_the_trace_once(profiled, names, fault, said):
    """What is asked for in vain, once each, by the sources that ask."""
    config = field(108, field(3, 1) + b"".join(field(6, name) for name in names))
    trace, measured = profiled(METRICS[1], config, fault=fault, sources="gpu.counters,gpu.track_event", PITOT_OPTIONS="stacks_max=3")
    assert bool(measured) == (METRICS[1] in names[:1] and not fault)
    found = [text for text in told(trace) if text != GRAPHS]
    assert len(found) == len(said), found
    for text, beginning in zip(sorted(found), sorted(said)):
        assert re.match(beginning, text), found
    assert told(trace).count(GRAPHS) <= 1


def test_a_later_session_has_the_engine_notes_too(request, service, player, build, environment, made_tape, tmp_path):
    """A later session of the program that asks for the same: in its own trace, too."""
    config = field(108, field(3, 1) + field(6, METRICS[1]) + field(6, "nonsense"))
    program = injected(build, environment, made_tape, "--repeat", "1000000", PERFETTO_PRODUCER_SOCK_NAME=str(tmp_path / "socket"),
                       __TRACE_STARTUP="gpu.counters", PITOT_LOG=str(tmp_path / "log"))
    request.addfinalizer(program.kill)
    connection = connect(service)
    for instance in 1, 2, 3:
        connection.start(instance, "gpu.counters", buffer=instance, config=config)
        connection.until(lambda instance=instance: any(
            p.HasField("gpu_log") and "nonsense" in p.gpu_log.log_message
            for writer, packets in connection.packets.items() if connection.writers[writer] == instance for p in packets[:100]))
        connection.stop(instance)
        connection.until(lambda instance=instance: connection.stopped.count(instance))


def measuring(*names, globs=b""):
    return field(108, (field(5, globs) if globs else field(3, 1)) + b"".join(field(6, name) for name in names))


class Measured:
    """Hardware counters that a buffer has had so far, and what it was told."""

    def __init__(self, connection, buffer):
        self.connection, self.buffer = connection, buffer
        self.names, self.texts, self.seen = set(), [], Counter()

    def until(self, condition):
        self.connection.until(lambda: self.look() or condition(self))
        return self

    def look(self):
        for writer, packets in self.connection.packets.items():
            for packet in packets[self.seen[writer]:] if self.connection.writers[writer] == self.buffer else ():
                self.names |= {spec.name for each in packet.interned_data.gpu_counter_descriptors for spec in each.counter_descriptor.specs if "__" in spec.name}
                self.texts += [packet.gpu_log.log_message] if packet.HasField("gpu_log") else []
            self.seen[writer] = len(packets)


def of_ranges(trace):
    """Slices with the hardware counters of a range, apart from slices that only these counters make."""
    measured = [made for made in trace.slices if "passes" in made.notes]

    def values(made):
        return made.name, made.start, made.end, made.pid, {key: value for key, value in made.notes.items() if key == "passes" or "__" in key}

    alone = [values(made) for made in measured if made.category == "hardware_counters"]
    assert all(made.track == "Hardware counters" for made in measured if made.category == "hardware_counters")
    return sorted(((made.tid, made.category), values(made)) for made in measured if made.category != "hardware_counters"), sorted(alone)


@pytest.mark.parametrize("kind, slices", [("range", {"step"}), ("graph", {"cuGraphLaunch"})])
@pytest.mark.parametrize("sources", [["gpu.track_event", "gpu.counters.nv"], ["gpu.counters", "gpu.counters.nv", "gpu.track_event"]])
def test_measured_ranges(live, pitot, made_tape, tmp_path, kind, slices, sources):
    """Hardware counters of ranges and graph launches are arguments of their slices, as in an export."""
    metrics = *METRICS, "dram__bytes_read.sum"  # in two passes
    play, connection = live(made_tape, *sources, config=measuring(*metrics),
                            options=f"engine=range-profiler;measure={kind};kernel_count=0;metrics={','.join(metrics)}")
    finish(play, connection)
    pitot("export", play.recording, "-o", tmp_path / "x.pftrace", "-q")
    trace, export = live_trace(connection), Trace((tmp_path / "x.pftrace").read_bytes())
    measured, alone = of_ranges(trace)
    assert (measured, alone) == of_ranges(export) and alone == [] and len(measured) > 2
    assert {values[0] for _, values in measured} == slices
    assert all(values[4]["passes"] == 2 and values[4]["sm__cycles_active.avg"] == len(values[0] if kind == "range" else "graph 7") for _, values in measured)
    assert sorted(map(call, trace.slices), key=str) == sorted(map(call, of_the_cpu(export)), key=str)


def test_measured_ranges_without_their_slices(live, made_tape, pitot):
    """A trace that has no ranges has slices of the values, once."""
    play, connection = live(made_tape, "gpu.counters", "gpu.counters.nv", config=measuring(*METRICS),
                            options=f"engine=range-profiler;measure=range;kernel_count=0;metrics={','.join(METRICS)}")
    finish(play, connection)
    measured, alone = of_ranges(live_trace(connection))
    rows = [row for row in play.rows("range_value") if row["metric"] == METRICS[1]]
    assert measured == [] and {name for name, *_ in alone} == {"step"}
    assert [values[METRICS[1]] for *_, values in alone] == [row["value"] for row in rows] and len(rows) > 10


def test_sessions_that_measure_at_once(request, service, player, build, environment, made_tape, tmp_path):
    """The later one has what the first chose, is told so, and has its own when that has ended."""
    program = injected(build, environment, made_tape, "--realtime", "--repeat", "1000000", PERFETTO_PRODUCER_SOCK_NAME=str(tmp_path / "socket"),
                       __TRACE_STARTUP="gpu.counters.nv")
    request.addfinalizer(program.kill)
    connection = connect(service)

    def start(instance, *names, source="gpu.counters.nv", **globs):
        connection.start(instance, source, buffer=instance, config=measuring(*names, **globs))
        return Measured(connection, instance)

    def ends(*instances):
        for instance in instances:
            connection.stop(instance)
        connection.until(lambda: set(instances) <= set(connection.stopped))

    def shares(name):
        return lambda measured: any(f"engine: another session measures with engine range-profiler, metrics '{name}' of kernels '*': until it" in text
                                    for text in measured.texts)

    start(2, "nonsense").until(lambda measured: any("no metric of 'nonsense'" in text for text in measured.texts))
    connection.start(1, "gpu.counters.nv")
    third = start(3, METRICS[1], globs=name_glob("*gemm*", 0), source="gpu.counters").until(shares("nonsense"))
    ends(2)
    assert third.until(lambda measured: measured.names).names == set(METRICS[:2])
    gemms = {stage.name for stage in live_trace(connection, 3).kernels() if METRICS[1] in stage.args}
    assert gemms and all("gemm" in name for name in gemms)
    # Again with another choice, while one that does not measure goes on; and the same choice beside it.
    ends(3)
    for instance in 4, 5:
        measured = start(instance, METRICS[2]).until(lambda measured: measured.names)
        assert measured.names == {METRICS[0], METRICS[2]} and not shares(METRICS[2])(measured)
    assert start(6, METRICS[1]).until(shares(METRICS[2])).until(lambda measured: measured.names).names == {METRICS[0], METRICS[2]}
    ends(4, 5, 6)
    # Kernels are counted anew for each.
    for instance in 7, 8:
        start(instance, METRICS[2], globs=field(5, field(2, 5))).until(lambda measured: measured.names)
        ends(instance)


def test_stop_while_a_kernel_is_replayed(request, service, player, build, environment, made_tape, tmp_path):
    """Each measurement takes 0.1 s, so that every stop finds one underway: the program goes on, and the next trace measures."""
    (tmp_path / "faults").write_text("delay cuptiRangeProfilerStop 100ms\n")
    program = injected(build, environment, made_tape, "--realtime", "--repeat", "1000000", "--faults", str(tmp_path / "faults"),
                       PERFETTO_PRODUCER_SOCK_NAME=str(tmp_path / "socket"), __TRACE_STARTUP="gpu.counters")
    request.addfinalizer(program.kill)
    connection = connect(service)
    for instance in 1, 2, 3:
        connection.start(instance, "gpu.counters", buffer=instance, config=measuring(METRICS[1]))
        Measured(connection, instance).until(lambda measured: measured.names)
        connection.stop(instance)
        connection.until(lambda: instance in connection.stopped)  # noqa: B023
        measured = [kernel for kernel in live_trace(connection, instance).kernels() if METRICS[1] in kernel.args]
        assert measured and all(kernel.args[METRICS[1]] == kernel.args["correlation"] for kernel in measured)
    assert program.poll() is None


def test_told_of_ranges_and_patterns(profiled):
    """What does not fit into the settings, and what did not fit into a list before."""
    ranges = 63 * field(5, field(1, 3_000_000_000) + field(2, 3_000_000_000))
    globs = b"".join(name_glob(100 * "x", 0) + field(6, 120 * "i") + field(7, 120 * "e") for _ in range(6))
    trace, _ = profiled(METRICS[1], field(108, field(5, ranges + globs + field(6, 128 * "z")) + field(6, METRICS[1])))
    # Of 63 ranges 23 fit, of 6 patterns 4 each.
    assert [text for text in told(trace) if text.startswith("perfetto")] == [
        f"perfetto: {1 + 40 + 2 + 2 + 2} names, patterns, ids or ranges of the configuration are left out: they are too long, too many, or not announced"]


def test_many_kernels_wait_for_their_values(profiled):
    _, measured = profiled(METRICS[1], field(108, field(3, 1) + field(6, METRICS[1])), rounds=12)
    assert len(measured) == 12 * 24 * 12 and all(kernel.args[METRICS[1]] == kernel.args["correlation"] for kernel in measured)


def name_glob(glob, base):
    return field(3, field(1, glob) + field(2, base))


def name_of(kernel):
    """Without what a demangler adds: of "void n::f<int>(int)" f."""
    return kernel.kernel.demangled_name.split("(")[0].split("<")[0].split(" ")[-1].split("::")[-1]


@pytest.mark.parametrize("globs, wanted, some", [
    (name_glob("*gemm*", 0), lambda kernel, _: "gemm" in kernel.kernel.name, True),
    (name_glob("gemm", 0), lambda kernel, _: False, False),
    (name_glob("*(*, int)", 1), lambda kernel, _: kernel.kernel.demangled_name.endswith(", int)"), True),
    (name_glob("none", 0) + name_glob("soft*", 2) + name_glob("void gemm<128, 128>(*", 1), lambda kernel, _: name_of(kernel) in ("gemm", "softmax"), True),
    (name_glob("elementwise_kernel", 2), lambda kernel, _: name_of(kernel) == "elementwise_kernel", True),
    (field(6, "none") + field(6, "st?p"), lambda _, inside: inside, True),
    (field(7, "*"), lambda _, inside: not inside, True),
    (field(6, "step") + field(7, "s*"), lambda _, inside: False, False),
    (field(6, "step") + field(7, "none") + name_glob("*gemm*", 0), lambda kernel, inside: inside and "gemm" in kernel.kernel.name, True),
    (name_glob("none", 0), lambda kernel, _: False, False),
], ids=["mangled", "whole", "demangled", "several", "function", "included", "excluded", "both", "names and ranges", "nothing"])
def test_globs(profiled, globs, wanted, some):
    """Of names and of NVTX ranges: those of the thread that launches, when it does."""
    config = field(108, field(5, globs) + field(6, METRICS[1]))
    trace, measured = profiled(METRICS[1], config, sources="gpu.counters,gpu.track_event", rounds=2)
    launches, steps = trace.launches(), [made for made in trace.slices if made.name == "step"]
    assert len(steps) > 10
    found = {kernel.event_id for kernel in measured}
    expected = set()
    for kernel in trace.kernels():
        launch = launches[kernel.event_id]
        inside = any(step.start <= launch.start <= step.end and step.tid == launch.tid for step in steps)
        if "graph_node_id" not in kernel.args and wanted(kernel, inside):
            expected.add(kernel.event_id)
    assert found == expected
    assert bool(found) == some


@pytest.mark.parametrize("off", [{"PITOT_PERFETTO": "0"}, {"PITOT_DISABLED": "1"}, {"PITOT_RECORDING": "x.pitot"}], ids=str)
def test_no_connection_without_being_enabled(service, player, build, environment, source, tmp_path, off):
    if "PITOT_RECORDING" in off:
        (tmp_path / "x.pitot").mkdir()
        off = {"PITOT_RECORDING": str(tmp_path / "x.pitot")}
    program = injected(build, environment, source / "tests" / "data" / "tapes" / "train.tape",
                       PERFETTO_PRODUCER_SOCK_NAME=str(tmp_path / "socket"), **off)
    assert program.wait(PATIENCE) == 0 and program.stdout.read() == ""
    service.listener.setblocking(False)
    with pytest.raises(BlockingIOError):
        service.listener.accept()


def test_no_service(player, build, environment, source, tmp_path):
    """Nobody listens: nothing is said, nothing waits."""
    program = injected(build, environment, source / "tests" / "data" / "tapes" / "train.tape",
                       PERFETTO_PRODUCER_SOCK_NAME=str(tmp_path / "nobody"))
    assert program.wait(PATIENCE) == 0 and program.stdout.read() == ""


def test_beside_a_recording(service, player, program, build, environment, source, pitot, tmp_path):
    """pitot record --perfetto: both have all."""
    recording = tmp_path / "x.pitot"
    process = subprocess.Popen([program, "record", "-q", "--gpu-only", "-o", recording, f"--perfetto={tmp_path / 'socket'}", "--startup-wait",
                                "gpu.renderstages", "--", player, source / "tests/data/tapes/train.tape"], env={
        **environment, "PITOT_LIBRARY": str(build / "libpitot.so"),
        "LSAN_OPTIONS": f"suppressions={Path(__file__).parent}/leaks.txt:print_suppressions=0"})
    connection = connect(service)
    connection.start(1, "gpu.renderstages")
    connection.rest()
    assert process.wait(PATIENCE) == 0
    pitot("export", recording, "-o", tmp_path / "x.pftrace", "-q")
    export = Trace((tmp_path / "x.pftrace").read_bytes())
    assert sorted(map(kernel, live_trace(connection).stages), key=str) == sorted(map(kernel, export.stages), key=str)
    assert "--perfetto takes the path of a socket" in pitot("record", "--perfetto=here", "--", "true", status=2).stderr
    assert "GPU work" in pitot("record", "--perfetto", "--cpu-only", "--", "true", status=2).stderr


def test_scopes_and_counters_of_a_program(service, library, source, environment, tmp_path, pitot):
    """Threads with scopes, without CUDA; beside them a recording."""
    program = tmp_path / "embed"
    subprocess.run(["cc", "-std=c99", "-D_DEFAULT_SOURCE", "-pthread", source / "tests/integration/embed/embed.c", "-o", program,
                    "-I", source / "include", library, f"-Wl,-rpath,{library.parent}"], check=True)
    recording = tmp_path / "embed.pitot"
    recording.mkdir()
    process = subprocess.Popen([program], stdout=subprocess.PIPE, text=True, env={
        **environment, "PITOT_RECORDING": str(recording), "PITOT_OPTIONS": "cuda=0", "PITOT_PERFETTO": str(tmp_path / "socket"),
        "__TRACE_STARTUP": "gpu.track_event,gpu.counters.nv"})
    connection = connect(service)
    connection.start(1, "gpu.track_event")
    connection.start(2, "gpu.counters.nv")
    connection.rest()
    assert process.wait(PATIENCE) == 0
    trace = live_trace(connection)
    pitot("export", recording, "-o", tmp_path / "x.pftrace", "-q")
    export = Trace((tmp_path / "x.pftrace").read_bytes())
    # Lost rows of full rings are lost in both.
    def scopes(made):
        return sorted((s.name, s.start, s.end, s.tid) for s in made.slices if s.category == "scope")

    # The recording ends before the program does.
    assert set(scopes(export)) <= set(scopes(trace)) and len(scopes(trace)) - len(scopes(export)) <= 2 and len(scopes(export)) > 10000
    marks = [[(m.name, m.start) for m in made.instants if m.category == "scope"] for made in (trace, export)]
    assert marks[0][:len(marks[1])] == marks[1] and marks[1]
    live, recorded = (made.counters[process.pid, "rows"] for made in (trace, export))
    assert live[:len(recorded)] == recorded and recorded


@pytest.mark.parametrize("asked", [b"", field(111, field(15, field(2, 500))), field(111, field(2, 500))], ids=["environment", "timebase", "frequency"])
def test_samples(service, library, environment, tmp_path, pitot, asked):
    """Python and native frames of a program's threads, as a recording beside it has them; without --cpu nobody else samples."""
    recording = tmp_path / "sampled.pitot"
    recording.mkdir()
    kinds = Path(__file__).parent / "cpu_programs" / "python_kinds.py"
    program = f"import ctypes, runpy, sys; ctypes.CDLL({str(library)!r}).pitot_init(None); sys.argv[1:] = ['1']; runpy.run_path({str(kinds)!r}, run_name='__main__')"
    hz = "" if asked else ";cpu=500"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL, env={
        **environment, "PITOT_RECORDING": str(recording), "PITOT_OPTIONS": f"cuda=0{hz}", "PITOT_PERFETTO": str(tmp_path / "socket"),
        "__TRACE_STARTUP": "pitot.cpu_samples"})
    connection = connect(service)
    connection.start(1, "pitot.cpu_samples", config=asked)
    connection.rest()
    assert process.wait(PATIENCE) == 0
    trace = live_trace(connection)
    pitot("export", recording, "-o", tmp_path / "x.pftrace", "-q")
    export = Trace((tmp_path / "x.pftrace").read_bytes())

    def samples(made):
        return sorted(((s.time, s.pid, s.tid, s.cpu, s.weight, s.stack) for s in made.samples), key=str)

    # One of the two begins and ends before the other.
    assert len(trace.samples) > 100 and {s.source for s in trace.samples} == {"pitot CPU"}
    recorded, traced = ({sample[0]: sample for sample in samples(made)} for made in (export, trace))
    both = recorded.keys() & traced.keys()
    assert len(both) > 100 and [time for time in both if traced[time] != recorded[time]] == []
    names = {frame.name for sample in trace.samples for frame in sample.stack}
    assert "leaf (python_kinds.py)" in names and sum(name.endswith(" (python_kinds.py)") for name in names) > 5
    assert any("python" in name and "+0x" in name for name in names)
    assert min(sample.weight for sample in trace.samples) >= 1_900_000
    assert {sample.tid for sample in trace.samples} <= {tid for _, tid in trace.threads()}


def test_verbose_prints_events(build, environment, made_tape, tmp_path):
    """INJECTION_VERBOSE, without a service: each kernel, copy and memory set is a line, and each metric of a launch. A reader that comes late loses nothing."""
    player = build / "standin/tape-play"

    def events(**variables):
        program = subprocess.Popen([player, made_tape], stdout=subprocess.PIPE, text=True, env={
            **environment, "CUDA_INJECTION64_PATH": str(build / "libpitot.so"), "PITOT_PERFETTO": str(tmp_path / "none"), **variables})
        text = program.communicate(timeout=PATIENCE)[0]
        assert program.returncode == 0
        return [json.loads(line) for line in text.splitlines()]

    assert events() == [] == events(INJECTION_VERBOSE="")
    found = events(INJECTION_VERBOSE="1")
    kernels = [event for event in found if event["event"] == "kernel"]
    assert len(kernels) == 408 and {event["event"] for event in found} == {"kernel", "memcpy", "memset"}
    assert all(kernel["name"] and kernel["duration_ns"] > 0 and len(kernel["grid"]) == 3 for kernel in kernels)
    found = events(INJECTION_VERBOSE="any", INJECTION_METRICS="gpu__time_duration.sum; launch__correlation.sum")
    values = [event for event in found if event["event"] == "metric" and event["name"] == "launch__correlation.sum"]
    assert len(values) == 24 * 12 and all(event["value"] == event["correlation"] for event in values)
