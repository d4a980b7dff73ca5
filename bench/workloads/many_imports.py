"""Imports 400 modules from source: code objects of modules and classes exist only during the import."""
import importlib
import sys
import tempfile
from pathlib import Path

COUNT = 400

sys.dont_write_bytecode = True
with tempfile.TemporaryDirectory() as folder:
    sys.path.insert(0, folder)
    for i in range(COUNT):
        methods = "".join(f"    def method{j}(self, x):\n        return [y * {j} for y in range(x)]\n" for j in range(12))
        Path(folder, f"module{i}.py").write_text(
            f"class Class{i}:\n{methods}    table = {{k: [k] * 3 for k in range(2000)}}\n"
            f"x = 0\nfor k in range(3000):\n    x += k * k\nlists = [Class{i}().method3(n) for n in range(60)]\n")
    for i in range(COUNT):
        importlib.import_module(f"module{i}")
