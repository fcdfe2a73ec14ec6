"""The share of a turn that the frames of one connection may take; its other octets wait for a later turn.

One read may bring thousands of frames, and each may cost far more than its octets.  While they wait the socket is not
read, so that at most one read is left over; the connection counts it in what it holds.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Final

from mypy_extensions import mypyc_attr

from engine.consumers.client import Client
from engine.consumers.turn_steps import TURN_STEPS, Steps, WaitingInput
from engine.values.errors import DATA_FAULTS
from protocols.outbox import Outbox
from protocols.peer_socket import PeerSocket

INPUT_STEPS: Final = TURN_STEPS // 2  # of one connection in a turn
INPUT_STEPS_LEAST: Final = 100  # taken at once although others wait or the turn has no steps left
OVERDRAWN: Final = -TURN_STEPS  # steps left of a turn in which no other connection is served any more
FRAMES_AT_ONCE: Final = 32  # common frames (messages, acknowledgements, credit): so many are counted together
COMMON_STEPS: Final = 5 * FRAMES_AT_ONCE  # and cost this
REFUSED_STEPS: Final = 10  # for a frame that is answered with an error
COMMITTED_STEPS: Final = 2  # for each action of a transaction that is committed

# How the input has ended, while octets are left over.
_OPEN: Final = 0
_ENDED: Final = 1
_LOST: Final = 2
_GONE: Final = 3  # nothing is left over: the connection has left


@mypyc_attr(allow_interpreted_subclasses=True)
class FrameReader(Client):
    """A connection whose octets may take several turns.

    is_ending: nothing more is read.  outbox: octets for the end of this turn.
    """

    __slots__ = ("is_ending", "socket", "outbox")

    def __init__(self, socket: PeerSocket, output_limit_bytes: int) -> None:
        super().__init__()
        self.is_ending = False
        self.socket = socket
        self.outbox = Outbox(socket, output_limit_bytes)

    @abstractmethod
    def read_on(self) -> None:
        """Take the frames of the octets that are left over; ``InputShare`` says how many in this turn."""

    @abstractmethod
    def resume_reading(self) -> None:
        """Nothing is left over: read the socket again, unless something else forbids it."""

    @abstractmethod
    def input_ended(self) -> None:
        """The peer sends no more but may still read: finish once all owed confirmations are sent."""

    @abstractmethod
    def hold_output(self) -> None:
        """Hand over nothing more until the socket accepts output again."""

    def drop_output(self) -> None:
        """Forget the answers of this turn: nobody reads them."""
        self.outbox.clear()

    @abstractmethod
    def count_held(self) -> None:
        """Count what it holds in ``Holdings``."""

    @abstractmethod
    def connection_lost(self) -> None:
        """The socket is gone; ``InputShare.lose`` calls this after the frames that came before."""


@dataclass(slots=True, eq=False)
class InputShare(WaitingInput):
    """is_waiting: the share is used up, and octets may be left over.

    is_stopped: frames are not taken for another reason: too much waits at a gate, or the state of the session.

    is_paused: no frame is taken, for one of these reasons; the loops over frames ask this before each.
    left: steps of the share, in the turn with the number ``turn``.
    """

    _connection: FrameReader
    _steps: Steps
    is_paused: bool = False
    is_waiting: bool = False
    is_stopped: bool = False
    left: int = INPUT_STEPS
    turn: int = -1
    _is_next: bool = False  # those that wait have their turn, and this is the next one
    _end: int = _OPEN

    def charge(self, count: int) -> bool:
        """Count the steps of frames that were taken; return whether the other frames must wait."""
        steps = self._steps
        if self.turn != steps.turn:
            self.turn = steps.turn
            self.left = INPUT_STEPS
        self.left -= count
        steps.left -= count
        if self.left > 0:
            if self._is_next:
                if steps.left > steps.input_floor:
                    return False
            elif self.left > INPUT_STEPS - INPUT_STEPS_LEAST or (steps.left > 0 and not steps.inputs):
                return False
        self.wait()
        return True

    def begin(self) -> None:
        """A read has come: let its frames wait where others of this turn cost far more than a turn has."""
        if self._steps.left < OVERDRAWN and not self.is_waiting:
            self.wait()

    def go_on(self) -> None:
        if self._end == _GONE:
            return
        if self.turn == self._steps.turn and self.left <= 0:
            self._steps.wait(self)
            return
        connection = self._connection
        self.is_waiting = False
        self.is_paused = self.is_stopped
        self._is_next = True
        try:
            if not connection.is_ending:
                connection.read_on()
            if not self.is_waiting:
                self._finish()
            elif self._end == _LOST:
                connection.drop_output()
                if not connection.is_ending:  # a frame that ends it has taken it out of the engine and its accounts
                    connection.count_held()
        except DATA_FAULTS as fault:
            self.is_waiting = False
            self.is_paused = self.is_stopped
            if not connection.socket.take_fault(fault):
                raise
            if self._end == _LOST:
                self._end = _OPEN  # it may be among those that wait, and leaves once
                connection.connection_lost()
        finally:
            self._is_next = False

    def stop(self, is_stopped: bool) -> None:
        """Take no more frames for another reason, or from now on only for want of steps."""
        self.is_stopped = is_stopped
        self.is_paused = is_stopped or self.is_waiting

    def resume_reading(self) -> None:
        """Read the socket again, at once or when nothing is left over."""
        if not self.is_waiting:
            self._connection.socket.resume_reading()

    def ends_later(self) -> bool:
        """The peer sends no more.  Return whether ``input_ended`` is called again, after the frames that wait."""
        if self.is_waiting and self._end == _OPEN:
            self._end = _ENDED
        return self.is_waiting

    def lose(self) -> None:
        """The socket is gone: leave, after the frames that wait.

        Its consumers get nothing meanwhile.  No turn ends for it any more, so what it holds is counted here.
        """
        connection = self._connection
        if self.is_waiting and not connection.is_ending:
            self._end = _LOST
            connection.hold_output()
            connection.count_held()
        else:
            connection.connection_lost()

    def close(self) -> None:
        """The connection has left, and may be freed."""
        self._end = _GONE

    # -- the steps

    def wait(self) -> None:
        """Let the other frames wait."""
        if not self.is_waiting:
            self.is_waiting = self.is_paused = True
            self._connection.is_holding = True
            self._connection.socket.pause_reading()
            self._connection.outbox.touch()
            self._steps.wait(self)

    def _finish(self) -> None:
        """All frames are taken, or some wait for something else, or none is taken any more."""
        connection = self._connection
        if self._end == _LOST:
            connection.connection_lost()
        elif self._end == _ENDED and not connection.is_ending:
            connection.input_ended()
        else:
            connection.resume_reading()
