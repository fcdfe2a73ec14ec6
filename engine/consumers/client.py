"""A connection as the engine sees it: the narrow port for hot outputs, implemented by each protocol's session."""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from config.model import NO_DEFAULTS, ConnectionDefaults
from engine.consumers.turn_steps import Chore
from engine.values import gates
from engine.values.delivery import Delivery
from engine.values.errors import EngineError
from engine.values.message import Message

if TYPE_CHECKING:
    from engine.consumers.consumer import Consumer

WAKES_AT_ONCE: Final = 256  # consumers of one room woken before they are dispatched


class DepartureBase(Chore):
    """Closes consumers over several turns (engine.consumers.departures).  is_lost: the client vanished unannounced."""

    __slots__ = ("is_lost",)

    def __init__(self, is_lost: bool) -> None:
        self.is_lost = is_lost


@mypyc_attr(allow_interpreted_subclasses=True)
class RestRoom:
    """A room of consumers held back together by one cause: a full outlet, or a window that several share.

    They are in no rotation meanwhile.  Once the cause is over they are woken one after the other, oldest first, only as
    many as there is room for, and the next ones if those found nothing.  So the cost of a message does not depend on
    their number.
    resting: these consumers.  is_waking: the cause is over, and ``Wakes`` is waking them.
    """

    __slots__ = ("resting", "is_waking")

    def __init__(self) -> None:
        self.resting: OrderedDict[int, Consumer] | None = None  # until the first one: most rooms never have any
        self.is_waking = False

    def rest(self, consumer: Consumer) -> None:
        if consumer.rest_room is None:
            consumer.rest_room = self
            if self.resting is None:
                self.resting = OrderedDict()
            self.resting[consumer.consumer_id] = consumer

    def end_rest(self, consumer: Consumer) -> None:
        assert self.resting is not None, "it is in this room"
        consumer.rest_room = None
        del self.resting[consumer.consumer_id]

    @abstractmethod
    def wakes_at_once(self) -> int:
        """Return how many consumers may be woken now."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Outlet(RestRoom):
    """The way out for deliveries: a connection, or a part of one whose output its peer can stop separately.

    is_output_full: it accepts nothing more; nothing is handed over until ``EngineApi.output_drained``.  Consumers that
    only wait for that rest in it.
    """

    __slots__ = ("is_output_full",)

    def __init__(self) -> None:
        super().__init__()
        self.is_output_full = False

    def wakes_at_once(self) -> int:
        return 0 if self.is_output_full else WAKES_AT_ONCE

    @abstractmethod
    def output_gate(self) -> int:
        """Return the gate that explains a full output."""


class WindowRoom(RestRoom):
    """Of the consumers that share the window of ``lead``.  outlet: theirs."""

    __slots__ = ("outlet", "lead")

    def __init__(self, lead: Consumer) -> None:
        super().__init__()
        self.outlet: Outlet = lead.client
        self.lead = lead

    def wakes_at_once(self) -> int:
        window = self.lead.window
        if self.outlet.is_output_full or window.is_full:
            return 0
        return min(max(1, window.room()), WAKES_AT_ONCE)


@mypyc_attr(allow_interpreted_subclasses=True)
class Client(Outlet):
    """One connection.  The engine calls its methods during a turn; only ``admit`` may call back into it.

    user: login that was checked, "" without a check.
    holder: the holder for whom ``Quotas`` counts what it makes, "" for none.
    groups: of its user; permissions depend on them.  is_external: they, and the user, are not of the configuration.
    held_bytes: what it holds and has not sent, as counted in ``Holdings``.  is_holding: that may have changed, so it is
    counted again at the end of the turn; a part that makes it hold something sets this.
    fed_topics: topics of its subscriptions to wildcards, in memory.
    unread_bytes: output not yet accepted by its socket when the gateway last looked; also counted in ``Holdings``.
    is_refusing: messages that it refused are still being put back; it gets no confirmations until that is done.
    is_output_full: too much output waits for the socket.
    departure: the connection is gone, and this closes its consumers; None while it is there.
    """

    __slots__ = (
        "client_number",
        "consumers",
        "is_refusing",
        "is_awaiting",
        "user",
        "groups",
        "is_external",
        "held_bytes",
        "fed_topics",
        "holder",
        "is_holding",
        "unread_bytes",
        "departure",
    )

    def __init__(self) -> None:
        super().__init__()
        self.client_number = 0
        self.consumers: dict[int, Consumer] = {}
        self.is_refusing = False
        self.is_awaiting = False
        self.user = ""
        self.groups: frozenset[str] = frozenset()
        self.is_external = False
        self.held_bytes = 0
        self.fed_topics = 0
        self.holder = ""
        self.is_holding = False
        self.unread_bytes = 0
        self.departure: DepartureBase | None = None

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

    def end_input(self) -> None:
        """Take no more input in this turn, which has no steps left for it."""

    @abstractmethod
    def admit(self) -> None:
        """A gate has opened: send again what was parked; input whose gate is still shut is parked again."""

    @abstractmethod
    def waited_too_long(self, uri: str, error: EngineError) -> None:
        """Answer with ``error`` what was parked for the destination ``uri``, and do not send it any more."""

    @abstractmethod
    def expel(self, consumer: Consumer, error: EngineError, with_connection: bool) -> None:
        """End a consumer that is too slow, the lead of its subscription, and inform the client of the reason.

        with_connection: end the connection too.  An adapter also does so if its protocol cannot end a single consumer.
        """

    @abstractmethod
    def describe(self) -> dict[str, str]:
        """Return address, client id and login, for consumer records and ``why``."""

    def asked_for(self) -> list[str]:
        """Return what its peer has agreed on and asked for, in words, for ``explain``."""
        return []

    def give_up(self, error: EngineError) -> None:
        """End the connection and inform the peer; cut it off if output is unread.  Called by ``Holdings``."""
        raise AssertionError("only a connection is given up")

    def rights_changed(self) -> None:
        """The permissions or its groups have changed: end what was allowed once and for all, and is not any more."""
        return None

    def count_later(self) -> None:
        """What it holds has changed, perhaps without a frame of its own: count it again at the end of the turn."""
        self.is_holding = True

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

    def audit(self, action: str, target: str, is_denied: bool) -> None:
        """It has asked for something that its user may not do, or has managed something as an operator does."""
        return None

    def browse_ended(self, consumer: Consumer) -> None:
        """A browser has shown all that waited when it began; nothing follows."""
        return None
