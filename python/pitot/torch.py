"""Scopes for the modules and operators of a PyTorch model: ``pitot.torch.watch(model)``. Does not import torch."""

from __future__ import annotations

import sys
import threading
import warnings

from pitot import _record
from pitot._read import Error
from pitot._recorder import Scope, scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

__all__ = ["Watch", "watch"]


class _Hooks:
    """Begins and ends one module's scope, forward or backward. Calls of modules nest like scopes."""

    def __init__(self, open: threading.local, name: str, is_root: bool) -> None:
        self._open, self._scope, self._is_root = open, scope(name), is_root

    def begin(self, *_: Any) -> None:
        opened = self._open.__dict__.setdefault("scopes", [])
        if self._is_root:
            self._end_from(opened, 0)  # left open by an exception or an unneeded gradient
        opened.append(self._scope)
        self._scope.__enter__()

    def end(self, *_: Any) -> None:
        opened = self._open.__dict__.get("scopes", [])
        if self._scope in opened:
            self._end_from(opened, len(opened) - 1 - opened[::-1].index(self._scope))

    @staticmethod
    def _end_from(opened: list[Scope], first: int) -> None:
        for inner in reversed(opened[first:]):
            inner.__exit__(None, None, None)
        del opened[first:]


class _Operators:
    """Scopes of operators, in the whole process, until remove()."""

    def __init__(self) -> None:
        try:
            torch: Any = sys.modules["torch"]
            version, path = str(torch.__version__), torch._C.__file__
        except (KeyError, AttributeError):
            raise Error("torch is not loaded") from None
        if version.partition(".")[0] != "2":  # its C++ functions could expect something else
            raise Error(f"only the observers of torch 2 are known, not those of {version}")
        if reason := _record.watch_operators(path):
            raise Error(reason)

    def remove(self) -> None:
        _record.unwatch_operators()


class Watch:
    """The hooks of ``watch()``, active until remove() or the end of a ``with`` block."""

    def __init__(self, handles: list[Any]) -> None:
        self._handles = handles

    def remove(self) -> None:
        """Removes all hooks from the model. Idempotent."""
        while self._handles:
            self._handles.pop().remove()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def _always(register: Callable[..., Any], hook: Callable[..., None]) -> Any:
    """Registers a hook that torch from 2.0 on also calls when forward() raises."""
    try:
        return register(hook, always_call=True)
    except TypeError:
        return register(hook)


def watch(model: Any, *, backward: bool = False, operators: bool = False) -> Watch:
    """Makes a scope of each module's forward(), named by its path ("layer1.0.conv1"), or by its class for the model itself.

    With ``operators`` torch's operators are scopes, too ("aten::addmm", and gradients: "AddmmBackward0"), on all threads of
    the process. Each costs the host about 0.7 us. If that is not possible, it is a RuntimeWarning.

    With ``backward`` gradients of modules have scopes, too ("layer1.0.conv1 backward"). That needs torch's full backward
    hooks, which raise if a module's output is modified in place, for example by a following ``ReLU(inplace=True)``.
    """
    watch, forward, gradients = Watch([]), threading.local(), threading.local()
    try:
        for path, module in model.named_modules():
            name = path or type(model).__name__
            hooks = _Hooks(forward, name, not path)
            watch._handles.append(module.register_forward_pre_hook(hooks.begin))
            watch._handles.append(_always(module.register_forward_hook, hooks.end))
            if backward:
                hooks = _Hooks(gradients, f"{name} backward", not path)
                watch._handles.append(module.register_full_backward_pre_hook(hooks.begin))
                watch._handles.append(module.register_full_backward_hook(hooks.end))
        if operators:
            try:
                watch._handles.append(_Operators())
            except Error as error:
                warnings.warn(f"operators have no scopes: {error}", RuntimeWarning, stacklevel=2)
    except BaseException:
        watch.remove()
        raise
    return watch
