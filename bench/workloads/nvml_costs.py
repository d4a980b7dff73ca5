"""The cost of one NVML call by function: prints a table of microseconds, best and mean of 30 calls.

usage: nvml_costs.py [SECONDS]: with an interval, rounds of calls as `pitot record` makes them, and the median of CPU time and of wall time
"""
import ctypes
import statistics
import sys
import time

nvml = ctypes.CDLL("libnvidia-ml.so.1")
device = ctypes.c_void_p()
words = (ctypes.c_uint64 * 4096)()
number = ctypes.c_uint(0)
assert nvml.nvmlInit_v2() == 0
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0


def measure(name, function, *arguments):
    times = []
    for _ in range(30):
        start = time.perf_counter()
        result = function(*arguments)
        times.append((time.perf_counter() - start) * 1e6)
    print(f"{name:46} {min(times):9.1f} {sum(times) / len(times):9.1f}  {'' if result == 0 else f'error {result}'}", flush=True)


def measure_rounds(interval, rounds=16):
    calls = [("UtilizationRates", words), ("ClockInfo", 1, words), ("ClockInfo", 2, words), ("PowerUsage", words), ("Temperature", 0, words),
             ("MemoryInfo", words), ("CurrentClocksEventReasons", words)]
    times = [[] for _ in calls]
    for _ in range(rounds):
        for call, each in zip(calls, times):
            cpu, wall = time.thread_time(), time.perf_counter()
            getattr(nvml, "nvmlDeviceGet" + call[0])(device, *call[1:])
            each.append(((time.thread_time() - cpu) * 1e6, (time.perf_counter() - wall) * 1e6))
        time.sleep(interval)
    for call, each in zip(calls, times):
        cpu, wall = zip(*each)
        print(f"{call[0]:30} CPU {statistics.median(cpu):8.1f}  wall {statistics.median(wall):8.1f}", flush=True)


if len(sys.argv) > 1:
    measure_rounds(float(sys.argv[1]))
    raise SystemExit


class FieldValue(ctypes.Structure):
    _fields_ = [("field", ctypes.c_uint), ("scope", ctypes.c_uint), ("timestamp", ctypes.c_longlong), ("latency", ctypes.c_longlong),
                ("type", ctypes.c_int), ("status", ctypes.c_int), ("value", ctypes.c_ulonglong)]


def fields(*numbers):
    values = (FieldValue * len(numbers))()
    for value, number in zip(values, numbers):
        value.field = number
    return values


GET = "nvmlDeviceGet"
for name, *arguments in [
        ("UtilizationRates", words), ("ClockInfo", 1, words), ("ClockInfo", 2, words), ("PowerUsage", words),
        ("Temperature", 0, words), ("MemoryInfo", words), ("TotalEnergyConsumption", words),
        ("CurrentClocksEventReasons", words), ("PcieThroughput", 0, words), ("EnforcedPowerLimit", words),
        ("EncoderUtilization", words, words), ("ViolationStatus", 0, words), ("TotalEccErrors", 0, 0, words),
        ("RemappedRows", words, words, words, words), ("PowerState", words), ("Count_v2", words)]:
    if name == "Count_v2":
        measure(GET + name, getattr(nvml, GET + name), words)
        continue
    measure(f"{GET}{name} {[a for a in arguments if isinstance(a, int)] or ''}", getattr(nvml, GET + name), device, *arguments)
number.value = 64
measure("nvmlDeviceGetComputeRunningProcesses_v3", nvml.nvmlDeviceGetComputeRunningProcesses_v3, device, ctypes.byref(number), words)
measure("nvmlDeviceGetGraphicsRunningProcesses_v3", nvml.nvmlDeviceGetGraphicsRunningProcesses_v3, device, ctypes.byref(number), words)
for label, numbers in {"power instant": [186], "power average": [185], "power": [186, 185], "energy": [83], "memory temperature": [82],
                       "power, energy, memory temperature": [186, 83, 82], "throttle counters": [74, 75, 76, 77, 78, 79],
                       "nvlink throughput": [138, 139], "pcie replay": [94]}.items():
    values = fields(*numbers)
    measure(f"nvmlDeviceGetFieldValues: {label}", nvml.nvmlDeviceGetFieldValues, device, len(values), values)
    print("   ", [(v.field, v.status, v.value) for v in values])
