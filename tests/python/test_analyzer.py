"""pitot.gpufl.analyzer and .report: gpufl's DataFrames and methods over recordings and over its logs."""
import gzip
import importlib
import json
import subprocess

import pytest

pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("error")

COLUMNS = {
    "kernels": "session_id start_ns end_ns duration_ns name stream_id corr_id dyn_shared_bytes num_regs has_details grid block "
               "static_shared_bytes local_bytes const_bytes occupancy reg_occupancy smem_occupancy warp_occupancy block_occupancy "
               "limiting_resource local_mem_total_bytes local_mem_per_thread_bytes user_scope stack_trace duration_ms",
    "memcpy": "session_id start_ns end_ns duration_ns stream_id bytes copy_kind corr_id throughput_gbps duration_ms",
    "scopes": "type session_id ts_ns corr_id device_id function_name pc_offset metric_name metric_value stall_reason sample_kind "
              "scope_name reason_name sample_count",
    "scope_events": "session_id ts_ns scope_instance_id name event_type depth",
    "device_metrics": "session_id ts_ns device_id gpu_util mem_util temp_c power_mw used_mib clock_sm",
    "host_metrics": "session_id ts_ns cpu_pct ram_used_mib ram_total_mib",
    "perf": "type session_id device_id launch_ordinal sm_throughput_pct l1_hit_rate_pct l2_hit_rate_pct dram_read_bytes dram_write_bytes "
            "tensor_active_pct achieved_occupancy_pct shared_load_bank_conflicts shared_store_bank_conflicts shared_bank_conflicts "
            "shared_wavefronts shared_bank_conflict_overhead_pct shared_bank_conflict_nway kind name duration_ms",
}


@pytest.fixture(scope="session")
def analyzer(package):
    return importlib.import_module("pitot.gpufl.analyzer")


@pytest.fixture(scope="session")
def session(analyzer, training):
    return analyzer.GpuFlightSession(training)


@pytest.mark.parametrize("kind", ["varied", "training", "stalls", "sass", "counters", "cpu_only", "shell"])
def test_the_columns_are_gpufls(analyzer, make_recording, tmp_path, kind):
    """Also where there is nothing."""
    session = analyzer.GpuFlightSession(str(make_recording(tmp_path / f"{kind}.pitot", kind)))
    for name, columns in COLUMNS.items():
        assert list(getattr(session, name).columns) == columns.split(), name


def test_kernels_are_those_of_the_logs(analyzer, package, train, path, tmp_path):
    """What gpufl's exporter writes of them, which computes occupancy itself."""
    for recording in (train, path):
        logs = tmp_path / recording.stem
        package.open(recording).export(logs, format="gpufl")
        details, count = {}, 0
        for file in logs.glob("*/device.*.log.gz"):
            for line in map(json.loads, gzip.open(file, "rt", errors="replace")):
                if line["type"] == "kernel_detail":
                    details.setdefault(str(line["pid"]), []).append(line)
        session = analyzer.GpuFlightSession(recording)
        for pid, lines in details.items():
            ours = session.kernels[session.kernels["session_id"] == pid].to_dict("records")
            assert len(ours) == len(lines)
            key = lambda row: json.dumps([row["grid"], row["block"], row["stack_trace"], f"{row['occupancy']:.6f}"])  # noqa: E731
            for scope in "unknown", None:
                assert sum(row["user_scope"] == scope for row in ours) == sum(line["user_scope"] == scope for line in lines)
            for mine, line in zip(sorted(ours, key=key), sorted(lines, key=key)):
                for name in "grid block stack_trace limiting_resource local_bytes local_mem_total_bytes".split():
                    assert mine[name] == line[name], name
                assert mine["static_shared_bytes"] == line["static_shared"]
                for part in "", "reg_", "smem_", "warp_", "block_":
                    assert abs(mine[f"{part}occupancy"] - line[f"{part}occupancy"]) < 1e-6, part
                count += 1
        assert count == len(session.kernels) > 17


def test_kernels_have_the_recordings_times_and_scopes(session):
    recording, kernels = session.recording, session.kernels
    rows = recording.kernels.select("start_ns", "full_name", "correlation").to_arrow().to_pylist()
    assert list(kernels["start_ns"]) == [row["start_ns"] + recording.unix_offset_ns for row in rows]
    assert list(kernels["name"]) == [row["full_name"] for row in rows]
    assert kernels["duration_ns"].sum() == session.report["hotspots"]["total_ns"] and kernels["corr_id"].is_unique
    assert (kernels["end_ns"] - kernels["start_ns"] == kernels["duration_ns"]).all()
    assert set(kernels["user_scope"]) == {f"step {n}|{part}" for n in range(8) for part in ("forward", "backward", "optimizer")}


def test_scopes_of_kernels_without_one(analyzer, path):
    session = analyzer.GpuFlightSession(path, "100")
    scopes = session.kernels["user_scope"].value_counts()
    assert {"global", "unknown", "step|other domain"} <= set(scopes.index)
    assert set(session.kernels["session_id"]) == {"100"} and len(session.kernels) == 16
    assert analyzer.GpuFlightSession(path, session_id="3").report["hotspots"]["kernels"] == 2
    assert len(analyzer.GpuFlightSession(path).kernels) == 18


def test_copies(session, analyzer, path):
    copies = session.memcpy
    assert copies["copy_kind"].value_counts().to_dict() == {1: 8, 2: 8}
    first = copies[copies["copy_kind"] == 1].iloc[0]
    assert first["bytes"] == 96 << 20 and first["throughput_gbps"] == first["bytes"] / first["duration_ns"]
    assert list(analyzer.GpuFlightSession(path).memcpy["copy_kind"]) == [1, 10]


def test_scope_events_nest(session, analyzer, make_recording, tmp_path):
    events = session.scope_events
    assert len(events) == 2 * 8 * 4 and list(events["name"][:4]) == ["step 0", "forward", "forward", "backward"]
    assert list(events["depth"][:4]) == [0, 1, 1, 1] and list(events["event_type"][:4]) == [0, 0, 1, 0]
    pairs = events.groupby("scope_instance_id")
    assert len(pairs) == 32 and (pairs["event_type"].sum() == 1).all() and (pairs["name"].nunique() == 1).all()
    spans = pairs["ts_ns"].agg(["min", "max"])["max"] - pairs["ts_ns"].min()
    report = session.report["scopes"]["items"]
    assert spans.sum() == sum(item["wall_ns"] for item in report)
    lost = analyzer.GpuFlightSession(make_recording(tmp_path / "lost.pitot", kernels=600, lost=30)).scope_events
    assert (lost["depth"] >= 0).all()


def test_lost_ends_of_scopes(analyzer, training, monkeypatch):
    """A level says which ranges are still open."""
    session = analyzer.GpuFlightSession(training)
    rows = [("push", "a", 0), ("push", "b", 1), ("push", "c", 1), ("push", "d", 2), ("pop", None, 1), ("pop", None, 0), ("pop", None, 0),
            ("push", "e", 0), ("push", "f", 30), ("pop", None, 30)]
    columns = ["session_id", "pid", "thread", "domain", "time_ns", "kind", "message", "level"]
    frame = pandas.DataFrame([("1", 1, 1, 1, at, *row) for at, row in enumerate(rows)], columns=columns)
    monkeypatch.setattr(session, "_rows", lambda *_, **__: frame)
    events = session.scope_events[["name", "event_type", "depth", "ts_ns"]].values.tolist()
    assert events == [["a", 0, 0, 0], ["b", 0, 1, 1], ["c", 0, 1, 2], ["d", 0, 2, 3], ["c", 1, 1, 4], ["a", 1, 0, 5], ["e", 0, 0, 7],
                      ["f", 0, 1, 8], ["f", 1, 1, 9]]


def test_real_readings(run):
    """Of a gauge, whose values are bits of doubles."""
    said = run("""
        from pitot._arrays import readings
        with pitot.record("r.pitot") as rec:
            loss, tokens = pitot.gauge("loss"), pitot.counter("tokens", unit="tokens")
            loss.set(0.25)
            tokens.add(3)
            rec.flush()
            loss.set(-1.5)
        arrays = readings(rec.open(), "test")
        print(json.dumps([[name, value] for name, value in zip(arrays["counter"].tolist(), arrays["value"].tolist())]))
        """)
    assert ["loss", -1.5] in said and ["tokens", 3] in said


def test_metrics_are_in_gpufls_units(session):
    device = session.device_metrics.iloc[0]
    assert device.to_dict() == {"session_id": "100", "ts_ns": session.session_start_ns, "device_id": 0, "gpu_util": 92, "mem_util": 41,
                                "temp_c": 52, "power_mw": 612000, "used_mib": 5120, "clock_sm": 1755}
    assert len(session.device_metrics) == 81
    host = session.host_metrics
    assert host["cpu_pct"].isna().tolist() == [True] + [False] * 80
    assert abs(host["cpu_pct"][1:] - 50).max() < 1e-6  # 0.02 s in 0.01 s of four cores
    assert set(host["ram_used_mib"]) == {30 << 10, 31 << 10} and set(host["ram_total_mib"]) == {128 << 10}


def test_what_was_not_read_is_missing(analyzer, path):
    metrics = analyzer.GpuFlightSession(path).device_metrics
    assert list(metrics["power_mw"]) == [345678, 346678, 347678, 348678] and metrics["gpu_util"].isna().all()


def test_samples_of_kernels(analyzer, make_recording, tmp_path):
    session = analyzer.GpuFlightSession(make_recording(tmp_path / "stalls.pitot", "stalls"))
    samples = session.scopes
    assert len(samples) == 19 and set(samples["sample_kind"]) == {"pc_sampling"}
    stalls = session.report["stalls"]
    assert samples["sample_count"].sum() == stalls["samples"]
    by_name = samples.groupby("function_name")["sample_count"].sum()
    scale = next(item for item in stalls["kernels"] if item["label"] == "scale<float>")
    assert by_name[scale["name"]] == scale["samples"] == 120 and by_name["_Z6gatherPKfi"] == 30
    assert set(samples["device_id"]) == {0, 1} and "long_scoreboard_not_issued" in set(samples["reason_name"])


def test_names_are_decoded_where_they_are_needed(analyzer, make_recording, tmp_path):
    for kind, decodes in ("training", False), ("stalls", True), ("sass", True):
        session = analyzer.GpuFlightSession(make_recording(tmp_path / f"{kind}.pitot", kind))
        assert session.scopes.empty != decodes and ("_names" in vars(session)) == decodes


def test_instruction_counts_of_gpufls_logs(analyzer, make_recording, pitot, tmp_path, capsys):
    """The launch is not in gpufl's own logs, so it is missing; the counts are shown."""
    pitot("export", make_recording(tmp_path / "sass.pitot", "sass"), "-o", "logs.gpufl")
    for file in (tmp_path / "logs.gpufl").glob("*/scope.*.log.gz"):
        lines = [json.loads(line) for line in gzip.open(file, "rt")]
        for line in lines:
            if line["type"] == "profile_sample_batch":
                last = line["columns"].index("true_corr_id")
                line["columns"].pop(last)
                line["rows"] = [row[:last] + row[last + 1:] for row in line["rows"]]
        with gzip.open(file, "wt") as out:
            out.writelines(json.dumps(line) + "\n" for line in lines)
    session = analyzer.GpuFlightSession(tmp_path / "logs.gpufl")
    assert len(session.scopes) == 60 and session.scopes["corr_id"].isna().all()
    assert session.report["instructions"]["launches"] is None
    session.inspect_profile_samples()
    assert " 1,620  smsp__sass_inst_executed\n" in capsys.readouterr().out


def test_what_instructions_did(analyzer, make_recording, tmp_path, capsys):
    recording = make_recording(tmp_path / "sass.pitot", "sass")
    session = analyzer.GpuFlightSession(recording)
    metrics, rows = session.scopes, session.recording.table("sass_value").to_arrow().to_pylist()
    assert len(metrics) == len(rows) == 60 and set(metrics["sample_kind"]) == {"sass_metric"} and not metrics["sample_count"].any()
    assert metrics["metric_value"].sum() == sum(row["value"] for row in rows) and set(metrics["device_id"]) == {0, 1}
    assert set(metrics["function_name"]) == {"smooth(float*, float const*, int)", "_Z6gatherPKfi", "void scale<float>(float*, int)"}
    session.inspect_profile_samples()
    said = capsys.readouterr().out
    assert " 1,620  smsp__sass_inst_executed\n" in said and "19.5 of 32  smooth(float*" in said and "nan" not in said
    assert "\ndivergent: 16.2 of 32 threads, math.h:3: 1,200 warp instructions, " in said
    one = analyzer.GpuFlightSession(recording, "101").scopes
    assert len(one) == 18 and set(one["session_id"]) == {"101"}


def test_hardware_counters(analyzer, make_recording, tmp_path, capsys):
    """A launch that was measured is a row; what CUPTI gave no number for, and what was not measured, is missing."""
    session = analyzer.GpuFlightSession(make_recording(tmp_path / "counters.pitot", "counters"))
    perf = session.perf
    assert list(perf["name"]) == ["gemm(float*)"] * 3 + ["copy"] * 2 and list(perf["session_id"]) == ["100"] * 4 + ["200"]
    assert list(perf["duration_ms"]) == [0.09, 0.27, 0.54, 0.018, 0.036] and list(perf["launch_ordinal"]) == [1, 2, 3, 4, 1]
    assert perf["l1_hit_rate_pct"].fillna(-1).tolist() == [10, -1, 80, -1, -1] and perf["dram_read_bytes"].isna().all()
    assert len(analyzer.GpuFlightSession(tmp_path / "counters.pitot", "200").perf) == 1
    session.inspect_perf_metrics(1)
    said = capsys.readouterr().out
    assert "       3  300.00 us" in said and "copy" not in said and said.endswith("45.0  l1_hit_rate_pct\n")
    roofline = analyzer.GpuFlightSession(make_recording(tmp_path / "roofline.pitot", "roofline"))
    assert roofline.perf["sm_throughput_pct"].dropna().tolist() == [31, 31, 5, 75, 75, 1]
    roofline.inspect_perf_metrics()
    assert "31.0%   88.0%  87.0%" in capsys.readouterr().out


def test_hardware_counters_of_ranges(analyzer, make_recording, tmp_path, capsys):
    """A row for each measurement of a range or a scope; launches of graphs have none."""
    session = analyzer.GpuFlightSession(make_recording(tmp_path / "ranges.pitot", "ranges"))
    perf = session.perf
    rows = [row for row in session.recording.table("range_value").to_arrow().to_pylist() if row["kind"] != "graph"]
    measured = sorted({(row["end_ns"], row["thread"], row["name"], row["end_ns"] - row["start_ns"]) for row in rows if row["value"] is not None})
    assert [(name, round(ms * 1e6)) for name, ms in zip(perf["name"], perf["duration_ms"])] == [(name, ns) for _, _, name, ns in measured]
    assert set(perf["kind"]) == {"scope"} and set(perf["type"]) == {"perf_metric_event"} and set(perf["device_id"]) == {0, 1}
    session.inspect_perf_metrics()
    assert "  step\n" in capsys.readouterr().out


def test_bank_conflicts(analyzer, training, monkeypatch):
    """By gpufl's formulas, of their sum where CUPTI has none."""
    session = analyzer.GpuFlightSession(training)
    prefix, place = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared", session.recording.kernels.select("pid", "correlation").to_arrow()
    values = {f"{prefix}_op_ld.sum": 20.0, f"{prefix}_op_st.sum": 5.0, "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": 100.0}
    frame = pandas.DataFrame([(place["pid"][0].as_py(), place["correlation"][0].as_py(), *item) for item in values.items()],
                             columns=["pid", "correlation", "metric.name", "value"])
    frame["value"] = frame["value"].to_numpy("float64").view("int64")
    rows = session._rows
    monkeypatch.setattr(session, "_rows", lambda table, *columns, **more: frame if table == "metric_value" else rows(table, *columns, **more))
    [row] = session.perf.to_dict("records")
    assert row["shared_bank_conflicts"] == 25 and row["shared_bank_conflict_overhead_pct"] == 25
    assert abs(row["shared_bank_conflict_nway"] - 100 / 75) < 1e-12


def test_what_the_methods_print(session, analyzer, make_recording, tmp_path, capsys):
    def said(method, *arguments, of=session):
        getattr(of, method)(*arguments)
        return capsys.readouterr().out

    summary = said("print_summary")
    assert "python train.py" in summary and "152" not in summary
    busy = session.report["gpus"][0]["busy"]["union_ns"]
    assert f"Kernels:      {len(session.kernels):,} of 5 names" in summary and "Scopes:       32\n" in summary
    assert f"busy {busy / 1e6:.2f} ms" in summary and "memory at most 5.0 GiB" in summary and "MHz" in summary
    hotspots = said("inspect_hotspots", 2).splitlines()
    assert len(hotspots) == 5 and "sm90_gemm_bf16" in hotspots[1] and "384" in hotspots[2] and "from" not in "".join(hotspots)
    assert len(said("inspect_hotspots", 1).splitlines()) == 3
    scopes = said("inspect_scopes")
    assert "  backward" in scopes and scopes.endswith("0.0% of the GPU time was launched outside of scopes.\n")
    assert "ProfilingEngine.PcSampling" in said("inspect_stalls") and "ProfilingEngine.PcSampling" in said("inspect_profile_samples")
    assert "engine range-profiler" in said("inspect_perf_metrics")
    stalls = analyzer.GpuFlightSession(make_recording(tmp_path / "stalls.pitot", "stalls"))
    assert "87.5% long_scoreboard" in said("inspect_stalls", of=stalls) and len(said("inspect_stalls", 1, of=stalls).splitlines()) == 2
    samples = said("inspect_profile_samples", of=stalls)
    assert "waiting for global or local memory" in samples and "/src/kernel.cu:16" in samples


def test_stacks_are_printed_from_inside(analyzer, train, capsys):
    session = analyzer.GpuFlightSession(train, max_stack_depth=2)
    session.inspect_hotspots(3)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("    from ")]
    assert len(lines) == 3 and all(line.count(" <- ") == 2 and line.endswith(" <- ...") for line in lines)
    session.inspect_hotspots(1, max_stack_depth=30)
    whole = capsys.readouterr().out.rstrip().splitlines()[-1]
    assert whole.endswith("main <- _start") and whole.startswith(lines[0].replace(" <- ...", ""))
    times, hottest = {}, session.report["hotspots"]["items"][0]["name"]
    for kernel in session.kernels.to_dict("records"):
        if kernel["name"] == hottest:
            times[kernel["stack_trace"]] = times.get(kernel["stack_trace"], 0) + kernel["duration_ns"]
    assert whole.strip() == "from " + " <- ".join(max(times, key=times.get).split("|")[::-1]) and len(set(times.values())) > 1


def test_the_text_report(session, analyzer, training, path, tmp_path, capsys):
    report = importlib.import_module("pitot.gpufl.report")
    text = report.generate_report(training, top_n=2, output_path=tmp_path / "report.txt")
    assert (tmp_path / "report.txt").read_text() == text
    report.TextReport(session, top_n=2).print()
    assert capsys.readouterr().out == text
    sections = [line for line, rule in zip(text.splitlines(), text.splitlines()[1:]) if rule and set(rule) == {"-"}]
    assert sections == ["Session Summary", "Kernel Execution Summary", "Top 2 Kernels by Total GPU Time", "Memory Transfer Summary",
                        "System Metrics", "Scope Summary", "Hardware Counters", "Profile Analysis", "Loss"]
    median = session.recording.hotspots(by="device")[0]["time"]["median_ns"]
    assert f"{median / 1e6:.2f} ms" in text or f"{median / 1e3:.2f} us" in text
    both = report.generate_report(path)
    assert "GPU busy:     7.0%" in both and "52.43 GB/s  HtoD, pinned to device" in both
    assert "768.0 MiB" in text and "GPU 0 gpu_power, W" in text and "Nothing is known to be missing." in text


def test_a_gpu_without_work_is_in_the_report(analyzer, path):
    session = analyzer.GpuFlightSession(path)
    whole = importlib.import_module("pitot.gpufl.report").TextReport(session).generate()
    session.report["gpus"][1] = {key: value for key, value in session.report["gpus"][1].items() if key not in ("busy", "idle")}
    text = importlib.import_module("pitot.gpufl.report").TextReport(session).generate()
    assert "busy 0 ns (0.0%)" in text and "busy 0 ns" not in whole and "GPU 1:" in text


def test_a_folder_of_logs_is_imported(analyzer, package, plain, training, environment, tmp_path, monkeypatch):
    package.open(training).export(tmp_path / "logs", format="gpufl")
    inner, = (tmp_path / "logs").iterdir()
    assert analyzer.is_log_folder(tmp_path / "logs") and analyzer.is_log_folder(inner) and not analyzer.is_log_folder(training)
    if subprocess.run([plain / "pitot", "help", "import"], env=environment, capture_output=True).returncode:
        pytest.skip("there is no `pitot import` yet")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "temporary").mkdir()
    whole = analyzer.GpuFlightSession(training)
    for folder, name in ((tmp_path / "logs", None), (tmp_path / "logs", inner.name), (inner, None)):
        session = analyzer.GpuFlightSession(folder, session_id=name, log_prefix="train")
        assert list((tmp_path / "temporary").iterdir())
        for frame in session.kernels, session.memcpy, session.scope_events, session.device_metrics, session.host_metrics:
            assert set(frame["session_id"]) == {inner.name}
        for column in "duration_ns", "name", "grid", "user_scope":
            assert list(session.kernels[column]) == list(whole.kernels[column]), column
        assert set(session.scopes["type"]) <= {"profile_sample"}
        assert session.memcpy["bytes"].sum() == whole.memcpy["bytes"].sum()
        assert list(session.host_metrics["cpu_pct"]) == [50] * len(whole.host_metrics["cpu_pct"].dropna())
        del session
        assert not list((tmp_path / "temporary").iterdir())


def test_sessions_of_logs_in_one_folder(analyzer, package, tmp_path):
    """A process that went on to a second session, and another process."""
    columns = "dt_ns kernel_id stream_id duration_ns corr_id dyn_shared num_regs has_details external_kind external_id".split()
    lines = []
    for session, pid, start_ns in ("first", 42, 1000), ("other", 43, 1500), ("second", 42, 5000):
        about = {"version": 1, "session_id": session}
        lines += [{**about, "type": "job_start", "pid": pid, "app": "app", "ts_ns": start_ns},
                  {**about, "type": "dictionary_update", "kernel_dict": {"1": session}},
                  {**about, "type": "kernel_event_batch", "batch_id": 1, "base_time_ns": start_ns, "columns": columns,
                   "rows": [[100 * i, 1, 7, 50, i, 0, 16, 0, 0, 0] for i in range(3)]}]
    (tmp_path / "device.log").write_text("".join(json.dumps(line) + "\n" for line in lines))
    kernels = analyzer.GpuFlightSession(tmp_path).kernels
    assert len(kernels) == 9 and list(kernels["session_id"]) == list(kernels["name"])
    assert list(kernels[kernels["name"] == "second"]["corr_id"]) == [0, 1, 2]
    assert set(analyzer.GpuFlightSession(tmp_path, "other").kernels["name"]) == {"other"}
    with pytest.raises(package.UsageError, match="no session 'x' in these logs: they have first, other, second"):
        analyzer.GpuFlightSession(tmp_path, "x")


def test_kernels_of_logs_outside_of_scopes(analyzer, plain, make_recording, environment, tmp_path, monkeypatch):
    """Their NVTX range, as in the recording that the logs are of."""
    recording, logs = make_recording(tmp_path / "r.pitot", kernels=40), tmp_path / "logs.gpufl"
    subprocess.run([plain / "pitot", "export", recording, "-o", logs], env=environment, check=True, capture_output=True)
    scopes = set(analyzer.GpuFlightSession(logs).kernels["user_scope"])
    assert scopes == set(analyzer.GpuFlightSession(recording).kernels["user_scope"]) == {"step 0|forward"}


def test_mistakes_name_the_way_out(analyzer, package, training, tmp_path):
    with pytest.raises(package.FileError, match="nothing"):
        analyzer.GpuFlightSession(tmp_path / "nothing")
    with pytest.raises(package.FormatError):
        analyzer.GpuFlightSession(tmp_path)
    with pytest.raises(package.UsageError, match="'x' is not a process id"):
        analyzer.GpuFlightSession(training, session_id="x")
    with pytest.raises(package.UsageError, match="no process 7 in this recording; its processes: 100"):
        analyzer.GpuFlightSession(training, session_id="7")


def test_without_pandas_it_says_what_to_install(run, training):
    said = run("""
        sys.modules["pandas"] = None
        from pitot.gpufl.analyzer import GpuFlightSession
        try:
            GpuFlightSession(sys.argv[1])
        except pitot.Error as error:
            print(json.dumps(str(error)))
        """, arguments=[training])
    assert said == "pitot.gpufl.analyzer needs pandas: pip install pandas"
