"""`pitot import` of Nsight Systems' SQLite exports: the totals are those of the export, whatever it lacks."""
import gzip
import json
import os
import random
import resource
import sqlite3
from pathlib import Path

import pytest

from nsys_export import UTC, Export, call, kernel, nvtx, small, thread, work

WORK = {"kernel": "KERNEL", "memcpy": "MEMCPY", "memset": "MEMSET"}


@pytest.fixture
def bring(pitot, tmp_path):
    """Imports a file; what --json says, and rows(table), with times since the epoch."""

    def run(path, *more, out="x.pitot"):
        said = pitot("import", path, *more, "-o", out, "--force", "--json", json_output=True)

        origin = json.loads((tmp_path / out / "recording.json").read_text())["start_monotonic_ns"]
        times = {"start_ns", "end_ns", "time_ns"}

        def rows(table, *options):
            found = [json.loads(line) for line in pitot("view", out, table, "--json", "-q", *options).stdout.splitlines()]
            return [{key: value + origin if key in times and value is not None else value for key, value in row.items()} for row in found]

        return said, rows

    return run


# NVIDIA's, of docs.nvidia.com/nemo/megatron-bridge (SQLite recipes for Nsight Systems) and of the exporter's guide, unchanged.
PUBLISHED = [
    "SELECT COALESCE(s.value, '<unknown>') AS kernel, COUNT(*) AS launches, SUM(k.end - k.start) / 1e6 AS work_ms FROM CUPTI_ACTIVITY_KIND_KERNEL AS k"
    " LEFT JOIN StringIds AS s ON s.id = k.demangledName GROUP BY kernel ORDER BY work_ms DESC LIMIT 40;",
    "SELECT streamId, COUNT(*) AS launches, SUM(end - start) / 1e6 AS work_ms, (MAX(end) - MIN(start)) / 1e6 AS span_ms FROM CUPTI_ACTIVITY_KIND_KERNEL"
    " GROUP BY streamId ORDER BY work_ms DESC;",
    "SELECT COALESCE(s.value, '<unknown>') AS api, COUNT(*) AS calls, SUM(r.end - r.start) / 1e6 AS host_api_ms, AVG(r.end - r.start) / 1e3 AS avg_us"
    " FROM CUPTI_ACTIVITY_KIND_RUNTIME AS r LEFT JOIN StringIds AS s ON s.id = r.nameId GROUP BY api ORDER BY host_api_ms DESC;",
    "SELECT k.streamId, (k.start - r.end) / 1e3 AS launch_to_start_us FROM CUPTI_ACTIVITY_KIND_KERNEL AS k JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS r"
    " ON r.correlationId = k.correlationId ORDER BY launch_to_start_us;",
    "SELECT copyKind, streamId, COUNT(*) AS copies, SUM(bytes) AS bytes, SUM(end - start) / 1e6 AS work_ms,"
    " SUM(bytes) / 1e9 / (SUM(end - start) / 1e9) AS achieved_GBps FROM CUPTI_ACTIVITY_KIND_MEMCPY GROUP BY copyKind, streamId ORDER BY work_ms DESC;",
    "SELECT src.label AS src_kind, dst.label AS dst_kind, COUNT(*) AS copies, SUM(m.end - m.start) / 1e6 AS work_ms FROM CUPTI_ACTIVITY_KIND_MEMCPY AS m"
    " LEFT JOIN ENUM_CUDA_MEM_KIND AS src ON src.id = m.srcKind LEFT JOIN ENUM_CUDA_MEM_KIND AS dst ON dst.id = m.dstKind"
    " GROUP BY src_kind, dst_kind ORDER BY work_ms DESC;",
    "SELECT k.start, k.end, COALESCE(s.value, '<unknown>') AS kernel FROM CUPTI_ACTIVITY_KIND_KERNEL AS k LEFT JOIN StringIds AS s ON s.id = k.demangledName"
    " WHERE s.value LIKE '%AllGather%' OR s.value LIKE '%ReduceScatter%' OR s.value LIKE '%AllReduce%' OR s.value LIKE '%AllToAll%' ORDER BY k.start;",
    "SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'Hostname';",
    "SELECT globalTid / 0x1000000 % 0x1000000 AS PID, globalTid % 0x1000000 AS TID FROM CUPTI_ACTIVITY_KIND_RUNTIME;",
    "SELECT names.value AS name, end - start FROM CUPTI_ACTIVITY_KIND_KERNEL AS k JOIN StringIds AS names ON k.demangledName = names.id;",
]


def test_published_queries(bring, pitot, tmp_path):
    """They say of the imported recording what they say of the export; times are there since the session's start, here since 1970."""
    e = Export(tmp_path / "a.sqlite")
    e.rows("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": UTC, "systemClockNs": 5})
    e.rows("TARGET_INFO_SYSTEM_ENV", {"name": "Hostname", "value": "node7"})
    random_bytes = random.Random(7)
    for i in range(600):
        names = ("gemm(float*)", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", f"kernel{i % 30}(int)")
        e.rows("CUPTI_ACTIVITY_KIND_KERNEL", kernel(10_000 + 5000 * i, random_bytes.randrange(100, 4000), i + 1, name=names[i % 3], demangledName=names[i % 3], streamId=7 + i % 4))
        e.rows("CUPTI_ACTIVITY_KIND_RUNTIME", call(5_000 + 5000 * i, random_bytes.randrange(10, 3000), i + 1, "cudaLaunchKernel_v7000"))
        e.rows("NVTX_EVENTS", nvtx(5_000 + 5000 * i, 8_000 + 5000 * i, f"step {i}"))
    for i in range(40):
        e.rows("CUPTI_ACTIVITY_KIND_MEMCPY", work(4_000_000 + 900 * i, 7 * i + 1, 1000 + i, bytes=4096 * i, copyKind=1 + i % 2 * 7, srcKind=i % 3, dstKind=2, copyCount=1))
    e.close()
    known = sqlite3.connect(tmp_path / "a.sqlite")
    known.executescript("CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER, name TEXT, label TEXT); INSERT INTO ENUM_CUDA_MEM_KIND VALUES"
                        " (0, 'CUDA_MEMOPR_MEMORY_KIND_PAGEABLE', 'Pageable'), (1, '…PINNED', 'Pinned'), (2, '…DEVICE', 'Device'), (6, '…', 'Managed Static')")
    bring(tmp_path / "a.sqlite")
    for query in PUBLISHED:
        expected = [list(row) for row in known.execute(query)]
        found = [list(json.loads(line).values()) for line in pitot("sql", "x.pitot", "--json", "-q", query + " ").stdout.splitlines()]
        if query.startswith("SELECT k.start, k.end"):
            found = [[start - UTC, end - UTC, name] for start, end, name in found]
        assert len(expected) > 0 and sorted(map(repr, found)) == sorted(map(repr, expected)), query
    label = [json.loads(line)["label"] for line in pitot("sql", "x.pitot", "--json", "-q", "SELECT label FROM ENUM_CUDA_MEM_KIND ORDER BY id ").stdout.splitlines()]
    assert label == ["Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static", "Unknown"]
    label = [json.loads(line)["label"] for line in pitot("sql", "x.pitot", "--json", "-q", "SELECT label FROM ENUM_CUDA_MEMCPY_OPER ORDER BY id ").stdout.splitlines()]
    assert label[:4] + label[-3:] == ["Unknown", "Host-to-Device", "Device-to-Host", "Host-to-Array", "Device-to-Device", "Host-to-Host", "Peer-to-Peer"]


def test_everything_once(bring, pitot, tmp_path):
    said, rows = bring(small(tmp_path / "a.sqlite"))
    assert (said["format"], said["sessions"], said["damaged"]) == ("nsys", 1, 0)
    assert said["unknown"] == 3  # a node of unknown kind, two rows of CUDNN_EVENTS, and nothing else
    first, second = rows("kernel")
    assert first["start_ns"] == UTC + 2000 and first["end_ns"] == UTC + 7000 and first["correlation"] == 1
    assert second["graph_node"] == 77 and first["graph_node"] is None and first["graph"] is None
    configs = rows("kernel_config")
    assert {(c["name"], c["cluster_x"]) for c in configs} == {("_Z4gemmPf", 2), ("gemm(float*)", None)}
    assert {c["cache_config_executed"] for c in configs} == {"prefer_shared", "unknown"}
    [copy] = rows("memcpy")
    assert (copy["kind"], copy["source_kind"], copy["destination_kind"], copy["bytes"]) == ("HtoD", "pageable", "device", 4096)
    assert copy["async"] is None
    assert rows("memset")[0]["memory_kind"] == "managed"
    waits = rows("synchronization")
    assert [(w["kind"], w["event"], w["event_record"]) for w in waits] == [("stream", None, None), ("event", 12, 3)]
    assert rows("cuda_event")[0]["time_ns"] is None
    assert rows("graph_launch")[0]["graph"] == 5
    [node] = rows("graph_node")
    assert (node["node"], node["original"], node["kind"]) == (77, 70, "kernel")
    assert rows("allocation")[0]["address"] == 2**63 + 4096
    calls = rows("api_call")
    assert [c["function"] for c in calls] == ["cudaLaunchKernel_v7000", "cuGraphLaunch", "cudaMemcpyAsync_v3020", "poll",
                                              "cudaStreamSynchronize_v3020"]
    assert [c["result"] for c in calls] == [None, None, 2, None, None] and calls[0]["stack"] and calls[3]["correlation"] == 0
    assert rows("overhead")[0]["kind"] == "lazy_function_loading"
    assert rows("stream")[0]["priority"] == -1 and rows("stream")[0]["non_blocking"] == 1
    [device] = rows("device")
    assert (device["id"], device["uuid"], device["clock_khz"]) == (0, "GPU-554a6988-03dd-6206-3dd1-f43fb60a3ed0", 1980000)
    assert rows("thread")[0]["name"] == "worker"
    [sample] = rows("cpu_sample")
    assert (sample["weight_ns"], sample["cpu"], sample["thread"]) == (2_000_000, 3, 101)
    assert [s["value"] for s in rows("counter_sample")] == [40, 60]
    [process_row] = rows("process")
    assert (process_row["command"], process_row["host"], process_row["pid"]) == ("/bin/train --fast", "node7", 100)
    assert process_row["rank"] is None and process_row["exit_status"] is None and device["vendor"] == "nvidia"
    assert {(row["reason"], row["count"]) for row in rows("loss")} >= {("gpu_records_dropped", 12), ("unknown_record", 2)}
    assert any(row["reason"] == "CUPTI dropped 12 records." for row in rows("capability"))
    folded = pitot("flame", "x.pitot", "--format", "folded").stdout
    assert "main;launch_it" in folded


def test_ranges_nest_by_thread(bring, tmp_path):
    """Also if the rows are in no order."""
    path = small(tmp_path / "a.sqlite")
    said, rows = bring(path)
    expected = [("push", "step", 0), ("push", "forward", 1), ("mark", "here", None), ("start", "batch", None), ("pop", None, 1),
                ("push", "backward", 1), ("pop", None, 1), ("end", None, None), ("pop", None, 0)]

    def events(thread_id):
        return [(row["kind"], row["message"], row["level"]) for row in rows("nvtx") if row["thread"] == thread_id]

    assert events(101) == expected and events(102) == [("push", "elsewhere", 0), ("pop", None, 0)]
    [forward] = [row for row in rows("nvtx") if row["message"] == "forward"]
    assert (forward["color"], forward["payload"], forward["payload_kind"]) == (2**32 - 1, 7, "u64")
    assert rows("nvtx_domain")[0]["name"] == "loader"
    assert rows("kernel", "-c", "scope")[0]["scope"]


def test_a_range_that_does_not_nest(bring, tmp_path):
    e = Export(tmp_path / "a.sqlite")
    e.rows("NVTX_EVENTS", nvtx(100, 200, "outer"), nvtx(150, 250, "across"), nvtx(160, 170, "inner"))
    e.close()
    _, rows = bring(tmp_path / "a.sqlite")
    assert [(row["time_ns"] - 10**9, row["kind"]) for row in rows("nvtx")] == [(100, "push"), (150, "start"), (160, "push"), (170, "pop"), (200, "pop"),
                                                                     (250, "end")]


def totals(path):
    db = sqlite3.connect(f"file:{path}?immutable=1", uri=True)
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    found = {}
    for table, kind in {**WORK, "synchronization": "SYNCHRONIZATION", "api_call": "RUNTIME"}.items():
        if f"CUPTI_ACTIVITY_KIND_{kind}" in tables:
            count, ns, last = db.execute(f'SELECT count(*), sum("end" - start), max("end") FROM CUPTI_ACTIVITY_KIND_{kind}').fetchone()
            found[table] = (count, ns or 0, last)
    for table in ("memcpy", "memset"):
        if table in found:
            found[table] += db.execute(f"SELECT sum(bytes) FROM CUPTI_ACTIVITY_KIND_{WORK[table]}").fetchone()
    if "NVTX_EVENTS" in tables:
        found["ranges"] = db.execute('SELECT count(*), sum("end" - start) FROM NVTX_EVENTS WHERE eventType IN (59, 60)').fetchone()
    utc = db.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME").fetchone()[0] if "TARGET_INFO_SESSION_START_TIME" in tables else 10**9
    return found, utc


def check_totals(path, rows):
    expected, utc = totals(path)
    for table, known in expected.items():
        if table == "ranges":
            events = rows("nvtx")
            count = sum(row["kind"] in ("push", "start") for row in events)
            ns = sum(row["time_ns"] * {"push": -1, "start": -1, "pop": 1, "end": 1}.get(row["kind"], 0) for row in events)
            assert (count, ns) == known
            continue
        found = [row for row in rows(table) if table != "api_call" or row["function"] != "poll"]
        sums = [len(found), sum(row["end_ns"] - row["start_ns"] for row in found), max((row["end_ns"] - utc for row in found), default=None)]
        if table in ("memcpy", "memset"):
            sums.append(sum(row["bytes"] for row in found))
        assert tuple(sums) == known, table


def test_totals(bring, tmp_path):
    path = small(tmp_path / "a.sqlite")
    check_totals(path, bring(path)[1])


def random_export(path, seed, rows=3000):
    """Three processes with random times, in no order."""
    r = random.Random(seed)
    e = Export(path)
    e.rows("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": UTC})
    for i in range(rows):
        pid, start = 100 + r.randrange(3), r.randrange(1, 10**12)
        e.rows("CUPTI_ACTIVITY_KIND_KERNEL", kernel(start, r.randrange(10**7), i, name=f"_Z{i % 50}", pid=pid, streamId=r.randrange(9)))
        e.rows("CUPTI_ACTIVITY_KIND_RUNTIME", call(start - 1, r.randrange(10**5), i, "cudaLaunchKernel_v7000", pid=pid, tid=pid))
        e.rows("NVTX_EVENTS", nvtx(start - 1, start + r.randrange(10**8), f"r{i % 7}", pid=pid, tid=pid + i % 2))
        if i % 5 == 0:
            e.rows("CUPTI_ACTIVITY_KIND_MEMCPY", work(start, r.randrange(10**6), i, pid=pid, bytes=r.randrange(2**40), copyKind=r.randrange(14)))
    e.close()
    return path


def test_totals_of_several_processes(bring, tmp_path):
    path = random_export(tmp_path / "a.sqlite", 1)
    said, rows = bring(path)
    assert said["sessions"] == 3 and said["damaged"] == said["unknown"] == 0
    check_totals(path, rows)


def test_real_exports(bring, tmp_path):
    """Those of the folder that PITOT_IMPORT_DATA names."""
    folder = os.environ.get("PITOT_IMPORT_DATA")
    if not folder:
        pytest.skip("PITOT_IMPORT_DATA names no folder with exports")
    files = sorted(Path(folder).rglob("*.sqlite"))
    assert files
    for path in files:
        said, rows = bring(path)
        assert said["format"] == "nsys" and not said["damaged"]
        check_totals(path, rows)


# --- versions ---


def test_an_old_export(bring, tmp_path):
    """No tables ENUM_, no processes in rows of GPU work, no registered texts, no META tables."""
    db = sqlite3.connect(tmp_path / "a.sqlite")
    db.executescript(f"""
        CREATE TABLE StringIds (id INTEGER, value TEXT);
        INSERT INTO StringIds VALUES (1, 'gemm(float*)'), (2, 'cudaLaunchKernel_v7000');
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, "end", deviceId, contextId, streamId, correlationId, demangledName, shortName);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (200, 300, 0, 1, 7, 5, 1, 1);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, "end", eventClass, globalTid, correlationId, nameId);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (100, 150, 0, {thread(42, 43)}, 5, 2);
        CREATE TABLE NVTX_EVENTS (start, "end", eventType, text, globalTid);
        INSERT INTO NVTX_EVENTS VALUES (50, 250, 59, 'step', {thread(42, 43)});
        CREATE TABLE TARGET_INFO_GPU (id, name, smMajor, smMinor);
        INSERT INTO TARGET_INFO_GPU VALUES (0, 'Tesla V100', 7, 0);
    """)
    db.commit()
    said, rows = bring(tmp_path / "a.sqlite")
    assert said["sessions"] == 1 and said["damaged"] == 0
    [found] = rows("kernel", "-c", "config,scope,pid,start_ns")
    assert (found["config"], found["scope"], found["start_ns"]) == ("gemm(float*)", "step", 10**9 + 200) and found["pid"] == 42
    assert rows("device")[0]["compute_major"] == 7
    assert any(row["name"] == "clock" and row["state"] == "degraded" for row in rows("capability"))


def test_numbers_of_enums_are_those_of_the_file(bring, tmp_path):
    e = Export(tmp_path / "a.sqlite")
    e.db.execute("CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER, name TEXT, label TEXT)")
    e.db.execute("INSERT INTO ENUM_CUDA_MEM_KIND VALUES (2, 'CUDA_MEMOPR_MEMORY_KIND_PINNED', ''), (9, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE', ''), "
                 "(3, 'CUDA_MEMOPR_MEMORY_KIND_NEW', '')")
    e.rows("CUPTI_ACTIVITY_KIND_MEMCPY", work(1, 1, 1, bytes=1, copyKind=1, srcKind=2, dstKind=9), work(5, 1, 2, bytes=1, copyKind=1, srcKind=3))
    e.close()
    first, second = bring(tmp_path / "a.sqlite")[1]("memcpy")
    assert (first["source_kind"], first["destination_kind"], second["source_kind"]) == ("pinned", "device", "unknown")


EVERY = {
    "memcpy": ("CUPTI_ACTIVITY_KIND_MEMCPY", {"device": "deviceId", "context": "contextId", "stream": "streamId", "correlation": "correlationId", "bytes": "bytes",
                                              "source_device": "srcDeviceId", "source_context": "srcContextId", "destination_device": "dstDeviceId",
                                              "destination_context": "dstContextId", "graph_node": "graphNodeId", "copies": "copyCount"}),
    "memset": ("CUPTI_ACTIVITY_KIND_MEMSET", {"device": "deviceId", "context": "contextId", "stream": "streamId", "correlation": "correlationId", "bytes": "bytes",
                                              "value": "value", "graph_node": "graphNodeId"}),
    "graph_launch": ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", {"device": "deviceId", "context": "contextId", "stream": "streamId", "correlation": "correlationId",
                                                         "graph": "graphId", "end_device": "endDeviceId", "end_context": "endContextId"}),
    "synchronization": ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", {"correlation": "correlationId", "context": "contextId", "stream": "streamId", "event": "eventId",
                                                                "event_record": "eventSyncId"}),
    "cuda_event": ("CUPTI_ACTIVITY_KIND_CUDA_EVENT", {"correlation": "correlationId", "event": "eventId", "context": "contextId", "stream": "streamId",
                                                      "device": "deviceId", "event_record": "eventSyncId"}),
    "allocation": ("CUDA_GPU_MEMORY_USAGE_EVENTS", {"address": "virtualAddress", "bytes": "bytes", "correlation": "correlationId", "device": "deviceId",
                                                    "context": "contextId", "stream": "streamId", "pool_address": "localMemoryPoolAddress",
                                                    "pool_bytes": "localMemoryPoolSize", "pool_used_bytes": "localMemoryPoolUtilizedSize"}),
    "kernel": ("CUPTI_ACTIVITY_KIND_KERNEL", {"device": "deviceId", "context": "contextId", "stream": "streamId", "correlation": "correlationId", "graph": "graphId",
                                              "graph_node": "graphNodeId", **{f"config.{ours}": theirs for ours, theirs in {
                                                  "registers": "registersPerThread", "grid_x": "gridX", "grid_y": "gridY", "grid_z": "gridZ", "block_x": "blockX",
                                                  "block_y": "blockY", "block_z": "blockZ", "static_shared_bytes": "staticSharedMemory",
                                                  "dynamic_shared_bytes": "dynamicSharedMemory", "local_bytes_per_thread": "localMemoryPerThread",
                                                  "local_bytes_total": "localMemoryTotal", "executed_shared_bytes": "sharedMemoryExecuted", "cluster_x": "clusterX",
                                                  "cluster_y": "clusterY", "cluster_z": "clusterZ", "max_cluster_blocks": "maxPotentialClusterSize",
                                                  "max_active_clusters": "maxActiveClusters", "carveout_percent": "sharedMemoryRequestedPercentage"}.items()}})}


@pytest.mark.parametrize("table", EVERY)
def test_every_column(bring, tmp_path, table):
    """Each has its own value, so that none comes from another."""
    theirs, columns = EVERY[table]
    values = {column: 11 + i for i, column in enumerate(sorted(columns.values()))}
    names = ["start", "end", "timestamp", "globalPid", *values]
    small(tmp_path / "a.sqlite")
    with sqlite3.connect(tmp_path / "a.sqlite") as db:
        db.execute(f"DROP TABLE {theirs}")
        db.execute(f"CREATE TABLE {theirs} ({', '.join(names)})")
        db.execute(f"INSERT INTO {theirs} VALUES ({', '.join('?' * len(names))})", (5000, 5001, 5000, 1 << 48 | 100 << 24, *values.values()))
    [row] = bring(tmp_path / "a.sqlite")[1](table, "-c", ",".join(columns))
    assert row == {ours: values[column] for ours, column in columns.items()}


@pytest.mark.parametrize("column, value, payload", [("uint64Value", 2**63 - 1, ("u64", 2**63 - 1)), ("int64Value", -5, ("i64", 2**64 - 5)), ("doubleValue", 2.5, ("f64", 0x4004 << 48)),
                                                    ("doubleValue", 3, ("f64", 0x4008 << 48)), ("uint32Value", 2**32 - 1, ("u32", 2**32 - 1)), ("int32Value", -5, ("i32", 2**32 - 5)),
                                                    ("floatValue", 0.5, ("f32", 0x3f << 24)), ("uint32Value", "text", (None, None))])
def test_payloads(bring, tmp_path, column, value, payload):
    """The bits of the number that the program has given, of its type."""
    small(tmp_path / "a.sqlite")
    with sqlite3.connect(tmp_path / "a.sqlite") as db:
        db.execute("DROP TABLE NVTX_EVENTS")
        db.execute(f"CREATE TABLE NVTX_EVENTS (start, end, eventType, text, globalTid, domainId, {column})")
        db.execute("INSERT INTO NVTX_EVENTS VALUES (5, 9, 59, 'x', ?, 0, ?)", (thread(100, 101), value))
    [row] = [row for row in bring(tmp_path / "a.sqlite")[1]("nvtx") if row["message"] == "x"]
    assert (row["payload_kind"], row["payload"]) == payload


# What the export's names mean; UVM's copies are those of managed memory.
COPIES = {"UNKNOWN": "unknown", "HTOD": "HtoD", "DTOH": "DtoH", "HTOA": "HtoA", "ATOH": "AtoH", "ATOA": "AtoA", "ATOD": "AtoD", "DTOA": "DtoA", "DTOD": "DtoD",
          "HTOH": "HtoH", "PTOP": "PtoP", "UVM_HTOD": "HtoD", "UVM_DTOH": "DtoH", "UVM_DTOD": "DtoD"}
WAITS = {"UNKNOWN": "unknown", "EVENT_SYNCHRONIZE": "event", "STREAM_WAIT_EVENT": "stream_wait_event", "STREAM_SYNCHRONIZE": "stream", "CONTEXT_SYNCHRONIZE": "context"}


@pytest.mark.parametrize("numbered", ["as in 3.25", "backwards"])
def test_every_name_of_an_enum(bring, tmp_path, numbered):
    """By the tables of the file, in which they have other numbers, and without any."""
    e = Export(tmp_path / "a.sqlite")
    for table, prefix, names, rows in (("ENUM_CUDA_MEMCPY_OPER", "CUDA_MEMCPY_KIND_", COPIES, "MEMCPY"),
                                       ("ENUM_CUPTI_SYNC_TYPE", "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_", WAITS, "SYNCHRONIZATION")):
        numbers = dict(zip(names, range(len(names)) if numbered == "as in 3.25" else range(31, 0, -1)))
        if numbered == "backwards":
            e.db.execute(f"CREATE TABLE {table} (id INTEGER, name TEXT, label TEXT)")
            e.db.executemany(f"INSERT INTO {table} VALUES (?, ?, '')", ((number, prefix + name) for name, number in numbers.items()))
        column = {"MEMCPY": "copyKind", "SYNCHRONIZATION": "syncType"}[rows]
        e.rows(f"CUPTI_ACTIVITY_KIND_{rows}", *(work(i * 10, 1, i, **{column: number}) for i, number in enumerate(numbers.values())))
    e.close()
    _, rows = bring(tmp_path / "a.sqlite")
    assert [row["kind"] for row in rows("memcpy")] == list(COPIES.values())
    assert [row["kind"] for row in rows("synchronization")] == list(WAITS.values())


@pytest.mark.parametrize("normalized, shift, first", [("false", 0, UTC + 10), ("true", 0, 10), ("false", 7, UTC + 3)])
def test_shifted_times(bring, tmp_path, normalized, shift, first):
    e = Export(tmp_path / "a.sqlite")
    e.rows("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": UTC})
    e.rows("META_DATA_EXPORT", {"name": "EXPORT_PARAM_TIME_NORMALIZE", "value": normalized}, {"name": "EXPORT_PARAM_TIME_SHIFT", "value": str(shift)})
    e.rows("CUPTI_ACTIVITY_KIND_KERNEL", kernel(10, 1, 1))
    e.close()
    _, rows = bring(tmp_path / "a.sqlite")
    assert rows("kernel")[0]["start_ns"] == first and not any(row["name"] == "clock" for row in rows("capability"))


# --- what bad input gets ---


def test_values_that_fit_nowhere(bring, tmp_path):
    e = Export(tmp_path / "a.sqlite")
    odd = [kernel(100, 10, 2**63 - 1), kernel(200, 10, -1), kernel(300, -50, 3), kernel(-5, 1, 4), kernel(400, 1, 5),
           kernel(500, 1, 6, streamId=2**40), kernel(600, 1, 7, gridX=-1, gridY="two", gridZ=1.5), kernel(700, 1, 8, mangledName=10**9),
           kernel(800, 1, 9, deviceId=None), kernel(2**63 - 5, 4, 10), kernel(900, 1, 11, name="x" * (1 << 20))]
    e.rows("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": UTC})
    e.rows("CUPTI_ACTIVITY_KIND_KERNEL", *odd)
    e.db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon' WHERE correlationId = 5")
    e.rows("NVTX_EVENTS", nvtx(5, 3, "reversed"), nvtx(1, None, "pop", kind=36), nvtx(2, 3, "?", kind=12), {**nvtx(7, 8, "no thread"), "globalTid": None})
    e.close()
    said, rows = bring(tmp_path / "a.sqlite")
    kernels = rows("kernel")
    assert len(kernels) == len(odd) and sum(row["start_ns"] is None for row in kernels) == 3
    by = {row["correlation"]: row for row in kernels}
    assert 2**63 - 1 in by and 2**64 - 1 in by and by[6]["stream"] == 2**32 - 1 and by[9]["device"] in (None, 2**32 - 1)
    assert by[8]["config"] == "unknown string 1000000000"
    grids = [(row["grid_x"], row["grid_y"], row["grid_z"]) for row in rows("kernel_config")]
    assert (None, None, None) in grids
    assert said["damaged"] > 5
    assert {"reversed_time", "no_time", "damaged_file"} <= {row["reason"] for row in rows("loss")}


def test_hostile_names(bring, pitot, tmp_path):
    name = "\x1b[31m<script>alert(1)</script>\"',;\r\n\u202e"
    e = Export(tmp_path / "a.sqlite")
    e.rows("CUPTI_ACTIVITY_KIND_KERNEL", kernel(1, 10, 1, name=name))
    e.rows("NVTX_EVENTS", nvtx(1, 5, name))
    e.close()
    bring(tmp_path / "a.sqlite")
    for command in ("report",), ("view", "kernel"), ("view", "nvtx"):
        assert "\x1b[31m" not in pitot(command[0], "x.pitot", *command[1:]).stdout
    pitot("report", "x.pitot", "-o", "x.html")
    assert "<script>alert" not in (tmp_path / "x.html").read_text()


def import_any(pitot, path):
    """A recording that can be read, or a failure without one."""
    result = pitot("import", path, "-o", "any.pitot", "--force", "--format", "nsys", status=None)
    assert result.returncode in (0, 1), result.stderr
    if result.returncode == 0:
        pitot("report", "any.pitot", "-q")
    else:
        assert "any.pitot" not in os.listdir(path.parent)
        assert "pitot import: error: " in result.stderr
    return result


def test_cut_and_damaged_files(pitot, tmp_path):
    whole = small(tmp_path / "a.sqlite", page_size=512).read_bytes()
    r = random.Random(3)
    for i in range(60):
        data = bytearray(whole[:r.randrange(len(whole))] if i % 3 == 0 else whole)
        for _ in range(r.randrange(1, 40) if i % 3 else 0):
            data[r.randrange(len(data))] = r.randrange(256)
        path = tmp_path / "damaged.sqlite"
        path.write_bytes(data)
        import_any(pitot, path)


def test_what_a_file_lacks_is_said(bring, pitot, tmp_path):
    whole = small(tmp_path / "whole.sqlite", page_size=512).read_bytes()
    half = len(whole) // 2
    where = f"cut off on page {half // 512 + 1} of {len(whole) // 512}: it has {half} of {len(whole)} B"
    for size, says in (99, "cut off within its header"), (half, where):
        (tmp_path / "cut.sqlite").write_bytes(whole[:size])
        assert says in pitot("import", "cut.sqlite", "-o", "cut.pitot", status=1).stderr
        assert not (tmp_path / "cut.pitot").exists()
    path = small(tmp_path / "last.sqlite", page_size=512)
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE _last (a)")  # on the last page, which nothing is read of
    db.commit()
    db.close()
    path.write_bytes(path.read_bytes()[:-1])
    said, rows = bring(path)
    assert said["rows"]["kernel"] and any("cut off on page" in (row["detail"] or "") for row in rows("loss"))


def test_a_damaged_table_is_read_as_far_as_it_goes(bring, tmp_path):
    path = random_export(tmp_path / "a.sqlite", 2, rows=600)
    db = sqlite3.connect(path)
    root = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_KERNEL'").fetchone()[0]
    db.close()
    data = bytearray(path.read_bytes())
    page = data[(root - 1) * 4096:root * 4096]
    last = int.from_bytes(page[8:12], "big")  # the rightmost child
    data[(last - 1) * 4096:last * 4096] = b"\xff" * 4096
    path.write_bytes(data)
    said, rows = bring(path)
    assert 0 < said["rows"]["kernel"] < 600 and said["damaged"] == 1 and said["rows"]["api_call"] == 600
    assert any("CUPTI_ACTIVITY_KIND_KERNEL, from row" in (row["detail"] or "") for row in rows("loss"))


def test_times_from_0(bring, tmp_path):
    """Without a start of the capture, 0 is a time as any other."""
    export = Export(tmp_path / "a.sqlite")
    export.rows("CUPTI_ACTIVITY_KIND_KERNEL", kernel(0, 500, 1, "k"), kernel(600, 700, 2, "k"))
    export.rows("NVTX_EVENTS", nvtx(0, 900, "range"))
    export.close()
    said, rows = bring(tmp_path / "a.sqlite")
    first, second = rows("kernel")
    assert said["damaged"] == 0 and first["end_ns"] - first["start_ns"] == 500 and second["start_ns"] - first["start_ns"] == 600
    assert [row["time_ns"] - first["start_ns"] for row in rows("nvtx")] == [0, 900]
    assert any("when the capture began" in (row["reason"] or "") for row in rows("capability"))


@pytest.mark.parametrize("select, rows, why", [
    ("SELECT x AS start, x + 1 AS end, x AS correlationId FROM c", True, "more rows than the file has bytes"),
    ("SELECT x AS start, x + 1 AS end, x AS correlationId FROM c WHERE x < 0", False, "a view that computes without end")])
def test_views_that_never_end(bring, pitot, tmp_path, select, rows, why):
    """A view can make any number of rows of nothing: as many as the file has bytes are read, and a batch more."""
    small(tmp_path / "a.sqlite")
    with sqlite3.connect(tmp_path / "a.sqlite") as db:
        db.execute("DROP TABLE CUPTI_ACTIVITY_KIND_MEMSET")
        db.execute(f"CREATE VIEW CUPTI_ACTIVITY_KIND_MEMSET AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) {select}")
    said, read = bring(tmp_path / "a.sqlite")
    assert (0 < said["rows"]["memset"] <= (tmp_path / "a.sqlite").stat().st_size + 1024) if rows else "memset" not in said["rows"]
    assert said["rows"]["kernel"] == 2
    assert [row["detail"] for row in read("loss") if "MEMSET" in (row["detail"] or "")] == [
        f"CUPTI_ACTIVITY_KIND_MEMSET, from row {said['rows'].get('memset', 0) + 1} on: {why}"]


def many_calls(path, rowids, text="x"):
    """Calls and ranges with these rowids: so many that two threads read them."""
    small(path)
    with sqlite3.connect(path) as db:
        for table in "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "OSRT_API":
            db.execute(f"DELETE FROM {table}")
        db.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (rowid, start, end, eventClass, globalTid, correlationId, nameId) VALUES (?, ?, ?, 0, ?, ?, 2)",
                       ((at, 1000 + i, 1001 + i, thread(100, 101), i) for i, at in enumerate(rowids)))
        db.executemany("INSERT INTO NVTX_EVENTS (rowid, start, end, eventType, globalTid, domainId, text) VALUES (?, ?, ?, 59, ?, 0, ?)",
                       ((at, 5000 + 2 * i, 5001 + 2 * i, thread(100, 101), f"{text}{i}") for i, at in enumerate(rowids)))
    return path


@pytest.mark.parametrize("rowids", [range(1, 40001), range(-20000, 20001), [*range(1, 5000), *range(9000, 30000), 60000], [*range(30000), 2**62],
                                    [*range(-2**63, -2**63 + 20000), 2**63 - 1]], ids=["dense", "negative", "gaps", "far", "ends"])
def test_large_tables(bring, tmp_path, rowids):
    """Rows come in the order of their rowids, whatever these are."""
    said, rows = bring(many_calls(tmp_path / "a.sqlite", rowids))
    assert said["damaged"] == 0 and [row["correlation"] for row in rows("api_call", "-c", "correlation")] == list(range(len(rowids)))
    names = [row["message"] for row in rows("nvtx", "-c", "message") if row["message"]]
    assert names == [f"x{i}" for i in range(len(rowids))]


def test_large_tables_of_long_texts(bring, tmp_path):
    """Several batches for a range of rowids."""
    text = "y" * 30000
    said, rows = bring(many_calls(tmp_path / "a.sqlite", range(1, 18001), text))
    assert said["rows"]["nvtx"] == 36000 and said["damaged"] == 0
    assert [row["message"] for row in rows("nvtx", "-c", "message", "-n", "1500") if row["message"]][:3] == [f"{text}{i}" for i in range(3)]


def test_rows_that_are_not_where_their_key_says(bring, tmp_path):
    """A number of a row that is damaged: its range ends there, and that rows are missing is counted."""
    path = many_calls(tmp_path / "a.sqlite", range(1, 40001))
    with sqlite3.connect(path) as db:
        root = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_RUNTIME'").fetchone()[0]
    data = bytearray(path.read_bytes())
    leaf = int.from_bytes(data[(at := (root - 1) * 4096 + int.from_bytes(data[(root - 1) * 4096 + 12 + 20:][:2], "big")):at + 4], "big")
    page = (leaf - 1) * 4096
    assert data[page] == 13  # the leaf of the eleventh child
    cell = page + int.from_bytes(data[page + 8 + 20:page + 8 + 22], "big")
    assert data[cell + 1] & 128  # a rowid of several bytes
    data[cell + 1] ^= 64
    path.write_bytes(data)
    said, rows = bring(path)
    assert said["rows"]["api_call"] < 40000 and said["damaged"] == 1
    assert any("CUPTI_ACTIVITY_KIND_RUNTIME, from row" in (row["detail"] or "") for row in rows("loss"))


def test_missing_tables(bring, tmp_path):
    """Any of them."""
    for name in small_tables(tmp_path):
        path = tmp_path / f"{name}.sqlite"
        path.unlink(missing_ok=True)
        small(path)
        db = sqlite3.connect(path)
        db.execute(f"DROP TABLE {name}")
        db.commit()
        db.close()
        bring(path, "--format", "nsys")


def small_tables(tmp_path):
    path = small(tmp_path / "tables.sqlite")
    return [name for (name,) in sqlite3.connect(path).execute("SELECT name FROM sqlite_master WHERE type = 'table'")]


def test_other_databases(pitot, tmp_path):
    db = sqlite3.connect(tmp_path / "other.sqlite")
    db.execute("CREATE TABLE t (a)")
    db.commit()
    assert "is an SQLite database; pitot import reads" in pitot("import", "other.sqlite", status=1).stderr
    db.execute("CREATE TABLE StringIds (id, value)")
    db.commit()
    assert "contains no events" in pitot("import", "other.sqlite", "-o", "x.pitot", status=1).stderr
    assert not (tmp_path / "x.pitot").exists()
    (tmp_path / "run.nsys-rep").write_bytes(b"\0\1\2")
    assert "nsys export --type sqlite" in pitot("import", "run.nsys-rep", status=1).stderr


def test_compressed_and_from_standard_input(bring, pitot, tmp_path):
    path = small(tmp_path / "a.sqlite")
    plain, _ = bring(path)
    (tmp_path / "a.gz").write_bytes(gzip.compress(path.read_bytes()))
    packed, _ = bring(tmp_path / "a.gz")
    piped = json.loads(pitot("import", "-", "-o", "x.pitot", "-f", "--json", text=False, input=path.read_bytes()).stdout)
    assert plain["rows"] == packed["rows"] == piped["rows"]
    assert not [name for name in os.listdir(tmp_path / "x.pitot") if not name.endswith((".pit", ".json"))]


def test_what_follows_a_compressed_database(bring, pitot, tmp_path):
    """A file of some KB that unpacks to gigabytes of nothing is unpacked up to the end of its database."""
    whole = small(tmp_path / "a.sqlite").read_bytes()
    (tmp_path / "b.gz").write_bytes(gzip.compress(whole + bytes(2**26), 1))
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 2**20,) * 2)
    said = pitot("import", "b.gz", "-o", "y.pitot", "--json", json_output=True, preexec_fn=limit)
    assert said["rows"] == bring(tmp_path / "a.sqlite")[0]["rows"]
    for name in "nsys", "rocpd":
        assert "is no SQLite database" in pitot("import", "/dev/zero", "--format", name, "-o", "z.pitot", status=1, preexec_fn=limit).stderr


def test_several_files_and_write_ahead_logs(bring, tmp_path):
    """The file alone is read, even if it says that it has a log."""
    for name in ("a", "b"):
        small(tmp_path / f"{name}.sqlite")
    data = bytearray((tmp_path / "b.sqlite").read_bytes())
    data[18:20] = b"\2\2"
    (tmp_path / "b.sqlite").write_bytes(data)
    said, rows = bring(tmp_path / "a.sqlite", tmp_path / "b.sqlite")
    assert said["sessions"] == 2 and said["rows"]["kernel"] == 4 and len(rows("kernel")) == 4
    assert sorted(os.listdir(tmp_path)) == ["a.sqlite", "b.sqlite", "x.pitot"]


def test_a_folder(bring, tmp_path):
    """Each export is a process; other files are named."""
    folder = tmp_path / "runs"
    folder.mkdir()
    for name in ("a.sqlite", "b.sqlite"):
        small(folder / name)
    (folder / "notes.txt").write_text("x")
    said, rows = bring(folder)
    assert said["format"] == "nsys" and said["sessions"] == said["files"] == 2 and len(rows("kernel")) == 4
