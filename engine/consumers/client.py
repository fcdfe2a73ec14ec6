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
    """One connection.  The engine calls its methods during a turn; only ``admit`` may call back into it.

    user: login that was checked, "" without a check.
    holder: the holder for whom ``Quotas`` counts what it makes, "" for none.
    groups: of its user, from the configuration; permissions depend on them.
    held_bytes: what it holds and has not sent, as counted in ``Holdings``.  is_holding: that may have changed, so it is
    counted again at the end of the turn; a part that makes it hold something sets this.
    unread_bytes: output not yet accepted by its socket when the gateway last looked; also counted in ``Holdings``.
    is_refusing: messages that it refused are still being put back; it gets no confirmations until that is done.
    is_output_full: too much output waits for the socket.
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
        """Send the confirmations that waited for ``offset``; return True while others wait."""

    def refused(self) -> None:
        """All that it refused is back in place or given up; it sets ``is_refusing`` to False before this call."""
        assert not self.is_refusing, "refusing is over"

    @abstractmethod
    def admit(self) -> None:
        """A gate has opened: send again what was parked; input whose gate is still shut is parked again."""

    @abstractmethod
    def waited_too_long(self, uri: str, error: EngineError) -> None:
        """Answer with ``error`` what was parked for the destination ``uri``, and do not send it any more."""

    @abstractmethod
    def expel(self, consumer: Consumer, error: EngineError, with_connection: bool) -> None:
        """End a consumer that is too slow, and inform the client of the reason.

        with_connection: end the connection too.  An adapter also does so if its protocol cannot end a single consumer.
        """

    @abstractmethod
    def describe(self) -> dict[str, str]:
        """Return address, client id and login, for consumer records and ``why``."""

    def give_up(self, error: EngineError) -> None:
        """End the connection and inform the peer; cut it off if output is unread.  Called by ``Holdings``."""
        raise AssertionError("only a connection is given up")

    def holding(self) -> str:
        """Return the parts of ``held_bytes`` in words; "" for nothing."""
        return ""

    def unread_now(self) -> int:
        """Return the octets of output that its socket has not accepted by now."""
        return self.unread_bytes

    def all_held_bytes(self) -> int:
        return self.held_bytes + self.unread_bytes

    def all_holding(self) -> str:
        """Return the parts of held and unread octets in words."""
        unread = f"unread output {self.unread_bytes}" if self.unread_bytes else ""
        return ", ".join(words for words in (self.holding(), unread) if words)

    def connection_defaults(self) -> ConnectionDefaults:
        """Return the defaults for its subscriptions from the listener's URI and the connection, for ``explain``."""
        return NO_DEFAULTS

    def browse_ended(self, consumer: Consumer) -> None:
        """A browser has shown all that waited when it began; nothing follows."""
        return None
