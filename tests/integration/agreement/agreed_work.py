"""agreed_work.py SECONDS: Python for walk_agreement.c: the interpreter, modules of its own, and OpenBLAS by NumPy if there is
one, in threads. Prints which."""
import ctypes
import json
import re
import sqlite3
import sys
import threading
import time
import zlib

try:
    import numpy
except ImportError:
    numpy = None


class Encoder(json.JSONEncoder):
    def default(self, o):
        return down(4)


def down(n):
    return down(n - 1) + 1 if n else 0


def throws(n):
    if n == 0:
        raise ValueError(n)
    throws(n - 1)


def python():
    for _ in range(50):
        json.dumps([object()] * 3, cls=Encoder)
        sorted(range(100), key=lambda x: -x)
        re.sub("a+", lambda found: str(len(found[0])), "ab" * 50)
        sum(x * x for x in range(100))
        try:
            throws(5)
        except ValueError:
            pass
    zlib.compress(bytes(range(256)) * 100)
    numbers = (ctypes.c_int * 50)(*range(50, 0, -1))
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
    ctypes.CDLL(None).qsort(numbers, 50, 4, compare(lambda a, b: a[0] - b[0]))
    database = sqlite3.connect(":memory:")
    database.create_function("f", 1, down)
    database.execute("with recursive t(a) as (select 1 union all select a + 1 from t limit 50) select sum(f(a)) from t")


def algebra():
    generator = numpy.random.default_rng(1)
    for n in (40, 200):
        a = generator.standard_normal((n, n))
        b = a @ a.T + n * numpy.eye(n)
        numpy.linalg.solve(b, a)
        numpy.linalg.cholesky(b)
        numpy.linalg.eigh(b)
        numpy.linalg.svd(a[:60, :60])
        (a.astype(numpy.float32) @ a.astype(numpy.float32)).sum()
        numpy.sort(a, axis=0)
        numpy.fft.fft(a)


def work(end):
    while time.process_time() < end:
        python()
        if numpy:
            algebra()


def main():
    end = time.process_time() + float(sys.argv[1])
    threads = [threading.Thread(target=work, args=(end,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("numpy" if numpy else "no numpy")


main()
