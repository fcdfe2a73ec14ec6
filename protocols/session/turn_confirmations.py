"""The confirmations of a session, in order: each also stands for the earlier frames of its connection."""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import mypyc_attr

from engine.api import EngineApi
from engine.consumers.consumer import Consumer
from protocols.owed_confirmations import Deferred, OwedConfirmations


class DeferredConsumer(Deferred):
    """A consumer that sends its first message after the confirmation of its beginning."""

    __slots__ = ("consumer",)

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer

    def release(self) -> None:
        self.consumer.start()


@mypyc_attr(allow_interpreted_subclasses=True)
class TurnConfirmations(OwedConfirmations):
    """Collected during a turn, stamped at its end.

    parts: of this turn; ``octets_of`` writes them, all at once.  earlier: octets before them.
    turn_deferred: consumers that wait for one of them.
    last_offset: the log offset that the latest logged operation of this connection waits for.
    has_unlogged: an acknowledgement may not be logged yet; the next confirmation stands for it too.
    """

    __slots__ = (
        "store",
        "settlements",
        "parts",
        "earlier",
        "turn_deferred",
        "last_offset",
        "has_logged",
        "has_unlogged",
    )

    def __init__(self, engine: EngineApi, out: list[bytes]) -> None:
        super().__init__(out)
        self.store = engine.store
        self.settlements = engine.settlements
        self.parts: list[bytes] = []
        self.earlier = b""
        self.turn_deferred: list[Deferred] = []
        self.last_offset = 0
        self.has_logged = False
        self.has_unlogged = False

    @abstractmethod
    def octets_of(self, parts: list[bytes]) -> bytes:
        """Return the octets of ``parts``, b"" for none."""

    def start_after(self, part: bytes, consumer: Consumer) -> None:
        """Start ``consumer`` once ``part`` confirms it; that is now if nothing comes before it."""
        if self.is_settled(self.store.confirmed_offset()):
            self.out.append(self.octets_of([part]))
            consumer.start()
        else:
            self.parts.append(part)
            self.turn_deferred.append(DeferredConsumer(consumer))

    def drop(self) -> None:
        """Forget those of this turn."""
        self.parts.clear()
        self.earlier = b""
        self.turn_deferred.clear()

    def forget(self) -> None:
        super().forget()
        self.drop()

    def is_idle(self) -> bool:
        """Say whether nothing is left to be confirmed."""
        return not self.parts and not self.earlier and not self.owed

    def is_settled(self, confirmed_offset: int) -> bool:
        """Say whether a confirmation made now could leave at once."""
        if self.has_logged or self.has_unlogged:
            return False
        return self.is_idle() and self.last_offset <= confirmed_offset

    def end_turn(self, offset: int, confirmed_offset: int) -> None:
        """Stamp the confirmations of this turn; append those that may be sent now to ``out``."""
        if self.has_logged:
            self.has_logged = False
            self.last_offset = offset
        if not self.parts and not self.earlier:
            return
        if self.has_unlogged:
            self.has_unlogged = False
            self.last_offset = self.settlements.flush()
        octets = self.earlier + self.octets_of(self.parts)
        self.parts.clear()
        self.earlier = b""
        deferred: list[Deferred] | None = None
        if self.turn_deferred:
            deferred = self.turn_deferred
            self.turn_deferred = []
        self.owe(self.last_offset, octets, deferred, confirmed_offset)
