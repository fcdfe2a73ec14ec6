"""Options behind a destination's ``?``: ``TEST.QUEUE?consumer.prefetchSize=10&consumer.exclusive=true``.

SUBSCRIBE headers name the same options as ``activemq.NAME``, without ``consumer.``, so every protocol reads them here.
An unknown option is an error.  ActiveMQ's STOMP removes all options and ignores them, and its users never learn that
their prefetch had no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import parse_qsl

from config.jms_options import COUNT, PRODUCER_RATE, PRODUCER_WINDOW, REDELIVERY
from config.matching import DELAYS_ROLLBACK, REDELIVERY_DELAYS
from config.options import OptionError, Table, all_listed, honoured, listed, table, unknown_option
from config.values import Boolean, Integer, Text

CONSUMER_PREFIX: Final = "consumer."
PRODUCER_PREFIX: Final = "producer."
REDELIVERY_PREFIX: Final = "redeliveryPolicy."

OPTIONS_MAX: Final = 100  # per destination

_RATE: Final = Integer(1, 10_000_000, unlimited=True)

# Paths without a dot are attributes of ConsumerOptions, the others those of AddressSettings.
CONSUMER: Final = table(
    honoured("prefetchSize", COUNT, "10", "prefetch"),
    honoured("exclusive", Boolean(), "true", "is_exclusive"),
    honoured("priority", Integer(-128, 127), "5", "priority"),
    honoured("retroactive", Boolean(), "true", "is_retroactive"),
    replace(
        honoured("noLocal", Boolean(), "true", "no_local"),
        text="`no_local`, of subscriptions to topics; on a queue it does nothing, as in JMS",
    ),
    honoured("maximumPendingMessageLimit", COUNT, "100", "maximum_pending_message_limit"),
    honoured("selector", Text("a selector", 64 * 1024), "colour = 'red'", "selector"),
    honoured("subscriptionName", Text("a subscription name", 255), "billing", "subscription_name"),
    honoured("browser", Boolean(), "true", "is_browser"),
    honoured("fromOffset", Text("a queue offset, first, last or next", 20), "first", "from_offset"),
    honoured("fromTime", Text("a time", 64), "2026-01-31T12:00:00Z", "from_time"),
    honoured("fromId", Text("a message id", 255), "ID:0a1b2c3d-4711", "from_id"),
    honoured(
        "windowSize", Integer(0, 2**30, unlimited=True), "65536", "flow.consumer_window_size_bytes"
    ),  # HornetQ's consumer-window-size
    honoured("maxRate", _RATE, "100", "flow.consumer_max_rate_per_second"),  # HornetQ's consumer-max-rate
    honoured("nonBlockingRedelivery", Boolean(), "false", "redelivery.non_blocking_redelivery"),
    *REDELIVERY.values(),
    *all_listed("always the case here", "dispatchAsync"),
    *all_listed(
        "between ActiveMQ's own client and broker only",
        """
        optimizedAcknowledge noRangeAcks networkSubscription currentPrefetchSize lastDeliveredSequenceId clientId
        """,
    ),
)

PRODUCER: Final = table(
    listed("windowSize", PRODUCER_WINDOW),
    listed("maxRate", PRODUCER_RATE),
    listed("dispatchAsync", "always the case here"),
)


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """Options of a consumer.  None: the setting of its connection or its address.

    settings: dotted attribute path of AddressSettings -> value, for ``config.matching.with_values``.
    notes: known options without an effect, each with the reason.
    """

    prefetch: int | None = None
    is_exclusive: bool | None = None
    priority: int | None = None
    is_retroactive: bool | None = None
    no_local: bool = False
    is_browser: bool = False
    maximum_pending_message_limit: int = 0  # can only lower the address's; 0: not set
    selector: str | None = None
    subscription_name: str | None = None
    from_offset: str | None = None  # these three: where a replay begins
    from_time: str | None = None
    from_id: str | None = None
    settings: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    notes: tuple[str, ...] = ()

    def replay_names(self) -> dict[str, str]:
        """Return the options that say where a replay begins, by the names of headers."""
        said = (("from-offset", self.from_offset), ("from-time", self.from_time), ("from-id", self.from_id))
        return {name: text for name, text in said if text is not None}


NO_CONSUMER_OPTIONS: Final = ConsumerOptions()


@dataclass(frozen=True, slots=True)
class DestinationUri:
    """A destination name as written by a client, parsed.

    name: what is before the ``?``, unchanged.  producer_notes: as ``ConsumerOptions.notes``; no producer option has
    an effect.
    """

    name: str
    consumer: ConsumerOptions = NO_CONSUMER_OPTIONS
    producer_notes: tuple[str, ...] = ()


def parse_destination(text: str) -> DestinationUri:
    """Parse a destination name; it may have any prefix and be composite.  Raises: OptionError."""
    name, mark, query = text.partition("?")
    if not mark:
        return DestinationUri(name)
    consumer: list[tuple[str, str]] = []
    producer: list[tuple[str, str]] = []
    for option, value in parse_query(query):
        if option.startswith(CONSUMER_PREFIX):
            consumer.append((option.removeprefix(CONSUMER_PREFIX), value))
        elif option.startswith(PRODUCER_PREFIX):
            producer.append((option.removeprefix(PRODUCER_PREFIX), value))
        else:
            names = [CONSUMER_PREFIX + known for known in CONSUMER] + [PRODUCER_PREFIX + known for known in PRODUCER]
            raise unknown_option(option, names)
    _, _, producer_notes = _read(producer, PRODUCER, PRODUCER_PREFIX)
    return DestinationUri(name, consumer_options(consumer, CONSUMER_PREFIX), producer_notes)


def parse_query(query: str) -> list[tuple[str, str]]:
    """Return the options of a URI, percent-decoded.  Raises: OptionError if it is not ``name=value&...``."""
    if not query:
        return []
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True, max_num_fields=OPTIONS_MAX)
    except ValueError:
        raise OptionError(
            f"{query!r}: allowed are at most {OPTIONS_MAX} options as in consumer.prefetchSize=10&consumer.priority=5"
        ) from None
    seen: set[str] = set()
    for option, _ in pairs:
        if option in seen:
            raise OptionError(f"{option}: appears twice")
        seen.add(option)
    return pairs


def consumer_options(pairs: Iterable[tuple[str, str]], prefix: str = "") -> ConsumerOptions:
    """Return the parsed options; names are without the ``consumer.`` or ``activemq.`` in front of them.

    prefix: that part of the names, for texts.  Raises: OptionError.
    """
    values, settings, notes = _read(pairs, CONSUMER, prefix)
    return ConsumerOptions(**values, settings=settings, notes=notes)


def _read(
    pairs: Iterable[tuple[str, str]], known: Table, prefix: str
) -> tuple[dict[str, Any], Mapping[str, object], tuple[str, ...]]:
    values: dict[str, Any] = {}
    settings: dict[str, object] = {}
    notes: list[str] = []
    for name, text in pairs:
        if name.startswith(REDELIVERY_PREFIX) and known is CONSUMER:
            option = REDELIVERY.get(name.removeprefix(REDELIVERY_PREFIX))
        else:
            option = known.get(name)
        if option is None:
            raise unknown_option(prefix + name, (prefix + other for other in known))
        try:
            found = option.values(text)
        except OptionError as error:
            raise OptionError(f"{prefix}{error}") from None
        if option.status == "listed":
            notes.append(f"{prefix}{name} has no effect: {option.text}")
        for path, value in found.items():
            target = settings if "." in path else values
            target[path] = value
    return values, MappingProxyType(with_delays(settings)), tuple(notes)


def with_delays(settings: dict[str, object]) -> dict[str, object]:
    """Let rollbacks wait if a delay is set."""
    if DELAYS_ROLLBACK not in settings and not REDELIVERY_DELAYS.isdisjoint(settings):
        settings[DELAYS_ROLLBACK] = True
    return settings
