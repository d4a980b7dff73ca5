"""Events of Chrome trace JSON as torch.profiler writes them, and an independent reader of them."""
import gzip
import json
from collections import Counter
from decimal import ROUND_HALF_UP, Decimal

BASE = 1_700_000_000_000_000_000
GPU = {"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150754820096, "computeMajor": 9, "computeMinor": 0, "maxThreadsPerBlock": 1024,
       "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "warpSize": 32, "sharedMemPerBlock": 49152, "numSms": 132}
GPU_WORK = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}


class Raw(float):
    """A number that is written as this text."""

    def __new__(cls, text):
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __repr__(self):
        return self.text


def span(cat, name, ts, dur, tid=4242, pid=4242, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": Raw(ts), "dur": Raw(dur), "args": args}


def launch(correlation, ts, dur="5.000", name="cudaLaunchKernel", tid=4242, external=None, cat="cuda_runtime", **args):
    more = {"External id": external} if external else {}
    return span(cat, name, ts, dur, tid, **more, cbid=211, correlation=correlation, **args)


def work(cat, name, correlation, ts, dur, stream=7, device=0, **args):
    return span(cat, name, ts, dur, stream, device, device=device, context=1, stream=stream, correlation=correlation, **args)


def kernel(correlation, ts, dur, name="gemm", **args):
    sizes = {"grid": [128, 2, 1], "block": [256, 1, 1], "registers per thread": 32, "shared memory": 4096}
    return work("kernel", name, correlation, ts, dur, **{**sizes, **args})


def name(what, text, pid=4242, tid=0):
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "ts": Raw("0.000"), "args": {"name": text}}


def trace(events, base=BASE, **header):
    """The text of a trace; base=None: time stamps are since the epoch."""
    return text_of({"schemaVersion": 1, "deviceProperties": [GPU], **header, **({"baseTimeNanoseconds": base} if base else {}),
                    "traceEvents": events})


def training():
    """A step of two kernels, a copy and a memset, below operators and Python functions."""
    return [
        name("process_name", "python3"), name("thread_name", "thread 4242 (python3)", tid=4242), name("thread_name", "stream 7 ", 0, 7),
        span("python_function", "train.py(10): main", "10.000", "900.000", **{"Python id": 1}),
        span("user_annotation", "ProfilerStep#3", "20.000", "800.000", **{"External id": 1}),
        span("python_function", "train.py(20): step", "30.000", "700.000", **{"Python id": 2, "Python parent id": 1}),
        span("cpu_op", "aten::linear", "100.000", "300.000", **{"External id": 2, "Input Dims": [[64, 128], []], "Concrete Inputs": ["", "1"]}),
        span("cpu_op", "aten::addmm", "110.125", "200.000", **{"External id": 3}),
        launch(77, "120.001", external=3), {"ph": "s", "id": 77, "pid": 4242, "tid": 4242, "ts": Raw("120.001"), "cat": "ac2g", "name": "ac2g"},
        kernel(77, "130.007", "20.250", **{"External id": 3}),
        {"ph": "f", "id": 77, "pid": 0, "tid": 7, "ts": Raw("130.007"), "cat": "ac2g", "name": "ac2g", "bp": "e"},
        span("cpu_op", "aten::copy_", "500.000", "100.000", **{"External id": 4}),
        launch(78, "510.000", name="cudaMemcpyAsync", external=4),
        work("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 78, "520.500", "10.001", bytes=4096),
        launch(79, "540.000", name="cudaMemsetAsync", external=4),
        work("gpu_memset", "Memset (Device)", 79, "550.000", "1.000", bytes=512),
        launch(80, "560.000", name="cuLaunchKernelEx", cat="cuda_driver"),
        kernel(80, "570.000", "3.999", name="triton_poi_fused_add_0"),
        {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler", "ts": Raw("1.000"), "dur": Raw("999.000")},
        {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": Raw("1001.000")},
    ]


def text_of(value):
    """JSON in which numbers of class Raw are as they were given."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {text_of(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(text_of, value)) + "]"
    return json.dumps(value)


def nanoseconds(number):
    return int((Decimal(number) * 1000).quantize(Decimal(1), ROUND_HALF_UP))


def totals(path):
    """What Python's json reads: GPU work by table, name of kernel, and time since the epoch."""
    opened = gzip.open(path, "rt") if str(path).endswith(".gz") else open(path, encoding="utf-8")
    with opened as file:
        content = json.load(file, parse_float=Decimal, parse_int=Decimal)
    events = content["traceEvents"] if isinstance(content, dict) else content
    base = int(content.get("baseTimeNanoseconds", 0)) if isinstance(content, dict) else 0
    found = Counter()
    for event in events:
        table = event.get("ph") == "X" and GPU_WORK.get(event.get("cat"))
        if table:
            found[table, event["name"] if table == "kernel" else "", base + nanoseconds(event["ts"]), nanoseconds(event["dur"]),
                  int(event["args"]["correlation"]), int(event["args"].get("bytes", -1)) if table != "kernel" else -1] += 1
    return found


def steps(kernels, count=10, scopes=(), first=None):
    """A trace of a loop that launches kernels one after the other, of (name, microseconds): ProfilerStep#0 and so on.

    scopes: of the first kernels, each around one launch. first: kernels of the first step, if these are others.
    """
    events, at, correlation = [name("process_name", "python3")], 1000, 0
    for step in range(count):
        start, on_gpu = at, at + 20
        for number, (kernel_name, us) in enumerate(kernels if step or first is None else first):
            correlation += 1
            us += step % 3  # so that steps differ
            events.append(launch(correlation, f"{start + 5 + number}.000", "0.800"))
            events.append(kernel(correlation, f"{on_gpu}.000", f"{us}.000", kernel_name, grid=[number + 1, 1, 1]))
            on_gpu += us + 1
        for number, scope in enumerate(scopes):
            events.append(span("user_annotation", scope, f"{start + 4 + number}.900", "0.950"))
        correlation += 1
        waits = start + 6 + len(kernels)
        events.append(launch(correlation, f"{waits}.000", f"{on_gpu - waits + 1}.000", "cudaDeviceSynchronize"))
        at = on_gpu + 10
        events.append(span("user_annotation", f"ProfilerStep#{step}", f"{start}.000", f"{at - start - 1}.000"))
    return trace(events)
