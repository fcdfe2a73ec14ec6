"""Options of a subscription, independent of the protocol."""

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
    """Where a replay begins; exactly one of the fields says it.

    place: FIRST, the oldest that is kept; LAST, the newest of each priority; NEXT, only new messages.
    entry: queue offset, in the queue of each priority.  time_ms: store time, milliseconds since 1970.
    message_id: JMSMessageID of a message in the log; the replay begins with what follows it in the log.
    is_lenient: messages that are no longer kept are skipped, as in RabbitMQ's streams, instead of an error.
    """

    place: str = ""
    entry: int | None = None
    time_ms: int | None = None
    message_id: str = ""
    is_lenient: bool = False


@dataclass(frozen=True, slots=True)
class SubscribeOptions:
    """One subscription.  None, or "" for a text, means the address setting.

    ack_mode: engine.consumers.consumer.AUTO, CLIENT or INDIVIDUAL.
    prefetch: most messages in flight; 0 is pull: one on demand.
    is_credited: only messages that ``Broker.grant`` allows are handed over; ``prefetch`` has no effect.
    window_bytes: HornetQ consumer-window-size; -1 no limit, 0 nothing ahead of the one in hand.
    rate: messages a second at most (consumer-max-rate); -1 no limit.
    name: the client's name for it, for ``why`` and consumer records.
    selector: JMS selector.
    subscription: name of a durable or shared subscription to a topic.  A durable one belongs to the client id unless
    it is shared without one.
    is_global: the shared subscription belongs to no client id, whatever id the client has.
    priority: consumers with a higher one are served first while they have room (-128 to 127).
    is_retroactive: the topic's recent messages are delivered first.
    replay: None for a consumer; else it reads from that place what a queue or topic was sent and still keeps.
    pending_limit: ActiveMQ maximumPendingMessageLimit of a topic consumer, below the address's; 0 is ignored.
    is_taking: it also consumes from a queue that keeps its messages (``non_destructive``): the broker's own work.
    remarks: options that the adapter found to have no effect, in words, for ``why``.
    redelivery: field of RedeliveryPolicy -> value; overrides the address, listener and connection.
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
