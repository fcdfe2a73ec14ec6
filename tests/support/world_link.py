"""The socket's side of a simulated client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocols.connection import Link

if TYPE_CHECKING:
    from tests.support.world import World


class SimulatedLink(Link):
    """is_reading: the connection takes octets.  is_touched: it has something to say at the end of the turn."""

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self._number = number
        self.is_reading = True
        self.is_touched = False

    def touch(self) -> None:
        self.is_touched = True

    def authenticate(self, login: str, passcode: str) -> None:
        raise AssertionError("nobody logs in here")

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def warn(self, text: str) -> None:
        self._world.note(f"warning: {text}")

    def peer(self) -> str:
        return f"sim:{self._number}"
