"""Options of a subscription, whatever its protocol calls them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

NO_OVERRIDES: Final[Mapping[str, object]] = MappingProxyType({})


FIRST: Final = "first"
LAST: Final = "last"
NEXT: Final = "next"


@dataclass(frozen=True, slots=True)
class ReplayStart:
    """Where a replay begins; exactly one of them says it.

    place: FIRST, the oldest that is kept; LAST, the newest of each priority; NEXT, what comes.
    entry: queue offset, in the queue of each priority.  time_ms: store time, milliseconds since 1970.
    message_id: JMSMessageID of a message that is in the log; what comes after it in the log follows.
    is_lenient: what is not kept any more is passed over, as RabbitMQ's streams do, and not an error.
    """

    place: str = ""
    entry: int | None = None
    time_ms: int | None = None
    message_id: str = ""
    is_lenient: bool = False


@dataclass(frozen=True, slots=True)
class SubscribeOptions:
    """One subscription.  None, and "" for a text, is what the address says.

    ack_mode: engine.consumers.consumer.AUTO, CLIENT or INDIVIDUAL.
    prefetch: messages in flight; 0 is pull, one on demand.
    is_credited: nothing is handed over but what ``Broker.grant`` lets follow; ``prefetch`` counts for nothing then.
    window_bytes: HornetQ consumer-window-size; -1 no limit, 0 nothing ahead of the one in hand.
    rate: messages a second at most (consumer-max-rate); -1 no limit.
    name: how the client calls it, for ``why`` and consumer records.
    selector: JMS selector.
    subscription: name of a durable or shared subscription to a topic.  A durable one belongs to the client id unless
    it is shared without one.
    is_global: the shared subscription belongs to no client id, whatever id the client has.
    priority: consumers with a higher one are served first while they have room (-128 to 127).
    is_retroactive: a topic's recent messages come first.
    replay: None for a consumer; else it only reads, from there on, what a queue or topic was ever sent and still keeps.
    pending_limit: ActiveMQ maximumPendingMessageLimit of a topic consumer, below the address's; 0 is ignored.
    is_taking: it takes messages also of a queue that keeps them (``non_destructive``): the broker's own work.
    remarks: what the adapter found without effect, in words, for ``why``.
    redelivery: field of RedeliveryPolicy -> value, above what address, listener and connection say.
    """

    ack_mode: int
    prefetch: int | None = None
    name: str = ""
    selector: str = ""
    subscription: str = ""
    is_durable: bool = False
    is_shared: bool = False
    is_global: bool = False
    is_no_local: bool = False
    is_exclusive: bool = False
    is_browser: bool = False
    is_retroactive: bool = False
    replay: ReplayStart | None = None
    priority: int = 0
    window_bytes: int | None = None
    rate: int | None = None
    pending_limit: int = 0
    is_credited: bool = False
    is_taking: bool = False
    remarks: tuple[str, ...] = ()
    redelivery: Mapping[str, object] = field(default_factory=lambda: NO_OVERRIDES)
