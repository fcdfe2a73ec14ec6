"""Who observes a world: a tracer, and histograms of message times.  Both must say what happened, and say it once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

from engine.consumers.consumer import AUTO
from engine.ports.tracing import Traced, Tracing
from engine.values.destination import TOPIC
from tests.support.world.bodies import Violation

if TYPE_CHECKING:
    from tests.support.world.views import Subscriber
    from tests.support.world.world import World

OUTCOMES: Final = ("acknowledged", "failed", "released")
WANTED_OF_FOUR: Final = 3  # so many messages of four are traced


class TraceBook(Tracing):
    """Follows each hand-over to its end.

    wants_all: else a part of the messages, which their ids choose.
    under_way: hand-overs without an end, with the message and the destination.  ends: of each outcome.
    """

    def __init__(self, wants_all: bool) -> None:
        self.wants_all = wants_all
        self.under_way: dict[int, str] = {}
        self.ends = dict.fromkeys(OUTCOMES, 0)
        self.handed_over_count = 0
        self._newest = 0  # the tag of the hand-over that was told of last
        self._ended: dict[int, str] = {}

    def wants(self, parent: str, identity: str) -> bool:
        return self.wants_all or crc32(identity.encode()) % 4 < WANTED_OF_FOUR

    def _require_wanted(self, traced: Traced) -> None:
        if not self.wants(traced.parent, traced.identity):
            raise Violation(f"the tracer hears of {traced.identity}, which it did not want")

    def accepted(self, traced: Traced) -> None:
        self._require_wanted(traced)

    def handed_over(self, traced: Traced, tag: int, delivery_count: int, consumer: dict[str, str]) -> None:
        self._require_wanted(traced)
        if tag in self.under_way:
            raise Violation(f"hand-over {tag} of {self.under_way[tag]} has no end and begins again, {traced.identity}")
        self.handed_over_count += 1
        self._newest = tag
        self.under_way[tag] = f"{traced.identity} of {traced.destination}"

    def settled(self, tag: int, outcome: str, cause: str) -> None:
        if (outcome == "failed") != bool(cause):
            raise Violation(f"hand-over {tag} is {outcome}, its cause is {cause!r}")
        is_at_once = tag == self._newest
        self._newest = 0
        if tag in self.under_way:
            if not is_at_once:  # what needs no answer needs no tag of its own
                self._ended[tag] = outcome
            del self.under_way[tag]
            self.ends[outcome] += 1
        elif tag in self._ended and (self._ended[tag], outcome) not in (
            ("failed", "released"),
            ("released", "released"),
        ):
            raise Violation(f"hand-over {tag} ends twice: {self._ended[tag]}, then {outcome}")

    def ended(self, traced: Traced, outcome: str) -> None:
        self._require_wanted(traced)
        if outcome not in ("given-up", "expired"):
            raise Violation(f"{traced.identity} has an end {outcome!r}")


class Observation:
    """Of one life of the gateway.  book: None without a tracer.

    _firsts: first hand-overs that clients saw.  _perhaps_uncounted: those that a topic may have made at once; they have
    no times.
    """

    def __init__(self, world: World) -> None:
        profile = world.profile
        self.world = world
        self.has_times = profile.has_message_times
        self.book = TraceBook(wants_all=profile.has_message_times) if profile.has_traces else None
        self._firsts = 0
        self._perhaps_uncounted = 0

    def received(self, subscriber: Subscriber, message_id: str, is_redelivered: bool) -> None:
        """A client has got a message."""
        if not is_redelivered:
            self._firsts += 1
            is_logged = "-n" not in message_id
            if subscriber.view.kind == TOPIC and subscriber.ack_mode == AUTO and not is_logged:
                self._perhaps_uncounted += 1

    def check_turn(self) -> None:
        """Check that what consumers hold is under way."""
        if self.book is None or not self.book.wants_all:
            return
        ended = self.world.held_tags().difference(self.book.under_way)
        if ended:
            raise Violation(
                f"a consumer holds hand-over {min(ended)}, and the tracer has seen its end or never heard of it"
            )

    def check_empty(self) -> None:
        """Check the counts, once everything is settled."""
        book = self.book
        if book is not None:
            if book.under_way:
                raise Violation(f"everything is settled, and hand-overs have no end: {book.under_way}")
            if book.handed_over_count != sum(book.ends.values()):
                raise Violation(f"{book.handed_over_count} hand-overs, their ends are {book.ends}")
            self.world.traced_count += book.handed_over_count
        if not self.has_times:
            return
        stats = self.world.broker.inspect()
        delivered, acknowledged = stats.until_delivered, stats.until_acknowledged
        if delivered is None or acknowledged is None:
            raise Violation("message times are on, and operators see none")
        acknowledged_count, delivered_count = sum(acknowledged.counts), sum(delivered.counts)
        self.world.timed_count += delivered_count
        if book is not None and acknowledged_count != book.ends["acknowledged"]:
            raise Violation(f"{acknowledged_count} times until acknowledged, the tracer has {book.ends}")
        least = self._firsts - self._perhaps_uncounted
        # What is on a wire when its connection is lost never reaches the client.
        most = delivered_count if self.world.profile.is_stomp else self._firsts
        if not least <= delivered_count <= most:
            raise Violation(f"{delivered_count} times until delivered, clients saw {least} to {most} first hand-overs")
