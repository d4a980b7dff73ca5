"""Reports, flame graphs, timelines and recorded cells in notebooks: what a notebook is given is the page of the command, and nothing of it gets out."""
import html
import json
import re

import pytest

from package_pythons import state


@pytest.fixture(scope="module")
def train(make_recording, tmp_path_factory):
    return make_recording(tmp_path_factory.mktemp("notebook") / "train.pitot", kernels=2000, stacks=20)


def page_in(markup):
    """The page inside of the frame, which is all that there is and cannot reach the notebook."""
    [text] = re.fullmatch(r'<iframe sandbox="allow-scripts" style="[^"<>]*" srcdoc="([^"]*)"></iframe>', markup, re.S).groups()
    return html.unescape(text)


def shown(run, recording, expression):
    """repr, what a notebook shows, and .html, of an expression with the recording `r`."""
    code = f"r = pitot.open({str(recording)!r}); x = {expression}; print(json.dumps([repr(x), x._repr_html_(), getattr(x, 'html', None)]))"
    text, markup, own = run(code)
    return text, page_in(markup), own


def test_the_report(run, pitot, train):
    text, page, _ = shown(run, train, "r.report()")
    assert text == pitot("report", train).stdout and page == pitot("report", train, "-o", "-").stdout
    options = ["--since=1ms", "--until=5ms", "--by=stream", "--kernel=*gemm*", "--device=0"]
    text, page, _ = shown(run, train, "r.report(since=0.001, until=0.005, by='stream', kernel='*gemm*', device=0)")
    assert text == pitot("report", train, *options).stdout and page == pitot("report", train, *options, "-o", "-").stdout
    assert "kernels matching &#39;*gemm*&#39;" in page


def test_the_report_is_a_dict(run, pitot, train):
    assert run(f"r = pitot.open({str(train)!r}); print(json.dumps(r.report()))") == pitot("report", train, "--json", json_output=True)


@pytest.mark.parametrize("call, options", [
    ("flame()", ["flame", "--format", "html", "--mode", "merged"]), ("flame('gpu')", ["flame", "--format", "html", "--mode", "gpu"]),
    ("timeline()", ["export", "--format", "html"]),
    ("timeline(since=0.001, until=0.004, kernel='*gemm*')",
     ["export", "--format", "html", "--since", "1ms", "--until", "4ms", "--kernel", "*gemm*"])])
def test_pages(run, pitot, train, call, options):
    text, page, own = shown(run, train, f"r.{call}")
    assert page == own == pitot(*options, "-o", "-", train).stdout
    assert text == f"<pitot.Page {'flame graph' if 'flame' in call else 'timeline'} of {train}: a notebook shows it; its text is .html>"


def test_a_recording_of_this_process(run, tmp_path):
    """While it runs, too."""
    pages = run("""
        sys.ps1 = ">>> "
        with pitot.record("a.pitot") as rec:
            with pitot.scope("first"):
                pass
            pages = [rec.timeline().html, rec.report()._repr_html_()]
        print(json.dumps([*pages, rec.timeline().html]))
        """)
    assert all("first" in page for page in pages)


def test_mistakes_in_magics_and_lost_recordings(run, train):
    """A mistake is said; where the recording is gone, what was read is shown as it is."""
    said = run(f"""
        import shutil
        said, sys.ps1 = [], ">>> "
        shutil.copytree({str(train)!r}, "gone.pitot")
        report = pitot.open("gone.pitot").report()
        with pitot.record("own.pitot") as rec:
            pass
        own = rec.report()
        shutil.rmtree("gone.pitot")
        shutil.rmtree("own.pitot")
        r = pitot.open({str(train)!r})
        for call in (lambda: r.flame("disk"), lambda: r.flame("cpu"), lambda: r.timeline(since=1000)):
            try:
                call()
            except pitot.Error as e:
                said.append(str(e))
        print(json.dumps([*said, repr(report) == repr(dict(report)), report._repr_html_(), own._repr_html_()[:4]]))
        """)
    *said, same, markup, own = said
    assert said[0] == "unknown flame graph 'disk': choose one of merged, gpu, cpu, wait, launches, memory"
    assert said[1].startswith("nothing to show: the recording has no CPU time") and "no event starts between" in said[2]
    assert same and markup is None and own == "<pre"


# --- cells ---

# What the magic uses of IPython, which is not installed everywhere.
SHELL = """
    class Result:
        success = True
    class Shell:
        def __init__(self):
            self.user_ns, self.magics = {"pitot": pitot}, {}
        def register_magic_function(self, function, kind, name):
            self.magics[kind, name] = function
        def run_cell_magic(self, name, line, cell):
            return self.magics["cell", name](line, cell)
        def run_line_magic(self, name, line):
            return self.magics["line", name](line)
        def run_cell(self, cell):
            result = Result()
            try:
                exec(cell, self.user_ns)
            except ZeroDivisionError:
                result.success = False
            return result
    shell = Shell()
    pitot.load_ipython_extension(shell)
"""
IPYTHON = """
    os.environ["IPYTHONDIR"] = os.getcwd()
    from IPython.core.interactiveshell import InteractiveShell
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "pitot")
    shell.user_ns["pitot"] = pitot
"""


@pytest.mark.parametrize("shell", [SHELL, IPYTHON], ids=["fake", "ipython"])
def test_a_cell_is_recorded(run, spans, tmp_path, shell, make_recording, pitot):
    make_recording(tmp_path / "train.pitot", kernels=500, stacks=5)
    if shell == IPYTHON:
        pytest.importorskip("IPython")
    run(shell + """
    import contextlib, io
    sys.ps1 = "In: "
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        said = [shell.run_cell_magic("pitot", "'a b.pitot' app_name=cell sync=True stacks=none", 'with pitot.scope("x"): y = 3\\n')]
        said += [shell.user_ns["y"], shell.user_ns["recording"].path, shell.run_cell_magic("pitot", "c.pitot", "1 / 0\\n")]
    for line in "a b", "stcks=all":
        try:
            shell.run_cell_magic("pitot", line, "pass")
        except TypeError as e:
            said.append(str(e))
    with contextlib.redirect_stdout(out):
        nothing = shell.run_line_magic("pitot_flame", "cpu train.pitot")
    assert nothing is None and out.getvalue().count("\\n") == 1, out.getvalue()
    for word in "no CPU time", "`%pitot_flame gpu`", "`%%pitot cpu=99`":
        assert word in out.getvalue(), out.getvalue()
    pages = [shell.run_line_magic("pitot_flame", "gpu train.pitot").html]
    shell.user_ns["recording"] = pitot.open("train.pitot")
    pages += [shell.run_line_magic("pitot_flame", line).html for line in ("gpu", "")]
    del shell.user_ns["recording"]
    for line in "gpu", "gpu a b":
        try:
            shell.run_line_magic("pitot_flame", line)
        except (TypeError, pitot.UsageError) as e:
            said.append(str(e))
    with open("said", "w") as file:
        json.dump([said[0]._repr_html_(), *said[1:], pages], file)
    """)
    said = json.loads((tmp_path / "said").read_text())
    assert said[0].startswith("<iframe") and "scopes" in said[0]
    assert said[1:] == [3, str(tmp_path / "a b.pitot"), None, "expected one path, not 2: a b",
                        "a recording has no setting 'stcks', did you mean 'stacks'?",
                        "nothing was recorded: record a cell with %%pitot, or name a recording",
                        "expected a mode (merged, gpu, cpu, wait, launches, memory) and one path, not gpu a b",
                        [pitot("flame", path, "-o", "-", "--format", "html", *mode).stdout
                         for path, *mode in (("train.pitot", "-mgpu"), (tmp_path / "train.pitot", "-mgpu"), (tmp_path / "train.pitot",))]]
    assert spans(tmp_path / "a b.pitot") == "x( )" and state(tmp_path / "c.pitot") == "ended"
    written = json.loads((tmp_path / "a b.pitot/recording.json").read_text())
    assert "cpu=99" in written["options"]
    assert written["name"] == "cell" and "sync=1" in written["options"] and "stacks=none" in written["options"]
