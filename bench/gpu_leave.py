#!/usr/bin/env python3
"""What ends the cost of CUPTI after a recording has ended, and what breaks then: bench/gpu_leave.py BUILD [breaks] [cost] [--limit SECONDS]

Needs a GPU, torch (for its libcupti, and for the programs that are trainings), and a Release build with pitot and libpitot.so. Each runs in a
process of its own: it works, is recorded by Pitot for a moment, which then leaves; then something is done to CUPTI, and it works on. Results are
compared with what they must be.

breaks  Programs with one part each (graphs made before, during and after, copies in a graph, events, pools, cuBLAS, trainings), after
        which of them cuptiFinalize() harms: called on another thread while the program waits or works, or where a call of the driver
        that waits returns. Several at a time.
cost    Microseconds of a launch before a recording and after it, for ways of leaving short of cuptiFinalize(), and with it. One at a time.

Without a stage both run, in less than four minutes. Prints as it goes; ends with 1 if a program broke that Pitot had only left.
"""
import argparse
import collections
import concurrent.futures
import ctypes
import glob
import importlib.util
import json
import os
import pathlib
import re
import select
import statistics
import subprocess
import sys
import tempfile
import threading
import time

SCRIPT = pathlib.Path(__file__).resolve()
RECORDED_S, MEASURED_S, CHILD_S, TURNS = 0.4, 0.5, 45, 2
AT_ONCE = max(2, min(10, (os.cpu_count() or 2) - 4))
CONTROLS = "bare", "left"
FINALIZES = "finalize-waiting", "finalize-working", "finalize-exit"
SHORT_OF_IT = ("subscribe", "domains", "activities", "context", "flush", "everything", "stays", "toggle", "serial", "new-stream", "new-module",
               "new-context")
# Clients of CUPTI that do what they are named after, in place of Pitot's recording.
OTHER_CLIENTS = "client-global", "client-context", "client-serial", "client-callbacks"
DRIVER_PARTS = ("launches", "copies", "events", "pool", "module", "graph", "graph-copy", "graph-idle", "graph-gone", "graph-during", "graph-after",
                "again", "again-graph")
TORCH_PARTS = "eager", "train", "train-async", "train-graph", "train-graph-after", "graph", "graph-cublas", "graph-cublas-warm"
KINDS = range(1, 60)
KERNEL, CONCURRENT_KERNEL = 3, 10
DOMAIN_DRIVER = 1
WAITING_CALLS = {b"cuCtxSynchronize", b"cuCtxSynchronize_v2", b"cuStreamSynchronize", b"cuStreamSynchronize_ptsz", b"cuEventSynchronize"}
WORDS = 256
KERNEL_PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry add_one(.param .u64 words)
{
	.reg .b32 %r<3>;
	.reg .b64 %rd<5>;
	ld.param.u64 %rd1, [words];
	cvta.to.global.u64 %rd2, %rd1;
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd3, %r1, 4;
	add.s64 %rd4, %rd2, %rd3;
	ld.global.u32 %r2, [%rd4];
	add.u32 %r2, %r2, 1;
	st.global.u32 [%rd4], %r2;
	ret;
}
"""


class Failed(Exception):
    pass


def say(**what):
    print(json.dumps(what), flush=True)


# --- CUDA and CUPTI, by ctypes ---


class Driver:
    """cuda.cuLaunchKernel(…): raises Failed with the error's name."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def __getattr__(self, name):
        function = getattr(self.library, name)

        def call(*arguments):
            result = function(*arguments)
            if result:
                text = ctypes.c_char_p()
                self.library.cuGetErrorName(result, ctypes.byref(text))
                raise Failed(f"{name}: {result} {(text.value or b'').decode()}")

        setattr(self, name, call)
        return call


def loaded_cupti():
    """The one that Pitot has used."""
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        if "/libcupti.so" in line:
            return ctypes.CDLL(line.split()[-1])
    raise Failed("no libcupti is loaded: nothing was recorded")


CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(ctypes.c_int))
REQUEST = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t))
COMPLETE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)


class Subscriber:
    def __init__(self, cupti, on_call=None):
        self.cupti, self.handle, self.on_call = cupti, ctypes.c_void_p(), CALLBACK(on_call or (lambda *_: None))
        result = cupti.cuptiSubscribe(ctypes.byref(self.handle), self.on_call, None)
        if result:
            raise Failed(f"cuptiSubscribe: {result}")

    def enable(self, on, names):
        name, found = ctypes.c_char_p(), 0
        for i in range(1, 1200):
            if self.cupti.cuptiGetCallbackName(DOMAIN_DRIVER, i, ctypes.byref(name)) == 0 and name.value in names:
                found += self.cupti.cuptiEnableCallback(on, self.handle, DOMAIN_DRIVER, i) == 0
        return found

    def leave(self):
        self.cupti.cuptiUnsubscribe(self.handle)


class Client:
    """A client that records kernels, or has callbacks of launches; in place of Pitot."""

    def __init__(self, cupti, way, context):
        self.cupti, self.way, self.context, self.buffers, self.bytes = cupti, way, context, {}, 0
        self.request, self.complete = REQUEST(self.on_request), COMPLETE(self.on_complete)

    def on_request(self, buffer, size, most):
        bytes_ = (ctypes.c_uint8 * ((1 << 20) + 64))()
        at = -(-ctypes.addressof(bytes_) // 64) * 64
        self.buffers[at] = bytes_
        buffer[0], size[0], most[0] = at, 1 << 20, 0

    def on_complete(self, context, stream, buffer, size, valid):
        self.bytes += valid
        self.buffers.pop(buffer, None)

    def enter(self):
        self.subscriber = Subscriber(self.cupti)
        self.cupti.cuptiActivityRegisterCallbacks(self.request, self.complete)
        self.set(True)

    def set(self, on):
        verb = "Enable" if on else "Disable"
        if self.way == "client-callbacks":
            self.subscriber.enable(int(on), {b"cuLaunchKernel"})
        elif self.way == "client-context":
            getattr(self.cupti, f"cuptiActivity{verb}Context")(self.context, CONCURRENT_KERNEL)
        else:
            getattr(self.cupti, f"cuptiActivity{verb}")(KERNEL if self.way == "client-serial" else CONCURRENT_KERNEL)

    def leave(self):
        self.set(False)
        self.cupti.cuptiActivityFlushAll(1)
        self.subscriber.leave()


# --- programs ---


class DriverProgram:
    """Each launch adds one to each word of a buffer, so the words say how many launches there were."""

    def __init__(self, part):
        self.part, self.cuda, self.launched, self.extra = part, Driver(), 0, {}
        self.has_graph = "graph" in part

    def setup(self):
        cuda, device, self.context, self.module = self.cuda, ctypes.c_int(), ctypes.c_void_p(), None
        cuda.cuInit(0)
        cuda.cuDeviceGet(ctypes.byref(device), 0)
        self.device = device
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), device)
        cuda.cuCtxSetCurrent(self.context)
        self.function = self.load_module()
        self.stream, self.side = self.new_stream(), self.new_stream()
        self.words, self.copy = ctypes.c_uint64(), ctypes.c_uint64()
        for words in (self.words, self.copy):
            cuda.cuMemAlloc_v2(ctypes.byref(words), ctypes.c_size_t(WORDS * 4))
            cuda.cuMemsetD32_v2(words, 0, ctypes.c_size_t(WORDS))
        cuda.cuCtxSynchronize()
        self.parameters = (ctypes.c_void_p * 1)(ctypes.addressof(self.words))
        self.graph = None
        if self.part in ("graph", "graph-copy", "graph-idle", "graph-gone", "again-graph"):
            self.make_graph()
        self.event = [ctypes.c_void_p(), ctypes.c_void_p()]
        for event in self.event:
            cuda.cuEventCreate(ctypes.byref(event), 0)
        self.step()

    def load_module(self):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.cuda.cuModuleLoadData(ctypes.byref(module), KERNEL_PTX)
        self.cuda.cuModuleGetFunction(ctypes.byref(function), module, b"add_one")
        return function

    def new_stream(self):
        stream = ctypes.c_void_p()
        self.cuda.cuStreamCreate(ctypes.byref(stream), 1)
        return stream

    def launch(self, stream=None, counts=1):
        self.cuda.cuLaunchKernel(self.function, 1, 1, 1, WORDS, 1, 1, 0, stream or self.stream, self.parameters, None)
        self.launched += counts

    def make_graph(self):
        cuda, graph = self.cuda, ctypes.c_void_p()
        cuda.cuStreamBeginCapture_v2(self.stream, 0)
        for _ in range(10):
            self.launch(counts=0)
        if self.part == "graph-copy":
            cuda.cuMemcpyDtoDAsync_v2(self.copy, self.words, ctypes.c_size_t(WORDS * 4), self.stream)
            cuda.cuMemsetD32Async(self.copy, 7, ctypes.c_size_t(WORDS), self.stream)
        cuda.cuStreamEndCapture(self.stream, ctypes.byref(graph))
        self.graph = ctypes.c_void_p()
        cuda.cuGraphInstantiateWithFlags(ctypes.byref(self.graph), graph, ctypes.c_ulonglong(0))

    def replay(self):
        self.cuda.cuGraphLaunch(self.graph, self.stream)
        self.launched += 10

    def step(self):
        cuda = self.cuda
        for _ in range(50):
            self.launch()
        if self.graph:
            self.replay()
        if self.part == "copies":
            host = (ctypes.c_uint32 * WORDS)()
            cuda.cuMemcpyDtoDAsync_v2(self.copy, self.words, ctypes.c_size_t(WORDS * 4), self.stream)
            cuda.cuMemcpyDtoHAsync_v2(host, self.copy, ctypes.c_size_t(WORDS * 4), self.stream)
        if self.part == "events":
            cuda.cuEventRecord(self.event[0], self.stream)
            cuda.cuStreamWaitEvent(self.side, self.event[0], 0)
            self.launch(self.side)
            cuda.cuEventRecord(self.event[1], self.side)
            cuda.cuStreamWaitEvent(self.stream, self.event[1], 0)
            cuda.cuEventSynchronize(self.event[1])
            cuda.cuEventElapsedTime(ctypes.byref(ctypes.c_float()), *self.event)
        if self.part == "pool":
            memory = ctypes.c_uint64()
            cuda.cuMemAllocAsync(ctypes.byref(memory), ctypes.c_size_t(1 << 20), self.stream)
            cuda.cuMemsetD32Async(memory, 1, ctypes.c_size_t(1 << 18), self.stream)
            cuda.cuMemFreeAsync(memory, self.stream)
        cuda.cuStreamSynchronize(self.stream)

    def while_recorded(self):
        if self.part == "graph-during":
            self.make_graph()
        if self.part == "graph-gone":
            self.cuda.cuGraphExecDestroy(self.graph)
            self.graph = None
        if self.part == "graph-idle":
            self.graph = None

    def afterwards(self):
        if self.part == "graph-after":
            self.make_graph()
        if self.part == "module":
            self.function = self.load_module()

    def renew(self, way):
        """New objects of the driver, for ways that need them."""
        if way == "new-stream":
            self.stream = self.new_stream()
        if way == "new-module":
            self.function = self.load_module()
        if way == "new-context":
            self.check()
            context = ctypes.c_void_p()
            self.cuda.cuCtxCreate_v2(ctypes.byref(context), 0, self.device)
            self.function, self.stream, self.launched = self.load_module(), self.new_stream(), 0
            self.cuda.cuMemAlloc_v2(ctypes.byref(self.words), ctypes.c_size_t(WORDS * 4))
            self.cuda.cuMemsetD32_v2(self.words, 0, ctypes.c_size_t(WORDS))

    def check(self):
        host = (ctypes.c_uint32 * WORDS)()
        self.cuda.cuCtxSynchronize()
        self.cuda.cuMemcpyDtoH_v2(host, self.words, ctypes.c_size_t(WORDS * 4))
        if set(host) != {self.launched & 0xFFFFFFFF}:
            raise Failed(f"wrong results: {sorted(set(host))[:4]} for {self.launched} launches")

    def batch(self):
        """Microseconds to issue a launch, and of each until the GPU has done them."""
        begun = time.perf_counter()
        for _ in range(200):
            self.launch()
        issued = time.perf_counter()
        self.cuda.cuStreamSynchronize(self.stream)
        return (issued - begun) / 200e-6, (time.perf_counter() - begun) / 200e-6


class TorchProgram:
    def __init__(self, part):
        self.part = part
        if part == "train-async":
            os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cudaMallocAsync"
        import torch

        self.torch = torch

    def setup(self):
        torch = self.torch
        torch.manual_seed(1)
        self.a, self.b, self.added, self.graph = torch.zeros(4096, device="cuda"), torch.zeros(4096, device="cuda"), 0, None
        self.x, self.w = torch.randn(256, 1024, device="cuda"), torch.randn(1024, 1024, device="cuda")
        if "train" in self.part:
            layers = [layer for _ in range(8) for layer in (torch.nn.Linear(1024, 1024), torch.nn.ReLU())]
            self.model = torch.nn.Sequential(*layers).cuda()
            self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, foreach=False)
            self.data, self.target = torch.randn(256, 1024, device="cuda"), torch.randn(256, 1024, device="cuda")
            self.side, self.host = torch.cuda.Stream(), torch.empty(4096, pin_memory=True)
        if self.part == "graph-cublas-warm":
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                for _ in range(3):
                    self.x @ self.w
        for _ in range(10):
            self.step()
        if self.part in ("train-graph", "graph", "graph-cublas", "graph-cublas-warm"):
            self.make_graph()

    def make_graph(self):
        self.graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(self.graph):
            for _ in range(10):
                self.a.add_(1)
            self.b.copy_(self.a)
            if "cublas" in self.part:
                self.product = self.x @ self.w

    def step(self):
        torch = self.torch
        for _ in range(10):
            self.a.add_(1)
        self.added += 10
        if "train" in self.part:
            self.optimizer.zero_grad()
            torch.nn.functional.mse_loss(self.model(self.data), self.target).backward()
            self.optimizer.step()
            with torch.cuda.stream(self.side):
                self.host.copy_(self.data[0].repeat(4), non_blocking=True)
        if self.graph:
            self.graph.replay()
            self.added += 10
        torch.cuda.synchronize()

    def while_recorded(self):
        pass

    def afterwards(self):
        if self.part == "train-graph-after":
            self.make_graph()

    def renew(self, way):
        pass

    def check(self):
        torch = self.torch
        torch.cuda.synchronize()
        values = set(self.a.tolist())
        if values != {float(self.added)}:
            raise Failed(f"wrong results: {sorted(values)[:4]} for {self.added} additions")
        if self.part.startswith("graph-cublas") and not torch.allclose(self.product, self.x @ self.w, atol=1e-2):
            raise Failed("wrong results: the product of the graph")
        if "train" in self.part and not all(parameter.isfinite().all() for parameter in self.model.parameters()):
            raise Failed("wrong results: parameters are not finite")

    def batch(self):
        begun = time.perf_counter()
        for _ in range(200):
            self.a.add_(1)
        issued = time.perf_counter()
        self.added += 200
        self.torch.cuda.synchronize()
        return (issued - begun) / 200e-6, (time.perf_counter() - begun) / 200e-6


# --- a program's process ---


class Options(ctypes.Structure):
    """The beginning of struct pitot_options."""

    _fields_ = [("size", ctypes.c_size_t), ("directory", ctypes.c_char_p)]


class Recorder:
    def __init__(self, build, folder):
        self.library, self.program, self.folder, self.count = ctypes.CDLL(f"{build}/libpitot.so"), f"{build}/pitot", folder, 0
        self.library.pitot_start.restype = ctypes.c_void_p
        self.library.pitot_error.restype = ctypes.c_char_p

    def enter(self):
        self.count += 1
        options = Options(ctypes.sizeof(Options), f"{self.folder}/{self.count}.pitot".encode())
        self.session = self.library.pitot_start(ctypes.byref(options))
        if not self.session:
            raise Failed(f"pitot_start: {self.library.pitot_error().decode()}")

    def leave(self):
        result = self.library.pitot_stop(ctypes.c_void_p(self.session))
        if result:
            raise Failed(f"pitot_stop: {result}")
        info = subprocess.run([self.program, "info", f"{self.folder}/{self.count}.pitot", "--json"], capture_output=True, text=True)
        if info.returncode or not json.loads(info.stdout)["tables"].get("kernel", {"rows": 0})["rows"]:
            raise Failed(f"Pitot has recorded no kernels {info.stderr.strip()}")


def work_for(program, seconds):
    """Works, and looks at the results as it goes."""
    end, steps = time.monotonic() + seconds, 0
    while time.monotonic() < end or not steps:
        program.step()
        steps += 1
    program.check()


def finalize(cupti, found):
    begun = time.perf_counter()
    found["result"] = cupti.cuptiFinalize()
    found["ms"] = round((time.perf_counter() - begun) * 1e3, 1)


def finalize_at_exit(program, cupti, found):
    """Where a call that waits returns, as NVIDIA's documentation has it."""

    def on_call(user, domain, number, data):
        if data[0] == 1 and "result" not in found:
            found["result"] = None
            finalize(cupti, found)

    subscriber = Subscriber(cupti, on_call)
    if not subscriber.enable(1, WAITING_CALLS):
        raise Failed("CUPTI does not know the calls that wait")
    end = time.monotonic() + 5
    while found.get("result") is None and time.monotonic() < end:
        program.step()
    if found.get("result") is None:
        raise Failed("no call that waits has returned to CUPTI")
    return subscriber


def finalize_beside(program, cupti, found, works):
    thread = threading.Thread(target=finalize, args=(cupti, found), daemon=True)
    thread.start()
    end = time.monotonic() + 10
    while works and thread.is_alive() and time.monotonic() < end:
        program.step()
    thread.join(10)
    if thread.is_alive():
        raise Failed("cuptiFinalize does not return")


def touch_cupti(cupti, way, context):
    """What is short of cuptiFinalize. Returns what has to live on."""
    if way in ("activities", "everything"):
        for kind in KINDS:
            cupti.cuptiActivityDisable(kind)
    if way in ("context", "everything"):
        for kind in KINDS:
            cupti.cuptiActivityDisableContext(context, kind)
    if way in ("flush", "everything"):
        cupti.cuptiActivityFlushAll(1)
    if way in ("toggle", "serial"):
        kind = KERNEL if way == "serial" else CONCURRENT_KERNEL
        cupti.cuptiActivityEnable(kind)
        cupti.cuptiActivityDisable(kind)
        cupti.cuptiActivityFlushAll(1)
    if way in ("subscribe", "domains", "everything", "stays"):
        subscriber = Subscriber(cupti)
        for domain in range(1, 8) if way != "subscribe" else ():
            cupti.cuptiEnableDomain(0, subscriber.handle, domain)
        if way == "stays":
            return subscriber
        subscriber.leave()
    return None


def apply_way(program, way, found):
    if way in CONTROLS or way in OTHER_CLIENTS:
        return None
    cupti, context = loaded_cupti(), ctypes.c_void_p()
    ctypes.CDLL("libcuda.so.1").cuCtxGetCurrent(ctypes.byref(context))
    if way == "finalize-exit":
        return finalize_at_exit(program, cupti, found)
    if way in FINALIZES:
        finalize_beside(program, cupti, found, way == "finalize-working")
    else:
        program.renew(way)
        return touch_cupti(cupti, way, context)
    return None


def measure(program):
    """(to issue, until done): lower quartiles of batches, in microseconds of a launch."""
    end, batches = time.monotonic() + MEASURED_S, []
    while time.monotonic() < end:
        batches.append(program.batch())
    return [round(statistics.quantiles(values, n=4)[0], 3) for values in zip(*batches)]


def child(how):
    program = (TorchProgram if how["torch"] else DriverProgram)(how["part"])
    recorder, found, kept, phase = Recorder(how["build"], how["folder"]), {}, [], "before"
    try:
        program.setup()
        say(phase="ready")
        sys.stdin.readline()
        program.step()
        before = measure(program) if how["measures"] else None
        for round_ in range(4 if how["part"].startswith("again") else 1):
            phase = f"recorded {round_ + 1}"
            say(phase=phase)
            if how["way"] in OTHER_CLIENTS:
                context = ctypes.c_void_p()
                ctypes.CDLL("libcuda.so.1").cuCtxGetCurrent(ctypes.byref(context))
                recorder = Client(ctypes.CDLL(how["cupti"]), how["way"], context)
            if how["way"] != "bare":
                recorder.enter()
            work_for(program, RECORDED_S / 2)
            program.while_recorded()
            work_for(program, RECORDED_S / 2)
            if how["way"] != "bare":
                recorder.leave()
            if how["way"].startswith("client-") and how["way"] != "client-callbacks" and not recorder.bytes:
                raise Failed("the client of CUPTI got no records")
            phase = f"leaving {round_ + 1}"
            say(phase=phase)
            found.clear()
            kept.append(apply_way(program, how["way"], found))
            phase = f"after {round_ + 1}"
            say(phase=phase)
            program.afterwards()
            work_for(program, 0.2 if how["measures"] else 0.7)
        after = measure(program) if how["measures"] else None
        program.check()
        say(done=True, before=before, after=after, finalize=found)
    except Exception as error:  # whatever torch raises
        say(failed=f"{type(error).__name__}: {' '.join(str(error).split())[:160]}", phase=phase, finalize=found)
    sys.stdout.flush()
    os._exit(0)  # what happens at the exit of a process that has failed is not looked at


# --- the parent ---


def find_cupti():
    """PITOT_CUPTI, or of the newest torch or toolkit; the child's torch has loaded its own before."""
    if os.environ.get("PITOT_CUPTI"):
        return os.environ["PITOT_CUPTI"]
    places = []
    for name in ("nvidia", "torch"):
        found = importlib.util.find_spec(name)
        places += list(found.submodule_search_locations or []) if found else []
    patterns = [f"{place}/*/lib/libcupti.so.1[0-9]" for place in places] + [f"{place}/lib/libcupti.so.1[0-9]" for place in places]
    patterns += ["/usr/local/cuda/lib64/libcupti.so.1[0-9]", "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.1[0-9]",
                 "/usr/lib/x86_64-linux-gnu/libcupti.so.1[0-9]"]
    return next((path for pattern in patterns for path in sorted(glob.glob(pattern), reverse=True)), "")


class Child:
    """A program's process; it waits for `go` when it is ready."""

    def __init__(self, build, folder, part, way, torch=False, measures=False):
        self.name, self.part, self.way, self.torch = f"{'torch' if torch else 'driver'} {part}", part, way, torch
        where = tempfile.mkdtemp(dir=folder)
        clean = {key: value for key, value in os.environ.items() if not key.startswith("PITOT_")}
        how = {"part": part, "way": way, "torch": torch, "measures": measures, "build": str(build), "folder": where,
               "cupti": find_cupti()}
        more = {"PITOT_OPTIONS": "stacks=none", "PYTHONFAULTHANDLER": "1"}
        if how["cupti"] and not torch:
            more["PITOT_CUPTI"] = how["cupti"]
        self.errors = open(f"{where}/errors", "w+")
        self.process = subprocess.Popen([sys.executable, SCRIPT, "--child", json.dumps(how)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, text=True, env={**clean, **more})
        self.said, self.phase = {}, "starts"

    def read(self, until, limit):
        """Reads what it says until `until` is among it, or it ends. False: neither, in time."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if not select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]:
                break
            line = self.process.stdout.readline()
            if not line:
                return True
            said = json.loads(line) if line.startswith("{") else {}
            self.phase = said.get("phase", self.phase)
            if "done" in said or "failed" in said:
                self.said = said
            if until in said.values() or self.said:
                return True
        return False

    def go(self, limit):
        """What became of it, in words; and what it said."""
        if not self.said and self.process.poll() is None:
            try:
                self.process.stdin.write("go\n")
                self.process.stdin.flush()
            except BrokenPipeError:
                pass
        in_time = self.read("done", limit)
        if not in_time:
            self.process.kill()
        status = self.process.wait()
        self.errors.seek(0)
        last = [line for line in self.errors.read().splitlines() if line.strip()]
        self.errors.close()
        if self.said.get("done"):
            what = "right"
        elif self.said:
            what = f"{self.said['phase']}: {self.said['failed']}"
        elif not in_time:
            what = f"{self.phase}: hangs"
        else:
            what = f"{self.phase}: ended with {status}: {' | '.join(last[:2] + last[-1:])[:200]}"
        return what, self.said


def breaks(build, folder, left):
    programs = [(False, DRIVER_PARTS)] + [(True, TORCH_PARTS)] * bool(importlib.util.find_spec("torch"))
    tasks = [(part, way, torch) for torch, parts in programs for part in parts for way in ("left", *FINALIZES)]
    table = collections.defaultdict(dict)

    def one(task):
        if left() < 20:
            return task, "not run: no time", {}
        each = Child(build, folder, task[0], task[1], torch=task[2])
        each.read("ready", CHILD_S)
        return task, *each.go(max(1, min(CHILD_S, left())))

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for (part, way, torch), what, said in pool.map(one, tasks):
            name = f"{'torch' if torch else 'driver'} {part}"
            table[name][way] = what
            finalized = said.get("finalize") or {}
            print(f"breaks  {name:26} {way:17} {what}{f'  (cuptiFinalize: {finalized})' if finalized else ''}", flush=True)
    print("\nbreaks: what went on right, by what followed the recording; else the phase in which it failed")
    for name, ways in table.items():
        words = [f"{way}: {what if what.startswith(('right', 'not run')) else 'FAILED ' + re.split('[:(]', what)[0]}" for way, what in ways.items()]
        print(f"  {name:26} " + "  ".join(words))
    return sum(not ways["left"].startswith(("right", "not run")) for ways in table.values())


def cost(build, folder, left):
    """Processes are prepared four at a time, and measured one at a time."""
    ways = [("launches", way, False) for way in ("bare", "left", *SHORT_OF_IT, *OTHER_CLIENTS, *FINALIZES)]
    ways += [("eager", way, True) for way in ("bare", "left", *FINALIZES) if importlib.util.find_spec("torch")]
    tasks, waiting, more = [task for turn in range(TURNS) for task in (ways if turn % 2 == 0 else ways[::-1])], [], collections.defaultdict(list)
    while (tasks or waiting) and left() > 6:
        while tasks and len(waiting) < 4:
            part, way, torch = tasks.pop(0)
            waiting.append(Child(build, folder, part, way, torch=torch, measures=True))
        each = waiting.pop(0)
        each.read("ready", CHILD_S)
        what, said = each.go(max(1, min(CHILD_S, left())))
        if what != "right":
            print(f"cost  {each.name:16} {each.way:17} {what}", flush=True)
            continue
        before, after = said["before"], said["after"]
        more[each.name, each.way].append([b - a for a, b in zip(before, after)])
        print(f"cost  {each.name:16} {each.way:17} us a launch, issued {before[0]:6.3f} -> {after[0]:6.3f}, "
              f"done {before[1]:6.3f} -> {after[1]:6.3f}", flush=True)
    for each in waiting:
        each.process.kill()
    if tasks or waiting:
        print(f"cost: no time for {len(tasks) + len(waiting)} more")
    print("\ncost: us more for a launch after the recording, issued and until done, medians (all)")
    for (name, way), values in more.items():
        issued, done = zip(*values)
        print(f"  {name:16} {way:17} {statistics.median(issued):+7.3f} {statistics.median(done):+7.3f}   "
              f"({', '.join(f'{value:+.3f}' for value in issued)}; {', '.join(f'{value:+.3f}' for value in done)})")
    return 0


def main():
    if sys.argv[1:2] == ["--child"]:
        child(json.loads(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("stages", nargs="*", metavar="breaks|cost")
    parser.add_argument("--limit", type=float, default=225)
    arguments = parser.parse_args()
    stages = {"breaks": breaks, "cost": cost}
    if not {*arguments.stages} <= {*stages}:
        parser.error(f"the stages are {', '.join(stages)}")
    begun, wrong = time.monotonic(), 0
    chosen = arguments.stages or list(stages)
    query = "command -v nvidia-smi > /dev/null && nvidia-smi --query-gpu=name,driver_version --format=csv,noheader"
    gpu = subprocess.run(query, shell=True, capture_output=True, text=True).stdout.strip()
    torch = "torch" if importlib.util.find_spec("torch") else "NO TORCH: programs of the driver only"
    print(f"{gpu or 'no nvidia-smi'}; {torch}; {find_cupti() or 'libcupti where the loader finds it'}; {os.cpu_count()} processors, "
          f"{AT_ONCE} programs at once", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for i, name in enumerate(chosen):
            share = arguments.limit * (0.55 if i + 1 < len(chosen) else 1)
            wrong += stages[name](arguments.build.resolve(), folder, lambda share=share: share - (time.monotonic() - begun))
    print(f"{time.monotonic() - begun:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
