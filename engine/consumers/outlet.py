"""The way out for deliveries: a connection, or a part of one whose output its peer can stop separately."""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import mypyc_attr

from engine.consumers.resting import Resting


@mypyc_attr(allow_interpreted_subclasses=True)
class Outlet:
    """is_output_full: it accepts nothing more; nothing is handed over until ``Door.output_drained``.

    resting: consumers that only wait for that.
    """

    __slots__ = ("resting", "is_output_full")

    def __init__(self) -> None:
        self.resting = Resting(self, None)
        self.is_output_full = False

    @abstractmethod
    def output_gate(self) -> int:
        """Return the gate that explains a full output."""
