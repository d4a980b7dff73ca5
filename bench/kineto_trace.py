"""Writes a synthetic trace of torch.profiler of a given size, for `pitot import`.

    python3 bench/kineto_trace.py 2000 /tmp/trace.json      # about 2,000 MB
    /usr/bin/time -v pitot import /tmp/trace.json -o /tmp/trace.pitot -f
"""
import sys

HEAD = """{
  "schemaVersion": 1,
  "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150754820096, "computeMajor": 9, "computeMinor": 0, "numSms": 132, "warpSize": 32}],
  "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1},
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": 1700000000000000000,
  "traceEvents": [
"""
OPERATOR = """  {
    "ph": "X", "cat": "cpu_op", "name": "aten::%s", "pid": 4242, "tid": %d,
    "ts": %d.%03d, "dur": %d.%03d,
    "args": {
      "External id": %d,"Record function id": 0, "Concrete Inputs": ["", "[64, 128]"], "Input type": ["float", "Scalar"], "Input Dims": [[64, 128], []], "Ev Idx": %d
    }
  },
"""
PYTHON = """  {
    "ph": "X", "cat": "python_function", "name": "model.py(%d): forward_%d", "pid": 4242, "tid": %d,
    "ts": %d.%03d, "dur": %d.%03d,
    "args": {
      "Python parent id": 1, "Python id": %d, "Ev Idx": %d
    }
  },
"""
LAUNCH = """  {
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 4242, "tid": %d,
    "ts": %d.%03d, "dur": 4.125,
    "args": {
      "External id": %d, "cbid": 211, "correlation": %d
    }
  },
  {
    "ph": "s", "id": %d, "pid": 4242, "tid": %d, "ts": %d.%03d,
    "cat": "ac2g", "name": "ac2g"
  },
"""
KERNEL = """  {
    "ph": "X", "cat": "kernel", "name": "void at::native::vectorized_elementwise_kernel<4, at::native::%s<float>, std::array<char*, 3ul> >(int, at::native::%s<float>, std::array<char*, 3ul>)", "pid": 0, "tid": 7,
    "ts": %d.%03d, "dur": 8.%03d,
    "args": {
      "External id": %d, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": %d, "registers per thread": 32, "shared memory": 0, "blocks per SM": 0.969697, "warps per SM": 7.757576, "grid": [%d, 1, 1], "block": [256, 1, 1], "est. achieved occupancy %%": 12
    }
  },
  {
    "ph": "f", "id": %d, "pid": 0, "tid": 7, "ts": %d.%03d,
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  },
"""
NAMES = ["linear", "addmm", "mul", "copy_", "to", "empty", "add_", "sum"]
FUNCTORS = ["CUDAFunctor_add", "MulFunctor", "FillFunctor", "DivFunctor"]


def step(number):
    """One launch below two operators and a Python function: about 2,200 bytes."""
    tid = 4242 if number % 10 else 4300
    us, ns, identity = 10 * number, number % 1000, 2 * number + 1
    yield PYTHON % (number % 200, number % 50, tid, us, ns, 9, 800, number, 3 * number)
    yield OPERATOR % (NAMES[number % 8], tid, us, ns, 9, 0, identity, 3 * number + 1)
    yield OPERATOR % (NAMES[number % 5], tid, us + 1, ns, 7, 0, identity + 1, 3 * number + 2)
    yield LAUNCH % (tid, us + 2, ns, identity + 1, number + 1, number + 1, tid, us + 2, ns)
    functor = FUNCTORS[number % 4]
    yield KERNEL % (functor, functor, us + 5, ns, ns, identity + 1, number + 1, 1 + number % 64, number + 1, us + 5, ns)


def main():
    megabytes, path = int(sys.argv[1]), sys.argv[2]
    with open(path, "w", encoding="utf-8") as out:
        written, number = out.write(HEAD), 0
        while written < megabytes * 1000000:
            written += out.write("".join("".join(step(number + i)) for i in range(100)))
            number += 100
        out.write('  {"ph": "M", "name": "process_name", "pid": 4242, "tid": 0, "ts": 0.000, "args": {"name": "python3"}}\n  ],\n  "traceName": "t"\n}\n')


main()
