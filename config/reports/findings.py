"""Findings of lint at a place in a file, and how patterns of addresses relate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from config.errors import Problem
from config.matching import ONE, REST, Pattern

Level = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    problem: Problem

    def __str__(self) -> str:
        return f"{self.level}: {self.problem}"


def warning(source: str, line: int, element: str, text: str) -> Finding:
    return Finding("warning", Problem(source, line, element, text))


def info(source: str, line: int, element: str, text: str) -> Finding:
    return Finding("info", Problem(source, line, element, text))


def only_overlap(one: Pattern, other: Pattern) -> bool:
    if one.covers(other) or other.covers(one):
        return False
    left = one.elements[:-1] if one.elements[-1] == REST else one.elements
    right = other.elements[:-1] if other.elements[-1] == REST else other.elements
    if len(left) != len(right):
        shorter = one if len(left) < len(right) else other
        if shorter.elements[-1] != REST:
            return False
    return all(a == b or ONE in (a, b) for a, b in zip(left, right, strict=False))
