"""Reports, flame graphs and timelines as pages in a notebook, and ``%load_ext pitot``: ``%%pitot``, ``%pitot_flame``."""

from __future__ import annotations

import ast
import html
import os
import shlex
import subprocess

from pitot._read import Error, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional, Union

    from pitot._recorder import Report

    Path = Union[str, os.PathLike[str]]

CPU_HZ = 99  # samples per second of CPU time in %%pitot
FLAME_MODES = ("merged", "gpu", "cpu", "wait", "launches", "memory")


def run(command: str, *words: Path, verdict: bool = False) -> str:
    """Runs a command of pitot and returns its output; verdict: status 1 with output is a result."""
    from pitot.__main__ import program

    done = subprocess.run(
        [program(), command, *words], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace"
    )
    if done.returncode != 0 and not (verdict and done.returncode == 1 and done.stdout):
        raise Error(done.stderr.strip().replace(f"pitot {command}: error: ", "", 1))
    return done.stdout


class Page:
    """A self-contained HTML page, which a notebook displays. ``html`` is its text."""

    def __init__(self, text: str, what: str, height: int) -> None:
        self.html, self._what, self._height = text, what, height

    def __repr__(self) -> str:
        return f"<pitot.Page {self._what}: a notebook shows it; its text is .html>"

    def _repr_html_(self) -> str:
        """In a sandboxed frame, so that styles and names from the recording cannot affect the notebook."""
        style = f"width: 100%; height: {self._height}px; border: 1px solid #8884; border-radius: 6px; resize: vertical"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{html.escape(self.html)}"></iframe>'


def report_page(path: Path, words: tuple[str, ...] = ()) -> Page:
    return Page(run("report", "-o", "-", *words, path), f"report of {path}", 640)


def flame_page(path: Path, mode: Optional[str]) -> Page:
    if mode is not None and mode not in FLAME_MODES:
        raise UsageError(f"unknown flame graph '{mode}': choose one of {', '.join(FLAME_MODES)}")
    return Page(run("flame", "-o", "-", "--format=html", f"--mode={mode or 'merged'}", path), f"flame graph of {path}", 640)


def timeline_page(path: Path, words: tuple[str, ...] = ()) -> Page:
    return Page(run("export", "-o", "-", "--format=html", *words, path), f"timeline of {path}", 760)


class Analysis(dict[str, "Any"]):
    """The output of ``pitot report --json``. Interpreters display ``pitot report``, notebooks its page."""

    def __init__(self, values: dict[str, Any], path: Path, words: tuple[str, ...]) -> None:
        super().__init__(values)
        self._path, self._words = path, words

    def __repr__(self) -> str:
        try:
            return run("report", "--no-pager", *self._words, self._path)
        except (Error, OSError):  # the recording or the program is missing
            return super().__repr__()

    def _repr_html_(self) -> Optional[str]:
        try:
            return report_page(self._path, self._words)._repr_html_()
        except (Error, OSError):
            return None


class Memory(Analysis):
    """Memory by kind, its owners, leaks and calls in steps, of ``pitot report --memory``."""

    def __init__(self, path: Path) -> None:
        import json

        report = json.loads(run("report", "--memory", "--json", path))
        values = {"kinds": report["memory"], **report["memory_peak"], **report["memory_steps"]}
        super().__init__(values, path, ("--memory",))


class Comparison(dict[str, "Any"]):
    """The output of ``pitot diff --json``. Interpreters and notebooks display its tables."""

    def __init__(self, words: list[Path]) -> None:
        import json

        self._words = words
        super().__init__(json.loads(run("diff", "--json", *self._words, verdict=True)))

    def __repr__(self) -> str:
        try:
            return run("diff", *self._words, verdict=True)
        except (Error, OSError):  # a recording was removed
            return super().__repr__()

    def _repr_html_(self) -> str:
        return f'<pre style="line-height: 1.2">{html.escape(repr(self))}</pre>'


def _for_notebooks(text: str) -> str:
    """Replaces advice for the command line by what helps in a cell."""
    what = text.partition("\n")[0].replace("`pitot flame --mode ", "`%pitot_flame ")
    return what.replace("`pitot record --cpu` takes them", f"`%%pitot cpu={CPU_HZ}` takes them")


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def load(shell: Any) -> None:
    from pitot._recorder import record

    def pitot(line: str, cell: str) -> Optional[Report]:
        """%%pitot [PATH] [SETTING=VALUE ...]: records the cell into the variable ``recording``, and shows the report.

        With CPU samples; cpu=0 for none.
        """
        words = [word.partition("=") for word in shlex.split(line)]
        paths = [name for name, equals, _ in words if not equals]
        settings = {name: _value(value) for name, equals, value in words if equals}
        if len(paths) > 1:
            raise TypeError(f"expected one path, not {len(paths)}: {' '.join(paths)}")
        settings.setdefault("cpu", CPU_HZ)
        with record(*paths, **settings) as recording:
            result = shell.run_cell(cell)
        shell.user_ns["recording"] = recording
        return recording.report() if result.success and recording.path else None

    def pitot_flame(line: str) -> Optional[Page]:
        """%pitot_flame [MODE] [PATH]: the flame graph of the last recording of %%pitot, or of another one."""
        words = shlex.split(line)
        mode = words.pop(0) if words and words[0] in FLAME_MODES else None
        if len(words) > 1:
            raise TypeError(f"expected a mode ({', '.join(FLAME_MODES)}) and one path, not {line}")
        path = words[0] if words else getattr(shell.user_ns.get("recording"), "path", None)
        if path is None:
            raise UsageError("nothing was recorded: record a cell with %%pitot, or name a recording")
        try:
            return flame_page(path, mode)
        except Error as e:
            print(f"%pitot_flame: {_for_notebooks(str(e))}")
            return None

    shell.register_magic_function(pitot, "cell", "pitot")
    shell.register_magic_function(pitot_flame, "line", "pitot_flame")
