"""What the engine calls on a connection in the middle of a turn: a defect of ours in it ends only this connection."""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import mypyc_attr

from engine.consumers.consumer import Consumer
from engine.values.errors import DATA_FAULTS, EngineError, PenstockError
from protocols.input_share import FrameReader


@mypyc_attr(allow_interpreted_subclasses=True)
class GuardedClient(FrameReader):
    """Hands each call to the protocol's own part, and a fault in that to the socket."""

    __slots__ = ()

    def give_up(self, error: EngineError) -> None:
        try:
            if not self.is_ending:
                self.fail(error)
            if self.unread_bytes or self.outbox.settled_bytes or self.socket.gathered_bytes():
                self.socket.cut_off()
        except DATA_FAULTS as fault:
            if not self.socket.take_fault(fault):
                raise

    def release_confirmations(self, offset: int) -> bool:
        try:
            is_owed = self.release_owed(offset)
            self.outbox.touch()
            return is_owed
        except DATA_FAULTS as fault:
            if not self.socket.take_fault(fault):
                raise
            return False

    def admit(self) -> None:
        try:
            self.send_waiting()
        except DATA_FAULTS as fault:
            if not self.socket.take_fault(fault):
                raise

    def waited_too_long(self, uri: str, error: EngineError) -> None:
        try:
            self.refuse_waiting(uri, error)
        except DATA_FAULTS as fault:
            if not self.socket.take_fault(fault):
                raise

    def expel(self, consumer: Consumer, error: EngineError, with_connection: bool) -> None:
        try:
            if with_connection or not self.end_consumer(consumer, error):
                self.fail(error)
        except DATA_FAULTS as fault:
            if not self.socket.take_fault(fault):
                raise

    # -- the protocol's own part

    @abstractmethod
    def fail(self, error: PenstockError) -> None:
        """End the connection because of an error, and send the peer the reason."""

    @abstractmethod
    def release_owed(self, offset: int) -> bool:
        """Release the confirmations that waited for ``offset``; say whether others wait."""

    @abstractmethod
    def send_waiting(self) -> None:
        """Try the frames that wait at a gate again, see ``admit``."""

    @abstractmethod
    def refuse_waiting(self, uri: str, error: EngineError) -> None:
        """Answer the frames that wait for ``uri`` with ``error``."""

    def end_consumer(self, consumer: Consumer, error: EngineError) -> bool:
        """End one consumer and send the peer the reason; return False if the protocol cannot."""
        return False
