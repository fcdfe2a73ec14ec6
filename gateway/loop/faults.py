"""Judges an exception: may a change in the engine be incomplete, or did only a connection fail?

The traceback has every frame that the exception has left, also those of the compiled build.  With a frame of the engine
among them, the change of that frame may be incomplete.  Without one, the engine is whole and only the connection was at
work.  So the question costs nothing until an exception is raised (docs/decisions/0027).
"""

from __future__ import annotations

from types import TracebackType
from typing import Final

ENGINE: Final = "engine"
# Rooms and files of the engine that compute, keep nothing and change nothing.
PURE: Final = (
    "engine.values.message",
    "engine.values.message_keys",
    "engine.features.scheduler.cron",
    "engine.features.scheduler.plan",
    "engine.features.scheduler.schedule_record",
    "engine.selector",
    "engine.values.destination",
)


def is_engine_whole(error: BaseException) -> bool:
    """Say whether ``error``, as it was caught, has left no frame of the engine that may have been in a change."""
    left: TracebackType | None = error.__traceback__
    while left is not None:
        module = str(left.tb_frame.f_globals.get("__name__", ENGINE))  # it may belong to any file
        if _is_in(module, ENGINE) and not any(_is_in(module, pure) for pure in PURE):
            return False
        left = left.tb_next
    return True


def _is_in(module: str, room: str) -> bool:
    return module == room or module.startswith(room + ".")
