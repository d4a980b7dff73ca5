"""The CPythons of this machine, for tests of Python frames.

Found are the one that runs the tests, those on PATH, in /usr/bin, of pyenv and uv, and what `tools/get-pythons` put into
~/.cache/pitot/pythons. PITOT_PYTHONS names more, separated by colons: interpreters, or folders that have some in */bin.
"""
import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from waiting import PATIENCE

# Of an interpreter, by itself.
ABOUT = """
import json, os, sys, sysconfig
v = sysconfig.get_config_vars()
library = os.path.join(v.get("LIBDIR") or "", v.get("LDLIBRARY") or "")
if not os.path.isfile(library) or ".so" not in library:
    library = os.path.join(v.get("LIBDIR") or "", v.get("MULTIARCH") or "", v.get("INSTSONAME") or "")
jit = getattr(sys, "_jit", None)
print(json.dumps({"version": sys.version_info[:2], "full": sys.version.split()[0], "path": sys.executable,
                  "library": library if os.path.isfile(library) and ".so" in library else None,
                  "include": sysconfig.get_path("include"), "suffix": v.get("EXT_SUFFIX"), "kind": sys.implementation.name, "debug": hasattr(sys, "gettotalrefcount"),
                  "free_threaded": bool(v.get("Py_GIL_DISABLED")), "jit": bool(jit and jit.is_available())}))
"""

NAME = re.compile(r"python3(\.\d+)?t?d?")


def about(path):
    try:
        result = subprocess.run([path, "-c", ABOUT], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return json.loads(result.stdout) if result.returncode == 0 else None


def in_folder(folder):
    return [path for path in sorted(Path(folder).glob("python3*")) if NAME.fullmatch(path.name)]


def identity(path):
    status = os.stat(path)
    return status.st_dev, status.st_ino


def candidates():
    home, cache = Path.home(), os.environ.get("XDG_CACHE_HOME")
    yield Path(sys.executable)
    for name in filter(None, os.environ.get("PITOT_PYTHONS", "").split(":")):
        path = Path(name).absolute()
        yield from in_folder(path) + in_folder(path / "bin") if path.is_dir() else [path]
        for pattern in ("*/bin", "*/usr/bin"):
            for folder in sorted(path.glob(pattern)):
                yield from in_folder(folder)
    for folder in ["/usr/bin", *os.environ.get("PATH", "").split(":")]:
        if folder and "shims" not in folder:
            yield from in_folder(folder)
    for pattern in (f"{os.environ.get('PYENV_ROOT') or home / '.pyenv'}/versions/*/bin", f"{home}/.local/share/uv/python/*/bin",
                    f"{cache or home / '.cache'}/pitot/pythons/*/bin", f"{cache or home / '.cache'}/pitot/pythons/*/usr/bin"):
        for folder in sorted(Path("/").glob(pattern.lstrip("/"))):
            yield from in_folder(folder)


@functools.lru_cache(maxsize=None)
def interpreters():
    """Facts of each CPython from 3.8 on, once; not of its virtual environments."""
    tried, found = set(), {}
    for path in candidates():
        if not path.exists() or identity(path) in tried:
            continue
        tried.add(identity(path))
        facts = about(path)
        if facts and facts["kind"] == "cpython" and facts["version"] >= [3, 8]:
            found.setdefault(identity(facts["path"]), {**facts, "path": os.path.realpath(path), "environment": {}})
    return sorted(found.values(), key=lambda f: (f["version"], f["full"], f["path"]))


def is_known(facts):
    """Whether its frames are."""
    return [3, 9] <= facts["version"] <= [3, 15] and not facts["debug"]


def with_jit(facts):
    """Each interpreter as it is, and those that have a JIT compiler with that too."""
    return [variant for one in facts
            for variant in [one, *([{**one, "environment": {"PYTHON_JIT": "1"}}] if one["jit"] else [])]]


def some(facts):
    """The oldest, the newest and those that have something of their own, where another test has each; PITOT_LONG_TESTS=1: all."""
    facts = list(facts)
    ordinary = [one for one in facts if not one["free_threaded"] and not one["environment"]]
    if os.environ.get("PITOT_LONG_TESTS"):
        return facts
    return [one for one in facts if one not in ordinary[1:-1]]


def label(facts):
    """For names of tests: version, kind, where it is from."""
    parts = Path(facts["path"]).parts
    place = next((part for part in reversed(parts[:-1]) if part not in ("bin", "usr", "/")), "usr")
    return "-".join(filter(None, [facts["full"] + ("t" if facts["free_threaded"] else "") + ("d" if facts["debug"] else ""),
                                  "jit" if facts["environment"] else "", place if place != facts["full"] else ""]))
