"""PyTorch: ``watch(model)`` makes scopes of modules and operators, ``memory()`` records its allocator."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import warnings

from pitot import _record
from pitot._read import Error
from pitot._recorder import Scope, _ended, _sessions, scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional

__all__ = ["Memory", "Watch", "memory", "watch"]


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


# --- memory ---


class Memory:
    """The history of PyTorch's caching allocator, from ``memory()`` until stop() or the end of a ``with`` block.

    It is added to every recording of this process that ends meanwhile, and to those that run at the end.
    """

    def __init__(self, max_entries: int) -> None:
        try:
            torch: Any = sys.modules["torch"]
            self._api, version = torch.cuda.memory, str(torch.__version__)
            observe = torch._C._cuda_attach_out_of_memory_observer
        except (KeyError, AttributeError):
            raise Error("torch is not loaded, or has no CUDA: import it before") from None
        try:
            self._api._record_memory_history(enabled="all", context="alloc", stacks="python", max_entries=max_entries)
        except (AttributeError, TypeError):
            raise Error(f"torch {version} has no history of memory with these arguments: it needs torch 2.1") from None
        self._pid = os.getpid()
        self._file: Optional[str] = None  # of the latest snapshot
        observe(self._out_of_memory)  # it cannot be detached
        _ended.append(self._add_to)
        atexit.register(self.stop)

    def _is_on(self) -> bool:
        return self._add_to in _ended and os.getpid() == self._pid

    def _out_of_memory(self, *_: Any) -> None:
        """Saves what there is, because the program may be killed before it ends."""
        if self._is_on():
            self._save()

    def _save(self) -> str:
        if self._file is None:
            import tempfile

            self._file = os.path.join(tempfile.mkdtemp(prefix="pitot-"), f"torch-{self._pid}.pickle")
        self.save(self._file)
        return self._file

    def save(self, path: str) -> None:
        """Writes a snapshot, for ``pitot import`` and pytorch.org/memory_viz."""
        import pickle

        with open(path, "wb") as file:
            pickle.dump(self._api._snapshot(), file)

    def _add_to(self, recording: Optional[str]) -> None:
        if recording is None or not self._is_on():
            return
        from pitot._notebook import run

        try:
            run("import", self._save(), "--into", recording, "--pid", str(self._pid))
        except (Error, OSError) as error:
            kept = f"; to add it later: pitot import {self._file} --into {recording}" if self._file else ""
            self._file = None  # stays
            warnings.warn(f"the memory of torch is not in the recording: {error}{kept}", RuntimeWarning, stacklevel=2)

    def stop(self) -> None:
        """Adds the history to the recordings that run, and ends it. Idempotent."""
        if not self._is_on():
            return
        for recording in [running.path for running in _sessions] + [os.environ.get("PITOT_RECORDING")]:
            self._add_to(recording)
        _ended.remove(self._add_to)
        atexit.unregister(self.stop)
        self._api._record_memory_history(enabled=None)
        if self._file:
            os.unlink(self._file)
            os.rmdir(os.path.dirname(self._file))

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


_memory: Optional[Memory] = None  # the latest


def memory(*, max_entries: int = 1_000_000) -> Memory:
    """Records all allocations of PyTorch's caching allocator, with the Python stacks that made them.

    Begin it before the first tensor on a GPU: then levels and peaks are those of torch.cuda.max_memory_allocated() and
    max_memory_reserved(). Of more than max_entries events the oldest are forgotten. The process's recordings have the
    memory afterwards, as kinds allocator_segment and allocator_block (``pitot report --memory``). At the end of a program
    that ran out of memory it is what there was; a program that is killed then leaves a snapshot in the folder for
    temporary files. While one runs, memory() returns it: a second history would count everything twice.
    """
    global _memory
    if _memory is None or not _memory._is_on():
        _memory = Memory(max_entries)
    return _memory
