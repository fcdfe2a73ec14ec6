"""A store's answer to the engine, handed over when the workers reach it."""

from __future__ import annotations

from collections.abc import Callable

from engine.ports.workers import Job


class Answer(Job):
    """A job without work on a thread; it hands over the store's answer."""

    def __init__(self, answer: Callable[[], None]) -> None:
        self._answer = answer

    def run(self) -> None:
        pass

    def finish(self) -> None:
        self._answer()
