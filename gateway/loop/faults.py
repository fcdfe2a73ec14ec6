"""Whose fault an exception is: may the engine stand half-way through a change, or did it only pass who calls it?

The traceback knows: it holds every frame that the exception has left, also those of the compiled build.  One frame of
the engine among them, and whatever that was changing may be half done.  None: the engine is whole, and nothing but the
connection was at work.  So the question costs nothing until something is raised (docs/decisions/0027).
"""

from __future__ import annotations

from types import TracebackType
from typing import Final

ENGINE: Final = "engine"
# Rooms and files of the engine that compute, keep nothing and change nothing.
PURE: Final = (
    "engine.values.annotations",
    "engine.values.message_keys",
    "engine.values.message",
    "engine.features.scheduler.plan_headers",
    "engine.features.scheduler.cron",
    "engine.features.scheduler.plan",
    "engine.features.scheduler.ticket",
    "engine.selector",
    "engine.values.wall_time",
    "engine.values.wildcard",
)


def is_engine_whole(error: BaseException) -> bool:
    """Say whether ``error``, as it was caught, has left no frame of the engine that may have been changing it."""
    left: TracebackType | None = error.__traceback__
    while left is not None:
        module = str(left.tb_frame.f_globals.get("__name__", ENGINE))  # whoever has no name may be anybody
        if _is_in(module, ENGINE) and not any(_is_in(module, pure) for pure in PURE):
            return False
        left = left.tb_next
    return True


def _is_in(module: str, room: str) -> bool:
    return module == room or module.startswith(room + ".")
