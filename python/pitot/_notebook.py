"""``%load_ext pitot``: the magic ``%%pitot`` of IPython and notebooks."""

from __future__ import annotations

import ast
import shlex

from pitot._recorder import Report, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def load(shell: Any) -> None:
    def pitot(line: str, cell: str) -> Optional[Report]:
        """%%pitot [PATH] [SETTING=VALUE ...]: records the cell, and shows the report; the variable ``recording`` has it."""
        words = [word.partition("=") for word in shlex.split(line)]
        paths = [name for name, equals, _ in words if not equals]
        settings = {name: _value(value) for name, equals, value in words if equals}
        if len(paths) > 1:
            raise TypeError(f"one path, not {len(paths)}: {' '.join(paths)}")
        with record(*paths, **settings) as recording:
            result = shell.run_cell(cell)
        shell.user_ns["recording"] = recording
        return recording.report() if result.success and recording.path else None

    shell.register_magic_function(pitot, "cell", "pitot")
