"""A connection as the engine sees it: the narrow port for hot outputs, implemented by each protocol's session."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from config.model import NO_DEFAULTS, ConnectionDefaults
from engine.consumers.outlet import Outlet
from engine.values import gates
from engine.values.errors import EngineError
from engine.values.message import Message

if TYPE_CHECKING:
    from engine.consumers.consumer import Consumer
    from engine.values.delivery import Delivery


@mypyc_attr(allow_interpreted_subclasses=True)
class Client(Outlet):
    """One connection.  The engine calls its methods in the middle of a turn; only ``admit`` may call back into it.

    user: whose login was checked, "" where nobody's is.
    holder: for whom ``Quotas`` counts what it makes, "" for nobody in particular.
    groups: that its user is in, as the configuration says; permissions go by them.
    held_bytes: what it holds that is not sent yet, as counted in ``Holdings``.  is_holding: that may be something else
    by now, so it is counted at the end of the turn; whoever begins to hold something says so.
    unread_bytes: output that its socket had not taken when the gateway last looked, counted there, too.
    is_refusing: some of what it has refused is still being put back; until then nothing is confirmed to it.
    is_output_full: too much waits for the socket.
    """

    __slots__ = (
        "client_number",
        "consumers",
        "is_refusing",
        "is_awaiting",
        "user",
        "groups",
        "held_bytes",
        "holder",
        "is_holding",
        "unread_bytes",
    )

    def __init__(self) -> None:
        super().__init__()
        self.client_number = 0
        self.consumers: dict[int, Consumer] = {}
        self.is_refusing = False
        self.is_awaiting = False
        self.user = ""
        self.groups: frozenset[str] = frozenset()
        self.held_bytes = 0
        self.holder = ""
        self.is_holding = False
        self.unread_bytes = 0

    def output_gate(self) -> int:
        return gates.SOCKET_PAUSED

    @abstractmethod
    def deliver(self, consumer: Consumer, delivery: Delivery) -> None:
        """Hand over one message that the client settles; give ``delivery`` its ``key``."""

    @abstractmethod
    def deliver_settled(self, consumer: Consumer, message: Message, is_redelivered: bool, delivery_count: int) -> None:
        """Hand over one message that needs no answer (automatic acknowledgement)."""

    @abstractmethod
    def release_confirmations(self, offset: int) -> bool:
        """Let go of the confirmations that waited for ``offset``; return True while others wait."""

    def refused(self) -> None:
        """All that it refused is back where it belongs, or given up: ``is_refusing`` is over."""
        assert not self.is_refusing, "who is told of the end has come to it"

    @abstractmethod
    def admit(self) -> None:
        """A gate has opened: send again what was parked; what finds its gate shut still is parked again."""

    @abstractmethod
    def waited_too_long(self, uri: str, error: EngineError) -> None:
        """Answer with ``error`` what was parked for the destination ``uri``; it is not to be sent any more."""

    @abstractmethod
    def expel(self, consumer: Consumer, error: EngineError, with_connection: bool) -> None:
        """End a consumer that is too slow, and tell the client why.

        with_connection: end the connection too; so does an adapter whose protocol cannot end one consumer alone.
        """

    @abstractmethod
    def describe(self) -> dict[str, str]:
        """Return who this is (address, client id, login), for consumer records and ``why``."""

    def give_up(self, error: EngineError) -> None:
        """End the connection, and tell the peer why; where output is unread, cut it off.  ``Holdings`` asks for it."""
        raise AssertionError("only a connection is given up")

    def holding(self) -> str:
        """Return what ``held_bytes`` is made of, in words; "" for nothing."""
        return ""

    def unread_now(self) -> int:
        """Return how much output its socket has not taken by now."""
        return self.unread_bytes

    def all_held_bytes(self) -> int:
        return self.held_bytes + self.unread_bytes

    def all_holding(self) -> str:
        """Return what both are made of, in words."""
        unread = f"unread output {self.unread_bytes}" if self.unread_bytes else ""
        return ", ".join(words for words in (self.holding(), unread) if words)

    def connection_defaults(self) -> ConnectionDefaults:
        """Return what its listener's URI and it itself set for all that it subscribes to, for ``explain``."""
        return NO_DEFAULTS

    def browse_ended(self, consumer: Consumer) -> None:
        """A browser has shown all that waited when it began; nothing more comes."""
        return None
