"""The way out for deliveries: a connection, or a part of one that its peer can stop alone."""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import mypyc_attr

from engine.consumers.resting import Resting


@mypyc_attr(allow_interpreted_subclasses=True)
class Outlet:
    """is_output_full: it takes nothing more; the engine hands over nothing until ``Door.output_drained``.

    resting: consumers that would take their turns if it were not for that.
    """

    __slots__ = ("resting", "is_output_full")

    def __init__(self) -> None:
        self.resting = Resting(self, None)
        self.is_output_full = False

    @abstractmethod
    def output_gate(self) -> int:
        """Return why it takes nothing more, of ``engine.values.gates``."""
