"""TraceSmith's names for replaying, on `pitot replay`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from pitot import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any, Iterable, Optional, Union

    from pitot import Recording
    from pitot.tracesmith import TraceEvent

    Path = Union[str, os.PathLike[str]]

_WORK = ("kernel", "memcpy", "memset", "graph")


class ReplayMode(IntEnum):
    Full = 0
    Partial = 1
    DryRun = 2
    StreamSpecific = 3


@dataclass
class ReplayConfig:
    mode: ReplayMode = ReplayMode.Full
    time_scale: float = 1.0  # 2.0: twice as long
    stream_id: int = -1  # for StreamSpecific


@dataclass
class ReplayResult:
    """``details`` is the output of `pitot replay --json`."""

    success: bool = False
    deterministic: bool = False  # all kernels ran in the recorded order; of a dry run False
    operations_total: int = 0
    operations_executed: int = 0
    operations_skipped: int = 0
    operations_failed: int = 0
    replay_duration: int = 0  # in ns; of a dry run 0
    original_duration: int = 0
    order_violations: int = 0  # also of dependencies
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    def summary(self) -> str:
        return (
            f"{'executed' if self.success else 'failed'}: {self.operations_executed} of {self.operations_total} operations, "
            f"{self.operations_skipped} skipped, {self.order_violations} out of order, {self.replay_duration / 1e6:.3f} ms "
            f"({self.original_duration / 1e6:.3f} ms recorded)"
        )


class ReplayEngine:
    """Replays a recording, an SBT file or events on the GPUs of this machine."""

    def __init__(self) -> None:
        self._recording: Optional[Recording] = None

    def load_trace(self, filename: Path) -> bool:
        """Opens a recording, or a file that `pitot import` reads."""
        import pitot

        self._recording = pitot.open(filename)
        return True

    def load_events(self, events: Iterable[TraceEvent]) -> bool:
        import os
        import tempfile

        from pitot.tracesmith import SBTWriter

        with tempfile.TemporaryDirectory(prefix="pitot-") as folder:
            path = os.path.join(folder, "events.sbt")
            writer = SBTWriter(path)
            writer.write_events(events)
            writer.finalize()
            return self.load_trace(path)

    def replay(self, config: Optional[ReplayConfig] = None) -> ReplayResult:
        """A driver or a GPU that is missing is in ``errors``."""
        config = config or ReplayConfig()
        if not self._recording:
            raise Error("nothing is loaded: load_trace(path) or load_events(events)")
        if config.mode == ReplayMode.Partial:
            raise Error("choose the part: recording.replay('--since', '1s', '--until', '2s') or ('--ops', '1..100')")
        words = [f"--speed={1 / config.time_scale!r}"]
        words += ["--dry-run"] * (config.mode == ReplayMode.DryRun)
        words += [f"--stream={config.stream_id}"] * (config.mode == ReplayMode.StreamSpecific)
        try:
            return _result(self._recording.replay(*words))
        except Error as error:
            return ReplayResult(errors=[str(error)])


def _result(found: dict[str, Any]) -> ReplayResult:
    planned, executed = (sum(found.get(key, {}).get(kind, 0) for kind in _WORK) for key in ("planned", "executed"))
    violations = found["order_violations"] or 0
    return ReplayResult(
        success=not violations,
        deterministic=found["order_violations"] == 0,
        operations_total=found["operations"],
        operations_executed=executed,
        operations_skipped=found["operations"] - planned,
        replay_duration=sum(found["replayed_ns"]),
        original_duration=found["recorded_ns"],
        order_violations=violations,
        warnings=[f"{count} {reason}" for key in ("skipped", "substituted") for reason, count in found[key].items() if count],
        details=found,
    )


def replay_trace(events: Iterable[TraceEvent], mode: ReplayMode = ReplayMode.Full) -> ReplayResult:
    engine = ReplayEngine()
    engine.load_events(events)
    return engine.replay(ReplayConfig(mode))
