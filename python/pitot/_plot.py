"""Plots of a recording: ``r.plot.timeline()`` and so on. Each draws into matplotlib's axes and returns them.

Colours are those of Okabe and Ito, which colour-blind people can distinguish.
"""

from __future__ import annotations

from pitot._arrays import arrays_of, busy_ns, needs, readings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

    from matplotlib.axes import Axes

    from pitot import Recording

COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
GREY, INK = "#B8B8B8", "#333333"
_WHAT = "r.plot"
#: Tables of GPU work, with their labels and styles.
_WORK = {
    "kernel": ("other kernels", {"facecolor": GREY}),
    "graph_launch": ("graphs", {"facecolor": "#777777"}),
    "memcpy": ("copies", {"facecolor": "white", "edgecolor": INK, "hatch": "////"}),
    "memset": ("memory sets", {"facecolor": "white", "edgecolor": INK, "hatch": "...."}),
}
_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))
_SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes"))
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def unit_of(most: float, units: tuple[tuple[float, str], ...] = _TIMES) -> tuple[float, str]:
    """The largest unit of which the value has at least two."""
    return next((unit for unit in units if most >= 2 * unit[0]), units[-1])


def shown(ns: float) -> str:
    size, unit = unit_of(ns)
    return f"{ns / size:.3g} {unit}" if ns < 1000 * size else f"{ns / size:,.0f} {unit}"


def rate(value: float, unit: str) -> str:
    size, prefix = unit_of(value, _PREFIXES)
    return f"{value / size:.4g} {prefix}{unit}"


def cut(texts: list[str], length: int = 44) -> list[str]:
    """Shortens texts by cutting their middles, but keeps them distinct."""
    short = [text if len(text) <= length else f"{text[: length // 2]}…{text[-(length // 2) :]}" for text in texts]
    return short if len(set(short)) == len(set(texts)) else cut(texts, length + 16)


def axes(ax: Optional[Axes], width: float, height: float, title: str) -> Axes:
    """Prepares the caller's axes, or those of a new figure."""
    if ax is None:
        _, ax = needs("matplotlib.pyplot", _WHAT).subplots(figsize=(width, height), layout="constrained")
    ax.set_title(title, loc="left", fontsize="medium", fontweight="bold", color=INK)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(GREY)
    ax.tick_params(color=GREY, labelcolor=INK)
    ax.grid(axis="x", color="#E8E8E8", linewidth=0.8)
    ax.set_axisbelow(True)
    return ax


def nothing(ax: Axes, text: str) -> Axes:
    """Writes into the axes why they are empty. Keeps the ticks of a shared time axis."""
    ax.set_yticks([])
    ax.grid(False)
    if len(ax.get_shared_x_axes().get_siblings(ax)) == 1:
        ax.set_xticks([])
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", color=INK, wrap=True)
    return ax


def legend(ax: Axes, **options: Any) -> None:
    """Places the legend beside the axes, or below them if its labels are long."""
    labels = [patch.get_label() for patch in options.get("handles", ())] or ax.get_legend_handles_labels()[1]
    place: dict[str, Any] = {"bbox_to_anchor": (1.01, 1)}
    if len(max(labels, key=len)) > 36:
        below_times = needs("matplotlib.transforms", _WHAT).ScaledTranslation(0, -0.45, ax.figure.dpi_scale_trans)
        place = {"bbox_to_anchor": (-0.08, 0), "bbox_transform": ax.transAxes + below_times, "ncol": 2}
        place.update(handlelength=1.2, columnspacing=1)
    ax.legend(loc="upper left", frameon=False, fontsize="small", labelcolor=INK, **place, **options)


def time_axis(ax: Axes, span_ns: float) -> tuple[float, str]:
    """Labels the time axis, and returns the size and name of its unit."""
    size, unit = unit_of(span_ns)
    ax.set_xlabel(f"time from the start of the recording ({unit})", color=INK)
    return size, unit


def merged(starts: Any, ends: Any, gap: float = 0) -> tuple[Any, Any]:
    """The union of intervals; intervals at most ``gap`` apart are merged."""
    import numpy

    order = numpy.argsort(starts, kind="stable")
    starts, ends = starts[order], numpy.maximum.accumulate(ends[order])
    begins = numpy.flatnonzero(numpy.concatenate([[True], starts[1:] > ends[:-1] + gap])) if len(starts) else order
    return starts[begins], ends[numpy.concatenate([begins[1:] - 1, [len(ends) - 1]])] if len(begins) else ends


class Plot:
    """The plots of a recording. They draw into the axes ``ax``, or into a new figure."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def _work(self, report: dict[str, Any], names: list[str]) -> dict[str, Any]:
        """GPU work in the report's window: gpu, pid, stream, start and end since the start of the recording, kind.

        A kind is the index of a kernel's name in ``names``, or len(names) plus the index of its table in _WORK.
        """
        import numpy

        devices = arrays_of(self._recording.devices.select("pid", "id", "uuid"), _WHAT)
        numbers = {gpu["uuid"]: gpu["gpu"] for gpu in report["gpus"]}
        gpus = {(pid, id): numbers.get(uuid, id) for pid, id, uuid in zip(*devices.values())}
        parts: dict[str, list[Any]] = {key: [] for key in ("gpu", "pid", "stream", "start", "end", "kind")}
        for number, table in enumerate(_WORK):
            columns = ("pid", "device", "stream", "start_ns", "end_ns", *(["name"] if table == "kernel" else []))
            chosen = self._recording.table(table).select(*columns).where("duration!=-")
            rows = arrays_of(chosen, _WHAT)
            pairs, which = numpy.unique(numpy.stack([rows["pid"], rows["device"]]), axis=1, return_inverse=True)
            kind = numpy.full(len(rows["pid"]), len(names) + number)
            for i, name in enumerate(names if table == "kernel" else ()):
                kind[rows["name"] == name] = i
            parts["gpu"].append(numpy.array([gpus.get((pid, id), id) for pid, id in pairs.T], "int64")[which.reshape(-1)])
            parts["start"].append(rows["start_ns"].astype("int64") - self._recording.start_ns)
            parts["end"].append(rows["end_ns"].astype("int64") - self._recording.start_ns)
            for key, values in (("pid", rows["pid"]), ("stream", rows["stream"]), ("kind", kind)):
                parts[key].append(values.astype("int64"))
        work = {key: numpy.concatenate(arrays) for key, arrays in parts.items()}
        inside = (work["end"] > report["window"]["start_ns"]) & (work["start"] < report["window"]["end_ns"])
        return {key: values[inside] for key, values in work.items()}

    def timeline(
        self, ax: Optional[Axes] = None, *, since: Optional[float] = None, until: Optional[float] = None, top: int = 6
    ) -> Axes:
        """GPU work by stream: the kernels with most time by name, and copies. Times in seconds from the start."""
        patch = needs("matplotlib.patches", _WHAT).Patch
        report = self._recording.report(since=since, until=until)
        start, end = report["window"]["start_ns"], report["window"]["end_ns"]
        labels = dict.fromkeys(item["label"] for item in report["hotspots"]["items"])
        names = list(labels)[: min(top, len(COLORS))]
        work = self._work(report, names)
        looks = [(name, {"facecolor": color}) for name, color in zip(cut(names), COLORS)] + list(_WORK.values())
        lanes = sorted(set(zip(*(work[key].tolist() for key in ("gpu", "pid", "stream")))))
        ax = axes(ax, 11, 1.8 + 0.5 * max(len(lanes), 4), "GPU work by stream")
        if not lanes:
            return nothing(ax, "No GPU work was recorded here.")
        size, _ = time_axis(ax, end)
        for y, (gpu, pid, stream) in enumerate(lanes):
            in_lane = (work["gpu"] == gpu) & (work["pid"] == pid) & (work["stream"] == stream)
            for kind, (_, look) in enumerate(looks):
                mine = in_lane & (work["kind"] == kind)
                starts, ends = merged(work["start"][mine], work["end"][mine], (end - start) / 4000)
                bars = list(zip(starts / size, (ends - starts).clip(min=(end - start) / 4000) / size))
                height = 0.45 if "hatch" in look else 0.76
                ax.broken_barh(bars, (y - height / 2, height), linewidth=0.5 if "hatch" in look else 0, **look)
        several = len({pid for _, pid, _ in lanes}) > 1
        ax.set_yticks(
            range(len(lanes)), [f"GPU {gpu}  stream {stream}" + f"  pid {pid}" * several for gpu, pid, stream in lanes]
        )
        ax.set(ylim=(len(lanes) - 0.4, -0.6), xlim=(start / size, end / size))
        used = set(work["kind"].tolist())
        legend(ax, handles=[patch(label=text, **look) for kind, (text, look) in enumerate(looks) if kind in used])
        return ax

    def utilization(
        self, ax: Optional[Axes] = None, *, since: Optional[float] = None, until: Optional[float] = None, bins: int = 200
    ) -> Axes:
        """Utilization of each GPU: the share of time with work, as in the report, and the GPU's own counter."""
        import numpy

        report = self._recording.report(since=since, until=until)
        start, end = report["window"]["start_ns"], report["window"]["end_ns"]
        work = self._work(report, [])
        ax = axes(ax, 11, 3.6, "GPU utilization")
        size, _ = time_axis(ax, end)
        edges = numpy.linspace(start, end, bins + 1)
        for gpu, color in zip(report["gpus"], COLORS * len(report["gpus"])):
            mine = work["gpu"] == gpu["gpu"]
            starts, ends = merged(work["start"][mine], work["end"][mine])
            at = numpy.stack([starts, ends], axis=1).reshape(-1)
            so_far = numpy.stack([(ends - starts).cumsum() - (ends - starts), (ends - starts).cumsum()], axis=1).reshape(-1)
            busy = numpy.diff(numpy.interp(edges, at, so_far)) if len(at) else numpy.zeros(bins)
            label = f"GPU {gpu['gpu']}: busy for {shown(busy_ns(gpu))}"
            ax.stairs(100 * busy / numpy.diff(edges), edges / size, color=color, linewidth=1.2, label=label)
            if len(report["gpus"]) == 1:
                ax.stairs(100 * busy / numpy.diff(edges), edges / size, fill=True, alpha=0.25, color=color)
        for index, (key, (times, values)) in enumerate(self._counter("gpu_utilization", since, until).items()):
            line = {"color": COLORS[-2 - index % 2], "linestyle": "--", "linewidth": 1.2}
            ax.step(times / size, values, where="post", label=f"GPU {key}: its own counter", **line)
        if not ax.get_legend_handles_labels()[0]:
            return nothing(ax, "No GPU work was recorded here.")
        ax.set_ylabel("of the time (%)", color=INK)
        ax.set(ylim=(0, 104), xlim=(start / size, end / size))
        legend(ax)
        return ax

    def _counter(self, name: str, since: Optional[float] = None, until: Optional[float] = None) -> dict[int, tuple[Any, Any]]:
        """Times since the start of the recording and values of a counter, by device."""
        arrays = readings(self._recording, _WHAT, f"counter={name}")
        times, found = arrays["time_ns"] - self._recording.start_ns, {}
        inside = (times >= 1e9 * (since or 0)) & (times < 1e9 * (until if until is not None else 2**33))
        for device in sorted(set(arrays["device"].tolist())):
            mine = (arrays["device"] == device) & inside & (arrays["counter"] == name)
            found[device] = times[mine], arrays["value"][mine]
        return found

    def hotspots(self, ax: Optional[Axes] = None, *, by: str = "kernel", top: int = 10, **options: Any) -> Axes:
        """GPU time of groups of kernels, with the options of ``r.hotspots(by=...)``."""
        hotspots = self._recording.report(by=by, **options)["hotspots"]
        items = [item for item in hotspots["items"] if item["time"]["count"]][:top]
        ax = axes(ax, 11, 1.2 + 0.36 * max(len(items), 3), f"GPU time by {by}")
        if not items:
            return nothing(ax, "No kernels with times were recorded here.")
        size, unit = unit_of(items[0]["time"]["total_ns"])
        totals = [item["time"]["total_ns"] / size for item in items]
        bars = ax.barh(range(len(items)), totals, color=COLORS[0], height=0.7)
        texts = [
            f"{shown(item['time']['total_ns'])} · {100 * item['time']['total_ns'] / hotspots['total_ns']:.1f} % · "
            f"{item['time']['count']:,}×"
            for item in items
        ]
        ax.bar_label(bars, texts, padding=4, fontsize="small", color=INK)
        ax.set_yticks(range(len(items)), cut([item["label"] for item in items]), fontsize="small")
        ax.set(ylim=(len(items) - 0.4, -0.6), xlim=(0, totals[0] * 1.6))
        ax.set_xlabel(f"GPU time ({unit}); share of {shown(hotspots['total_ns'])}; launches", color=INK)
        return ax

    def memory(self, ax: Optional[Axes] = None) -> Axes:
        """Memory allocated by the program, with the peaks of the report, and used memory by the GPU's own counter."""
        ax = axes(ax, 11, 3.6, "Memory")
        curves = self._allocated()
        used = {f"GPU {key}: used, its own counter": curve for key, curve in self._counter("gpu_memory_used").items()}
        both = {**curves, **used}
        if not both:
            return nothing(ax, "No allocations were recorded: pitot record --memory")
        size, unit = unit_of(max(max(values) for _, values in both.values()), _SIZES)
        time, _ = time_axis(ax, self._recording.end_ns - self._recording.start_ns)
        for index, (label, (times, values)) in enumerate(both.items()):
            look = {"color": COLORS[index % len(COLORS)], "linewidth": 1.4, "linestyle": "-" if label in curves else "--"}
            times = [moment / time for moment in times]
            ax.step(times, [value / size for value in values], where="post", label=label, **look)
            if label in curves:
                peak = max(range(len(values)), key=lambda i: values[i])
                note = ax.annotate(f"peak {values[peak] / size:.2f} {unit}", (times[peak], values[peak] / size), color=INK)
                note.set(position=(4, 5), anncoords="offset points", fontsize="small")
                note.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.8})
        ax.set_ylabel(unit, color=INK)
        ax.set_xlim(0, (self._recording.end_ns - self._recording.start_ns) / time)
        ax.set_ylim(0, 1.18 * max(max(values) for _, values in both.values()) / size)
        legend(ax)
        return ax

    def _allocated(self) -> dict[str, tuple[list[float], list[float]]]:
        """Live bytes over time by device and kind of memory. Releases are matched by address."""
        columns = ("pid", "time_ns", "operation", "kind", "address", "bytes", "device")
        rows = arrays_of(self._recording.allocations.select(*columns).where("time_ns!=-"), _WHAT)
        several = len(set(rows["pid"].tolist())) > 1
        live: dict[tuple[int, int], tuple[str, int]] = {}
        curves: dict[str, tuple[list[float], list[float]]] = {}
        for pid, time, operation, kind, address, size, device in zip(*(values.tolist() for values in rows.values())):
            label = f"GPU {device}: {kind} memory" + f", pid {pid}" * several
            changes = []
            if operation in ("allocation", "release") and (pid, address) in live:
                released = live.pop((pid, address))
                changes.append((released[0], -released[1]))
            if operation == "allocation":
                live[pid, address] = label, size
                changes.append((label, size))
            for name, change in changes:
                times, values = curves.setdefault(name, ([], []))
                times.append(time - self._recording.start_ns)
                values.append((values[-1] if values else 0) + change)
        for times, values in curves.values():
            times.append(self._recording.end_ns - self._recording.start_ns)
            values.append(values[-1])
        return curves

    def stalls(self, ax: Optional[Axes] = None, *, top: int = 10, **options: Any) -> Axes:
        """Stall reasons of the kernels with most samples."""
        stalls = self._recording.report(**options)["stalls"]
        kernels = stalls["kernels"][:top]
        ax = axes(ax, 10, 1.3 + 0.42 * max(len(kernels), 4), "What warps were doing, by samples")
        if not kernels:
            return nothing(ax, "No samples of kernels were recorded: pitot record --engine pc-sampling")
        reasons = stalls["reasons"][: len(COLORS)]
        left = [0] * len(kernels)
        for reason, color in [*zip(reasons, COLORS), ({"reason": None, "text": "other"}, GREY)]:
            known = {item["reason"] for item in reasons}
            widths = [
                sum(
                    r["samples"]
                    for r in k["reasons"]
                    if r["reason"] == reason["reason"] or (r["reason"] not in known and not reason["reason"])
                )
                for k in kernels
            ]
            if any(widths):
                ax.barh(range(len(kernels)), widths, left=left, color=color, label=reason["text"], height=0.7)
            left = [before + width for before, width in zip(left, widths)]
        ax.set_yticks(range(len(kernels)), cut([kernel["label"] for kernel in kernels]))
        ax.set(ylim=(len(kernels) - 0.4, -0.6))
        ax.set_xlabel(f"samples, of {stalls['samples']:,} in all", color=INK)
        legend(ax)
        return ax

    def roofline(self, ax: Optional[Axes] = None, *, top: int = 8, **options: Any) -> Axes:
        """Roofline of the kernels with most measured time, by level of memory, below the measured roofs."""
        points = [p for p in self._recording.report(**options)["counters"]["roofline"] if p["flops"] and p["intensity"]]
        kernels = list(dict.fromkeys(p["symbol"] for p in points))[:top]
        points = [p for p in points if p["symbol"] in kernels]
        ax = axes(ax, 10, 5.5, "Roofline")
        if not points:
            return nothing(ax, "No roofline was recorded: pitot record --engine range-profiler --metrics roofline,tensor")
        labels = {p["symbol"]: p["kernel"] for p in points}
        names = dict(zip(labels, cut(list(labels.values()), 32)))
        peaks: dict[str, float] = {}
        widths: dict[str, float] = {}
        for p in points:
            peaks[p["type"]] = max(peaks.get(p["type"], 0), p["peak_flops"] or 0)
            widths[p["level"]] = max(widths.get(p["level"], 0), p["peak_bandwidth"] or 0)
        top_peak, top_width = max(peaks.values()), max(widths.values())
        left, right = (f(p["intensity"] for p in points) * by for f, by in ((min, 1 / 4), (max, 16)))
        ridges = [top_peak / width for width in widths.values() if top_peak and width]
        left, right = min([left, *(ridge / 4 for ridge in ridges)]), max([right, *(ridge * 4 for ridge in ridges)])
        for level, color in zip(("DRAM", "L2", "L1"), COLORS):
            if level not in widths:
                continue
            width = widths[level]
            end = min(right, top_peak / width) if top_peak and width else right
            roof = ([left, end], [left * width, end * width]) if width else ([], [])
            ax.plot(*roof, color=color, label=f"{level} {rate(width, 'B/s')}" if width else f"{level}: no peak measured")
            mine = [p for p in points if p["level"] == level]
            ax.plot([p["intensity"] for p in mine], [p["flops"] for p in mine], "o", color=color)
        for type, peak in peaks.items():
            if peak:
                ax.plot([max(left, peak / top_width) if top_width else left, right], [peak, peak], color=INK)
                ax.annotate(f"{type} {rate(peak, 'FLOP/s')}", (right, peak), (0, 3), textcoords="offset points", ha="right")
        rightmost = {(p["symbol"], p["type"]): p for p in sorted(points, key=lambda p: p["intensity"])}
        for i, p in enumerate(sorted(rightmost.values(), key=lambda p: p["intensity"])):
            offset = (6, -11 if i % 2 else 5)  # neighbours may be close
            label = f"{names[p['symbol']]}, {p['type']}"
            ax.annotate(label, (p["intensity"], p["flops"]), offset, textcoords="offset points", fontsize="small", color=INK)
        ax.set(xscale="log", yscale="log", xlim=(left, right))
        ax.set_xlabel("FLOP per byte", color=INK)
        ax.set_ylabel("FLOP/s", color=INK)
        legend(ax)
        return ax
