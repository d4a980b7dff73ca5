"""gpufl's plots for recordings of Pitot and folders of gpufl's logs: ``viz.init("./logs/*.log")``, ``viz.show()``."""

from __future__ import annotations

import glob
import os
import re

from pitot import Error, UsageError
from pitot._arrays import needs
from pitot._plot import COLORS, GREY, INK, axes, cut, legend, nothing, shown
from pitot.gpufl.analyzer import GpuFlightSession, is_log_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional, Union

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

__all__ = ["compare", "get_data", "init", "show"]

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_METRICS = {"gpu": ("device_metrics", "gpu_util"), "cpu": ("host_metrics", "cpu_pct"), "ram": ("host_metrics", "ram_used_mib")}
_sessions: list[GpuFlightSession] = []


def _sources(pattern: str) -> list[str]:
    """Recordings and folders of logs that match a pattern. A log file stands for its folder.

    A pattern of log files that matches none, "./logs/*.log", stands for its folder: logs are in folders of sessions.
    """
    found = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern))
    above = os.path.dirname(pattern) or "."
    if not found and pattern.endswith((".log", ".log.gz")) and is_log_folder(above):
        found = [above]
    folders = [os.path.dirname(path) if os.path.isfile(path) and not path.endswith(".pit") else path for path in found]
    sources = []
    for folder in dict.fromkeys(folders):
        inner = sorted(glob.glob(os.path.join(glob.escape(folder), "*.pitot")))
        sources += inner if inner and not is_log_folder(folder) else [folder or "."]
    return sources


def init(log_pattern: Union[str, list[str]]) -> None:
    """Opens recordings or folders of logs: a path, a glob, or a list of them."""
    patterns = [log_pattern] if isinstance(log_pattern, (str, os.PathLike)) else log_pattern
    sources = [source for pattern in patterns for source in _sources(os.fspath(pattern))]
    if not sources:
        raise UsageError(f"nothing matches {' or '.join(map(repr, patterns))}: give a recording or a folder of logs")
    _sessions[:] = [GpuFlightSession(source) for source in dict.fromkeys(sources)]


def get_data() -> dict[str, DataFrame]:
    """The analyzer's DataFrames of everything opened by init(), with a column ``app``."""
    import pandas

    if not _sessions:
        raise Error("nothing is open: call viz.init(path) first")
    names = ("kernels", "memcpy", "scope_events", "device_metrics", "host_metrics")
    return {
        name: pandas.concat([getattr(session, name).assign(app=session.app_name) for session in _sessions], ignore_index=True)
        for name in names
    }


def _seconds(last: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", last)
    if not match:
        raise UsageError(f"'{last}' is not a time: write 30s, 1m, 2h or 1d")
    return float(match[1]) * _UNITS[match[2]]


def _chosen(filters: dict[str, Any], last: Optional[str] = None) -> tuple[dict[str, DataFrame], tuple[float, float]]:
    """Rows of the time ``last`` with these values in their columns. Column ``t`` has seconds from the start."""
    data = get_data()
    start = min(session.session_start_ns for session in _sessions)
    end = max(session.session_end_ns for session in _sessions)
    since = max(start, end - int(1e9 * _seconds(last))) if last else start
    unknown = set(filters) - {column for frame in data.values() for column in frame.columns}
    if unknown:
        raise UsageError(f"no frame has a column '{min(unknown)}'")
    for name, frame in data.items():
        time = "ts_ns" if "ts_ns" in frame else "start_ns"
        frame = frame[frame[time] >= since]
        for column, value in filters.items():
            frame = frame[frame[column] == value] if column in frame else frame
        data[name] = frame.assign(t=(frame[time] - start) / 1e9).sort_values("t")
    return data, ((since - start) / 1e9, (end - start) / 1e9)


def _draw_series(ax: Axes, frame: DataFrame, column: str, by: str, label: str, scale: float = 1) -> None:
    known = frame.dropna(subset=[column])
    for key, mine in known.groupby(by):
        color = COLORS[len(ax.lines) % len(COLORS)]
        ax.step(mine["t"], mine[column] / scale, label=label.format(key), color=color, where="post", linewidth=1.3)


def _draw_kernels(ax: Axes, kernels: DataFrame) -> Any:
    """Draws each kernel as a line at its theoretical occupancy, with a mark that is visible however short it is."""
    lines = needs("matplotlib.collections", "viz").LineCollection
    names = kernels.groupby("name")["duration_ns"].sum().sort_values(ascending=False).index[:6]
    colors = dict(zip(names, COLORS))
    levels = 100 * kernels["occupancy"].fillna(0)
    spans = [((t, y), (t + d / 1e9, y)) for t, y, d in zip(kernels["t"], levels, kernels["duration_ns"])]
    looks = [colors.get(name, GREY) for name in kernels["name"]]
    drawn = lines(spans, colors=looks, linewidths=5, pickradius=4)
    ax.add_collection(drawn)
    ax.scatter(kernels["t"], levels, marker="|", s=30, linewidths=1, c=looks)
    short = {item.get("name"): item["label"] for session in _sessions for item in session.report["hotspots"]["items"]}
    for name, text in zip(names, cut([short.get(name, name) for name in names], 36)):
        ax.plot([], [], color=colors[name], linewidth=5, label=text)
    return drawn


def _hover(ax: Axes, drawn: Any, kernels: DataFrame) -> None:
    """Shows the name of the kernel below the pointer."""
    note = ax.annotate("", (0, 0), xytext=(8, 10), textcoords="offset points", fontsize="small", color=INK)
    note.set_bbox({"facecolor": "white", "edgecolor": GREY, "boxstyle": "round"})
    note.set_visible(False)

    def move(event: Any) -> None:
        inside, found = drawn.contains(event) if event.inaxes is ax else (False, {})
        if inside:
            kernel = kernels.iloc[found["ind"][0]]
            note.set_text(f"{kernel['name']}\n{shown(kernel['duration_ns'])}, grid {kernel['grid']}, block {kernel['block']}")
            note.xy = (event.xdata, event.ydata)
        if inside or note.get_visible():
            note.set_visible(inside)
            ax.figure.canvas.draw_idle()

    ax.figure.canvas.mpl_connect("motion_notify_event", move)


def show(last: Optional[str] = None, **filters: Any) -> Figure:
    """Plots GPU and host utilization, memory, power, and kernels by occupancy, with names at the pointer.

    ``last`` limits the plot to the time before the end: 30s, 1m, 2h, 1d.
    """
    pyplot = needs("matplotlib.pyplot", "viz")
    data, window = _chosen(filters, last)
    figure: Figure
    figure, (use, memory, power, work) = pyplot.subplots(
        4, 1, sharex=True, figsize=(11, 9), layout="constrained", height_ratios=(2, 1.5, 1.5, 2)
    )
    devices, kernels = data["device_metrics"], data["kernels"]
    axes(use, 0, 0, "Utilization (%)")
    _draw_series(use, devices, "gpu_util", "device_id", "GPU {}")
    _draw_series(use, data["host_metrics"], "cpu_pct", "app", "CPUs of the machine")
    use.set_ylim(0, 104)
    axes(memory, 0, 0, "GPU memory used (GiB)")
    _draw_series(memory, devices, "used_mib", "device_id", "GPU {}", 1024)
    axes(power, 0, 0, "Power (W)")
    _draw_series(power, devices, "power_mw", "device_id", "GPU {}", 1000)
    axes(work, 0, 0, "Kernels by theoretical occupancy (%)")
    _hover(work, _draw_kernels(work, kernels), kernels)
    work.set_ylim(0, 104)
    work.set_xlabel("time from the start of the recording (s)", color=INK)
    for ax in figure.axes:
        if ax.lines:
            ax.set_ylim(bottom=0)
            legend(ax)
        else:
            nothing(ax, "not recorded")
    work.set_xlim(window)
    pyplot.show()
    return figure


def compare(group_by: str = "app", metric: str = "gpu", **filters: Any) -> Figure:
    """Plots one line per group. ``metric`` is gpu or cpu (%), or ram (MiB)."""
    if metric not in _METRICS:
        raise UsageError(f"metric is gpu, cpu or ram, not '{metric}'")
    frame_name, column = _METRICS[metric]
    frame = _chosen(filters)[0][frame_name]
    if group_by not in frame:
        raise UsageError(f"'{group_by}' is not a column of {frame_name}, which has {', '.join(frame.columns)}")
    pyplot = needs("matplotlib.pyplot", "viz")
    figure: Figure
    figure, ax = pyplot.subplots(figsize=(11, 3.6), layout="constrained")
    axes(ax, 0, 0, f"{metric} by {group_by}")
    _draw_series(ax, frame, column, group_by, "{}")
    ax.set_xlabel("time from the start of the first recording (s)", color=INK)
    ax.set_ylabel("MiB" if metric == "ram" else "%", color=INK)
    if ax.lines:
        legend(ax)
    else:
        nothing(ax, "not recorded")
    pyplot.show()
    return figure
