"""Records training loops of frameworks: ``Trainer(callbacks=[pitot.callbacks.transformers(...)])``."""

from __future__ import annotations

from pitot._recorder import Schedule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Unpack

    from pitot._recorder import ScheduleSettings

__all__ = ["lightning", "transformers"]


def transformers(**schedule: Unpack[ScheduleSettings]) -> Any:
    """A callback for transformers' Trainer that records steps. Arguments: see ``pitot.Schedule``, its ``.schedule``."""
    from transformers import TrainerCallback  # type: ignore[import-not-found]

    class PitotCallback(TrainerCallback):  # type: ignore[misc]
        def __init__(self) -> None:
            self.schedule = Schedule(**schedule)

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self.schedule.begin()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.schedule.end()

        def on_train_end(self, *_: Any, **__: Any) -> None:
            self.schedule.close()

    return PitotCallback()


def lightning(**schedule: Unpack[ScheduleSettings]) -> Any:
    """A callback for Lightning's Trainer that records batches. Arguments: see ``pitot.Schedule``, its ``.schedule``."""
    try:
        from lightning.pytorch import Callback  # type: ignore[import-not-found]
    except ImportError:
        from pytorch_lightning import Callback  # type: ignore[import-not-found]

    class PitotCallback(Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            self.schedule = Schedule(**schedule)

        def on_train_batch_start(self, *_: Any, **__: Any) -> None:
            self.schedule.begin()

        def on_train_batch_end(self, *_: Any, **__: Any) -> None:
            self.schedule.end()

        def on_train_end(self, *_: Any, **__: Any) -> None:
            self.schedule.close()

        def on_exception(self, *_: Any, **__: Any) -> None:
            self.schedule.close()

    return PitotCallback()
