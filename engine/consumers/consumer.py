"""One subscription: its acknowledgement mode, its window, and the ledger of unsettled deliveries."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Final

from config.redelivery_policy import RedeliveryPolicy
from engine.consumers.client import Client, DepartureBase, Outlet, RestRoom, WindowRoom
from engine.consumers.credit_window import CreditWindow
from engine.consumers.prefetch_window import Window
from engine.selector.evaluate import Selector
from engine.values import gates
from engine.values.delivery import IN_FLIGHT, ConsumerBase, Delivery
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE

if TYPE_CHECKING:
    from engine.sources.queue import Queue

NOT_SAID: Final = -1
AUTO: Final = 0
CLIENT: Final = 1  # an acknowledgement covers everything handed over before
INDIVIDUAL: Final = 2

STOP_WORDS: Final = "the gateway stops and hands over nothing more; consumers settle what they hold"

ACK_MODES: Final = {"auto": AUTO, "client": CLIENT, "client-individual": INDIVIDUAL}


class SeatBase:
    """A consumer's place in the queue's Selection (engine.dispatch.selector_view).

    begins_group: the message of a group that is handed over now is the first one for this owner.
    """

    __slots__ = ("begins_group",)

    def __init__(self) -> None:
        self.begins_group = False


class SiblingsBase:
    """The consumers of one subscription to several destinations, which share a window and a ledger.

    lead: the one that the client knows as its consumer.  Its own queue never holds anything.
    rest_room: of those that have messages while the window is full.
    is_closed: the client has ended the subscription; the remaining consumers are leaving.
    seen_tag: when they close, the furthest tag that the client may have looked at, over all of them.
    """

    __slots__ = ("lead", "members", "rest_room", "is_closed", "seen_tag")

    def __init__(self, lead: Consumer) -> None:
        self.lead = lead
        self.members = [lead]
        self.rest_room = WindowRoom(lead)
        self.is_closed = False
        self.seen_tag = 0

    @abstractmethod
    def opened(self) -> None:
        """Wake as many of them as the open window has room for."""

    @abstractmethod
    def start(self) -> None:
        """Let them all take turns; they share the outlet that the adapter has set on the lead."""

    @abstractmethod
    def beyond(self, first: int, held_by: frozenset[int]) -> int:
        """Return the place of the next member, from ``first`` on, that one of these gates holds; their number for none.

        It ends earlier where the turn has no steps left.
        """

    def note_seen(self) -> None:
        """Record how far the client has looked, before anything is returned."""
        if not self.seen_tag:
            furthest = max([consumer.furthest_tag for consumer in self.members])
            self.seen_tag = next((tag for tag in self.lead.ledger if tag > furthest), furthest)

    def gate(self) -> int:
        """Return the gate of the client's subscription: that of the first queue that has messages."""
        found = (consumer.gate() for consumer in self.members if consumer is not self.lead)
        return next((gate for gate in found if gate != gates.NOTHING_WAITING), gates.NOTHING_WAITING)

    def acknowledged_count(self) -> int:
        return sum(consumer.acknowledged_count for consumer in self.members)


class Consumer(ConsumerBase):
    """A window onto one queue, or onto one topic subscription's queue.

    ledger: its unsettled deliveries by tag, in the order of the hand-over.
    unanswered: those of them that no open transaction holds.
    looked_tag: up to here the application may have received what it holds: at an orderly close as its client says, of a
    lost client the ``seen_tag`` before some messages were returned; otherwise NOT_SAID.
    is_started: its first turn has come; nothing is handed over before (a RECEIPT must be sent first).
    redelivery: its own policy, None for the address's.
    remarks: options that it asked for and that have no effect, in words.
    selector: None takes everything.  priority: higher ones are served first.
    is_ruled: exclusive consumers and the owners of message groups go before it; False for a purge or a retry.
    seat: its place in the queue's Selection, None without one.
    departure: its own, apart from that of its subscription or client (``departing``); None without one.
    siblings: the consumers of one subscription to several destinations, itself included; None for a single one.
    rest_room: in which it waits for its outlet or a shared window; while there it is not listed.
    outlet: where its deliveries leave: its client, or a part of it that the adapter sets before ``Broker.start``.
    """

    __slots__ = (
        "window",
        "rest_room",
        "client",
        "outlet",
        "queue",
        "ledger",
        "unanswered",
        "looked_tag",
        "is_started",
        "is_listed",
        "batch",
        "siblings",
        "departure",
        "redelivery",
        "selector",
        "priority",
        "is_exclusive",
        "is_ruled",
        "remarks",
        "seat",
    )

    def __init__(
        self,
        consumer_id: int,
        client: Client,
        queue: Queue,
        ack_mode: int,
        window: Window,
        name: str,
    ) -> None:
        super().__init__(consumer_id, ack_mode, name)
        self.window = window
        self.rest_room: RestRoom | None = None
        self.client = client
        self.outlet: Outlet = client
        self.queue = queue
        self.ledger: dict[int, Delivery] = {}
        self.unanswered = Unanswered()
        self.looked_tag = NOT_SAID
        self.is_started = False
        self.is_listed = False
        self.batch = queue.feed.batch(queue.destination_id, ACKNOWLEDGED, CAUSE_NONE)
        self.siblings: SiblingsBase | None = None
        self.departure: DepartureBase | None = None
        self.redelivery: RedeliveryPolicy | None = None
        self.selector: Selector | None = None
        self.priority = 0
        self.is_exclusive = False
        self.is_ruled = True
        self.remarks: tuple[str, ...] = ()
        self.seat: SeatBase | None = None

    def start(self) -> None:
        """Let a new consumer take its first turn."""
        if self.siblings is not None:
            self.siblings.start()
        else:
            self.queue.start_consumer(self)

    def departing(self) -> DepartureBase | None:
        """Return what closes it in a later turn, None while it stays."""
        own = self.departure
        if own is None and self.siblings is not None:
            own = self.siblings.lead.departure
        return self.client.departure if own is None else own

    def take_unsettled(self) -> list[Delivery]:
        """Return what it holds and clear the ledger; siblings have divided theirs before."""
        held = list(self.ledger.values())
        self.ledger.clear()
        return held

    def seen_tag(self) -> int:
        """Return the tag up to which a lost client may have looked: one past its furthest answer."""
        if self.looked_tag != NOT_SAID:
            return self.looked_tag
        if self.siblings is not None:
            return self.siblings.seen_tag
        furthest = self.furthest_tag
        return next((tag for tag in self.ledger if tag > furthest), furthest)

    def shown_by(self) -> str:
        """Return the kind of queue that only shows it messages, in words; "" if its answers count."""
        return self.queue.feed.shown_by()

    def description(self) -> dict[str, str]:
        """Return its description, as in its metadata record in the log."""
        return {**self.client.describe(), "subscription": self.name}

    def is_choosy(self) -> bool:
        """Say whether it cannot simply take the next message in its turn."""
        return self.selector is not None or self.is_exclusive or self.priority != 0 or self.keeps_order()

    def keeps_order(self) -> bool:
        """Say whether it has asked that nothing overtakes a message that awaits its redelivery."""
        return self.redelivery is not None and not self.redelivery.non_blocking_redelivery

    def grant(self, credit: int) -> None:
        """Let ``credit`` messages follow, whatever was granted before (AMQP link credit)."""
        window = self.window
        assert isinstance(window, CreditWindow), "credit is granted to consumers that subscribed with is_credited"
        if window.grant(credit):
            self.queue.list_consumer(self)
        elif window.is_full:
            self.queue.unlist_consumer(self)

    def extend(self, delivery: Delivery) -> None:
        """Let more messages follow: the client has processed all up to ``delivery`` and settles them later."""
        tag = delivery.tag
        if tag > self.furthest_tag:
            self.furthest_tag = tag
        count = 0
        for number, one in self.ledger.items():
            if number > tag:
                break
            if one.state == IN_FLIGHT:
                count += 1
        if self.window.extend(count):
            self.queue.list_consumer(self)

    def covered(self, delivery: Delivery) -> list[Delivery]:
        """Return the deliveries that an answer to ``delivery`` covers, in order: in mode CLIENT all before it, too."""
        if self.ack_mode != CLIENT:
            return [delivery]
        tag = delivery.tag
        covered: list[Delivery] = []
        for number, one in self.ledger.items():
            if number > tag:
                break
            if one.state != IN_FLIGHT:
                return self.unanswered.up_to(self.ledger, tag)
            covered.append(one)
        return covered

    def lead(self) -> Consumer:
        """Return the consumer that stands for the client's subscription: itself, if that has no other."""
        return self if self.siblings is None else self.siblings.lead

    def gate(self) -> int:
        """Return the gate that holds this consumer now, gates.OPEN for none."""
        if self.is_closed:
            return gates.CLOSED
        if self.queue.dirty_queues.is_stopping:
            return gates.STOPPING
        if self.window.is_full:
            return self.window.gate
        if self.outlet.is_output_full:
            return self.outlet.output_gate()
        if self.siblings is not None and self.siblings.lead is self:
            return self.siblings.gate()
        pause = self.queue.extras.pause
        if pause is not None and self.is_ruled:
            return gates.PAUSED
        if self.queue.selection is not None:
            return self.queue.selection.reasons().gate(self)
        if self.queue.mask:
            return gates.OPEN
        if self.queue.has_backlog():
            if self.queue.feed.is_at_limit():
                return gates.MEMORY
            if self.queue.fault():
                return gates.STORE_DAMAGED
            return gates.DELAYED if self.queue.is_held_by_delays() else gates.PAGING
        return gates.DELAYED if self.queue.fates.delayed_count else gates.NOTHING_WAITING

    def describe_gate(self) -> str:
        """Return the gate in words, for ``stat`` and ``why``; "" if nothing holds it."""
        gate = self.gate()
        if gate == gates.OPEN:
            return ""
        if gate == gates.STOPPING:
            return f"{gates.GATE_NAMES[gate]}: {STOP_WORDS}"
        if self.window.is_full and gate != gates.CLOSED:
            return f"{gates.GATE_NAMES[gate]}: {self.window.describe()}"
        if gate == gates.STORE_DAMAGED:
            return f"{gates.GATE_NAMES[gate]}: {self.queue.fault()}"
        pause = self.queue.extras.pause
        if gate == gates.PAUSED and pause is not None:
            return f"{gates.GATE_NAMES[gate]} by {pause.by}; penstock resume ends that"
        if self.queue.selection is not None:
            words = self.queue.selection.reasons().describe(self, gate)
            if words:
                return f"{gates.GATE_NAMES[gate]}: {words}"
        return gates.GATE_NAMES[gate]


def consumer_of(delivery: Delivery) -> Consumer:
    """Return the consumer of a delivery that was handed over."""
    consumer = delivery.consumer
    assert isinstance(consumer, Consumer), "a delivery that was handed over is with a consumer"
    return consumer


class Unanswered:
    """The deliveries that a cumulative acknowledgement may still answer when open transactions hold many before it.

    What a transaction has acknowledged stays in the consumer's ledger until COMMIT.  Scanning the ledger at each
    further acknowledgement would cost the square of its length.  So from the first such scan on, the tags that may
    still be answered are kept in a list of their own, from which each is removed once.

    tags: ascending, those up to tag ``seen`` that were in the ledger and may be unanswered.
    """

    __slots__ = ("tags", "seen")

    def __init__(self) -> None:
        self.tags: deque[int] | None = None  # until the first scan, because most consumers never have one
        self.seen = 0

    def up_to(self, ledger: dict[int, Delivery], tag: int) -> list[Delivery]:
        """Return the deliveries up to ``tag`` that are in flight, in order."""
        fresh: list[int] = []
        for number in reversed(ledger):
            if number <= self.seen:
                break
            fresh.append(number)
        tags = self.tags
        if tags is None:
            tags = self.tags = deque()
        if fresh:
            self.seen = fresh[0]
            fresh.reverse()
            tags.extend(fresh)
        while tags:
            first = ledger.get(tags[0])
            if first is not None and first.state == IN_FLIGHT:
                break
            tags.popleft()
        found: list[Delivery] = []
        for number in tags:
            if number > tag:
                break
            one = ledger.get(number)
            if one is not None and one.state == IN_FLIGHT:
                found.append(one)
        return found

    def start_over(self) -> None:
        """Scan everything again: a rolled-back transaction has put answered deliveries in flight again."""
        self.tags = None
        self.seen = 0
