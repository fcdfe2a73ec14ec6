"""Errors that users of an export see."""

from __future__ import annotations

from typing import ClassVar

from engine.values.errors import PenstockError, RangeGone


class TargetError(PenstockError):
    """This export may not add to the target directory, or cannot read it; the text says why."""

    condition: ClassVar[str] = "invalid-target"
    scope: ClassVar[str] = "request"


class TargetBusy(TargetError):
    """Another export is at work in the target, or has just added to it; the next one may go on."""

    condition: ClassVar[str] = "target-busy"


class ListOutdated(RangeGone):
    """The files of a gateway elsewhere are no longer those that it listed; a new list has those that are left."""


class LakeError(PenstockError):
    """The place of a lake cannot be reached, or refuses a request; the text says which, and why."""

    condition: ClassVar[str] = "lake-unavailable"
    scope: ClassVar[str] = "request"
