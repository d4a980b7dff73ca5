"""Makes SQLite exports of Nsight Systems: tables with some of the columns that real ones have."""
import sqlite3

UTC = 1_700_000_000_000_000_000


def process(pid):
    return 1 << 48 | pid << 24


def thread(pid, tid):
    return process(pid) | tid


TABLES = {
    "StringIds": "id INTEGER PRIMARY KEY, value TEXT NOT NULL",
    "META_DATA_EXPORT": "name TEXT, value TEXT",
    "META_DATA_CAPTURE": "name TEXT, value TEXT",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER, utcTime TEXT, localTime TEXT, systemClockNs INTEGER",
    "TARGET_INFO_SYSTEM_ENV": "globalVid INTEGER, devStateName TEXT, name TEXT, nameEnum INTEGER, value TEXT",
    "TARGET_INFO_GPU": "vmId INTEGER, id INTEGER, name TEXT, busLocation TEXT, l2CacheSize INTEGER, totalMemory INTEGER, clockRate INTEGER, "
                       "smCount INTEGER, uuid TEXT, cuDevice INTEGER, threadsPerWarp INTEGER, maxWarpsPerSm INTEGER, computeMajor INTEGER, "
                       "computeMinor INTEGER",
    "TARGET_INFO_CUDA_DEVICE": "gpuId INTEGER, cudaId INTEGER, pid INTEGER, uuid TEXT",
    "TARGET_INFO_CUDA_STREAM": "streamId INTEGER, hwId INTEGER, vmId INTEGER, processId INTEGER, contextId INTEGER, priority INTEGER, flag INTEGER",
    "PROCESSES": "globalPid INTEGER, pid INTEGER, name TEXT",
    "ThreadNames": "nameId INTEGER, priority INTEGER, globalTid INTEGER",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, "
                                  "globalPid INTEGER, demangledName INTEGER, shortName INTEGER, mangledName INTEGER, launchType INTEGER, "
                                  "cacheConfig INTEGER, registersPerThread INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, "
                                  "blockY INTEGER, blockZ INTEGER, staticSharedMemory INTEGER, dynamicSharedMemory INTEGER, graphNodeId INTEGER, "
                                  "clusterX INTEGER",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, "
                                  "globalPid INTEGER, bytes INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind INTEGER, copyCount INTEGER",
    "CUPTI_ACTIVITY_KIND_MEMSET": "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, "
                                  "globalPid INTEGER, value INTEGER, bytes INTEGER, memKind INTEGER",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER, "
                                   "returnValue INTEGER, callchainId INTEGER",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, "
                                           "correlationId INTEGER, globalPid INTEGER, syncType INTEGER, eventId INTEGER, eventSyncId INTEGER",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": "timestamp INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, "
                                      "globalPid INTEGER, eventId INTEGER, eventSyncId INTEGER",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, "
                                       "correlationId INTEGER, globalPid INTEGER, graphId INTEGER, graphExecId INTEGER",
    "CUDA_GRAPH_NODE_EVENTS": "start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, nameId INTEGER, graphNodeId INTEGER, "
                              "originalGraphNodeId INTEGER",
    "CUDA_GPU_MEMORY_USAGE_EVENTS": "start INTEGER, globalPid INTEGER, deviceId INTEGER, contextId INTEGER, virtualAddress INTEGER, "
                                    "bytes INTEGER, memKind INTEGER, memoryOperationType INTEGER, correlationId INTEGER, streamId INTEGER",
    "CUPTI_ACTIVITY_KIND_OVERHEAD": "start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER, "
                                    "overheadType INTEGER",
    "OSRT_API": "start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER, "
                "nestingLevel INTEGER, callchainId INTEGER",
    "NVTX_EVENTS": "start INTEGER, end INTEGER, eventType INTEGER, rangeId INTEGER, category INTEGER, color INTEGER, text TEXT, "
                   "globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER, int64Value INTEGER, "
                   "doubleValue REAL",
    "COMPOSITE_EVENTS": "id INTEGER PRIMARY KEY, start INTEGER, cpu INTEGER, threadState INTEGER, globalTid INTEGER, cpuCycles INTEGER",
    "SAMPLING_CALLCHAINS": "id INTEGER, symbol INTEGER, module INTEGER, kernelMode INTEGER, originalIP INTEGER, stackDepth INTEGER",
    "CUDA_CALLCHAINS": "id INTEGER, symbol INTEGER, module INTEGER, originalIP INTEGER, stackDepth INTEGER",
    "GPU_METRICS": "timestamp INTEGER, typeId INTEGER, metricId INTEGER, value INTEGER",
    "TARGET_INFO_GPU_METRICS": "typeId INTEGER, sourceId INTEGER, typeName TEXT, metricId INTEGER, metricName TEXT",
    "DIAGNOSTIC_EVENT": "timestamp INTEGER, timestampType INTEGER, source INTEGER, severity INTEGER, text TEXT, globalPid INTEGER",
}


class Export:
    """rows(table, dict…) adds rows, and the table if it is new; a string in a column of string numbers gets one."""

    def __init__(self, path, page_size=4096):
        self.db = sqlite3.connect(path)
        self.db.execute(f"PRAGMA page_size={page_size}")
        self.names = {}
        self.made = set()
        self.rows("META_DATA_EXPORT", {"name": "EXPORT_SCHEMA_VERSION", "value": "3.25.0"},
                  {"name": "EXPORT_PRODUCT_VERSION", "value": "2026.2.1.210"})
        self.string("")

    def string(self, text):
        if text not in self.names:
            self.names[text] = len(self.names) + 1
            self.rows("StringIds", {"id": self.names[text], "value": text})
        return self.names[text]

    def rows(self, table, *rows):
        if table not in self.made:
            columns = TABLES.get(table, "start INTEGER, value INTEGER").replace(" end ", ' "end" ')
            self.db.execute(f"CREATE TABLE {table} ({columns})")
            self.made.add(table)
        for row in rows:
            values = [self.string(value) if key in ("nameId", "demangledName", "shortName", "mangledName", "symbol", "module", "textId")
                      and isinstance(value, str) else value for key, value in row.items()]
            keys = ", ".join(f'"{key}"' for key in row)
            self.db.execute(f"INSERT INTO {table} ({keys}) VALUES ({', '.join('?' * len(row))})", values)

    def close(self):
        self.db.commit()
        self.db.close()


def work(start, ns, correlation, pid=100, **more):
    return {"start": start, "end": start + ns, "deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": correlation,
            "globalPid": process(pid), **more}


def kernel(start, ns, correlation, name="_Z4gemmPf", **more):
    shape = {"gridX": 4, "gridY": 1, "gridZ": 1, "blockX": 128, "blockY": 1, "blockZ": 1}
    return work(start, ns, correlation, **{"mangledName": name, "demangledName": "gemm(float*)", "shortName": "gemm", "launchType": 1,
                                           "registersPerThread": 32, **shape, **more})


def call(start, ns, correlation, name, pid=100, tid=101, **more):
    return {"start": start, "end": start + ns, "eventClass": 0, "globalTid": thread(pid, tid), "correlationId": correlation, "nameId": name,
            "returnValue": 0, **more}


def nvtx(start, end, text, tid=101, kind=59, pid=100, **more):
    return {"start": start, "end": end, "eventType": kind, "text": text, "globalTid": thread(pid, tid), "domainId": 0, **more}


def small(path, **options):
    """Everything that is converted, once or twice."""
    e = Export(path, **options)
    e.rows("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": UTC, "systemClockNs": 5})
    e.rows("TARGET_INFO_SYSTEM_ENV", {"name": "Hostname", "value": "node7"}, {"name": "CudaDriverVersion", "value": "13010"})
    e.rows("TARGET_INFO_GPU", {"id": 3, "name": "NVIDIA H100", "uuid": "554a6988-03dd-6206-3dd1-f43fb60a3ed0", "totalMemory": 80 << 30,
                               "smCount": 132, "clockRate": 1980000000, "threadsPerWarp": 32, "maxWarpsPerSm": 64, "computeMajor": 9,
                               "computeMinor": 0, "cuDevice": 3})
    e.rows("TARGET_INFO_CUDA_DEVICE", {"gpuId": 3, "cudaId": 0, "pid": 100})
    e.rows("TARGET_INFO_CUDA_STREAM", {"streamId": 7, "processId": 100, "contextId": 1, "priority": 2**32 - 1, "flag": 2})
    e.rows("PROCESSES", {"globalPid": process(100), "pid": 100, "name": "train"}, {"globalPid": process(999), "pid": 999, "name": "idle"})
    e.rows("ThreadNames", {"nameId": "worker", "globalTid": thread(100, 101)})
    e.rows("META_DATA_CAPTURE", {"name": "CUDA_SKIP_SOME_API_CALLS", "value": "true"}, {"name": "RATE_HZ", "value": "500"},
           {"name": "PROCESS_0:COMMAND", "value": "/bin/train"}, {"name": "PROCESS_0:ARGUMENT_0", "value": "--fast"})
    e.rows("CUPTI_ACTIVITY_KIND_KERNEL", kernel(2000, 5000, 1, cacheConfig=1, clusterX=2), kernel(3000, 700, 2, name=None, graphNodeId=77))
    e.rows("CUPTI_ACTIVITY_KIND_MEMCPY", work(4000, 100, 3, bytes=4096, copyKind=1, srcKind=0, dstKind=2, copyCount=1))
    e.rows("CUPTI_ACTIVITY_KIND_MEMSET", work(4200, 10, 4, bytes=64, value=7, memKind=4))
    e.rows("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", work(4500, 60, 9, graphId=5))
    e.rows("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
           work(4300, 50, 5, syncType=3, eventId=2**32 - 1, eventSyncId=2**32 - 1), work(4400, 50, 6, syncType=1, eventId=12, eventSyncId=3))
    e.rows("CUPTI_ACTIVITY_KIND_CUDA_EVENT", {"timestamp": 0, "deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 8,
                                              "globalPid": process(100), "eventId": 12, "eventSyncId": 3})
    e.rows("CUDA_GRAPH_NODE_EVENTS", {"start": 500, "end": 510, "globalTid": thread(100, 101), "nameId": "cudaGraphAddKernelNode_v10000",
                                      "graphNodeId": 77, "originalGraphNodeId": 70},
           {"start": 500, "end": 510, "globalTid": thread(100, 101), "nameId": "cudaGraphClone_v10000", "graphNodeId": 78})
    e.rows("CUDA_GPU_MEMORY_USAGE_EVENTS", {"start": 900, "globalPid": process(100), "deviceId": 0, "contextId": 1, "virtualAddress": 2**63 + 4096 - 2**64,
                                            "bytes": 1 << 20, "memKind": 2, "memoryOperationType": 0, "correlationId": 10})
    e.rows("CUPTI_ACTIVITY_KIND_RUNTIME", call(1000, 100, 1, "cudaLaunchKernel_v7000", callchainId=1), call(1200, 100, 2, "cuGraphLaunch", eventClass=1),
           call(1400, 50, 3, "cudaMemcpyAsync_v3020", returnValue=2), call(4300, 60, 5, "cudaStreamSynchronize_v3020"))
    e.rows("CUPTI_ACTIVITY_KIND_OVERHEAD", {"start": 100, "end": 200, "globalTid": thread(100, 101), "correlationId": 1, "overheadType": 7})
    e.rows("OSRT_API", call(1500, 300, 77, "poll"))
    e.rows("CUDA_CALLCHAINS", {"id": 1, "symbol": "launch_it", "module": "/bin/train", "stackDepth": 0},
           {"id": 1, "symbol": "main", "module": "/bin/train", "stackDepth": 1})
    e.rows("COMPOSITE_EVENTS", {"id": 1, "start": 1100, "cpu": 3, "globalTid": thread(100, 101)})
    e.rows("SAMPLING_CALLCHAINS", {"id": 1, "symbol": "main", "module": "/bin/train", "stackDepth": 1},
           {"id": 1, "symbol": "spin", "module": "/bin/train", "stackDepth": 0})
    e.rows("NVTX_EVENTS", nvtx(900, 4000, "step"), nvtx(950, 1300, "forward", color=-1, uint64Value=7),
           nvtx(1000, None, "here", kind=34), nvtx(1100, 1600, None, kind=60, rangeId=4, textId="batch", domainId=1),
           nvtx(800, None, "loader", kind=75, domainId=1), nvtx(950, 1400, "elsewhere", tid=102), nvtx(1300, 1500, "backward"))
    e.rows("TARGET_INFO_GPU_METRICS", {"typeId": 3, "metricId": 1, "metricName": "SMs Active [Throughput %]"})
    e.rows("GPU_METRICS", {"timestamp": 2000, "typeId": 3, "metricId": 1, "value": 40}, {"timestamp": 3000, "typeId": 3, "metricId": 1, "value": 60})
    e.rows("DIAGNOSTIC_EVENT", {"timestamp": 10, "severity": 1, "text": "Profiling has started."},
           {"timestamp": 20, "severity": 2, "text": "CUPTI dropped 12 records."})
    e.rows("CUDNN_EVENTS", {"start": 1, "value": 2}, {"start": 2, "value": 2})
    e.close()
    return path
