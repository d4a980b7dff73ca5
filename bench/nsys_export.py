"""Writes a synthetic SQLite export of Nsight Systems of a given number of rows, for `pitot import`.

    python3 bench/nsys_export.py 3000000 /tmp/export.sqlite
    /usr/bin/time -f '%U+%S s, %M KB' pitot import /tmp/export.sqlite -o /tmp/export.pitot -f

A third each are launches, kernels and NVTX ranges, with all columns of schema 3.25.
"""
import sqlite3
import sys

THREAD, PROCESS = 0x0100_00006F_00006F, 0x0100_00006F_000000
KERNEL = ("start end deviceId contextId greenContextId streamId correlationId globalPid demangledName shortName mangledName launchType cacheConfig "
          "registersPerThread gridX gridY gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread localMemoryTotal gridId "
          "sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig qmdBulkReleaseDone graphId clusterX clusterY clusterZ clusterSchedulingPolicy "
          "maxPotentialClusterSize maxActiveClusters sharedMemoryRequestedPercentage").split()
RUNTIME = "start end eventClass globalTid correlationId nameId returnValue callchainId".split()
NVTX = ("start end eventType rangeId category color text globalTid endGlobalTid textId domainId uint64Value int64Value doubleValue uint32Value int32Value "
        "floatValue jsonTextId jsonText binaryData").split()


def table(db, name, columns, rows):
    db.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
    db.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", rows)


def main(rows, path):
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode=OFF")
    names = 300
    table(db, "StringIds", ["id INTEGER PRIMARY KEY", "value"], ((i, f"_ZN7cutlass6KernelILi{i}EEvPfS1_i") for i in range(names)))
    table(db, "META_DATA_EXPORT", ["name", "value"], [("EXPORT_SCHEMA_VERSION", "3.25.0")])
    table(db, "TARGET_INFO_SESSION_START_TIME", ["utcEpochNs"], [(1_700_000_000_000_000_000,)])
    table(db, "PROCESSES", ["globalPid", "pid", "name"], [(PROCESS, 111, "python3")])
    table(db, "CUPTI_ACTIVITY_KIND_RUNTIME", RUNTIME,
          ((i * 5000, i * 5000 + 3217, 0, THREAD, i + 1, i % 20, 0, None) for i in range(rows // 3)))
    table(db, "CUPTI_ACTIVITY_KIND_KERNEL", KERNEL,
          ((i * 5000 + 4000, i * 5000 + 7311 + i % 977, 0, 1, None, 7 + i % 4, i + 1, PROCESS, i % names, i % names, i % names, 1, 0, 32 + i % names % 8, 128, 1, 1,
            256, 1, 1, 0, 4096, 0, 1 << 20, i, 65536, None, 0, None, None, 0, 0, 0, 0, 0, 0, 100) for i in range(rows // 3)))
    table(db, "NVTX_EVENTS", NVTX,
          ((i * 5000, i * 5000 + 4711, 59, None, None, None, None, THREAD, None, i % names, 0, *[None] * 9) for i in range(rows // 3)))
    db.commit()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
