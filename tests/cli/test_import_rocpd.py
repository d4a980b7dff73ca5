"""`pitot import` of rocprofv3's databases: rows that lack a thread, a queue or a name are there, too."""
import json
import random
import sqlite3

import pytest

UUID = "0a1b"
TABLES = {
    "rocpd_metadata": "id INTEGER PRIMARY KEY, tag TEXT, value TEXT",
    "rocpd_string": "id INTEGER PRIMARY KEY, guid TEXT, string TEXT",
    "rocpd_info_node": "id INTEGER PRIMARY KEY, guid TEXT, hash INTEGER, machine_id TEXT, system_name TEXT, hostname TEXT",
    "rocpd_info_process": "id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, ppid INTEGER, pid INTEGER, start INTEGER, end INTEGER, command TEXT",
    "rocpd_info_thread": "id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, name TEXT",
    "rocpd_info_agent": "id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, type TEXT, absolute_index INTEGER, logical_index INTEGER, "
                        "type_index INTEGER, uuid INTEGER, name TEXT, model_name TEXT, product_name TEXT",
    "rocpd_info_pmc": "id INTEGER PRIMARY KEY, guid TEXT, agent_id INTEGER, name TEXT, symbol TEXT, description TEXT, units TEXT",
    "rocpd_info_kernel_symbol": "id INTEGER PRIMARY KEY, guid TEXT, kernel_name TEXT, display_name TEXT",
    "rocpd_event": "id INTEGER PRIMARY KEY, guid TEXT, category_id INTEGER, stack_id INTEGER, parent_stack_id INTEGER, correlation_id INTEGER, "
                   "call_stack TEXT, line_info TEXT, extdata TEXT",
    "rocpd_region": "id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, start INTEGER, end INTEGER, name_id INTEGER, "
                    "event_id INTEGER",
    "rocpd_kernel_dispatch": "id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, agent_id INTEGER, kernel_id INTEGER, "
                             "dispatch_id INTEGER, queue_id INTEGER, stream_id INTEGER, start INTEGER, end INTEGER, private_segment_size INTEGER, "
                             "group_segment_size INTEGER, workgroup_size_x INTEGER, workgroup_size_y INTEGER, workgroup_size_z INTEGER, "
                             "grid_size_x INTEGER, grid_size_y INTEGER, grid_size_z INTEGER, region_name_id INTEGER, event_id INTEGER",
    "rocpd_memory_copy": "id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, start INTEGER, end INTEGER, name_id INTEGER, "
                         "dst_agent_id INTEGER, src_agent_id INTEGER, size INTEGER, queue_id INTEGER, stream_id INTEGER, event_id INTEGER",
    "rocpd_memory_allocate": "id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, agent_id INTEGER, type TEXT, level TEXT, "
                             "start INTEGER, end INTEGER, address INTEGER, size INTEGER, event_id INTEGER",
    "rocpd_pmc_event": "id INTEGER PRIMARY KEY, guid TEXT, event_id INTEGER, pmc_id INTEGER, value REAL",
}


class Rocpd:
    """A database with tables of one process, and the views that unite tables of several."""

    def __init__(self, path, version="3.0.2", page_size=4096):
        self.path, self.db, self.strings, self.ids = path, sqlite3.connect(path), {}, {}
        self.db.execute(f"PRAGMA page_size={page_size}")
        for table, columns in TABLES.items():
            self.db.execute(f'CREATE TABLE "{table}_{UUID}" ({columns.replace(" end ", chr(32) + chr(34) + "end" + chr(34) + " ")})')
            self.db.execute(f'CREATE VIEW "{table}" AS SELECT * FROM "{table}_{UUID}"')
        self.add("metadata", tag="schema_version", value=version)
        self.add("info_node", hostname="amd1")
        self.add("info_process", nid=1, pid=4242, ppid=1, command="/bin/solver")
        self.add("info_thread", pid=1, tid=4243, name="worker")
        self.add("info_agent", type="CPU", type_index=0, absolute_index=0)
        self.add("info_agent", type="GPU", type_index=0, absolute_index=1, name="gfx90a", product_name="AMD Instinct MI250X", uuid=77)
        self.add("info_agent", type="GPU", type_index=1, absolute_index=2, name="gfx90a", product_name="AMD Instinct MI250X", uuid=78)

    def add(self, table, **row):
        self.ids[table] = self.ids.get(table, 0) + 1
        row = {"id": self.ids[table], **({} if table == "metadata" else {"guid": UUID}), **row}
        names = ", ".join(f'"{name}"' for name in row)
        self.db.execute(f'INSERT INTO "rocpd_{table}_{UUID}" ({names}) VALUES ({", ".join("?" * len(row))})', list(row.values()))
        return row["id"]

    def string(self, text):
        if text not in self.strings:
            self.strings[text] = self.add("string", string=text)
        return self.strings[text]

    def event(self, category, stack, **more):
        return self.add("event", category_id=self.string(category), stack_id=stack, correlation_id=stack, **more)

    def call(self, start, end, name, stack, category="HIP_RUNTIME_API", **more):
        return self.add("region", pid=1, tid=1, start=start, end=end, name_id=self.string(name), event_id=self.event(category, stack, **more))

    def kernel(self, start, end, stack, symbol=None, **more):
        shape = {"workgroup_size_x": 64, "workgroup_size_y": 1, "workgroup_size_z": 1, "grid_size_x": 1000, "grid_size_y": 2, "grid_size_z": 1}
        return self.add("kernel_dispatch", **{"pid": 1, "tid": 1, "agent_id": 3, "kernel_id": symbol, "queue_id": 1, "stream_id": 5, "start": start,
                                              "end": end, "group_segment_size": 128, "private_segment_size": 16,
                                              "event_id": self.event("KERNEL_DISPATCH", stack), **shape, **more})

    def close(self):
        self.db.commit()
        self.db.close()
        return self.path


def small(path, **options):
    r = Rocpd(path, **options)
    gemm = r.add("info_kernel_symbol", kernel_name="_Z4gemmPf.kd", display_name="gemm(float*)")
    r.call(100, 150, "hipLaunchKernel", 1)
    r.kernel(200, 500, 1, gemm)
    r.kernel(600, 900, 2, None, tid=None, queue_id=None, region_name_id=r.string("region"))  # the view `kernels` leaves it out
    r.kernel(950, 960, 3, 999, event_id=None, stream_id=None)
    r.call(80, 990, "roctxRangePushA", 9, "MARKER_CORE_RANGE_API", extdata='{"message": "step"}')
    r.call(90, 160, "forward", 10, "MARKER_CORE_RANGE_API")
    r.call(300, 350, "hipMemcpy", 4)
    for stack, (name, source, destination) in enumerate([("MEMORY_COPY_HOST_TO_DEVICE", 1, 2), ("MEMORY_COPY_DEVICE_TO_HOST", 3, 1),
                                                         ("MEMORY_COPY_DEVICE_TO_DEVICE", 3, 2)]):
        r.add("memory_copy", pid=1, tid=1, start=300 + stack, end=340, name_id=r.string(name), src_agent_id=source, dst_agent_id=destination,
              size=4096, stream_id=5, event_id=r.event("MEMORY_COPY", 4 + stack))
    r.add("memory_allocate", pid=1, tid=1, agent_id=2, type="ALLOC", level="REAL", start=10, end=20, address=2**62, size=100,
          event_id=r.event("MEMORY_ALLOCATION", 20))
    r.add("memory_allocate", pid=1, tid=1, agent_id=2, type="RECLAIM", start=30, end=31, event_id=r.event("MEMORY_ALLOCATION", 21))
    r.add("info_thread", pid=1, tid=4244, name="")
    r.add("info_thread", pid=99, tid=5, name="of another process")
    pmc = r.add("info_pmc", agent_id=2, name="SQ_WAVES", symbol="SQ_WAVES", units="", description="waves")
    r.add("pmc_event", event_id=2, pmc_id=pmc, value=12.5)
    return r.close()


@pytest.fixture
def bring(pitot, tmp_path):
    def run(path, *more):
        said = pitot("import", path, *more, "-o", "x.pitot", "--force", "--json", json_output=True)

        def rows(table, *options):
            return [json.loads(line) for line in pitot("view", "x.pitot", table, "--json", "-q", *options).stdout.splitlines()]

        return said, rows

    return run


def test_everything_once(bring, pitot, tmp_path):
    said, rows = bring(small(tmp_path / "1_results.db"))
    assert (said["format"], said["sessions"], said["damaged"], said["unknown"]) == ("rocpd", 1, 0, 1)
    kernels = rows("kernel", "-c", "config,duration,stream,device,correlation,scope")
    assert [(k["config"], k["duration"], k["device"]) for k in kernels] == [("_Z4gemmPf", 300, 1), ("region", 300, 1), ("unknown kernel", 10, 1)]
    assert [k["stream"] for k in kernels] == [5, 5, 2**32 - 1] and kernels[0]["scope"] == "step/forward"
    config = rows("kernel_config")[0]
    assert (config["grid_x"], config["grid_y"], config["block_x"], config["dynamic_shared_bytes"]) == (16, 2, 64, 128)
    assert [(c["kind"], c["source_device"], c["destination_device"], c["device"]) for c in rows("memcpy")] == [
        ("HtoD", None, None, 0), ("DtoH", None, None, 1), ("PtoP", 1, 0, 0)]
    assert sorted(c["function"] for c in rows("api_call")) == ["hipLaunchKernel", "hipMemcpy"] and rows("api_call")[0]["thread"] == 4243
    assert [(n["kind"], n["message"]) for n in rows("nvtx")] == [("push", "step"), ("push", "forward"), ("pop", None), ("pop", None)]
    assert [(d["id"], d["name"]) for d in rows("device")] == [(0, "AMD Instinct MI250X"), (1, "AMD Instinct MI250X")]
    assert [(row["tid"], row["name"]) for row in rows("thread")] == [(4243, "worker")]
    assert rows("allocation")[0]["operation"] == "allocation" and rows("metric_value")[0]["value"] == 12.5
    process = rows("process")[0]
    assert (process["pid"], process["command"], process["host"]) == (4242, "/bin/solver", "amd1")
    assert process["rank"] is None and {row["vendor"] for row in rows("device")} == {"amd"}
    report = pitot("report", "x.pitot").stdout
    assert "kernel launch call" in report and "hipMemcpy" in report


@pytest.mark.parametrize("version", ["4.1.0", "2.0", "", "30.1"])
def test_other_versions_are_refused(pitot, tmp_path, version):
    Rocpd(tmp_path / "x.db", version=version).close()
    error = pitot("import", "x.db", "-o", "x.pitot", status=1).stderr
    assert f"has schema {version or 'of an unknown version'} of rocpd" in error and not (tmp_path / "x.pitot").exists()


def test_totals(bring, tmp_path):
    r, random_ = Rocpd(tmp_path / "x.db"), random.Random(5)
    symbols = [r.add("info_kernel_symbol", kernel_name=f"_Z{i}") for i in range(9)]
    for i in range(2000):
        start = random_.randrange(10**12)
        r.call(start - 10, start, "hipLaunchKernel", i + 1)
        r.kernel(start, start + random_.randrange(10**6), i + 1, random_.choice([*symbols, None]), tid=random_.choice([1, None]))
    path = r.close()
    said, rows = bring(path)
    count, ns = sqlite3.connect(path).execute('SELECT count(*), sum("end" - start) FROM rocpd_kernel_dispatch').fetchone()
    kernels = rows("kernel", "-c", "duration,correlation")
    assert (len(kernels), sum(k["duration"] for k in kernels)) == (count, ns) and said["rows"]["api_call"] == 2000
    assert {k["correlation"] for k in kernels} == set(range(1, 2001))


def test_missing_tables_and_damage(pitot, tmp_path):
    whole = small(tmp_path / "whole.db", page_size=512).read_bytes()
    for table in TABLES:
        path = tmp_path / f"{table}.db"
        small(path)
        db = sqlite3.connect(path)
        db.execute(f"DROP VIEW {table}")
        db.commit()
        db.close()
        pitot("import", path, "-o", "x.pitot", "-f", "--format", "rocpd", status=1 if table == "rocpd_metadata" else 0)
    random_ = random.Random(4)
    for i in range(40):
        data = bytearray(whole[:random_.randrange(len(whole))] if i % 3 == 0 else whole)
        for _ in range(random_.randrange(1, 40) if i % 3 else 0):
            data[random_.randrange(len(data))] = random_.randrange(256)
        (tmp_path / "damaged.db").write_bytes(data)
        result = pitot("import", "damaged.db", "-o", "any.pitot", "-f", "--format", "rocpd", status=None)
        assert result.returncode in (0, 1) and (tmp_path / "any.pitot").exists() == (result.returncode == 0)
        if result.returncode == 0:
            pitot("report", "any.pitot", "-q")
