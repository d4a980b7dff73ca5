"""Uses tests/standin/c10_cuda.c as PyTorch does its allocator: allocator_program.py LIBRARY KIND GO.

Says on standard output, one JSON line each, what it has done by the library's own count. Waits until the file GO exists,
which its test makes when the recording has what is allocated meanwhile.
"""
import ctypes
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path


class Levels(ctypes.Structure):
    _fields_ = [("allocations", ctypes.c_uint64), ("releases", ctypes.c_uint64), ("bytes", ctypes.c_int64), ("peak_bytes", ctypes.c_int64)]


def load(path):
    library = ctypes.CDLL(path)
    for name in ("standin_allocate", "standin_allocate_otherwise"):
        getattr(library, name).restype = ctypes.c_void_p
        getattr(library, name).argtypes = [ctypes.c_size_t, ctypes.c_int]
    library.standin_free.argtypes = [ctypes.c_void_p]
    library.standin_free_unknown.argtypes = [ctypes.c_uint64]
    library.standin_churn.argtypes = [ctypes.c_uint64, ctypes.c_size_t]
    library.standin_levels.restype = Levels
    return library


def say(library, **more):
    levels = library.standin_levels()
    print(json.dumps({name: getattr(levels, name) for name, _ in Levels._fields_} | {"semaphores": library.standin_semaphores(), **more}), flush=True)


def warm_up(library, go):
    """Allocates 1 byte at each place until the recording has it: then all probes are set."""
    while not go.exists():
        for allocate in library.standin_allocate, library.standin_allocate_otherwise:
            library.standin_free(allocate(1, 0))
        time.sleep(0.001)


def load_model(library):
    return [library.standin_allocate(1_000_000 + i, 0) for i in range(20)]


def forward(library, size):
    return [library.standin_allocate_otherwise(size + i, 1) for i in range(30)]


def train(library):
    model = load_model(library)
    for step in range(5):
        for address in forward(library, 5000 * (step + 1)):
            library.standin_free(address)
    return model


def many(library, count):
    threads = [threading.Thread(target=library.standin_churn, args=(count // 2, 512)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def flood(library):
    """Nobody reads the recorder's ring meanwhile."""
    os.kill(os.getppid(), signal.SIGSTOP)
    many(library, 300_000)
    os.kill(os.getppid(), signal.SIGCONT)


def unknown(library):
    for address in range(1, 1001):
        library.standin_free_unknown(address << 20)


def fork(library, go):
    """The child has the library, but is another process: it may use a GPU if its parent does not."""
    library.standin_allocate(7000, 0)
    child = os.fork()
    if child == 0:
        go = Path(f"{go}-child")
        warm_up(library, go)
        before = library.standin_levels().bytes
        library.standin_allocate(9000, 0)
        say(library, pid=os.getpid(), grown=library.standin_levels().bytes - before)
        os._exit(0)
    say(library, child=child)
    os.waitpid(child, 0)


def unload(library, path):
    """The library is unloaded with its probes, and loaded again, at another address or not."""
    close = ctypes.CDLL(None).dlclose
    close.argtypes = [ctypes.c_void_p]
    library.standin_allocate(111, 0)
    assert close(library._handle) == 0 and path not in Path("/proc/self/maps").read_text()
    library = load(path)
    for _ in range(50):
        library.standin_free(library.standin_allocate(222, 0))
    return library


def show_semaphores(library):
    before, was_set = None, False
    while before or not was_set:
        now = library.standin_semaphores()
        was_set |= now == 2 << 16 | 2
        if now != before:
            say(library)
        before = now
        time.sleep(0.001)


def main():
    path, kind, go = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    library = load(path)
    if kind == "semaphores":  # as long as they are not 0 after the recorder has set and removed its probes
        show_semaphores(library)
        return
    warm_up(library, go)
    if kind == "train":
        train(library)
    elif kind == "many":
        many(library, 20_000)
    elif kind == "flood":
        flood(library)
    elif kind == "unknown":
        unknown(library)
    elif kind == "fork":
        fork(library, go)
    elif kind == "two":
        load(Path(path).parent.parent / "without" / "libc10_cuda.so").standin_allocate(40, 0)
        library.standin_allocate(50, 0)
    elif kind == "unload":
        library = unload(library, path)
    say(library)


main()
