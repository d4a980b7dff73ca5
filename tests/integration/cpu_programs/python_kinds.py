"""Runs for so many seconds of CPU time through frames of every kind, in several threads. Where a line can call functions of this
file, its comment names them: "#> name …"; the tests hold sampled stacks against that."""
import asyncio
import ctypes
import sys
import threading
import time


def leaf(n):
    x = n
    for i in range(2000):
        x = (x * 31 + i) & 0xffff
    return x


def plain():
    return leaf(1)  #> leaf


def numbers():
    for i in range(3):
        yield leaf(i)  #> leaf


def delegates():
    yield from numbers()  #> numbers


def generates():
    for _ in delegates():  #> delegates
        leaf(2)  #> leaf


async def awaited(n):
    await asyncio.sleep(0)
    return leaf(n)  #> leaf


async def streams():
    for i in range(2):
        yield await awaited(i)  #> awaited


async def awaits():
    async for _ in streams():  #> streams
        leaf(3)  #> leaf
    await asyncio.gather(awaited(1), awaited(2))


def coroutines():
    asyncio.run(awaits())


def throws(n):
    if n:
        throws(n - 1)  #> throws
    leaf(n)  #> leaf
    raise ValueError(n)


def handles():
    try:
        throws(4)  #> throws
    except ValueError:
        leaf(4)  #> leaf
    finally:
        leaf(5)  #> leaf


def down(n):
    return down(n - 1) if n else leaf(n)  #> down leaf


def recurses():
    down(60)  #> down


def key(x):
    return leaf(x)  #> leaf


def calls_back():
    sorted(range(4), key=key)  #> key
    list(map(key, range(4)))  #> key
    in_c(key)  #> in_c


class Thing:
    def __init__(self):
        leaf(6)  #> leaf

    def __call__(self):
        return leaf(7)  #> leaf

    def __del__(self):
        leaf(8)  #> leaf


def objects():
    thing = Thing()  #> __init__
    thing()  #> __call__
    del thing  #> __del__


def compiles():
    space = {"leaf": leaf}
    # Seen from outside, code that is gone before it is described has no frames.
    exec("def made(): return leaf(9)\nmade()", space)  #> leaf


KINDS = (plain, generates, coroutines, handles, recurses, calls_back, objects, compiles)
numbers_in_c = (ctypes.c_int * 4)(3, 1, 2, 0)
compare_in_c = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
sort_in_c = ctypes.CDLL(None).qsort


def in_c(function):
    sort_in_c(numbers_in_c, 4, 4, compare_in_c(lambda *_: function(1) & 0))  #> <lambda> key


def works(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        for kind in KINDS:
            kind()  #> plain generates coroutines handles recurses calls_back objects compiles


def in_other_interpreter(seconds):
    try:
        import _interpreters as interpreters
    except ImportError:
        return
    other = interpreters.create("legacy")
    interpreters.exec(other, f"import sys\nsys.argv = [{__file__!r}, '{seconds}', 'alone']\n"
                             f"exec(compile(open({__file__!r}).read(), {__file__!r}, 'exec'))")
    interpreters.destroy(other)


def main():
    seconds = float(sys.argv[1])
    if len(sys.argv) > 2:
        return works(seconds)  #> works
    threads = [threading.Thread(target=works, args=(seconds / 6,)) for _ in range(4)]  #> <listcomp>
    threads.append(threading.Thread(target=in_other_interpreter, args=(seconds / 6,)))
    [thread.start() for thread in threads]  #> <listcomp>
    works(seconds / 6)  #> works
    [thread.join() for thread in threads]  #> <listcomp>


main()  #> main
