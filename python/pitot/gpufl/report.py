"""gpufl's text report: ``generate_report(path)``, ``TextReport(session).print()``."""

from __future__ import annotations

from pitot._arrays import busy_ns
from pitot.gpufl.analyzer import GpuFlightSession, bytes_text, share_text, table_text, time_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Optional, Union

    Path = Union[str, os.PathLike[str]]

__all__ = ["TextReport", "generate_report"]

_WIDTH = 79


class TextReport:
    def __init__(self, session: GpuFlightSession, top_n: int = 10) -> None:
        self.session, self.top_n = session, top_n

    def _kernels(self) -> str:
        rows = []
        for item in self.session.recording.hotspots(by="device", pid=self.session._pid):
            time = item["time"]
            if time["count"]:
                times = [time_text(time[f"{key}_ns"]) for key in ("total", "mean", "median", "p99", "min", "max")]
                rows.append([f"{time['count']:,}", *times, item["label"]])
        return table_text("kernels  total  mean  median  p99  min  max  GPU", rows) if rows else "No kernels were recorded."

    def _copies(self) -> str:
        rows = []
        for copy in self.session.report["copies"]:
            rate = f"{copy['timed_bytes'] / copy['total_ns']:.2f} GB/s" if copy["total_ns"] else "-"
            name = "memset" if copy["set"] else f"{copy['kind']}, {copy['source']} to {copy['destination']}"
            rows.append([f"{copy['count']:,}", bytes_text(copy["bytes"]), time_text(copy["total_ns"]), rate, name])
        return table_text("count  bytes  time  rate  direction", rows) if rows else "No copies were recorded."

    def _system(self) -> str:
        rows = []
        for counter in self.session.report["system"]["counters"]:
            of = f"GPU {counter['gpu']}" if "gpu" in counter else "machine"
            numbers = [f"{counter[key]:,.1f}" if key in counter else "-" for key in ("mean", "least", "most")]
            rows.append([*numbers, f"{of} {counter['name']}, {counter['unit']}"])
        return table_text("mean  least  most  reading", rows) if rows else "No counters were recorded."

    def _loss(self) -> str:
        rows = [[f"{loss['count']:,}", f"{loss['reason']} {loss['detail']}".strip()] for loss in self.session.report["loss"]]
        return table_text("count  what is missing", rows) if rows else "Nothing is known to be missing."

    def generate(self) -> str:
        session, report = self.session, self.session.report
        busy = sum(busy_ns(gpu) for gpu in report["gpus"])
        used = share_text(busy, report["duration_ns"] * len(report["gpus"]))
        sections = {
            "Session Summary": f"{session.summary_text()}\n{'GPU busy:':<14}{used}, {report['verdict']['evidence']}",
            "Kernel Execution Summary": self._kernels(),
            f"Top {self.top_n} Kernels by Total GPU Time": session.hotspots_text(self.top_n),
            "Memory Transfer Summary": self._copies(),
            "System Metrics": self._system(),
            "Scope Summary": session.scopes_text(self.top_n),
            "Profile Analysis": session.samples_text(self.top_n),
            "Loss": self._loss(),
        }
        rule = "=" * _WIDTH
        head = f"{rule}\n{'GPU session report'.center(_WIDTH).rstrip()}\n{rule}\n"
        return head + "".join(f"\n{title}\n{'-' * len(title)}\n{text}\n" for title, text in sections.items())

    def print(self) -> None:
        print(self.generate(), end="")

    def save(self, path: Path) -> None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.generate())


def generate_report(
    log_dir: Path,
    log_prefix: str = "gfl_block",
    session_id: Optional[str] = None,
    top_n: int = 10,
    output_path: Optional[Path] = None,
) -> str:
    """Returns the text report of a recording or a folder of logs, and writes it to ``output_path`` if given."""
    report = TextReport(GpuFlightSession(log_dir, session_id, log_prefix), top_n)
    if output_path is not None:
        report.save(output_path)
    return report.generate()
