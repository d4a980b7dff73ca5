"""Scopes of tasks and generators that take turns on a thread."""
import json

import pytest

from package_pythons import SOME

TURNS = """
    import asyncio, warnings

    async def both(first, second):
        entered, left = asyncio.Event(), asyncio.Event()

        async def a():
            with pitot.scope(first):
                entered.set()
                await left.wait()

        async def b():
            await entered.wait()
            with pitot.scope(second):
                with pitot.scope("inner"):
                    await asyncio.sleep(0)
                task.cancel() if cancel else left.set()
                await asyncio.wait([task])

        task = asyncio.ensure_future(a())
        await asyncio.gather(task, b(), return_exceptions=True)

    def seen(rec):
        return {scope["path"]: (scope["calls"], scope["wall_ns"]) for scope in rec.open().scopes}
"""


@SOME
@pytest.mark.parametrize("cancel", [False, True])
def test_tasks_that_take_turns(run, pitot, python, cancel):
    """The second begins in the first and ends after it: each has its own time, and neither is in the other."""
    scopes = run(f"    cancel = {cancel}" + TURNS + """
    warnings.simplefilter("error")
    with pitot.record("a.pitot") as rec:
        asyncio.run(both("a", "b"))
        with pitot.scope("after"):
            pass
    print(json.dumps(seen(rec)))
    """, python)
    rows = [json.loads(line) for line in pitot("view", "a.pitot", "nvtx", "--json", "--quiet").stdout.splitlines()]
    times = [row["time_ns"] for row in rows]
    assert [[row["kind"], row["message"]] for row in rows] == [["push", "a"], ["start", "b"], ["start", "inner"], ["end", None], ["pop", None], ["end", None], ["push", "after"], ["pop", None]]
    assert scopes == {"a": [1, times[4] - times[0]], "b": [1, times[5] - times[1]], "inner": [1, times[3] - times[2]], "after": [1, times[7] - times[6]]}


@SOME
def test_tasks_with_one_name(run, python):
    """Servers handle requests so; scopes around the loop, and in threads of a pool, nest as ever."""
    scopes = run("    cancel = False" + TURNS + """
    warnings.simplefilter("error")

    def work():
        with pitot.scope("thread"):
            pass

    async def main():
        await both("request", "request")
        await asyncio.get_running_loop().run_in_executor(None, work)
        with pitot.scope("sync"):
            with pitot.scope("inside"):
                pass

    with pitot.record("a.pitot") as rec:
        with pitot.scope("main"):
            asyncio.run(main())
    print(json.dumps(seen(rec)))
    """, python)
    assert {path: calls for path, (calls, _) in scopes.items()} == {"main": 1, "main/request": 1, "request": 1, "inner": 1, "thread": 1, "main/sync": 1, "main/sync/inside": 1}


@SOME
def test_generators_that_take_turns(run, python):
    """What cannot be right is said aloud: an end that is not the innermost one, and one on another thread."""
    said, scopes = run("    cancel = False" + TURNS + """
    import threading

    def generator(name):
        with pitot.scope(name):
            yield

    async def agen(name):
        with pitot.scope(name):
            yield

    async def walk():
        async for _ in agen("async"):
            with pitot.scope("body"):
                pass

    with pitot.record("a.pitot") as rec, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(walk())
        for _ in generator("in order"):
            with pitot.scope("of the loop"):
                pass
        first, second, third = map(generator, ("first", "second", "third"))
        for one in first, second, first, second, third:
            next(one, None)
        thread = threading.Thread(target=lambda: next(third, None))
        thread.start()
        thread.join()
        with pitot.scope("after"):
            pass
    print(json.dumps([[str(w.message) for w in caught], seen(rec)]))
    """, python)
    assert said == ["scope 'first' ends while a scope that began in it is open, as of a generator: both end here in the recording; end the inner one first",
                    "scope 'third' ends on another thread than it began: its end is not recorded; begin and end it on one thread"]
    assert {"async", "async/body", "in order", "in order/of the loop", "first", "first/second", "third"} <= set(scopes)


@SOME
def test_scopes_of_an_exit_stack(run, python):
    """contextlib calls what the class has; asyncio may be loaded while a scope is open, and a loop end before its scope."""
    scopes = run("    cancel = False" + TURNS.replace("import asyncio, warnings", "import contextlib, sys, warnings\n    assert 'asyncio' not in sys.modules") + """
    warnings.simplefilter("error")
    with pitot.record("a.pitot") as rec, contextlib.ExitStack() as stack:
        stack.enter_context(pitot.scope("entered"))
        import asyncio
        stack.push(pitot.scope("pushed").__enter__())
        asyncio.run(both("a", "b"))
        pitot.scope("called").__enter__().__exit__(None, None, None)
        for wrong in (), (3,):
            try:
                type(pitot.scope("a")).__exit__(*wrong)
            except TypeError as error:
                assert "must be a scope" in str(error), error
    print(json.dumps(seen(rec)))
    """, python)
    # b begins while a, which began in it, is suspended: it is in no scope.
    assert {path: calls for path, (calls, _) in scopes.items()} == {
        "entered": 1, "entered/pushed": 1, "entered/pushed/a": 1, "b": 1, "inner": 1, "entered/pushed/called": 1}
