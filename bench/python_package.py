"""Where the Python package of a build is, for programs that import pitot in another interpreter."""
import os
import pathlib
import subprocess
import sys


def find_package(build, python=sys.executable):
    """The folder for PYTHONPATH: PITOT_PYTHON or BUILD/python. None, and why not, where the interpreter cannot import pitot from it."""
    folder = pathlib.Path(os.environ.get("PITOT_PYTHON") or pathlib.Path(build) / "python").resolve()
    if (folder / "pitot").is_dir():
        done = subprocess.run([python, "-c", "import pitot._read, pitot._record"], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(folder)})
        if done.returncode == 0:
            return folder, None
        reason = f"'{python}' cannot import pitot from '{folder}': {(done.stderr.strip() or 'it failed').splitlines()[-1]}"
    else:
        reason = f"there is no '{folder / 'pitot'}', the Python package of the build"
    return None, (f"{reason}. `cmake --build BUILD --target python_package` makes BUILD/python (needs Python.h); beside copied programs it has to be copied "
                  "with `cp -rL`, because it has links, or named: PITOT_PYTHON=FOLDER, which has pitot/")


def need_package(build):
    """As find_package, or ends the program."""
    folder, reason = find_package(build)
    if not folder:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {reason}")
    return folder
