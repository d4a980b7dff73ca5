"""Types of the extension module: python/read_module.c."""

from __future__ import annotations

from os import PathLike
from typing import Optional, Tuple, Union

version: str

def check_interpreter() -> None: ...

class Error(Exception): ...
class FileError(Error, OSError): ...
class FormatError(Error): ...
class UsageError(Error, ValueError): ...

Texts = Optional[Tuple[bytes, ...]]

class Recording:
    def __new__(cls, path: Union[str, PathLike[str]]) -> Recording: ...
    def span(self) -> tuple[int, int, int]: ...
    def tables(self) -> list[tuple[str, str, int]]: ...
    def schema(self, table: bytes, columns: Texts, conditions: Texts, since_ns: int, until_ns: int) -> object: ...
    def stream(self, table: bytes, columns: Texts, conditions: Texts, since_ns: int, until_ns: int) -> object: ...
    def sql(self, statement: bytes, check: bool) -> object: ...
    def columns(
        self, table: bytes, columns: Texts, conditions: Texts, since_ns: int, until_ns: int
    ) -> dict[str, dict[str, str]]: ...
    def follow(self, table: bytes) -> Recording: ...
    def report(
        self,
        since_ns: int,
        until_ns: int,
        pid: int,
        device: int,
        stream: int,
        kernel: Optional[str],
        scope: Optional[str],
        by: Optional[str],
        scopes: bool,
        stalls: bool,
    ) -> str: ...
    def export(
        self,
        path: Union[str, PathLike[str]],
        format: Optional[str],
        since_ns: int,
        until_ns: int,
        kernel: Optional[str],
        overwrite: bool,
    ) -> int: ...
