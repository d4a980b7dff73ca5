"""Native stacks of Python processes, frame by frame, against glibc's backtrace(), in every CPython of the machine."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

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


def interpreters():
    found = {os.path.realpath(sys.executable)}
    for path in [*Path.home().glob(".pyenv/versions/3.*/bin/python3"), *Path("/usr/bin").glob("python3.*[0-9]")]:
        found.add(os.path.realpath(path))
    return sorted(found)


@pytest.mark.parametrize("interpreter", interpreters())
def test_stacks_are_those_of_glibc(build, interpreter):
    module = build / "tests" / "unit" / "stack" / "modules" / "walk_in_python.so"
    result = subprocess.run([interpreter, "-c", PROGRAM, str(module)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, timeout=120)
    if "No module named" in result.stderr:
        pytest.skip(result.stderr.strip().splitlines()[-1])
    assert result.returncode == 0, result.stderr
    stacks, complete, partial, frames, wrong = map(int, result.stdout.split())
    print(f"{interpreter}: {stacks} stacks, {frames} frames, {partial} partial, {wrong} wrong")
    assert wrong == 0
    assert complete > 2000 and stacks - complete - partial == 0
    assert partial == 0
