"""gpufl's analyzer for recordings of Pitot, and for folders of gpufl's logs, which are imported first.

>>> from pitot.gpufl.analyzer import GpuFlightSession
>>> session = GpuFlightSession(recording)
>>> session.kernels["duration_ms"].sum() > 0
True

The DataFrames have gpufl's columns, with missing values for unknown ones. Printed numbers are those of ``pitot report``.
"""

from __future__ import annotations

import os
import re
from functools import cached_property

import pitot
from pitot._arrays import arrow_of, busy_ns, needs, readings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Optional, Sequence, Union

    from pandas import DataFrame

    Path = Union[str, os.PathLike[str]]

__all__ = ["GpuFlightSession"]

_LOG = re.compile(r"(?:.+\.)?(?:device|scope|system|sass)(?:\.\d+)?\.log(?:\.gz)?")
_WHAT = "pitot.gpufl.analyzer"

#: In CUPTI's numbering.
_COPY_KINDS = "unknown HtoD DtoH HtoA AtoH AtoA AtoD DtoA DtoD HtoH PtoP".split()
_LIMITERS = {"shared memory": "shared_mem"}
_METRICS = {
    "gpu_utilization": "gpu_util",
    "gpu_memory_utilization": "mem_util",
    "gpu_temperature": "temp_c",
    "gpu_power": "power_mw",
    "gpu_memory_used": "used_mib",
    "gpu_sm_clock": "clock_sm",
}
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"
#: gpufl's names of hardware counters, and their metrics.
_PERF = {
    "sm_throughput_pct": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1_hit_rate_pct": "l1tex__t_sector_hit_rate.pct",
    "l2_hit_rate_pct": "lts__t_sector_hit_rate.pct",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "tensor_active_pct": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "achieved_occupancy_pct": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "shared_load_bank_conflicts": f"{_CONFLICTS}_op_ld.sum",
    "shared_store_bank_conflicts": f"{_CONFLICTS}_op_st.sum",
    "shared_bank_conflicts": f"{_CONFLICTS}.sum",
    "shared_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
}


def is_log_folder(path: Path) -> bool:
    """Whether a folder has gpufl's logs, or folders of sessions with logs."""
    for folder, _, files in os.walk(path):
        if any(_LOG.fullmatch(file) for file in files):
            return True
        if os.path.relpath(folder, path).count(os.sep):
            break
    return False


def _imported(path: Path, owner: object) -> str:
    """Imports a folder of logs as a recording, which is removed with its owner."""
    from pitot._imported import import_recording, remove_with

    recording = import_recording(path)
    remove_with(owner, recording)
    return recording


def time_text(ns: Optional[float]) -> str:
    if ns is None or ns != ns:
        return "-"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.2f} {unit}"
    return f"{ns:.0f} ns"


def bytes_text(count: float) -> str:
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while count >= 1024 and len(units) > 1:
        count /= 1024
        del units[0]
    return f"{count:.0f} B" if units[0] == "B" else f"{count:.1f} {units[0]}"


def share_text(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f}%" if whole else "-"


def table_text(heads: str, rows: Iterable[Sequence[object]]) -> str:
    """Formats a table: right-aligned numbers, the last column is text. Heads are separated by two blanks."""
    lines = [heads.split("  "), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]) - 1)]
    return "\n".join("  ".join([*(cell.rjust(width) for cell, width in zip(line, widths)), line[-1]]) for line in lines)


class GpuFlightSession:
    """A recording, or the sessions of a folder of logs, with gpufl's seven DataFrames and six methods.

    ``session_id`` selects a session in a folder of logs, or a process id in a recording; default: all.
    ``log_prefix`` and ``load_all_rotated`` have no effect: all files are read.
    """

    def __init__(
        self,
        log_dir: Path,
        session_id: Optional[str] = None,
        log_prefix: str = "gfl_block",
        max_stack_depth: int = 5,
        load_all_rotated: bool = False,
    ) -> None:
        needs("pandas", _WHAT)
        self.log_dir, self.session_id, self.max_stack_depth = log_dir, session_id, max_stack_depth
        self._pid = -1
        self._is_imported = is_log_folder(log_dir)
        self._sessions: list[dict[str, Any]] = []
        if self._is_imported:
            inner = os.path.join(log_dir, session_id or "")
            self.recording = pitot.open(_imported(inner if os.path.isdir(inner) else log_dir, self))
            rows = self.recording.table("capability").select("pid", "time_ns", "actual").where("name=session")
            self._sessions = sorted(arrow_of(rows, _WHAT).to_pylist(), key=lambda row: int(row["time_ns"]))
            if session_id is not None and not os.path.isdir(inner):
                self._pid = self._process_of(session_id)
        else:
            self.recording = pitot.open(log_dir)
            if session_id is not None:
                if not session_id.isdecimal():
                    raise pitot.UsageError(f"'{session_id}' is not a process id: session_id of a recording is one")
                self._pid = int(session_id)
        self.report = self.recording.report(pid=self._pid, scopes=True, stalls=True)
        processes = [item for item in self.report["processes"] if self._pid in (-1, item["pid"])]
        names = [item[key] for key in ("name", "command") for item in processes if item.get(key)]
        self.app_name = names[0] if names else ""
        self.session_start_ns = self.report["start_unix_ns"]
        self.session_end_ns = self.session_start_ns + self.report["duration_ns"]

    def _process_of(self, session_id: str) -> int:
        for session in self._sessions:
            if session["actual"] == session_id:
                return int(session["pid"])
        known = ", ".join(session["actual"] for session in self._sessions)
        raise pitot.UsageError(f"no session '{session_id}' in these logs: they have {known}")

    # --- DataFrames ---

    def _session_ids(self, frame: DataFrame) -> Any:
        """Processes of a recording, sessions of logs. A process may have had several sessions, one after the other."""
        ids, times = frame["pid"].astype(str), [name for name in ("start_ns", "time_ns") if name in frame]
        first = {session["pid"]: session for session in reversed(self._sessions)}
        for session in self._sessions:
            is_all = session is first[session["pid"]] or not times
            ids[(frame["pid"] == session["pid"]) & (is_all or frame[times[0]] >= session["time_ns"])] = session["actual"]
        return ids

    def _rows(self, table: str, *columns: str, where: Sequence[str] = ()) -> DataFrame:
        if self._pid >= 0:
            where = (*where, f"pid={self._pid}")
        frame = arrow_of(self.recording.table(table).select("pid", *columns).where(*where), _WHAT).to_pandas()
        frame.insert(0, "session_id", self._session_ids(frame))
        for name in ("start_ns", "end_ns", "time_ns"):
            if name in columns:
                frame[name] += self.recording.unix_offset_ns
        return frame

    @cached_property
    def _limits(self) -> DataFrame:
        """Theoretical occupancy by GPU and row of kernel_config."""
        import pandas

        rows = []
        for device in sorted({gpu["ordinal"] for gpu in self.report["gpus"]}):
            for item in self.recording.hotspots(by="config", device=device, pid=self._pid):
                limits = (item.get("config") or {}).get("occupancy")
                if not limits:
                    continue
                warps = limits["warps"] / limits["blocks"] if limits["blocks"] else 0
                most = limits["max_warps"]
                by = [min(1.0, blocks * warps / most) for blocks in limits["limits"]]
                limiter = _LIMITERS.get(limits["limiter"], limits["limiter"])
                rows.append([device, item["config"]["row"], limits["warps"] / most, by[1], by[3], by[0], by[2], limiter])
        parts = "occupancy reg_occupancy smem_occupancy warp_occupancy block_occupancy limiting_resource".split()
        return pandas.DataFrame(rows, columns=["device", "config.row", *parts]).astype(
            {"device": "int64", "config.row": "int64"}
        )

    @cached_property
    def kernels(self) -> DataFrame:
        import pandas

        shape = [f"config.{part}_{axis}" for part in ("grid", "block") for axis in "xyz"]
        config = "registers dynamic_shared_bytes static_shared_bytes local_bytes_per_thread local_bytes_total row".split()
        frame = self._rows(
            "kernel",
            *"start_ns end_ns duration_ns full_name stream correlation device scope stack.frames".split(),
            *(f"config.{name}" for name in config),
            *shape,
            where=("duration!=-",),
        )
        frame = frame.merge(self._limits, how="left", on=["device", "config.row"])
        for part, axes in (("grid", shape[:3]), ("block", shape[3:])):
            sizes = frame[axes].itertuples(index=False)
            frame[part] = ["(%d,%d,%d)" % size if size[0] == size[0] else None for size in sizes]
        calls = pandas.MultiIndex.from_frame(self._rows("api_call", "correlation")[["pid", "correlation"]])
        launched = pandas.MultiIndex.from_frame(frame[["pid", "correlation"]]).isin(calls)
        frame["user_scope"] = [
            scope.replace("/", "|") if isinstance(scope, str) else "global" if known or self._is_imported else "unknown"
            for scope, known in zip(frame["scope"], launched)
        ]
        frame["stack_trace"] = ["" if frames is None else "|".join(frames) for frames in frame["stack.frames"]]
        frame["has_details"], frame["const_bytes"] = True, float("nan")
        frame["local_bytes"] = frame["config.local_bytes_per_thread"]
        return _named(
            frame,
            "session_id start_ns end_ns duration_ns name=full_name stream_id=stream corr_id=correlation "
            "dyn_shared_bytes=config.dynamic_shared_bytes num_regs=config.registers has_details grid block "
            "static_shared_bytes=config.static_shared_bytes local_bytes const_bytes occupancy reg_occupancy smem_occupancy "
            "warp_occupancy block_occupancy limiting_resource local_mem_total_bytes=config.local_bytes_total "
            "local_mem_per_thread_bytes=config.local_bytes_per_thread user_scope stack_trace",
        )

    @cached_property
    def memcpy(self) -> DataFrame:
        columns = "start_ns end_ns duration_ns stream bytes kind correlation".split()
        frame = self._rows("memcpy", *columns, where=("duration!=-",))
        frame["copy_kind"] = [_COPY_KINDS.index(kind) if kind in _COPY_KINDS else 0 for kind in frame["kind"]]
        frame["throughput_gbps"] = frame["bytes"] / frame["duration_ns"].where(frame["duration_ns"] > 0)
        return _named(
            frame,
            "session_id start_ns end_ns duration_ns stream_id=stream bytes copy_kind corr_id=correlation throughput_gbps",
        )

    @cached_property
    def scopes(self) -> DataFrame:
        """PC samples of kernels by instruction and stall reason, and SASS metrics by instruction and launch."""
        import pandas

        samples, metrics = self._pc_samples(), self._sass_metrics()
        if samples.empty or metrics.empty:
            return metrics if samples.empty else samples
        return pandas.concat([samples, metrics], ignore_index=True).sort_values("ts_ns", kind="stable", ignore_index=True)

    def _sass_metrics(self) -> DataFrame:
        frame = self._rows("sass_value", *"time_ns correlation device function offset metric.name value".split())
        frame["type"], frame["sample_kind"], frame["sample_count"] = "profile_sample", "sass_metric", 0
        frame["stall_reason"] = float("nan")
        frame["scope_name"] = frame["reason_name"] = None
        frame["function_name"] = [self._names.get(symbol, symbol) for symbol in frame["function"]]
        return _named(
            frame,
            "type session_id ts_ns=time_ns corr_id=correlation device_id=device function_name pc_offset=offset "
            "metric_name=metric.name metric_value=value stall_reason sample_kind scope_name reason_name sample_count",
        )

    @cached_property
    def _names(self) -> dict[str, str]:
        """Names of kernels by their symbols. Decoded only for recordings with samples or metrics of functions."""
        kernels = self._rows("kernel", "mangled_name", "full_name").drop_duplicates("mangled_name")
        return dict(zip(kernels["mangled_name"], kernels["full_name"]))

    def _pc_samples(self) -> DataFrame:
        frame = self._rows("pc_sample", "reading", "function", "offset", "reason", "samples")
        ends = self._rows("pc_reading", "id", "end_ns", "device").rename(columns={"id": "reading"})
        frame = frame.merge(ends.drop(columns="session_id"), how="left", on=["pid", "reading"])
        frame["function_name"] = [self._names.get(symbol, symbol) for symbol in frame["function"]]
        frame["reason_name"] = frame["reason"].str.replace("smsp__pcsamp_warps_issue_stalled_", "", regex=False)
        frame["type"], frame["sample_kind"] = "profile_sample", "pc_sampling"
        frame["corr_id"] = frame["stall_reason"] = float("nan")
        frame["scope_name"], frame["metric_value"] = None, frame["samples"]
        return _named(
            frame,
            "type session_id ts_ns=end_ns corr_id device_id=device function_name pc_offset=offset metric_name=reason "
            "metric_value stall_reason sample_kind scope_name reason_name sample_count=samples",
        )

    @cached_property
    def scope_events(self) -> DataFrame:
        """Begins and ends (event_type 0 and 1) of scopes and pushed NVTX ranges."""
        import pandas

        columns = "time_ns kind thread domain message level".split()
        opened: dict[tuple[Any, ...], list[tuple[int, str]]] = {}
        events, count = [], 0
        for row in self._rows("nvtx", *columns, where=("kind<=pop",)).to_dict("records"):
            scopes = opened.setdefault((row["pid"], row["thread"], row["domain"]), [])
            if row["level"] < 30:  # resynchronizes after losses; levels from 30 on are not distinguished
                del scopes[int(row["level"]) + (row["kind"] == "pop") :]
            if row["kind"] == "push":
                count += 1
                scopes.append((count, row["message"] or ""))
            if scopes:
                events.append([row["session_id"], row["time_ns"], *scopes[-1], int(row["kind"] == "pop"), len(scopes) - 1])
            if row["kind"] == "pop" and scopes:
                scopes.pop()
        return pandas.DataFrame(events, columns="session_id ts_ns scope_instance_id name event_type depth".split())

    def _readings(self, on_gpu: bool) -> DataFrame:
        """Counter readings: one row per time, one column per counter."""
        import pandas

        conditions = [f"pid={self._pid}"] if self._pid >= 0 else []
        conditions.append("device!=-" if on_gpu else "device=-")
        frame = pandas.DataFrame(readings(self.recording, _WHAT, *conditions))
        frame["time_ns"] += self.recording.unix_offset_ns
        wide = frame.pivot_table(index=["pid", "device", "time_ns"], columns="counter", values="value", aggfunc="last")
        wide = wide.reset_index()
        wide["session_id"] = self._session_ids(wide)
        return wide.sort_values("time_ns", kind="stable", ignore_index=True)

    @cached_property
    def device_metrics(self) -> DataFrame:
        wide = self._readings(True).rename(columns=_METRICS)
        for name in _METRICS.values():
            wide[name] = wide.get(name, float("nan"))
        wide["power_mw"] *= 1000
        wide["used_mib"] /= 1 << 20
        return _named(wide, "session_id ts_ns=time_ns device_id=device gpu_util mem_util temp_c power_mw used_mib clock_sm")

    @cached_property
    def host_metrics(self) -> DataFrame:
        """CPU use since the previous reading; the first reading of a process has none."""
        wide = self._readings(False)
        cores = sum(bool(re.fullmatch(r"host_core_\d+_busy", name)) for name in wide.columns)
        for name in ("host_cpu_busy", "host_cpu_utilization", "host_memory_used", "host_memory_available"):
            wide[name] = wide.get(name, float("nan"))
        wide = wide.dropna(subset=["host_cpu_busy", "host_memory_used", "host_memory_available"], how="all")
        wide["at_ns"] = wide["time_ns"] - wide["time_ns"].min()  # floats cannot represent Unix times in ns
        since = wide.groupby("pid")[["host_cpu_busy", "at_ns"]].diff()
        busy = 100 * since["host_cpu_busy"] * 1e9 / (since["at_ns"] * cores) if cores else float("nan")
        wide["cpu_pct"] = wide["host_cpu_utilization"].fillna(busy)  # host_cpu_utilization: of logs
        wide["ram_used_mib"] = wide["host_memory_used"] / (1 << 20)
        wide["ram_total_mib"] = wide["ram_used_mib"] + wide["host_memory_available"] / (1 << 20)
        return _named(wide, "session_id ts_ns=time_ns cpu_pct ram_used_mib ram_total_mib")

    def _measured(self, table: str, *keys: str) -> DataFrame:
        """A row for each measurement, with a column for each metric that it has."""
        values = self._rows(table, *keys, "metric.name", "value", where=("value!=-",))
        values["value"] = values["value"].to_numpy("int64").view("float64")
        return values.pivot_table(
            index=["pid", *keys], columns="metric.name", values="value", aggfunc="last", observed=True
        ).reset_index()

    def _measured_kernels(self) -> DataFrame:
        wide = self._measured("metric_value", "correlation")
        kernels = self._rows("kernel", "duration_ns", "device", "full_name", "correlation")
        frame = kernels.drop_duplicates(["pid", "correlation"]).merge(wide, on=["pid", "correlation"])
        frame = frame.sort_values(["pid", "correlation"], ignore_index=True)
        frame["time_ns"] = frame.get("gpu__time_duration.sum", float("nan"))
        frame["duration_ms"] = frame["time_ns"].fillna(frame["duration_ns"].astype("float64")) / 1e6
        frame["launch_ordinal"] = frame.groupby("pid").cumcount() + 1
        frame["type"], frame["kind"] = "kernel_perf_metric_event", "kernel"
        return frame.rename(columns={"full_name": "name"})

    def _measured_ranges(self) -> DataFrame:
        frame = self._measured("range_value", "start_ns", "end_ns", "thread", "kind", "name", "device")
        frame = frame[frame["kind"] != "graph"].sort_values(["pid", "end_ns"], ignore_index=True)
        frame["session_id"] = self._session_ids(frame)
        frame["duration_ms"] = (frame["end_ns"] - frame["start_ns"]) / 1e6
        frame["launch_ordinal"] = float("nan")
        frame["type"], frame["kind"] = "perf_metric_event", "scope"
        return frame

    @cached_property
    def perf(self) -> DataFrame:
        """Hardware counters, one row per measured launch or range. duration_ms is measured if the counters include it."""
        import pandas

        frames = [frame for frame in (self._measured_kernels(), self._measured_ranges()) if len(frame)]
        frame = pandas.concat(frames, ignore_index=True) if frames else self._measured_kernels()
        for name, metric in _PERF.items():
            frame[name] = frame.get(metric, float("nan"))
        conflicts = frame["shared_load_bank_conflicts"] + frame["shared_store_bank_conflicts"]
        conflicts = frame["shared_bank_conflicts"] = frame["shared_bank_conflicts"].fillna(conflicts)
        waves = frame["shared_wavefronts"].where(frame["shared_wavefronts"] > 0)
        frame["shared_bank_conflict_overhead_pct"] = 100 * conflicts / waves
        frame["shared_bank_conflict_nway"] = waves / (waves - conflicts).where(waves > conflicts)
        return _named(
            frame,
            f"type session_id device_id=device launch_ordinal {' '.join(_PERF)} shared_bank_conflict_overhead_pct "
            "shared_bank_conflict_nway kind name duration_ms",
        )

    # --- printed texts ---

    def counter(self, name: str, key: str, gpu: Optional[int] = None) -> list[float]:
        """A figure of the report's section `system`, for each GPU."""
        counters = self.report["system"]["counters"]
        return [c[key] for c in counters if c["name"] == name and (gpu is None or c.get("gpu") == gpu) and key in c]

    def summary_text(self) -> str:
        report, hotspots = self.report, self.report["hotspots"]
        lines = [
            ("Application", self.app_name or "-"),
            ("Duration", time_text(report["duration_ns"])),
            ("Kernels", f"{hotspots['kernels']:,} of {hotspots['groups']:,} names, {time_text(hotspots['total_ns'])}"),
            ("Scopes", f"{sum(item['calls'] for item in report['scopes']['items']):,}"),
            ("Verdict", report["verdict"]["text"]),
        ]
        for gpu in report["gpus"]:
            busy = busy_ns(gpu)
            texts = [f"busy {time_text(busy)} ({share_text(busy, report['duration_ns'])})"]
            texts += [f"utilization {value:.1f}%" for value in self.counter("gpu_utilization", "mean", gpu["gpu"])]
            texts += [f"{value:.0f} MHz" for value in self.counter("gpu_sm_clock", "mean", gpu["gpu"])]
            texts += [f"memory at most {bytes_text(value)}" for value in self.counter("gpu_memory_used", "most", gpu["gpu"])]
            lines.append((f"GPU {gpu['gpu']}", f"{gpu['name']}: {', '.join(texts)}"))
        return "\n".join(f"{name + ':':<14}{text}" for name, text in lines)

    def hotspots_text(self, top_n: int, depth: int = 0) -> str:
        hotspots, text = self.report["hotspots"], ""
        rows, notes = [], []
        for item in hotspots["items"][:top_n]:
            config, time = item.get("config") or {}, item["time"]
            limits = config.get("occupancy") or {}
            occupancy = share_text(limits.get("warps", 0), limits.get("max_warps", 0))
            rows.append(
                [share_text(time.get("total_ns", 0), hotspots["total_ns"]), time_text(time.get("total_ns")),
                 f"{time['count'] + item['untimed']:,}", time_text(time.get("mean_ns")), occupancy, item["label"]]
            )  # fmt: skip
            note = []
            if config:
                shared = config["static_shared_bytes"] + config["dynamic_shared_bytes"]
                note = [f"grid {tuple(config['grid'])}, block {tuple(config['block'])}, {config['registers']} registers, "
                        f"{bytes_text(shared)} shared" + (f", limited by {limits['limiter']}" if limits else "")]  # fmt: skip
            notes.append(note + self._callers(item, depth))
        if not rows:
            return "No kernels were recorded."
        for line, note in zip(table_text("share  total  calls  mean  occupancy  kernel", rows).splitlines(), [[], *notes]):
            text += "\n".join([line, *(f"    {one}" for one in note)]) + "\n"
        return text.rstrip("\n")

    def _callers(self, item: dict[str, Any], depth: int) -> list[str]:
        """The stack that launched most of a kernel's time, innermost frame first."""
        if not depth or "name" not in item:
            return []
        mine = self.kernels[(self.kernels["name"] == item["name"]) & (self.kernels["stack_trace"] != "")]
        if mine.empty:
            return []
        frames = str(mine.groupby("stack_trace")["duration_ns"].sum().idxmax()).split("|")[::-1]
        return ["from " + " <- ".join(frames[:depth]) + (" <- ..." if len(frames) > depth else "")]

    def scopes_text(self, top_n: Optional[int] = None) -> str:
        scopes = self.report["scopes"]
        rows = [
            [share_text(item["gpu_ns"], scopes["gpu_ns"]), time_text(item["gpu_ns"]), f"{item['kernels']:,}",
             f"{item['calls']:,}", time_text(item["wall_ns"]), "  " * item["depth"] + item["name"]]
            for item in scopes["items"][:top_n]
        ]  # fmt: skip
        if not rows:
            return 'No scopes were recorded: with pitot.scope("name"): makes them.'
        table = table_text("share  GPU time  kernels  calls  wall  scope", rows)
        if not scopes["gpu_ns"]:
            return table + "\nNo GPU work was recorded."
        outside = f"{share_text(scopes['outside_ns'], scopes['gpu_ns'])} of the GPU time was launched outside of scopes."
        return table + "\n" + outside

    def stalls_text(self, top_n: int) -> str:
        rows = []
        for item in self.report["stalls"]["kernels"][:top_n]:
            reasons = ", ".join(f"{share_text(r['samples'], item['samples'])} {r['reason']}" for r in item["reasons"][:4])
            rows.append(
                [f"{item['samples']:,}", share_text(item["not_issued"], item["samples"]), f"{item['label']}: {reasons}"]
            )
        if not rows:
            return "No samples of kernels were recorded: ProfilingEngine.PcSampling takes them."
        return table_text("samples  not issued  kernel: what its warps waited for", rows)

    def samples_text(self, top_n: int = 10) -> str:
        stalls, sass = self.report["stalls"], self.sass_text(top_n) if self.report["instructions"]["launches"] != 0 else ""
        if not stalls["samples"]:
            return sass or self.stalls_text(0)
        reasons = [[share_text(r["samples"], stalls["samples"]), f"{r['samples']:,}", r["text"]] for r in stalls["reasons"]]
        lines = [
            [share_text(line["samples"], stalls["samples"]), f"{line['samples']:,}", f"{line['file']}:{line['line']}"]
            for line in stalls["lines"][:top_n]
        ]
        text = table_text("share  samples  warps were", reasons)
        return "\n\n".join([text, *[table_text("share  samples  line", lines)] * bool(lines), *[sass] * bool(sass)])

    def sass_text(self, top_n: int = 10) -> str:
        """Totals of SASS metrics, active threads per warp of each function, and hints about lines."""
        metrics, executed, threads = self.scopes, "smsp__sass_inst_executed", "smsp__sass_thread_inst_executed"
        metrics = metrics[metrics["sample_kind"] == "sass_metric"]
        totals = [[f"{total:,}", name] for name, total in metrics.groupby("metric_name")["metric_value"].sum().items()]
        wide = metrics.pivot_table(index="function_name", columns="metric_name", values="metric_value", aggfunc="sum")
        parts = [table_text("total  metric", totals)]
        if executed in wide and threads in wide:
            wide = wide[(wide[executed] > 0) & (wide[threads] > 0)].sort_values(executed, ascending=False)[:top_n]
            rows = [
                [f"{row[executed]:,.0f}", f"{row[threads] / row[executed]:.1f} of 32", name] for name, row in wide.iterrows()
            ]
            parts.append(table_text("executed  threads  function", rows))
        hints = [f"{hint['text']}: {hint['evidence']}" for hint in self.report["instructions"]["hints"]]
        return "\n\n".join([*parts, *["\n".join(hints[:top_n])] * bool(hints)])

    def counters_text(self, top_n: int = 10) -> str:
        counters = self.report["counters"]
        if not counters["kernels"] and not counters["ranges"]:
            return "No hardware counters were recorded: pitot record --engine range-profiler reads them."
        shares = [f"{name}_percent" for name in ("sm", "memory", "dram", "l2", "l1", "occupancy")]
        rows = [
            [f"{item['launches']:,}", time_text(item["mean_ns"]),
             *("-" if item[share] is None else f"{item[share]:.1f}%" for share in shares), item["kernel"]]
            for item in counters["kernels"][:top_n]
        ]  # fmt: skip
        rows += [
            [f"{item['measurements']:,}", time_text(item["mean_ns"]), *["-"] * len(shares), item["range"]]
            for item in counters["ranges"][:top_n]
        ]  # fmt: skip
        text = table_text("launches  mean  SM  memory  DRAM  L2  L1  occupancy  kernel", rows)
        means = self.perf[[*_PERF, "shared_bank_conflict_overhead_pct", "shared_bank_conflict_nway"]].mean().dropna()
        lines = [[f"{mean:,.1f}", name] for name, mean in means.items()]
        return text + "\n\n" + table_text("mean of a launch  counter", lines) if lines else text

    def print_summary(self) -> None:
        print(self.summary_text())

    def inspect_hotspots(self, top_n: int = 5, max_stack_depth: Optional[int] = None) -> None:
        print(self.hotspots_text(top_n, self.max_stack_depth if max_stack_depth is None else max_stack_depth))

    def inspect_scopes(self) -> None:
        print(self.scopes_text())

    def inspect_stalls(self, top_n: int = 10) -> None:
        print(self.stalls_text(top_n))

    def inspect_profile_samples(self) -> None:
        print(self.samples_text())

    def inspect_perf_metrics(self, top_n: int = 10) -> None:
        print(self.counters_text(top_n))


def _named(frame: DataFrame, names: str) -> DataFrame:
    """Selects columns; NAME=COLUMN renames one. Adds duration_ms to spans."""
    chosen = [name.partition("=") for name in names.split()]
    frame = frame[[column or name for name, _, column in chosen]].set_axis([name for name, _, _ in chosen], axis=1)
    if "duration_ns" in frame:
        frame["duration_ms"] = frame["duration_ns"] / 1e6
    return frame
