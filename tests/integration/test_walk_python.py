"""Native stacks of Python processes, frame by frame, against glibc's backtrace(), in every CPython of the machine."""
import os
import subprocess

import pytest

from pythons import interpreters, label, some, with_jit
from waiting import PATIENCE

PROGRAM = """
import ctypes, itertools, json, re, sqlite3, sys

class Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("stacks", "complete", "partial", "frames", "wrong")]

counts = Counts()
library = ctypes.CDLL(sys.argv[1])

def check(*_):
    library.walk_here(ctypes.byref(counts))
    return 0

def recurse(n):
    return recurse(n - 1) if n else check()

def generate():
    for i in range(10):
        check()
        yield i

class Deleted:
    def __del__(self):
        check()

class Encoder(json.JSONEncoder):
    def default(self, o):
        return check()

for i in range(2000):
    recurse(i % 40)
sorted(range(50), key=check)
list(map(check, range(50)))
re.sub("a", lambda m: str(check()), "a" * 40)
json.dumps([object()] * 20, cls=Encoder)
list(itertools.chain(generate(), generate()))
for i in range(20):
    Deleted()
database = sqlite3.connect(":memory:")
database.create_function("f", 1, check)
list(database.execute("with recursive t(a) as (select 1 union all select a + 1 from t limit 50) select f(a) from t"))
numbers = (ctypes.c_int * 20)(*range(20))
compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(check)
ctypes.CDLL(None).qsort(numbers, 20, 4, compare)
print(*(getattr(counts, name) for name, _ in Counts._fields_))
"""


@pytest.mark.parametrize("python", some(interpreters()), ids=label)
def test_stacks_are_those_of_glibc(build, python):
    module = build / "tests" / "unit" / "stack" / "modules" / "walk_in_python.so"
    result = subprocess.run([python["path"], "-c", PROGRAM, str(module)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, timeout=PATIENCE)
    if "No module named" in result.stderr:
        pytest.skip(result.stderr.strip().splitlines()[-1])
    assert result.returncode == 0, result.stderr
    stacks, complete, partial, frames, wrong = map(int, result.stdout.split())
    print(f"{label(python)}: {stacks} stacks, {frames} frames, {partial} partial, {wrong} wrong")
    assert wrong == 0
    assert complete > 2000 and stacks - complete - partial == 0
    assert partial == 0


# Calls of every kind, and who may call whom by them.
INTERRUPTED = """
import ctypes, sys, time

class Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64)
                for name in ("samples", "complete", "exact", "partial", "unsure", "no_python", "python_cut")]

CALLERS = {
    "main": {"<module>"}, "plain": {"main"}, "leaf": {"plain", "key", "each", "method", "made"}, "sorts": {"main"},
    "key": {"sorts"}, "recurses": {"main"}, "down": {"recurses", "down"}, "generates": {"main"},
    "each": {"generates", "<genexpr>"}, "<genexpr>": {"generates"}, "objects": {"main"}, "__init__": {"objects"},
    "__call__": {"objects"}, "method": {"__call__"}, "__del__": {"objects"}, "raises": {"main"}, "throw": {"raises", "throw"},
    "compiles": {"main"}, "made": {"<module>"}, "<lambda>": {"made"}, "<module>": {"compiles"},
}

def leaf(x): return x + 1
def plain():
    for i in range(300): leaf(i)
def key(x): return leaf(-x)
def sorts(): sorted(range(300), key=key)
def down(n): return down(n - 1) + 1 if n else 0
def recurses():
    for i in range(20): down(15)
def each(n):
    for i in range(n):
        leaf(i)
        yield i
def generates():
    sum(i for i in each(200))
    list(each(100))
class Thing:
    def __init__(self): self.x = [1]
    def __call__(self, x): return self.method(x)
    def method(self, x): return leaf(x)
    def __del__(self): len(self.x)
def objects():
    for i in range(60): Thing()(i)
def throw(n):
    if n: throw(n - 1)
    else: raise ValueError
def raises():
    for i in range(30):
        try: throw(5)
        except ValueError: pass
def compiles():
    for i in range(3):
        space = {"leaf": leaf}
        exec("def made(x):\\n  return (lambda y: y)(leaf(x))\\nfor i in range(9): made(i)", space)
def main(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        for f in (plain, sorts, recurses, generates, objects, raises, compiles): f()

library = ctypes.CDLL(sys.argv[1])
started = library.interrupt_start(int(sys.argv[3]))
if started:
    sys.exit("not walked: %d" % started)
main(float(sys.argv[2]))
counts = Counts()
library.interrupt_stop(ctypes.byref(counts))
name = ctypes.create_string_buffer(200)
wrong, nameless, frames = {}, 0, 0
for sample in range(counts.samples):
    inner = None
    for frame in range(24):
        there = library.interrupt_frame(sample, frame, name, 200)
        if there == 0:
            break
        nameless += there < 0
        outer = name.value.decode().split(".")[-1]
        if there > 0 and inner in CALLERS and outer not in CALLERS[inner]:
            wrong[inner, outer] = wrong.get((inner, outer), 0) + 1
        inner = outer if there > 0 else None
        frames += 1
print(counts.samples, counts.complete, counts.exact, counts.partial, counts.unsure, counts.no_python, counts.python_cut,
      frames, nameless, sum(wrong.values()), sep=" ")
print(wrong, file=sys.stderr)
"""


@pytest.mark.parametrize("python", some(with_jit(interpreters())), ids=label)
def test_python_frames_of_interrupted_threads(build, python):
    """A signal every 100 us, anywhere in the interpreter: each frame was called by the next one."""
    module = build / "tests" / "unit" / "stack" / "modules" / "interrupt_in_python.so"
    seconds, period_us = os.environ.get("PITOT_INTERRUPT", "1.5 100").split()
    result = subprocess.run([python["path"], "-c", INTERRUPTED, str(module), seconds, period_us], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, timeout=PATIENCE, env={**os.environ, **python["environment"]})
    if "No module named" in result.stderr or "not walked: 1" in result.stderr:
        pytest.skip(result.stderr.strip().splitlines()[-1])
    assert result.returncode == 0, result.stderr
    samples, complete, exact, partial, unsure, none, cut, frames, nameless, wrong = map(int, result.stdout.split())
    print(f"{label(python)}: {samples} interruptions, {complete} whole stacks, {exact} exact, {partial} partial, "
          f"{unsure} unsure, {none} without Python, {cut} cut; {frames} frames, {nameless} nameless, {wrong} wrong")
    assert samples > 200
    assert wrong == 0, result.stderr
    assert nameless <= frames / 1000
    # Native stacks end in code that was compiled at run time; Python's frames are all there.
    assert exact + (partial if python["environment"] else 0) >= 0.99 * samples and cut <= 0.01 * samples
