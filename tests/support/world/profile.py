"""The kind of world that a seed makes: addresses with many policies, and the share of each action."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from config.matching import BOTH, TOPIC, AddressEntry, Pattern

TOPIC_DEAD_LETTERS: Final = "DLQ.topics"


def _entry(pattern: str, kinds: int = BOTH, **values: object) -> AddressEntry:
    return AddressEntry(
        Pattern.parse(pattern), kinds, {name.replace("__", "."): value for name, value in values.items()}
    )


ADDRESSES: Final = (
    _entry(
        ">",
        redelivery__maximum_redeliveries=2,
        redelivery__initial_redelivery_delay_ms=200,
        redelivery__redelivery_delay_ms=300,
    ),
    _entry(">", TOPIC, dead_letter_address=TOPIC_DEAD_LETTERS),
    _entry(TOPIC_DEAD_LETTERS, dead_letter_address=TOPIC_DEAD_LETTERS),
    _entry("dead", nack="dead-letter"),
    _entry("requeue", nack="requeue"),
    _entry("blame.all", blame="all"),
    _entry("blame.none", blame="none"),
    _entry("backoff", redelivery__use_exponential_back_off=True, redelivery__maximum_redeliveries=4),
    _entry("drop", dead_letter_address=None, redelivery__maximum_redeliveries=1),
    _entry("expiring", expiry_address="Expired"),
    _entry("each", prefetch__top_up="each-ack"),
    _entry("logged", log_non_persistent=True),
    _entry("alone", queue__exclusive_consumer=True),
    _entry("regrouped", queue__group_rebalance=True, queue__group_idle_timeout_ms=400),
)
QUEUES: Final = (
    "plain", "other", "dead", "requeue", "blame.all", "blame.none", "backoff", "drop", "expiring", "each", "logged",
)  # fmt: skip
# Queues with different consumers: with selectors, with message groups, with one consumer at a time.
SELECTED: Final = "selected"
GROUPED: Final = ("grouped", "regrouped")
ALONE: Final = "alone"
COLOURS: Final = ("red", "green", "blue")
GROUPS: Final = ("", "a", "b", "c")
TOPICS: Final = ("news", "prices")


@dataclass(frozen=True, slots=True)
class Profile:
    """The kind of run that a seed makes.  Shares are probabilities per step.

    special: queues that are there in any case.  has_amqp: half of the clients speak AMQP; only with STOMP.
    has_replays: clients read queues and topics again.
    all_messages: limit of messages for all addresses with BLOCK together.
    has_durable: topics have durable subscriptions, shared by all clients that can share them.
    has_traces: a tracer hears of messages.  has_message_times: histograms of message times are on.
    """

    steps: int = 260
    segment_bytes: int = 16 << 10
    sizes: tuple[int, ...] = (30, 100, 400, 1_500)
    peer_count: int = 4
    send_share: float = 0.45
    ack_share: float = 0.8
    stop_share: float = 0.012
    fault_share: float = 0.012
    is_stomp: bool = False
    has_amqp: bool = False
    is_transactional: bool = False
    is_async: bool = False
    memory_limit_bytes: int = 1 << 20
    retention_bytes: int = 64 << 10
    special: tuple[str, ...] = ()
    window_bytes: int = -1
    full_messages: int = -1
    full_bytes: int = -1
    has_durable: bool = False
    all_messages: int = -1
    has_replays: bool = False
    has_short_turns: bool = False
    has_traces: bool = False
    has_message_times: bool = False

    def addresses(self) -> tuple[AddressEntry, ...]:
        """Return the policies; with limits, each address blocks its producers beyond them."""
        if self.full_messages < 0 and self.full_bytes < 0 and self.all_messages < 0:
            return ADDRESSES
        limits = {"full__max_size_messages": self.full_messages, "full__max_size_bytes": self.full_bytes}
        return (*ADDRESSES, _entry(">", full__address_full_policy="BLOCK", **limits))

    def draw_size(self, chance: Random) -> int:
        return chance.choice(self.sizes)


def profile_for(seed: int, is_stomp: bool, has_amqp: bool = False) -> Profile:
    """Return the profile of a seed: most runs are small, some have large messages, a tight memory, a lazy flush."""
    chance = Random(seed * 7_919 + 17)
    kind = chance.random()
    is_large = kind < 0.04
    return Profile(
        steps=120 if is_large else chance.randint(150, 400),
        segment_bytes=64 << 10 if is_large else chance.choice((8 << 10, 16 << 10, 32 << 10)),
        sizes=(1_000, 100_000, 400_000)
        if is_large
        else chance.choice(((30, 100, 400, 1_500), (30,), (600, 3_000, 9_000))),
        peer_count=chance.randint(2, 6),
        send_share=chance.choice((0.35, 0.45, 0.55)),
        ack_share=chance.choice((0.6, 0.8, 0.95)),
        stop_share=0.05 if 0.25 <= kind < 0.5 else chance.choice((0.0, 0.008, 0.02)),
        fault_share=chance.choice((0.0, 0.0, 0.012, 0.03)),
        is_stomp=is_stomp or has_amqp,
        has_amqp=has_amqp,
        is_transactional=0.25 <= kind < 0.5,
        is_async=0.04 <= kind < 0.1,
        memory_limit_bytes=8_000 if 0.1 <= kind < 0.25 else 1 << 20,
        full_messages=chance.choice((-1, -1, -1, 6, 20)),  # drawn last, so that older seeds keep their histories
        full_bytes=chance.choice((-1, -1, -1, 4_000)),
        window_bytes=chance.choice((-1, -1, -1, 0, 700, 3_000)),
        has_durable=chance.random() < 0.6 and (has_amqp or not is_stomp),
        all_messages=chance.choice((-1, -1, -1, -1, 40)),
        has_replays=chance.random() < 0.4,
        has_short_turns=chance.random() < 0.3,
        has_traces=chance.random() < 0.4,
        has_message_times=chance.random() < 0.4,
    )
