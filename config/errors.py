"""Errors of settings.  ``config`` lies below the engine, so this is a hierarchy of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Problem:
    """One error in the settings.  ``line`` counts from 1; 0 if there is none (a flag, a missing file)."""

    source: str
    line: int
    element: str
    text: str

    def __str__(self) -> str:
        place = f"{self.source}:{self.line}" if self.line else self.source
        return f"{place}: {self.element}: {self.text}" if self.element else f"{place}: {self.text}"


class ConfigError(Exception):
    """Settings that cannot be used; has every problem found, in the order of the file."""

    condition: ClassVar[str] = "invalid-configuration"
    scope: ClassVar[str] = "process"

    def __init__(self, problems: Sequence[Problem]) -> None:
        assert problems, "a ConfigError without a problem"
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)
