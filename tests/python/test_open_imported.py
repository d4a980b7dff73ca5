"""pitot.open of what pitot import reads."""
import gc
import json
import os

import pytest

pyarrow = pytest.importorskip("pyarrow")

TRACE = {"traceEvents": [
    {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 10, "dur": 5, "pid": 0, "tid": 7, "args": {"device": 0, "stream": 7, "correlation": 1}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 1, "dur": 2, "pid": 42, "tid": 42, "args": {"correlation": 1}}]}


def test_a_trace_is_a_temporary_recording(package, plain, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{plain}:{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "trace.json").write_text(json.dumps(TRACE))
    recording = package.open(tmp_path / "trace.json")
    assert pyarrow.table(recording.kernels).num_rows == 1 and len(list(tmp_path.glob("pitot-*"))) == 1
    del recording
    gc.collect()
    assert not list(tmp_path.glob("pitot-*"))


def test_what_nothing_reads(package, plain, tmp_path, monkeypatch):
    """The error is that of a recording; its cause says what can be imported."""
    monkeypatch.setenv("PATH", f"{plain}:{os.environ['PATH']}")
    (tmp_path / "junk").write_text("junk")
    with pytest.raises(package.FormatError) as caught:
        package.open(tmp_path / "junk")
    assert "pitot import reads" in str(caught.value.__cause__)
