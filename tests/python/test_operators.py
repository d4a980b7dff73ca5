"""Scopes of torch's operators: pitot.torch.watch(model, operators=True)."""
import json
import shutil
import subprocess

import pytest

from package_pythons import SOME

# What Pitot uses of libtorch, with torch's symbols, layout of at::RecordFunctionCallback and order of calls.
LIBRARY = """
    #include <stdbool.h>
    #include <stdint.h>
    #include <string.h>

    struct function { const char *name; };
    struct observer {
        void **(*start)(void **context, const struct function *f);
        void (*end)(const struct function *f, void *context);
        double probability;
        bool kinds[10], needs_inputs, needs_outputs, needs_ids;
    };
    static struct observer now;
    static uint64_t handles;
    int observers;

    uint64_t add(struct observer o) __asm__("_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE");
    uint64_t add(struct observer o)
    {
        static const bool kinds[10] = { true, true };

        if (o.probability != 1 || o.needs_inputs || o.needs_outputs || o.needs_ids || memcmp(o.kinds, kinds, sizeof(kinds)))
            __builtin_trap();
        now = o;
        observers++;
        return ++handles;
    }

    void drop(uint64_t handle) __asm__("_ZN2at14removeCallbackEm");
    void drop(uint64_t handle)
    {
        observers -= handle == handles;
    }

    const char *name_of(const struct function *f) __asm__("_ZNK2at14RecordFunction4nameEv");
    const char *name_of(const struct function *f)
    {
        return f->name;
    }

    void operator_runs(const char *name, void (*body)(void))
    {
        struct function f = { name };
        struct observer o = now;
        bool is_observed = observers;
        void *context = &f;

        if (is_observed && (o.start(&context, &f) != &context || context))
            __builtin_trap();
        if (body)
            body();
        if (is_observed)
            o.end(&f, context);
    }
"""

PROGRAM = """
    import ctypes, threading, types, warnings

    path = os.environ.get("FAKE_TORCH", "")
    libtorch = ctypes.CDLL(path) if path else None

    def operator(name, body=None):
        body = ctypes.CFUNCTYPE(None)(body or (lambda: None))
        libtorch.operator_runs(name.encode(), body)

    def observers():
        return ctypes.c_int.in_dll(libtorch, "observers").value

    class Model:
        '''Hooks are called by forward() alone.'''
        def named_modules(self):
            yield "", self
            yield "encoder.attention", self
        def register_forward_pre_hook(self, hook):
            self.begin = hook
            return types.SimpleNamespace(remove=lambda: None)
        def register_forward_hook(self, hook, always_call):
            self.end = hook
            return types.SimpleNamespace(remove=lambda: None)
        def forward(self, body):
            self.begin()
            body()
            self.end()

    model = Model()
    sys.modules["torch"] = types.SimpleNamespace(__version__="2.14.1+cu130", _C=types.SimpleNamespace(__file__=path))
"""


@pytest.fixture
def torch(shared_folder):
    """A variable for PROGRAM."""
    if not shutil.which("cc"):
        pytest.skip("no compiler")

    def compile(folder):
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", folder / "libfake.so"], input=LIBRARY, text=True, check=True)

    return {"FAKE_TORCH": str(shared_folder("fake-torch", compile) / "libfake.so")}


@SOME
def test_operators_are_scopes(run, spans, torch, tmp_path, python):
    """Those with work, nested in modules and in each other, on all threads, while anybody watches."""
    said = run(PROGRAM + """
    def linear():
        operator("aten::t", lambda: operator("aten::as_strided"))
        operator("aten::addmm", lambda: operator("aten::expand"))
    def backward():
        model.begin()  # a hook of a module, in autograd's own range
    said = [observers()]
    with pitot.record("a.pitot"):
        with pitot.torch.watch(model, operators=True):
            said.append(observers())
            model.forward(lambda: operator("aten::linear", linear))
            operator("autograd::engine::evaluate_function: A", backward)
            operator("AddmmBackward0", lambda: operator("aten::mm"))
            operator("autograd::engine::evaluate_function: B", model.end)
        operator("aten::after")
    with pitot.record("b.pitot"):
        two = [pitot.torch.watch(model, operators=True) for i in range(2)]
        thread = threading.Thread(target=operator, args=("aten::mul",))
        thread.start()
        thread.join()
        two[0].remove()
        two[0].remove()
        said.append(observers())
        operator("aten::add", two[1].remove)
        operator("aten::after")
        said.append(observers())
    with pitot.torch.watch(model):
        said.append(observers())
    del Model.register_forward_hook
    try:
        pitot.torch.watch(model, operators=True)
    except AttributeError:
        said.append(observers())
    print(json.dumps(said))
    """, python, **torch)
    assert said == [0, 1, 1, 0, 0, 0]
    module = "encoder.attention"
    assert spans(tmp_path / "a.pitot") == f"{module}( aten::linear( aten::addmm( ) ) ) {module}( AddmmBackward0( aten::mm( ) ) )"
    assert spans(tmp_path / "b.pitot") == "aten::mul( ) aten::add( )"


@SOME
def test_a_torch_without_operators(run, torch, tmp_path, python):
    said = run(PROGRAM + """
    def warnings_of(**keywords):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            pitot.torch.watch(model, **keywords).remove()
        return [[w.category.__name__, str(w.message), os.path.basename(w.filename)] for w in seen]
    said = [warnings_of(operators=True), warnings_of()]
    sys.modules["torch"]._C.__file__ = pitot._record.__file__
    said += [warnings_of(operators=True), warnings_of()]
    sys.modules["torch"].__version__ = "3.0.0"
    said += [warnings_of(operators=True), warnings_of()]
    del sys.modules["torch"]
    said += [warnings_of(operators=True), warnings_of(), observers()]
    print(json.dumps(said))
    """, python, **torch)
    other, newer, missing = ([["RuntimeWarning", f"operators have no scopes: {reason}", "program.py"]] for reason in (
        "this version of torch has no observers of operators that Pitot knows", "only the observers of torch 2 are known, not those of 3.0.0",
        "torch is not loaded"))
    assert said == [[], [], other, [], newer, [], missing, [], 0]


def test_operators_at_the_ends_of_a_process(run, spans, torch, tmp_path):
    """A fork within an operator, an exception, and the interpreter's end while operators are watched."""
    said = run(PROGRAM + """
    def fork():
        if os.fork() == 0:
            operator("aten::child")
            os._exit(0)
        os.wait()
    pitot.start("a.pitot")
    pitot.torch.watch(model, operators=True)
    operator("aten::parent", fork)
    try:
        with pitot.torch.watch(model, operators=True):
            raise KeyError
    except KeyError:
        print(json.dumps(observers()))
    operator("aten::last")
    """, **torch)
    assert said == 1
    assert spans(tmp_path / "a.pitot") == "aten::parent( ) aten::last( )"


def test_launches_belong_to_operators(run, pitot, rows, torch, launcher, tmp_path):
    run(PROGRAM + """
    launch = ctypes.CDLL(os.environ["LAUNCHER"]).launch
    with pitot.record("a.pitot", stacks="none"), pitot.torch.watch(model, operators=True):
        model.forward(lambda: operator("aten::linear", lambda: operator("aten::addmm", launch)))
        operator("aten::mul", launch)
    """, **torch, **launcher)
    recording, within = tmp_path / "a.pitot", "encoder.attention/aten::linear/aten::addmm"
    assert [row["scope"] for row in rows(recording, "api_call", "--columns=scope")] == [within, "aten::mul"]
    scopes = json.loads(pitot("report", recording, "--scopes", "--json", "-q").stdout)["scopes"]["items"]
    assert [(scope["path"], scope["launches"]) for scope in scopes] == [
        ("encoder.attention", 1), ("encoder.attention/aten::linear", 1), (within, 1), ("aten::mul", 1)]
    selected = json.loads(pitot("report", recording, "--scope=*addmm", "--json", "-q").stdout)
    assert selected["launches"]["kernel_calls"]["count"] == 1
    pitot("flame", recording, "--by=scope", "--mode=launches", "-o", "a.folded", "-q")
    stacks = [line.partition(";[")[0] for line in (tmp_path / "a.folded").read_text().splitlines()]
    assert stacks == [within.replace("/", ";"), "aten::mul"]


def test_operators_of_torch(run, spans, tmp_path):
    """Results and torch.profiler are as without Pitot; autograd's and the program's threads have operators too."""
    pytest.importorskip("torch")
    said = run("""
    import threading, torch, warnings
    from torch.profiler import profile, record_function
    warnings.simplefilter("ignore")

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x * 2
        @staticmethod
        def backward(context, gradient):
            with pitot.scope("own"):
                return gradient * 2

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(4, 4)
            self.last = torch.nn.Linear(4, 1)
        def forward(self, x):
            return self.last(Twice.apply(torch.relu(self.first(x))))

    def train(**keywords):
        torch.manual_seed(0)
        net, x = Net(), torch.randn(3, 4, requires_grad=True)
        optimizer = torch.optim.Adam(net.parameters())
        watch = pitot.torch.watch(net, **keywords) if keywords else None
        with profile() as own, record_function("mine"):
            for i in range(3):
                optimizer.zero_grad()
                net(x).square().sum().backward()
                optimizer.step()
        if watch:
            watch.remove()
        counts = sorted((item.key, item.count) for item in own.key_averages())
        return [p.tolist() for p in net.parameters()], counts

    bare = train()
    with pitot.record("a.pitot"):
        same = [train(operators=True) == bare, train(backward=False)[0] == bare[0], train(backward=True, operators=True)[0] == bare[0]]
    net, x = Net(), torch.randn(3, 4)
    with pitot.record("b.pitot"), pitot.torch.watch(net, operators=True):
        thread = threading.Thread(target=net, args=(x,))
        thread.start()
        thread.join()
        try:
            net(torch.randn(3, 5))
        except RuntimeError:
            pitot.mark("raised")
        list(torch.utils.data.DataLoader([1.0, 2.0], num_workers=1))
        compiled = torch.compile(net, backend="aot_eager")
        same.append(torch.equal(compiled(x), net(x)))
        compiled(x).sum().backward()
    with pitot.record("c.pitot"):
        net(x)
    print(json.dumps(same))
    """)
    assert said == [True] * 4
    text = spans(tmp_path / "a.pitot")
    assert text.startswith("Net( first( aten::linear( aten::addmm( ") and "aten::relu( " in text and "aten::view" not in text
    assert "AddmmBackward0( aten::mm( " in text and "TwiceBackward( own( aten::mul( " in text
    assert "last backward( AddmmBackward0( " in text
    assert text.count("(") == text.count(")")
    text = spans(tmp_path / "b.pitot")
    assert text.startswith("Net( first( aten::linear( ")
    assert "aten::addmm( ) ) ) ) raised" in text  # each scope of the call that failed has ended
    assert "CompiledFunctionBackward( aten::" in text and "Torch-Compiled Region" not in text
    assert spans(tmp_path / "c.pitot") == ""
