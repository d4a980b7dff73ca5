"""MemoryProfiler of ``pitot.tracesmith``: memory that this process allocates on GPUs, from ``Recording.memory``."""

from __future__ import annotations

from dataclasses import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

    from pitot import Recording


@dataclass
class MemoryProfilerConfig:
    track_call_stacks: bool = True  # without them, memory has no line


@dataclass
class MemoryAllocation:
    """What one line has allocated and not released."""

    name: str  # "train.py:20 forward"
    size: int  # bytes
    count: int
    device_id: int


@dataclass
class MemoryLeak:
    """Memory of a line that grows with the program's steps; age alone is no leak."""

    name: str
    size: int  # bytes at the end
    count: int
    device_id: int
    bytes_per_step: int
    steps: int


@dataclass
class MemoryReport:
    """Device memory, or the blocks of an allocator where that was not recorded. Several devices are added up."""

    kind: str = "device"
    total_allocations: int = 0
    total_frees: int = 0
    total_bytes_allocated: int = 0
    peak_memory_usage: int = 0  # the sum of the devices' peaks
    current_memory_usage: int = 0
    live_allocation_count: int = 0
    live_allocations: list[MemoryAllocation] = field(default_factory=list)
    potential_leaks: list[MemoryLeak] = field(default_factory=list)
    timeline: list[tuple[int, int, int]] = field(default_factory=list)  # device_id, time in ns, bytes
    details: dict[str, Any] = field(default_factory=dict)  # Recording.memory


def memory_report(recording: Recording) -> MemoryReport:
    """Summarizes ``recording.memory``, which has more: owners of the peak, scopes, pools, calls in steps."""
    memory: dict[str, Any] = recording.memory
    kinds = {row["kind"] for row in memory["kinds"]}
    kind = "device" if "device" in kinds or "allocator_block" not in kinds else "allocator_block"

    def rows(name: str) -> list[dict[str, Any]]:
        return [row for row in memory[name] if row["kind"] == kind]

    def total(key: str) -> int:
        return sum(row[key] or 0 for row in rows("kinds"))

    return MemoryReport(
        kind,
        total("allocations"),
        total("releases"),
        total("allocated_bytes"),
        total("peak_bytes"),
        total("live_bytes"),
        total("live"),
        [MemoryAllocation(row["name"], row["bytes"], row["count"], row["device"]) for row in rows("live")],
        [
            MemoryLeak(row["name"], row["last_bytes"], row["last_count"], row["device"], row["step_bytes"], row["steps"])
            for row in rows("leaks")
        ],
        [(row["device"], point["time_ns"], point["bytes"]) for row in rows("curves") for point in row["points"]],
        memory,
    )


class MemoryProfiler:
    """Records allocations of this process between start() and stop(). Results are of the running or the last capture."""

    def __init__(self, config: Optional[MemoryProfilerConfig] = None) -> None:
        from pitot.tracesmith import Profiler, ProfilerConfig

        stacks = (config or MemoryProfilerConfig()).track_call_stacks
        self._profiler = Profiler()
        self._profiler.initialize(ProfilerConfig(capture_alloc=True, capture_callstacks=stacks))

    @property
    def recording(self) -> Optional[Recording]:
        """The last capture, until the next one."""
        return self._profiler.recording

    def start(self) -> bool:
        """Returns False if it is running, or recording is switched off."""
        return self._profiler.start_capture()

    def stop(self) -> bool:
        return self._profiler.stop_capture()

    def is_active(self) -> bool:
        return self._profiler.is_capturing()

    def clear(self) -> None:
        self._profiler.finalize()

    def generate_report(self) -> MemoryReport:
        recording = self._profiler.current()
        return memory_report(recording) if recording else MemoryReport()

    def get_current_usage(self) -> int:
        return self.generate_report().current_memory_usage

    def get_peak_usage(self) -> int:
        return self.generate_report().peak_memory_usage

    def get_live_allocation_count(self) -> int:
        return self.generate_report().live_allocation_count

    def get_live_allocations(self) -> list[MemoryAllocation]:
        return self.generate_report().live_allocations

    def detect_leaks(self) -> list[MemoryLeak]:
        return self.generate_report().potential_leaks
