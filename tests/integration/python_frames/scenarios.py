"""Runs in the interpreter to be tested: scenarios.py PROBE [NAME…]. Every stack that the probe takes is compared with what Python
itself says at the same point: functions, files and lines, in the same order, and each run of Python frames where C called it."""
import asyncio
import contextlib
import ctypes
import functools
import gc
import os
import sys
import threading
import weakref

EXACT, PARTIAL, UNSURE = 1, 2, 3
# Native stacks end in code that is made at run time, which has no call frame information.
CODE_MADE = (hasattr(sys, "_jit") and sys._jit.is_enabled()) or (hasattr(sys, "is_stack_trampoline_active") and
                                                                 sys.is_stack_trampoline_active())
SIZE = 16 << 20

probe_path = sys.argv[1]
released = ctypes.CDLL(probe_path)  # gives the GIL away during a call
held = ctypes.PyDLL(probe_path)
for library in (released, held):
    library.probe_stack.restype = ctypes.c_size_t
    library.probe_stack.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_uint]
    library.probe_spin.restype = ctypes.c_ulong

stacks_seen = 0
tolerated = {PARTIAL} if CODE_MADE else set()


def frame_facts(frame):
    code = frame.f_code
    return getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno or 0


def python_stack(frame):
    facts = []
    while frame:
        facts.append(frame_facts(frame))
        frame = frame.f_back
    return facts


def parse(raw):
    match, *frames = raw.split(b"\x1e")[:-1]
    return int(match), [tuple(frame.split(b"\x1f")) for frame in frames]


def python_part(frames):
    return [(f[1].decode(errors="surrogateescape"), f[2].decode(errors="surrogateescape"), int(f[3]))
            for f in frames if f[0] == b"P"]


def compare(raw, expected, match=EXACT):
    """The probe's answer against what Python said."""
    global stacks_seen
    stacks_seen += 1
    said, frames = parse(raw)
    got = python_part(frames)
    if got != expected:
        for e, g in zip(expected, got):
            if e != g:
                raise SystemExit(f"expected {e}\n     got {g}\n{len(expected)} and {len(got)} frames")
        raise SystemExit(f"expected {len(expected)} frames, got {len(got)}:\n{expected}\n{got}")
    if said != match and said not in tolerated:
        natives = [f[1] for f in frames if f[0] == b"N"]
        raise SystemExit(f"match {said}, expected {match}: {got[:5]} {natives[:40]}")
    return frames


def here():
    """Takes and compares the stack, once with the GIL and once without."""
    buffer = local_buffer()
    for library in (held, released):
        length, expected = library.probe_stack(buffer, SIZE, 0, 0), python_stack(sys._getframe())
        frames = compare(ctypes.string_at(buffer, length), expected)
    return frames


buffers = threading.local()


def local_buffer():
    if not hasattr(buffers, "value"):
        buffers.value = ctypes.create_string_buffer(SIZE)
    return buffers.value


def natives_between(frames, inner, outer):
    """Number of native frames between two Python functions."""
    names = [f[1].split(b".")[-1].decode() if f[0] == b"P" else None for f in frames]
    a, b = names.index(inner), names.index(outer)
    return sum(name is None for name in names[a:b])


# --- scenarios: functions whose names begin with do_ ---

def do_nested():
    def inner():
        def innermost():
            return here()
        return innermost()
    inner()


def do_methods():
    class Machine:
        def method(self):
            return here()

        @classmethod
        def of_class(cls):
            return cls().method()

        @staticmethod
        def of_nobody():
            return Machine.of_class()

        @property
        def attribute(self):
            return self.of_nobody()

        def __getattr__(self, name):
            return self.attribute

        def __call__(self):
            return self.missing

        def __add__(self, other):
            return self()

        def __enter__(self):
            return self + 1

        def __exit__(self, *unused):
            here()

    with Machine():
        here()


def do_constructors():
    class Made:
        def __init__(self):
            here()

    class MadeOfMade(Made):
        def __new__(cls):
            here()
            return super().__new__(cls)

        def __init__(self):
            super().__init__()

    for _ in range(40):  # the interpreter changes how it calls once a function is warm
        Made()
    MadeOfMade()


def do_lambdas():
    (lambda: (lambda x: here())(1))()


def do_generators():
    def numbers():
        yield here()
        yield from more()
        try:
            yield 1
        finally:
            here()

    def more():
        received = yield here()
        if received is None:
            yield here()

    for _ in numbers():
        here()
    list(numbers())
    thrown = numbers()
    next(thrown)
    with contextlib.suppress(ValueError):
        thrown.throw(ValueError())
    sum(1 for _ in numbers() if here())
    closed = numbers()
    for _ in range(4):
        next(closed)
    closed.close()
    for _ in range(60):
        for _ in numbers():
            pass


def do_comprehensions():
    [here() for _ in range(2)]
    {here() and 1 for _ in range(2)}
    {1: here() for _ in range(2)}
    [[here() for _ in range(1)] for _ in range(2)]


def do_decorators():
    def decorator(function):
        here()

        @functools.wraps(function)
        def wrapper(*arguments, **named):
            return function(*arguments, **named)
        return wrapper

    @decorator
    @functools.lru_cache(maxsize=None)
    @decorator
    def decorated(a, b=2, *c, d=4):
        return here()

    decorated(1, d=5)
    functools.partial(decorated, 2)()


def do_c_callbacks():
    def key(x):
        frames = here()
        assert tolerated or natives_between(frames, "key", "do_c_callbacks") >= 1, frames
        return x

    def again(x):
        return sorted([x], key=key)

    sorted([2, 1, 3], key=key)
    list(map(lambda x: here(), [1, 2]))
    list(filter(lambda x: here(), [1]))
    max([1, 2], key=lambda x: sorted([x], key=lambda y: bool(here())))
    functools.reduce(lambda a, b: here(), [1, 2, 3])
    list(map(again, [1, 2]))


def do_ctypes_callbacks():
    @ctypes.CFUNCTYPE(ctypes.c_int)
    def callback():
        frames = here()
        assert tolerated or any(f[1] == b"probe_call" for f in frames)
        return 1

    assert released.probe_call(callback) == 2
    assert held.probe_call(callback) == 2


def do_class_bodies():
    class Meta(type):
        def __prepare__(name, bases):
            here()
            return {}

        def __new__(mcs, name, bases, space):
            here()
            return super().__new__(mcs, name, bases, space)

    class Base:
        def __init_subclass__(cls):
            here()

    class Body(Base, metaclass=type("Both", (Meta, type(Base)), {})):
        here()

        class Inside:
            here()

    class Descriptor:
        def __set_name__(self, owner, name):
            here()

    class User:
        attribute = Descriptor()


def do_exec():
    space = {"here": here}
    exec(compile("def f():\n\n  return here()\nf()\n", "/somewhere/made-up.py", "exec"), space)
    exec("here()", space)
    eval("here()", space)
    eval(compile("[here() for _ in\n\n range(2)]", "<e>", "eval"), space)


def do_names():
    space = {"here": here}
    for name in ("größe", "名前", "имя", "𝔘𝔫𝔦", "x" * 200, "é" * 120, "a" + "名" * 80):
        source = f"class {name}:\n def {name}(self):\n  here()\n{name}().{name}()"
        exec(compile(source, f"/dossier/{name[:80]}.py", "exec"), space)
    exec(compile("here()", os.fsdecode(b"/bytes/\xff\xfe.py"), "exec"), space)
    exec(compile("here()", "", "exec"), space)


def do_lines():
    lines = ["def f(x):", *["  x += 1"] * 300, "  here()", *[""] * 500, "  return (here(),", *["   x,"] * 200,
             "   here(),", *[""] * 300, "   x", "    .bit_length(),", "    here()", "  )"]
    space = {"here": here}
    exec(compile("\n" * 70000 + "\n".join(lines), "<lines>", "exec"), space)
    space["f"](1)
    flat = "if 1:\n" + "  x = 1\n" * 3000 + "  here()\n"
    exec(compile(flat, "<flat>", "exec"), space)
    (
        here()
        , (
            lambda: here())()
    )
    for i in range(3): here() if i else here(); here()


def do_exceptions():
    def failing():
        try:
            raise ValueError(1)
        except ValueError:
            here()
            try:
                raise KeyError(2)
            finally:
                here()
        finally:
            here()

    try:
        failing()
    except KeyError as error:
        assert error.__traceback__
        here()

    class Loud(Exception):
        def __init__(self, *arguments):
            here()

        def __str__(self):
            here()
            return "loud"

    with contextlib.suppress(Loud):
        raise Loud(str(Loud()))

    @contextlib.contextmanager
    def manager():
        try:
            yield here()
        finally:
            here()

    with contextlib.suppress(KeyError), manager():
        raise KeyError


def do_ends_of_objects():
    class Ending:
        def __del__(self):
            here()

    Ending()
    cycle = Ending()
    cycle.self = cycle
    del cycle
    gc.collect()
    watched = Ending()
    reference = weakref.ref(watched, lambda unused: here())
    del watched
    assert reference() is None


def do_frames_being_made():
    """A collection that starts while the cells of a new frame are made calls Python with an incomplete frame on the stack."""
    def collected(phase, unused):
        if phase == "start":
            here()

    def cells():
        a, b, c, d = [], [], [], []
        return lambda: (a, b, c, d)

    def generator():
        a = b = []
        yield lambda: (a, b)

    def coroutine_like(a):
        return [lambda: a for _ in range(3)]

    gc.collect()
    gc.callbacks.append(collected)
    threshold = gc.get_threshold()
    kept = []
    try:
        for n in range(1, 40):
            gc.set_threshold(n, 1, 1)
            kept.append((cells(), list(generator()), coroutine_like(n)))
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(collected)


def do_threads():
    failures = []

    def work(depth):
        if depth:
            return work(depth - 1)
        try:
            here()
            do_generators()
        except SystemExit as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(depth,)) for depth in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def do_threads_without_state():
    assert released.probe_depth_elsewhere() == 0
    assert held.probe_depth_elsewhere() == 0
    assert released.probe_depth() == held.probe_depth() > 2

    @ctypes.CFUNCTYPE(ctypes.c_bool)
    def callback():
        frames = here()
        return len(python_part(frames)) == 2

    assert released.probe_call_elsewhere(callback) == 1


def do_asyncio():
    async def leaf():
        here()
        await asyncio.sleep(0)
        here()

    async def produce():
        for _ in range(2):
            await leaf()
            yield here()

    @contextlib.asynccontextmanager
    async def manager():
        await leaf()
        yield here()
        await leaf()

    async def task():
        async for _ in produce():
            here()
        async with manager():
            here()
        return [await awaited for awaited in (leaf(), leaf())], [x async for x in produce()]

    async def everything():
        asyncio.get_running_loop().call_soon(here)
        await asyncio.gather(task(), task())
        await asyncio.get_running_loop().run_in_executor(None, here)

    asyncio.run(everything())


def do_subinterpreters():
    """The frames are those of the interpreter that runs, as Python's own tracebacks; the evaluations of the one that has called it
    stay native, so that counts differ. Before 3.12 a thread does not tell its current state without the GIL."""
    if sys.version_info >= (3, 13):
        import _interpreters as interpreters
    elif sys.version_info >= (3, 12):
        import _xxsubinterpreters as interpreters
    else:
        return
    source = (f"import sys\nsys.argv = {sys.argv[:2]!r}\nsys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})\n"
              "import scenarios\nscenarios.tolerated = {scenarios.PARTIAL, scenarios.UNSURE}\nfor name in ('nested', 'generators', 'c_callbacks', 'threads', 'exceptions', 'asyncio'):\n"
              "    getattr(scenarios, 'do_' + name)()\n"
              "assert scenarios.stacks_seen > 1000\n")
    # Some versions' ctypes cannot be imported where an interpreter has a GIL of its own.
    kinds = ["legacy", "isolated"] if sys.version_info >= (3, 13) else [False]
    for kind in kinds:
        try:
            interpreter = interpreters.create(kind) if kind else interpreters.create(isolated=False)
        except RuntimeError:
            continue
        run = getattr(interpreters, "exec", None) or interpreters.run_string
        try:
            failure = run(interpreter, source)
            if failure and not ("_ctypes" in failure.formatted and "subinterpreters" in failure.formatted):
                raise SystemExit(failure.formatted)
            print("in a sub-interpreter,", kind, "refused" if failure else "walked")
        finally:
            interpreters.destroy(interpreter)


def do_greenlets():
    """Greenlets have a chain of frames of their own on top of the native frames of whoever ran before: told to be unsure."""
    try:
        import greenlet
    except ImportError:
        return

    def look(match=UNSURE):
        buffer = local_buffer()
        for library in (held, released):
            length, expected = library.probe_stack(buffer, SIZE, 0, 0), python_stack(sys._getframe())
            compare(ctypes.string_at(buffer, length), expected, match)

    def one():
        look()
        second.switch()
        sorted([1], key=lambda unused: look())
        second.switch()

    def two():
        look()
        sorted([1], key=lambda unused: first.switch())
        look()

    first, second = greenlet.greenlet(one), greenlet.greenlet(two)
    first.switch()
    look(EXACT)


def do_recursion():
    def down(n):
        return here() if n == 0 else down(n - 1)

    def down_through_c(n):
        return here() if n == 0 else list(map(down_through_c, [n - 1]))

    sys.setrecursionlimit(5000)
    down(1000)
    down_through_c(300)


def do_imports():
    import importlib.abc
    import importlib.machinery

    class Loader(importlib.abc.Loader):
        def exec_module(self, module):
            exec(compile("here()\n", "/made/module.py", "exec"), {"here": here})

        def find_spec(self, name, path, target=None):
            if name == "made_module":
                return importlib.machinery.ModuleSpec(name, self)

    sys.meta_path.insert(0, Loader())
    import made_module
    assert made_module


def do_tracing():
    def tracer(frame, event, argument):
        return tracer

    def traced():
        for _ in range(2):
            here()

    sys.settrace(tracer)
    try:
        traced()
    finally:
        sys.settrace(None)
    sys.setprofile(lambda *unused: None)
    try:
        traced()
    finally:
        sys.setprofile(None)


def do_cut_stacks():
    def down(n):
        if n:
            return sorted([1], key=lambda unused: down(n - 1))
        buffer = local_buffer()
        length, expected = released.probe_stack(buffer, SIZE, 5, 0), python_stack(sys._getframe())
        match, frames = parse(ctypes.string_at(buffer, length))
        assert match == PARTIAL and python_part(frames) == expected[:5]  # and no native frame beyond the gap
        whole = released.probe_stack(buffer, SIZE, 0, 0)
        assert len(frames) < len(parse(ctypes.string_at(buffer, whole))[1])
        length, expected = released.probe_stack(buffer, SIZE, 0, 40), python_stack(sys._getframe())
        frames = compare(ctypes.string_at(buffer, length), expected, PARTIAL)
        assert frames[-1][0] == b"P"

    down(20)


def do_fork():
    here()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            do_generators()
            do_c_callbacks()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    here()


def do_reused_code():
    """The same addresses, first lines and names as code that is gone: only what is said of it differs."""
    space = {"here": here}
    for i in range(150):
        exec(compile("here()\n", f"file-{i:05}.py", "exec"), space)
        exec(compile(f"def f{i:05}():\n  here()\nf{i:05}()\n", "same.py", "exec"), space)
        exec(compile("def f():\n" + "\n" * (i % 50) + "  here()\nf()\n", "same.py", "exec"), space)
        exec(compile(f"class C{i:05}:\n def f(self): here()\nC{i:05}().f()\n", "same.py", "exec"), space)


def do_stress():
    """Some threads make, call and drop code; others walk without the GIL; every name must be the right one."""
    stop = threading.Event()
    failures = []

    def guarded(function):
        def run():
            try:
                while not stop.is_set():
                    function()
            except BaseException as failure:
                failures.append(failure)
                stop.set()
        return run

    def make_and_drop():
        name = f"made_{threading.get_ident()}_{os.urandom(3).hex()}"
        space = {"here": here}
        exec(compile(f"def {name}():\n  here()\n{name}()\n", f"{name}.py", "exec"), space)

    def spin():
        assert released.probe_spin(5) > 0

    threads = [threading.Thread(target=guarded(function)) for function in [make_and_drop] * 3 + [spin] * 2]
    for thread in threads:
        thread.start()
    stop.wait(float(os.environ.get("STRESS_SECONDS", "0.5")))
    stop.set()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def losses():
    values = (ctypes.c_uint64 * 6)()
    held.probe_losses(values)
    return dict(zip(("no_slot", "no_room", "not_code", "bad_strings", "cut_names", "no_lines"), values))


def do_ceilings():
    """Last: tables that are too small lose names and say so."""
    def call(length=0, name="short", lines=1):
        buffer = local_buffer()
        space = {"take": lambda: released.probe_stack(buffer, SIZE, 0, 0)}
        exec(compile(f"def {name}():\n" + "  x = (\n  1)\n" * lines + "  return take()\n" + f"length = {name}()\n",
                     "d/" * length + "f.py", "exec"), space)
        return python_part(parse(ctypes.string_at(buffer, space["length"]))[1])

    assert losses()["not_code"] == 0
    before = losses()
    assert call(name="n" * 5000)[1][0] == "n" * 512
    assert call(name="é" * 300)[1][0] == "é" * 256
    assert call(length=5000)[1][1] == ("d/" * 5000 + "f.py")[-1024:]
    assert losses()["cut_names"] > before["cut_names"]
    assert call(lines=100000)[1] == ("short", "f.py", 0)
    assert losses()["no_lines"] > before["no_lines"]
    assert held.probe_codes(ctypes.c_size_t(4), ctypes.c_size_t(1 << 20)) == 0
    assert [f for f in call() if not f[1]] and losses()["no_slot"]
    assert held.probe_codes(ctypes.c_size_t(1024), ctypes.c_size_t(256)) == 0
    assert [f for f in call() if not f[1]] and losses()["no_room"]


def main():
    reason = ctypes.create_string_buffer(1024)
    if held.probe_open(reason, 1024) != 0:
        raise SystemExit(reason.value.decode())
    wanted = sys.argv[2:] or [name for name in globals() if name.startswith("do_")]
    for name in wanted:
        globals()[name]()
        print(name, stacks_seen)
    words = (ctypes.c_uint64 * 2)()
    held.probe_words(words)
    assert words[1] == 0, f"{words[1]} of {words[0]} walks had other frames although their words were the same"
    assert sys.argv[2:] or words[0] > 500, words[0]


if __name__ == "__main__":
    main()
