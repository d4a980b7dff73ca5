"""TraceSmith's Python API on Pitot's recorder: ``import pitot.tracesmith as ts``.

A capture is a recording in a temporary folder, which is removed with the profiler; ``events_of`` converts any recording. A
kernel is one event with a duration. Times are nanoseconds of CLOCK_MONOTONIC; those of SBT files are as they are there.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from enum import Enum, IntEnum

from pitot import Error
from pitot import __version__ as __version__
from pitot._devices import DeviceManager as DeviceManager
from pitot._devices import benchmark as benchmark
from pitot._memory_profiler import MemoryAllocation as MemoryAllocation
from pitot._memory_profiler import MemoryLeak as MemoryLeak
from pitot._memory_profiler import MemoryProfiler as MemoryProfiler
from pitot._memory_profiler import MemoryProfilerConfig as MemoryProfilerConfig
from pitot._memory_profiler import MemoryReport as MemoryReport
from pitot._memory_profiler import memory_report as memory_report
from pitot._replay import ReplayConfig as ReplayConfig
from pitot._replay import ReplayEngine as ReplayEngine
from pitot._replay import ReplayMode as ReplayMode
from pitot._replay import ReplayResult as ReplayResult
from pitot._replay import replay_trace as replay_trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any, Iterable, Literal, NoReturn, Optional, Union

    from pitot import Recording, Running

    Path = Union[str, os.PathLike[str]]

__all__ = (
    "DeviceManager EventType MemoryAllocation MemoryLeak MemoryProfiler MemoryProfilerConfig MemoryReport "
    "PlatformType Profiler ProfilerConfig ReplayConfig ReplayEngine ReplayMode ReplayResult SBTReader SBTWriter "
    "Timeline TimelineSpan TraceEvent TraceMetadata TracingConfig TracingSession TracingStatistics XRayImporter "
    "__version__ benchmark build_timeline create_profiler detect_platform events_of export_perfetto "
    "get_current_timestamp is_cuda_available memory_report replay_trace"
).split()


class EventType(IntEnum):
    Unknown = 0
    KernelLaunch = 1
    KernelComplete = 2
    MemcpyH2D = 3
    MemcpyD2H = 4
    MemcpyD2D = 5
    MemsetDevice = 6
    StreamSync = 7
    DeviceSync = 8
    EventRecord = 9
    EventSync = 10
    StreamCreate = 11
    StreamDestroy = 12
    ContextCreate = 13
    ContextDestroy = 14
    MemAlloc = 15
    MemFree = 16
    Marker = 17
    RangeStart = 18
    RangeEnd = 19
    NCCLStart = 20
    NCCLComplete = 21
    Custom = 255


class PlatformType(IntEnum):
    Unknown = 0
    CUDA = 1
    ROCm = 2
    Metal = 3

    __str__ = Enum.__str__  # "PlatformType.CUDA", in every Python


_COPIES = {"HtoD": "H2D", "HtoA": "H2D", "DtoH": "D2H", "AtoH": "D2H"}
_WAITS = {"stream": EventType.StreamSync, "context": EventType.DeviceSync}
_ON_GPU = frozenset(range(EventType.KernelLaunch, EventType.MemsetDevice + 1))
_SPANS = _ON_GPU | {EventType.StreamSync, EventType.DeviceSync, EventType.EventSync}


@dataclass
class TraceEvent:
    type: EventType = EventType.Unknown
    name: str = ""
    timestamp: int = 0
    duration: int = 0
    device_id: int = 0
    stream_id: int = 0
    correlation_id: int = 0
    thread_id: int = 0
    metadata: dict[str, str] = field(default_factory=dict)
    call_stack: list[str] = field(default_factory=list)  # names of frames, outermost first


@dataclass
class ProfilerConfig:
    """Selects what get_events() returns: at most ``buffer_size`` events. The recording has all of them."""

    buffer_size: int = 1 << 20
    capture_callstacks: bool = False
    callstack_depth: int = 32
    capture_kernels: bool = True
    capture_memcpy: bool = True
    capture_memset: bool = True
    capture_sync: bool = True
    capture_alloc: bool = False


def get_current_timestamp() -> int:
    return time.monotonic_ns()


def is_cuda_available() -> bool:
    """Whether `pitot devices` finds a GPU."""
    import json
    import subprocess

    from pitot.__main__ import program

    done = subprocess.run([program(), "devices", "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.returncode == 0 and bool(json.loads(done.stdout))


def detect_platform() -> PlatformType:
    return PlatformType.CUDA if is_cuda_available() else PlatformType.Unknown


# --- events of a recording ---

#: By option: table, and metadata of its events by column.
_SOURCES: dict[str, tuple[str, dict[str, str]]] = {
    "capture_kernels": (
        "kernel",
        {f"{part}Dim{axis.upper()}": f"config.{part}_{axis}" for part in ("grid", "block") for axis in "xyz"}
        | {"dynamicSharedMemory": "config.dynamic_shared_bytes", "staticSharedMemory": "config.static_shared_bytes"}
        | {"localMemoryPerThread": "config.local_bytes_per_thread", "localMemoryTotal": "config.local_bytes_total"}
        | {"registersPerThread": "config.registers"},
    ),
    "capture_memcpy": ("memcpy", {"bytes": "bytes", "srcKind": "source_kind", "dstKind": "destination_kind"}),
    "capture_memset": ("memset", {"bytes": "bytes", "value": "value"}),
    "capture_sync": ("synchronization", {}),
    "capture_alloc": ("allocation", {"bytes": "bytes", "ptr": "address"}),
}


def _kind(table: str, row: dict[str, Any]) -> tuple[EventType, str]:
    """Returns type and name of a row's event."""
    if table == "kernel":
        return EventType.KernelLaunch, row["full_name"] or ""
    if table == "memcpy":
        kind = _COPIES.get(row["kind"], "D2D")
        return EventType.Unknown if row["kind"] in ("HtoH", "unknown") else EventType[f"Memcpy{kind}"], f"memcpy {row['kind']}"
    if table == "synchronization":
        return _WAITS.get(row["kind"], EventType.EventSync), f"synchronize {row['kind']}"
    if table == "allocation":
        is_release = row["operation"] == "release"
        return EventType.MemFree if is_release else EventType.MemAlloc, f"{row['operation']} of {row['kind']} memory"
    return EventType.MemsetDevice, "memset"


def events_of(recording: Recording, config: Optional[ProfilerConfig] = None) -> list[TraceEvent]:
    """Converts the GPU work, synchronizations and allocations of a recording to events, in order of time."""
    from pitot._arrays import arrays_of, arrow_of

    config, events = config or ProfilerConfig(), []
    calls = arrays_of(recording.calls.select("pid", "correlation", "thread"), "pitot.tracesmith")
    threads = {(pid, correlation): thread for pid, correlation, thread in zip(*(column.tolist() for column in calls.values()))}
    for option, (name, metadata) in _SOURCES.items():
        if not getattr(config, option):
            continue
        table = recording.table(name)
        wanted = {"pid", "start_ns", "time_ns", "duration_ns", "device", "stream", "correlation", "kind", "operation"}
        columns = [*wanted.intersection(table.columns), *metadata.values(), *(["full_name"] if name == "kernel" else [])]
        stacks = ["stack.frames"] if config.capture_callstacks else []
        timed = table.select(*columns, *stacks).where("time_ns!=-" if "time_ns" in columns else "duration!=-")
        for row in arrow_of(timed, "pitot.tracesmith").to_pylist():
            kind, text = _kind(name, row)
            events.append(
                TraceEvent(
                    kind,
                    text,
                    row.get("start_ns", row.get("time_ns")),
                    row.get("duration_ns", 0),
                    row.get("device") or 0,
                    row.get("stream") or 0,
                    row["correlation"],
                    threads.get((row["pid"], row["correlation"]), 0),
                    {key: str(row[column]) for key, column in metadata.items() if row[column] is not None},
                    (row.get("stack.frames") or [])[-config.callstack_depth :],
                )
            )
    return sorted(events, key=lambda event: event.timestamp)


class Profiler:
    """Captures this process, one capture after the other. Made by create_profiler()."""

    def __init__(self) -> None:
        self.config = ProfilerConfig()
        #: The last capture, until the next one.
        self.recording: Optional[Recording] = None
        self._running: Optional[Running] = None

    def platform_type(self) -> PlatformType:
        return PlatformType.CUDA

    def is_available(self) -> bool:
        return is_cuda_available()

    def initialize(self, config: Optional[ProfilerConfig] = None) -> bool:
        self.config = config or ProfilerConfig()
        return True

    def finalize(self) -> None:
        self.stop_capture()
        self.recording = None

    def start_capture(self) -> bool:
        """Starts a capture. Returns False if one is running, or recording is switched off."""
        import os
        import shutil
        import tempfile
        import weakref

        import pitot

        if self._running:
            return False
        folder = tempfile.mkdtemp(prefix="pitot-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        config, path = self.config, os.path.join(folder, "capture.pitot")
        stacks: Literal["all", "none"] = "all" if config.capture_callstacks else "none"
        running = pitot.start(path, stacks=stacks, memory=config.capture_alloc, sync=config.capture_sync)
        self.recording, self._running = None, running if running.path else None
        return self._running is not None

    def stop_capture(self) -> bool:
        if not self._running:
            return False
        self._running.stop()
        self.recording, self._running = self._running.open(), None
        return True

    def is_capturing(self) -> bool:
        return self._running is not None

    def current(self) -> Optional[Recording]:
        """The running capture as far as it is, or the last one."""
        return self._running.open() if self._running else self.recording

    def _all_events(self) -> list[TraceEvent]:
        recording = self.current()
        return events_of(recording, self.config) if recording else []

    def get_events(self) -> list[TraceEvent]:
        """Returns the newest ``buffer_size`` events of the running or the last capture."""
        return self._all_events()[-self.config.buffer_size :]

    def events_captured(self) -> int:
        return len(self.get_events())

    def events_dropped(self) -> int:
        """Number of events beyond ``buffer_size``, plus losses of the recording."""
        lost = sum(int(loss["count"]) for loss in self.recording.loss) if self.recording else 0
        return lost + max(0, len(self._all_events()) - self.config.buffer_size)


def create_profiler(platform: PlatformType = PlatformType.CUDA) -> Profiler:
    if platform not in (PlatformType.CUDA, PlatformType.Unknown):
        raise Error(f"there is no profiler for {platform.name}: Pitot records NVIDIA GPUs")
    return Profiler()


# --- timeline ---


@dataclass
class TimelineSpan:
    correlation_id: int
    device_id: int
    stream_id: int
    type: EventType
    name: str
    start_time: int
    end_time: int


@dataclass
class Timeline:
    spans: list[TimelineSpan]
    total_duration: int  # from the first to the last GPU work, in ns
    gpu_utilization: float  # share of that time in which a device had work, mean of the devices
    max_concurrent_ops: int


def build_timeline(events: Iterable[TraceEvent]) -> Timeline:
    """Builds a timeline of kernels, copies and memory sets. Overlapping work counts once."""
    spans = [
        TimelineSpan(e.correlation_id, e.device_id, e.stream_id, e.type, e.name, e.timestamp, e.timestamp + e.duration)
        for e in sorted(events, key=lambda event: event.timestamp)
        if e.type in _ON_GPU
    ]
    total = max((span.end_time for span in spans), default=0) - min((span.start_time for span in spans), default=0)
    busy, until = 0, {span.device_id: 0 for span in spans}
    for span in spans:
        busy += max(0, span.end_time - max(span.start_time, until[span.device_id]))
        until[span.device_id] = max(until[span.device_id], span.end_time)
    running = most = 0
    ends = [(span.end_time, -1) for span in spans if span.end_time > span.start_time]
    for _, change in sorted([(span.start_time, 1) for span in spans if span.end_time > span.start_time] + ends):
        running += change
        most = max(most, running)
    return Timeline(spans, total, busy / (total * len(until)) if total else 0.0, most)


# --- files ---


def export_perfetto(events: Iterable[TraceEvent], filename: Path, use_protobuf: bool = False) -> bool:
    """Writes the events as JSON for ui.perfetto.dev."""
    if use_protobuf:
        raise Error("protobuf is written from a recording: profiler.recording.export('trace.pftrace')")
    _write_json(events, (), filename)
    return True


#: Kineto's category and name of an event that lasts; None: its own name.
_JSON_SPANS = {
    EventType.KernelLaunch: ("kernel", None),
    EventType.KernelComplete: ("kernel", None),
    EventType.MemcpyH2D: ("gpu_memcpy", "Memcpy HtoD"),
    EventType.MemcpyD2H: ("gpu_memcpy", "Memcpy DtoH"),
    EventType.MemcpyD2D: ("gpu_memcpy", "Memcpy DtoD"),
    EventType.MemsetDevice: ("gpu_memset", "Memset (Device)"),
    EventType.StreamSync: ("cuda_sync", "Stream Sync"),
    EventType.DeviceSync: ("cuda_sync", "Context Sync"),
    EventType.EventSync: ("cuda_sync", "Event Sync"),
}
_JSON_RANGES = {EventType.RangeStart: "b", EventType.RangeEnd: "e", EventType.NCCLStart: "b", EventType.NCCLComplete: "e"}
_PROGRAM, _COUNTERS = 9998, 9999  # process ids, beside those of devices


def _numbers(metadata: dict[str, str], *names: str) -> list[int]:
    """Returns the values of all names, or none."""
    values = [metadata.get(name, "") for name in names]
    return [int(value) for value in values] if all(value.isascii() and value.isdigit() for value in values) else []


def _json_args(event: TraceEvent) -> dict[str, Any]:
    args: dict[str, Any] = {"event_type": int(event.type), "correlation_id": event.correlation_id, "thread_id": event.thread_id}
    if event.type in _JSON_SPANS:
        args.update(device=event.device_id, stream=event.stream_id, correlation=event.correlation_id)
    for name, source in (("registers per thread", "registersPerThread"), ("bytes", "bytes")):
        args.update(zip([name], _numbers(event.metadata, source)))
    for part in ("grid", "block"):
        sizes = _numbers(event.metadata, *(f"{part}Dim{axis}" for axis in "XYZ"))
        args.update({part: sizes} if sizes else {})
    if event.type in (EventType.MemAlloc, EventType.MemFree) and len(_numbers(event.metadata, "bytes", "ptr")) == 2:
        size, address = _numbers(event.metadata, "bytes", "ptr")
        args.update({"Addr": address, "Bytes": size if event.type is EventType.MemAlloc else -size})
        args.update({"Device Type": 1, "Device Id": event.device_id})
    stack = {"stack": " > ".join(event.call_stack)} if event.call_stack else {}
    return {**event.metadata, **args, **stack}


def _json_event(event: TraceEvent) -> dict[str, Any]:
    """The event as torch.profiler writes it, without its times."""
    args = _json_args(event)
    category, name = _JSON_SPANS.get(event.type, (event.type.name, None))
    line: dict[str, Any] = {"name": name or event.name, "cat": category, "pid": _PROGRAM, "tid": event.thread_id, "args": args}
    if event.type in _JSON_SPANS:
        return {**line, "ph": "X", "pid": event.device_id, "tid": event.stream_id}
    if event.type in _JSON_RANGES:
        return {**line, "ph": _JSON_RANGES[event.type], "id": event.correlation_id or event.name, "cat": category[:4]}
    line.update({"name": "[memory]"} if "Addr" in args else {})
    return {**line, "ph": "X"} if event.duration else {**line, "ph": "i", "s": "t"}


def _write_json(
    events: Iterable[TraceEvent], counters: Iterable[tuple[int, str, float]], filename: Path, base_ns: Optional[int] = None
) -> None:
    """Times are those of the events, plus base_ns since the epoch."""
    import json

    named: set[tuple[int, int]] = set()
    head = {"schemaVersion": 1, "displayTimeUnit": "ns", **({} if base_ns is None else {"baseTimeNanoseconds": base_ns})}
    with open(filename, "w", encoding="utf-8") as file:
        file.write(json.dumps(head)[:-1] + ', "traceEvents": [\n')

        def write(line: dict[str, Any], **times_ns: int) -> None:
            exact = "".join(f', "{name}": {ns // 1000}.{ns % 1000:03d}' for name, ns in times_ns.items())
            file.write(json.dumps(line)[:-1] + exact + "},\n")

        for event in events:
            line = _json_event(event)
            write(line, ts=event.timestamp, **({"dur": event.duration} if line["ph"] == "X" else {}))
            named.update({(event.device_id, event.stream_id)} if event.type in _JSON_SPANS else ())
        for moment, name, value in counters:
            write({"ph": "C", "name": name, "pid": _COUNTERS, "args": {"value": value}}, ts=moment)
        for device in {device for device, _ in named}:
            write({"ph": "M", "name": "process_name", "pid": device, "args": {"name": f"GPU Device {device}"}})
        for device, stream in named:
            write({"ph": "M", "name": "thread_name", "pid": device, "tid": stream, "args": {"name": f"Stream {stream}"}})
        file.write('{"ph": "M", "name": "process_name", "pid": %d, "args": {"name": "program"}}]}\n' % _PROGRAM)


@dataclass
class TraceMetadata:
    application_name: str = ""
    command_line: str = ""
    start_time: int = 0  # ns since the epoch
    end_time: int = 0
    hostname: str = ""
    process_id: int = 0


_DURATION, _KERNEL, _MEMORY, _STACK = 1, 2, 4, 8
_SIZES = [f"{part}Dim{axis}" for part in ("grid", "block") for axis in "XYZ"]


class SBTWriter:
    """A file of TraceSmith, with everything of the events that it has room for. It appears with finalize()."""

    def __init__(self, filename: Path) -> None:
        self._filename, self._metadata = filename, TraceMetadata()
        self._events: list[tuple[Any, ...]] = []
        self._is_open = True

    def is_open(self) -> bool:
        return self._is_open

    def write_metadata(self, metadata: TraceMetadata) -> bool:
        self._metadata = metadata
        return self._is_open

    def write_event(self, event: TraceEvent) -> bool:
        return self.write_events([event])

    def write_events(self, events: Iterable[TraceEvent]) -> bool:
        if self._is_open:
            self._events.extend(_sbt_event(event) for event in events)
        return self._is_open

    def event_count(self) -> int:
        return len(self._events)

    def finalize(self) -> bool:
        """Writes the file, with its events in order of time. Returns False if that is done."""
        from pitot._read import write_sbt

        m = self._metadata
        texts = (text.encode(errors="surrogateescape") for text in (m.application_name, m.command_line, m.hostname))
        if self._is_open:
            events = iter(sorted(self._events, key=lambda event: event[2]))
            write_sbt(self._filename, (*texts, m.start_time, m.end_time, m.process_id), events)
        done, self._is_open = self._is_open, False
        return done


def _sbt_event(event: TraceEvent) -> tuple[Any, ...]:
    shared = [
        sum(
            _numbers(event.metadata, name)[0]
            for name in ("dynamicSharedMemory", "staticSharedMemory")
            if name in event.metadata
        )
    ]
    sizes = _numbers(event.metadata, *_SIZES)
    kernel = sizes + shared + (_numbers(event.metadata, "registersPerThread") or [0]) if sizes else [0] * 8
    size, address = (_numbers(event.metadata, name) for name in ("bytes", "ptr"))
    has = _DURATION * bool(event.duration) + _KERNEL * bool(sizes) + _MEMORY * bool(size or address)
    frames = [(0, 0, name.encode(errors="surrogateescape"), b"") for name in reversed(event.call_stack)]
    return (
        *(int(event.type), has + _STACK * bool(frames or event.thread_id)),
        *(event.timestamp, event.duration, event.correlation_id, event.device_id, event.stream_id, event.thread_id),
        event.name.encode(errors="surrogateescape"),
        tuple(kernel),
        (0, *(address or [0]), *(size or [0])),
        frames,
    )


def _event_of_sbt(fields: tuple[Any, ...]) -> TraceEvent:
    kind, has, moment, duration, correlation, device, stream, thread, name, kernel, memory, frames = fields
    metadata: dict[str, int] = {}
    if has & _KERNEL:
        metadata.update(zip([*_SIZES, "dynamicSharedMemory", "registersPerThread"], kernel))
    if has & _MEMORY:
        metadata.update({"bytes": memory[2]}, **({"ptr": memory[1] or memory[0]} if memory[0] or memory[1] else {}))
    return TraceEvent(
        EventType(kind) if kind in EventType._value2member_map_ else EventType.Custom,
        name.decode(errors="replace"),
        *(moment, duration, device, stream, correlation, thread),
        {key: str(value) for key, value in metadata.items()},
        [function.decode(errors="replace") for _, _, function, _ in reversed(frames)],
    )


class SBTReader:
    """A file of TraceSmith; one that was cut or never completed, as far as it goes: ``broken`` says why."""

    def __init__(self, filename: Path) -> None:
        from pitot._read import read_sbt

        *self._events, (name, command, host, start, end, pid, self.broken) = read_sbt(filename)
        texts = [text.decode(errors="replace") for text in (name, command, host)]
        self._metadata = TraceMetadata(texts[0], texts[1], start, end, texts[2], pid)

    def is_open(self) -> bool:
        return True

    def is_valid(self) -> bool:
        return not self.broken

    def event_count(self) -> int:
        return len(self._events)

    def read_all(self) -> list[TraceEvent]:
        return self.read_events()

    def read_events(self, offset: int = 0, count: int = 0) -> list[TraceEvent]:
        """Returns ``count`` events; 0: all that follow."""
        return [_event_of_sbt(event) for event in self._events[offset : offset + count if count else None]]

    def read_metadata(self) -> tuple[bool, TraceMetadata]:
        return True, self._metadata


#: Names of TraceSmith that are missing here: patterns, and what to use.
_ABSENT = (
    (r"SBTFile", "use SBTReader(path), SBTWriter(path), or pitot.open(path)"),
    (r"(Stack(Frame|Capture)|CallStack).*", "use ProfilerConfig(capture_callstacks=True), and TraceEvent.call_stack"),
    (r"Memory.*|profile_memory", "use MemoryProfiler, memory_report(recording), recording.memory and recording.plot.memory()"),
    (r"(Frame|Captured?|DrawCall|Resource).*|resource_.*", "record a part of the program: pitot.record(path) around it"),
    (r"Timeline(Builder|View.*)", "use build_timeline(events), recording.timeline() or recording.export('trace.html')"),
    (r"Perfetto.*|is_protobuf_available", "use export_perfetto(events, path), or recording.export('trace.pftrace')"),
    (r"Determinism.*", "use `pitot diff --determinism A B`"),
    (r"(GPUSt|StateTr).*", "use `pitot report --states`"),
    (r"(Operation|Instruction|Dependency).*", "use `pitot export -o x.dot` and `pitot report --critical-path`"),
    (r"XRay.*", "use XRayImporter, or pitot.open(path)"),
    (r"(BPF|bpf_).*|is_bpf_available", "use `pitot record --cpu-via ebpf` for the functions that ran on the CPU"),
    (
        r"(GPU(Link|Device|Topology)|NVLink|Peer|MultiGPU).*|get_nvlink.*|.*link_.*",
        "a recording has all GPUs; `pitot devices` lists them",
    ),
    (
        r"(TimeSync|Sync|Drift|Clock|NCCL|Comm|LoadImb).*|(time_sync|nccl)_.*|string_to_time.*",
        "`pitot export --rank` puts ranks on one timeline",
    ),
    (r"(Counter|Flow|Device)(Event|Info|Type)", "use TracingSession.emit_counter(), and the tables of a recording"),
    (
        r"XCTrace.*|profile_with_xctrace|(is|get)_(metal|maca|ascend|xctrace|cluster|nvml|nccl|time_sync).*",
        "Pitot records NVIDIA GPUs",
    ),
    (r"get_cuda_.*|(event|platform)_type_to_string", "use is_cuda_available(), `pitot devices`, and the names of enums"),
    (r"format_(bytes|duration)|OverflowPolicy|Tracing(State|Mode)", "it has no counterpart here"),
)


class _Absent(Error, AttributeError):
    pass


def __getattr__(name: str) -> NoReturn:
    import re

    for pattern, advice in _ABSENT:
        if re.fullmatch(pattern, name):
            raise _Absent(f"pitot.tracesmith has no {name}: {advice}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class XRayImporter:
    """Calls in logs of LLVM's XRay, as ranges. Names are those of the program, which lies beside the log."""

    def import_file(self, filename: Path) -> list[TraceEvent]:
        import pitot

        kinds = {"push": EventType.RangeStart, "start": EventType.RangeStart, "mark": EventType.Marker}
        rows = pitot.open(filename).nvtx.to_arrow().to_pylist()
        return [
            TraceEvent(
                kinds.get(row["kind"], EventType.RangeEnd), row["message"] or "", row["time_ns"], thread_id=row["thread"]
            )
            for row in rows
        ]

    @staticmethod
    def is_available() -> bool:
        return True


# --- events of the program itself ---


@dataclass
class TracingConfig:
    buffer_size_kb: int = 4096  # 4 events per KiB; older ones are dropped and counted
    enable_counter_tracks: bool = True


@dataclass
class TracingStatistics:
    events_emitted: int = 0
    events_dropped: int = 0
    counters_emitted: int = 0
    start_time: int = 0
    stop_time: int = 0

    def duration_ms(self) -> float:
        return ((self.stop_time or get_current_timestamp()) - self.start_time) / 1e6 if self.start_time else 0.0


class TracingSession:
    """Events and counters emitted by the program, in memory until they are exported. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._config, self._statistics = TracingConfig(), TracingStatistics()
        self._active = False
        self.clear()

    def clear(self) -> None:
        with self._lock:
            self._events: deque[TraceEvent] = deque(maxlen=self.event_buffer_capacity())
            self._counters: deque[tuple[int, str, float]] = deque(maxlen=self.event_buffer_capacity())

    def start(self, config: Optional[TracingConfig] = None) -> bool:
        """Starts the session. Returns False if it is running."""
        if self._active:
            return False
        self._config = config or TracingConfig()
        self._statistics = TracingStatistics(start_time=get_current_timestamp())
        self.clear()
        self._active = True
        return True

    def stop(self) -> bool:
        if not self._active:
            return False
        self._active = False
        self._statistics.stop_time = get_current_timestamp()
        return True

    def is_active(self) -> bool:
        return self._active

    def emit(self, event: TraceEvent) -> bool:
        """Adds an event; without a timestamp it happens now. Returns False if the session is not running."""
        from dataclasses import replace

        event = replace(event, metadata=dict(event.metadata), timestamp=event.timestamp or get_current_timestamp())
        with self._lock:
            if self._active:
                self._statistics.events_dropped += len(self._events) == self._events.maxlen
                self._statistics.events_emitted += 1
                self._events.append(event)
            return self._active

    def emit_counter(self, name: str, value: float) -> bool:
        with self._lock:
            wanted = self._active and self._config.enable_counter_tracks
            if wanted:
                self._statistics.events_dropped += len(self._counters) == self._counters.maxlen
                self._statistics.counters_emitted += 1
                self._counters.append((get_current_timestamp(), name, value))
            return wanted

    def get_events(self) -> list[TraceEvent]:
        with self._lock:
            return list(self._events)

    def get_counters(self) -> list[tuple[int, str, float]]:
        """Returns tuples of timestamp, name and value."""
        with self._lock:
            return list(self._counters)

    def get_statistics(self) -> TracingStatistics:
        return self._statistics

    def event_buffer_size(self) -> int:
        return len(self._events)

    def event_buffer_capacity(self) -> int:
        return 4 * self._config.buffer_size_kb

    def events_dropped(self) -> int:
        return self._statistics.events_dropped

    def recording(self) -> Recording:
        """The events and counters as a temporary recording: kernels, copies, ranges, marks, counters."""
        import os
        import tempfile

        import pitot

        with tempfile.TemporaryDirectory(prefix="pitot-") as folder:
            path = os.path.join(folder, "session.json")
            _write_json(self.get_events(), self.get_counters(), path, time.time_ns() - get_current_timestamp())
            return pitot.open(path)

    def export_to_file(self, filename: Path) -> bool:
        """Writes JSON for ui.perfetto.dev; of another name, what ``pitot export`` writes by it."""
        import os

        if os.fspath(filename).endswith(".json"):
            _write_json(self.get_events(), self.get_counters(), filename)
        else:
            self.recording().export(filename, overwrite=True)
        return True
