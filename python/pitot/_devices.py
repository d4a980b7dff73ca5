"""TraceSmith's DeviceManager and benchmark, on PyTorch where it is there."""

from __future__ import annotations

import statistics
import time

from pitot import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional


class DeviceManager:
    """The device that PyTorch would use: a GPU if there is one (``cuda``, ``rocm``, ``mps``), else the CPU."""

    def __init__(self, prefer_device: Optional[str] = None) -> None:
        self._torch: Any = None
        kinds = ["cpu"]
        try:
            import torch

            self._torch = torch
            if torch.cuda.is_available():
                kinds.insert(0, "rocm" if torch.version.hip else "cuda")
            elif torch.backends.mps.is_available():
                kinds.insert(0, "mps")
        except ImportError:
            pass
        self.device_type = prefer_device.lower() if prefer_device else kinds[0]
        if self.device_type not in kinds:
            raise Error(f"there is no device '{self.device_type}' here, but {' and '.join(kinds)}")

    @property
    def is_gpu(self) -> bool:
        return self.device_type != "cpu"

    @property
    def torch_device(self) -> Any:
        return self._needed().device({"rocm": "cuda"}.get(self.device_type, self.device_type))

    def get_device_name(self) -> str:
        """As in "NVIDIA H100 80GB HBM3 (cuda:0, 79.2 GB)"."""
        if self.device_type in ("cuda", "rocm"):
            about = self._torch.cuda.get_device_properties(0)
            return f"{about.name} ({self.device_type}:0, {about.total_memory / 2**30:.1f} GB)"
        return {"cpu": "CPU", "mps": "Apple GPU (mps:0)"}[self.device_type]

    def _needed(self) -> Any:
        if self._torch is None:
            raise Error("tensors need PyTorch, which is not installed")
        return self._torch

    def create_tensor(self, data: Any, dtype: Any = None) -> Any:
        return self._needed().tensor(data, device=self.torch_device, dtype=dtype)

    def randn(self, *shape: int, dtype: Any = None) -> Any:
        return self._needed().randn(*shape, device=self.torch_device, dtype=dtype)

    def zeros(self, *shape: int, dtype: Any = None) -> Any:
        return self._needed().zeros(*shape, device=self.torch_device, dtype=dtype)

    def ones(self, *shape: int, dtype: Any = None) -> Any:
        return self._needed().ones(*shape, device=self.torch_device, dtype=dtype)

    def to_device(self, tensor_or_model: Any) -> Any:
        return tensor_or_model.to(self.torch_device)

    def synchronize(self) -> None:
        if self.is_gpu:
            (self._torch.mps if self.device_type == "mps" else self._torch.cuda).synchronize()

    def memory_allocated(self) -> int:
        if self.device_type == "mps":
            return int(self._torch.mps.current_allocated_memory())
        return int(self._torch.cuda.memory_allocated()) if self.is_gpu else 0


def benchmark(
    function: Callable[[], Any], warmup: int = 3, iterations: int = 10, dm: Optional[DeviceManager] = None
) -> dict[str, Optional[float]]:
    """Times ``function`` with the device idle before and after: mean, deviation, least and most, in ms.

    ``gpu_mean_ms`` is the time in which a GPU worked, from a recording of as many further calls; None without GPU work.
    """
    if iterations < 1:
        raise Error(f"{iterations} iterations are none")
    dm = dm or DeviceManager()
    times = []
    for number in range(warmup + iterations):
        dm.synchronize()
        start = time.perf_counter_ns()
        function()
        dm.synchronize()
        times += [(time.perf_counter_ns() - start) / 1e6] if number >= warmup else []
    return {
        "mean_ms": statistics.mean(times),
        "std_ms": statistics.stdev(times) if iterations > 1 else 0.0,
        "min_ms": min(times),
        "max_ms": max(times),
        "iterations": iterations,
        "gpu_mean_ms": _gpu_ms(function, iterations, dm) if dm.device_type == "cuda" else None,
    }


def _gpu_ms(function: Callable[[], Any], iterations: int, dm: DeviceManager) -> Optional[float]:
    from pitot.tracesmith import build_timeline, create_profiler

    profiler = create_profiler()
    if not profiler.start_capture():
        return None
    for _ in range(iterations):
        function()
    dm.synchronize()
    profiler.stop_capture()
    timeline = build_timeline(profiler.get_events())
    devices = len({span.device_id for span in timeline.spans})
    busy_ns = timeline.gpu_utilization * timeline.total_duration * devices
    return busy_ns / iterations / 1e6 if devices else None
