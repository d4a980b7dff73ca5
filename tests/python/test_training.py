"""Training loops that are recorded: their schedule, in loops of frameworks, too, and the scopes of a model."""
import json

import pytest

from package_pythons import SOME, state


# --- training loops ---


@SOME
def test_steps_record_what_is_active(run, spans, tmp_path, python):
    said = run("""
        def loop(steps, last=None):
            seen = []
            for i in steps:
                pitot.mark(str(i))
                seen.append(i)
                if i == last:
                    break
            return seen, [os.path.basename(rec.path) for rec in steps.recordings]

        with pitot.record("whole.pitot"):
            cycles = loop(pitot.steps(range(11), wait=1, warmup=1, active=2, path="cycle.pitot"))
        twice = pitot.steps(range(3), active=2, repeat=2, path="dir.d/twice")
        os.mkdir("dir.d")
        print(json.dumps([
            cycles,
            loop(pitot.steps(iter("abcdef"), wait=1, active=2, repeat=1, path="once.pitot", app_name="once")),
            loop(pitot.steps([1, 2, 3, 4], wait=1, active=3, repeat=1, path="broken.pitot"), 3),
            [loop(twice), loop(twice)], len(twice),
            [repr(rec)[-8:] for rec in twice.recordings],
        ]))
        """, python)
    assert said[0] == [list(range(11)), ["cycle-1.pitot", "cycle-2.pitot", "cycle-3.pitot"]]
    assert said[1] == [list("abcdef"), ["once.pitot"]] and said[2] == [[1, 2, 3], ["broken.pitot"]]
    assert said[3] == [[[0, 1, 2], ["twice-1", "twice-2"]], [[0, 1, 2], ["twice-1", "twice-2"]]] and said[4:] == [3, [", ended>"] * 2]
    assert spans(tmp_path / "whole.pitot") == " ".join(f"step( {i} )" for i in range(11))
    active = {"cycle-1.pitot": "23", "cycle-2.pitot": "67", "cycle-3.pitot": ["10"], "once.pitot": "bc", "broken.pitot": "23",
              "dir.d/twice-1": "01", "dir.d/twice-2": "2"}
    for name, marks in active.items():
        assert spans(tmp_path / name) == " ".join(f"step( {mark} )" for mark in marks), name
        assert state(tmp_path / name) == "ended"
    assert json.loads((tmp_path / "once.pitot/recording.json").read_text())["name"] == "once"


def test_an_exception_ends_steps(run, spans, tmp_path):
    """The traceback keeps the loop alive; the interpreter's end ends the recording."""
    said = run("""
        for wrong in dict(active=0), dict(wait=-1), dict(stcks=1):
            try:
                pitot.steps([], **wrong)
            except (pitot.UsageError, TypeError) as e:
                print(e, file=sys.stderr)
        for i in pitot.steps(range(9), active=4, path="a.pitot", repeat=1):
            pitot.mark(str(i))
            if i == 2:
                raise KeyboardInterrupt
        """, status=-2).stderr
    assert said.splitlines()[:3] == ["wait=0, warmup=0, active=0, repeat=0: active must be >= 1, others >= 0",
                                     "wait=-1, warmup=0, active=1, repeat=0: active must be >= 1, others >= 0",
                                     "a recording has no setting 'stcks', did you mean 'stacks'?"]
    assert spans(tmp_path / "a.pitot").startswith("step( 0 ) step( 1 ) step( 2") and state(tmp_path / "a.pitot") == "ended"


# --- callbacks of frameworks ---

# What a callback of theirs gets, in their order of calls: they are not installed everywhere.
FRAMEWORKS = """
    import types

    class Base:
        def __getattr__(self, event):
            if event.startswith("on_"):
                return lambda *_, **__: None
            raise AttributeError(event)

    def train_transformers(callback, steps):
        events = "on_train_begin on_epoch_begin".split() + "on_step_begin on_step_end on_log".split() * steps + ["on_epoch_end", "on_train_end"]
        for event in events:
            assert getattr(callback, event)("args", "state", "control", model=None) is None
            if event == "on_step_begin":
                pitot.mark(str(len(marks)))
                marks.append(1)

    def train_lightning(callback, steps, fails=False):
        callback.on_fit_start("trainer", "module")
        for i in range(steps):
            assert callback.on_train_batch_start("trainer", "module", "batch", i) is None
            pitot.mark(str(len(marks)))
            marks.append(1)
            if fails and i == steps - 1:
                return callback.on_exception("trainer", "module", ValueError())
            assert callback.on_train_batch_end("trainer", "module", "outputs", "batch", i) is None
        callback.on_train_end("trainer", "module")

    sys.modules["transformers"] = types.SimpleNamespace(TrainerCallback=Base)
    sys.modules["pytorch_lightning"] = types.SimpleNamespace(Callback=Base)
"""


def test_callbacks_of_frameworks(run, spans, tmp_path):
    """A fake of their loops; a second training goes on where the first one's cycle was."""
    said = run(FRAMEWORKS + """
    said = []
    for name, train in ("transformers", train_transformers), ("lightning", train_lightning):
        marks = []
        callback = getattr(pitot.callbacks, name)(wait=1, active=2, path=name + ".pitot")
        with pitot.record(name + "-whole.pitot"):
            train(callback, 5)
            train(callback, 3)
        said.append([os.path.basename(rec.path) for rec in callback.schedule.recordings])
    marks = []
    callback = pitot.callbacks.lightning(wait=1, active=5, repeat=1, path="failed.pitot")
    train_lightning(callback, 3, fails=True)
    said.append([repr(rec)[-8:] for rec in callback.schedule.recordings])
    try:
        pitot.callbacks.transformers(activ=3)
    except TypeError as e:
        said.append(str(e))
    print(json.dumps(said))
    """)
    assert said[:2] == [[f"{name}-{i}.pitot" for i in (1, 2, 3)] for name in ("transformers", "lightning")]
    for name in "transformers", "lightning":
        assert spans(tmp_path / f"{name}-whole.pitot") == " ".join(f"step( {i} )" for i in range(8))
        for number, marks in (1, "12"), (2, "4"), (3, "7"):
            assert spans(tmp_path / f"{name}-{number}.pitot") == " ".join(f"step( {mark} )" for mark in marks)
            assert state(tmp_path / f"{name}-{number}.pitot") == "ended"
    assert said[2] == [", ended>"] and spans(tmp_path / "failed.pitot") == "step( 1 ) step( 2 )"
    assert "activ" in said[3]


# --- torch ---

# What watch() uses of torch.nn.Module, with torch's names and torch's order of calls: torch is not installed everywhere.
MODULE = """
    class Handle:
        def __init__(self, hooks, hook):
            self.hooks, self.hook = hooks, hook
            hooks.append(hook)
        def remove(self):
            self.hooks.remove(self.hook)

    class Module:
        def __init__(self, forward=lambda x: x, **children):
            self.own, self.children, self.hooks = forward, children, {name: [] for name in ("pre", "post", "back", "backed")}
        def named_modules(self, prefix=""):
            yield prefix, self
            for name, child in self.children.items():
                yield from child.named_modules(prefix + "." * bool(prefix) + name)
        def register_forward_pre_hook(self, hook):
            return Handle(self.hooks["pre"], hook)
        def register_forward_hook(self, hook, *, always_call=False):
            assert always_call
            return Handle(self.hooks["post"], hook)
        def register_full_backward_pre_hook(self, hook):
            return Handle(self.hooks["back"], hook)
        def register_full_backward_hook(self, hook):
            return Handle(self.hooks["backed"], hook)
        def count(self):
            return sum(map(len, self.hooks.values())) + sum(child.count() for child in self.children.values())
        def __call__(self, x):
            for hook in self.hooks["pre"]:
                assert hook(self, (x,)) is None
            try:
                for child in self.children.values():
                    x = child(x)
                return self.own(x)
            finally:
                for hook in self.hooks["post"]:
                    assert hook(self, (x,), x) is None
        def backward(self, skip=()):
            for hook in self.hooks["back"]:
                assert hook(self, (1,)) is None
            for child in reversed(list(self.children.values())):
                child.backward(skip)
            if self not in skip:
                for hook in self.hooks["backed"]:
                    assert hook(self, (1,), (1,)) is None

    class Net(Module):
        pass
"""


@SOME
def test_watch_a_model(run, spans, tmp_path, python):
    """A fake of torch's modules, for machines and interpreters without it."""
    said = run(MODULE + """
    last = Module(lambda x: 1 // x)
    conv = Module()
    net = Net(layer=Module(conv=conv), last=last)
    with pitot.record("forward.pitot"):
        handle = pitot.torch.watch(net)
        hooks = [net.count()]
        net(1)
        try:
            net(0)
        except ZeroDivisionError:
            pitot.mark("raised")
        handle.remove()
        handle.remove()
        hooks.append(net.count())
        net(1)
    with pitot.record("backward.pitot"):
        with pitot.torch.watch(net, backward=True):
            hooks.append(net.count())
            net.backward()
            net.backward(skip=[conv, net])
            net.backward()
    del Module.register_full_backward_hook
    try:
        pitot.torch.watch(net, backward=True)
    except AttributeError:
        hooks.append(net.count())
    print(json.dumps([hooks, "torch" in sys.modules]))
    """, python)
    assert said == [[8, 0, 16, 0], False]
    forward = "Net( layer( layer.conv( ) ) last( ) )"
    assert spans(tmp_path / "forward.pitot") == f"{forward} {forward} raised"
    backward = "Net backward( last backward( ) layer backward( layer.conv backward( ) ) )"
    # A gradient that nobody needs: the module's end is that of what is around it, or the next step's begin.
    assert spans(tmp_path / "backward.pitot") == f"{backward} {backward} {backward}"


def test_watch_a_model_of_torch(run, spans, tmp_path):
    pytest.importorskip("torch")
    run("""
    import torch, warnings
    warnings.simplefilter("ignore")
    layer = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    net = torch.nn.Sequential(layer, torch.nn.Linear(4, 1))
    with pitot.record("a.pitot"), pitot.torch.watch(net, backward=True):
        for needs_gradient in True, False:
            net(torch.randn(2, 4, requires_grad=needs_gradient)).sum().backward()
        try:
            net(torch.randn(2, 5))
        except RuntimeError:
            pitot.mark("raised")
    with pitot.record("b.pitot"):
        net(torch.randn(2, 4)).sum().backward()
    """)
    name = "Sequential"
    forward = f"{name}( 0( 0.0( ) 0.1( ) ) 1( ) )"
    backward = f"{name} backward( 1 backward( ) 0 backward( 0.1 backward( ) 0.0 backward( ) ) )"
    # Without a gradient of its inputs torch has a module's end right behind its begin.
    inputs = f"{name} backward( ) 1 backward( ) 0 backward( ) 0.1 backward( ) 0.0 backward( )"
    assert spans(tmp_path / "a.pitot") == f"{forward} {backward} {forward} {inputs} {name}( 0( 0.0( ) ) ) raised"
    assert spans(tmp_path / "b.pitot") == ""


def test_watch_an_old_torch(run, spans, tmp_path):
    """Before 2.0 a forward hook knows no always_call; an exception's scopes end with the next forward()."""
    run(MODULE + """
    Module.register_forward_hook = lambda self, hook: Handle(self.hooks["post"], hook)
    def call(self, x):
        for hook in self.hooks["pre"]:
            hook(self, (x,))
        for child in self.children.values():
            x = child(x)
        x = self.own(x)
        for hook in self.hooks["post"]:
            hook(self, (x,), x)
    Module.__call__ = call
    net = Net(a=Module(lambda x: 1 // x))
    with pitot.record("a.pitot"), pitot.torch.watch(net):
        try:
            net(0)
        except ZeroDivisionError:
            pass
        net(1)
    """)
    assert spans(tmp_path / "a.pitot") == "Net( a( ) ) Net( a( ) )"
