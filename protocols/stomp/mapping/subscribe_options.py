"""SUBSCRIBE in the words of every broker: headers and destination options to ``SubscribeOptions``.

From lowest to highest: the connection's defaults, the destination's ``?consumer.`` options, headers.  Among headers
with the same meaning the ``activemq.`` ones are highest.

    asked for                 ActiveMQ                      Artemis, HornetQ               RabbitMQ
    messages in flight        activemq.prefetchSize                                        prefetch-count (0: no limit)
    octets in flight          activemq.windowSize           consumer-window-size
    selector                  activemq.selector             selector
    durable subscription      activemq.subscriptionName     durable-subscription-name,     durable:true (shared by
                                                            durable-subscriber-name        all who use the same id)
    its shared name           shared-subscription-name                                     x-queue-name
    not my own messages       activemq.noLocal              no-local
    priority                  activemq.priority                                            x-priority
    browser                   browser, activemq.browser
    earlier messages          from-offset, from-time,                                      x-stream-offset
                              from-id
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from config.destination_options import CONSUMER, REDELIVERY_PREFIX, ConsumerOptions, consumer_options
from config.jms_options import REDELIVERY
from config.model import ConnectionDefaults
from config.options import OptionError, unknown_option
from engine.values.errors import InvalidOption
from engine.values.options import ReplayStart, SubscribeOptions
from protocols.consumer_defaults import RATE_PATH, WINDOW_PATH, redelivery_in, with_defaults
from protocols.replay_start import NAMES, STREAM_OFFSET, replay_start, stream_start
from protocols.stomp.mapping.option_values import boolean, number
from protocols.stomp.mapping.transformations import TRANSFORMATION, is_known

ACTIVEMQ: Final = "activemq."
PREFETCH_HEADER: Final = "prefetch-count"
WINDOW_HEADER: Final = "consumer-window-size"
PREFETCH_MOST: Final = 2**31 - 1  # the highest that may be written; the broker lowers it to its own maximum
WARNINGS_MOST: Final = 3  # warnings about headers of one SUBSCRIBE; one more counts the rest

DURABLE_NAMES: Final = (ACTIVEMQ + "subscriptionName", "durable-subscription-name", "durable-subscriber-name")
SHARED_NAMES: Final = ("shared-subscription-name", "x-queue-name")

# .NET clients also send this misspelt header.
_MISSPELT: Final = frozenset(("activemq.subcriptionName",))
# Options of RabbitMQ, and an option in the wrong place: a client that sends one expects an effect.
_IN_VAIN: Final = frozenset(("consumer.prefetchSize", "exclusive"))
_RABBITMQ_ARGUMENT: Final = "x-"
_RABBITMQ_HONOURED: Final = frozenset(("x-queue-name", "x-priority", STREAM_OFFSET))


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asked:
    """warnings: for the operator, about headers that have no effect."""

    options: SubscribeOptions
    warnings: tuple[str, ...]


def subscribe_options(
    headers: dict[str, str],
    uri: ConsumerOptions,
    ack_mode: int,
    key: str,
    is_topic: bool,
    defaults: ConnectionDefaults,
    is_strict: bool,
) -> Asked:
    """Return the options of a SUBSCRIBE.

    uri: the destination's own options.  key: the subscription's id.  is_topic: of its destination.
    is_strict: a header without an effect is an error.  Raises: InvalidOption.
    """
    given, unknown = _activemq(headers)
    warnings = _warnings(headers, unknown)
    if warnings and is_strict:
        raise InvalidOption(warnings[0])
    try:
        own = consumer_options(given.items(), ACTIVEMQ)
    except OptionError as error:
        raise InvalidOption(str(error)) from None
    settings = {**uri.settings, **_foreign(headers, WINDOW_HEADER, "windowSize"), **own.settings}
    subscription, is_durable, is_shared = _subscription(headers, own, uri, key, is_topic)
    options = SubscribeOptions(
        ack_mode,
        prefetch=_prefetch(headers, own, uri),
        name=key,
        selector=_first(own.selector, headers.get("selector"), uri.selector, ""),
        subscription=subscription,
        is_durable=is_durable,
        is_shared=is_shared,
        is_no_local=_switch(headers, given, "noLocal", "no-local", own.no_local, uri.no_local),
        is_exclusive=_first(own.is_exclusive, None, uri.is_exclusive, defaults.is_exclusive),
        is_browser=_switch(headers, given, "browser", "browser", own.is_browser, uri.is_browser),
        replay=_replay(headers, own, uri),
        is_retroactive=_first(own.is_retroactive, None, uri.is_retroactive, is_topic and defaults.is_retroactive),
        priority=_first(own.priority, _rabbitmq_priority(headers), uri.priority, 0),
        window_bytes=_setting(settings, WINDOW_PATH),
        rate=_setting(settings, RATE_PATH),
        pending_limit=own.maximum_pending_message_limit or uri.maximum_pending_message_limit,
        redelivery=redelivery_in(settings),
        remarks=(*warnings, *uri.notes, *own.notes),
    )
    return Asked(with_defaults(options, defaults, is_topic), warnings)


def durable_name(headers: dict[str, str]) -> str:
    """Return the durable subscription that a SUBSCRIBE or UNSUBSCRIBE names in ActiveMQ's or Artemis' way, or ""."""
    for name in DURABLE_NAMES:
        if headers.get(name):
            return headers[name]
    return ""


def rabbitmq_name(headers: dict[str, str], key: str) -> str:
    """Return the name of RabbitMQ's durable subscription: all clients with the same id share it."""
    return shared_name(headers) or f"{headers.get('destination', '')}:{key}"


def shared_name(headers: dict[str, str]) -> str:
    for name in SHARED_NAMES:
        if headers.get(name):
            return headers[name]
    return ""


def is_rabbitmq_durable(headers: dict[str, str]) -> bool:
    """Say whether a topic subscription outlives its connection by RabbitMQ's headers.  Raises: InvalidOption."""
    is_kept = not boolean("auto-delete", headers["auto-delete"]) if "auto-delete" in headers else None
    is_durable = any(boolean(name, headers[name]) for name in ("durable", "persistent") if name in headers)
    if is_kept and not is_durable:
        raise InvalidOption("auto-delete:false needs durable:true: only the log keeps a subscription")
    return is_durable and is_kept is not False


def _activemq(headers: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the options with the prefix ``activemq.``, and the headers with it in any case that are unknown."""
    given: dict[str, str] = {}
    unknown: list[str] = []
    for header, value in headers.items():
        if not header.lower().startswith(ACTIVEMQ) or header in _MISSPELT:
            continue
        name = header.removeprefix(ACTIVEMQ)  # with ``ActiveMQ.`` it stays, and is unknown
        is_redelivery = name.startswith(REDELIVERY_PREFIX) and name.removeprefix(REDELIVERY_PREFIX) in REDELIVERY
        if name in CONSUMER or is_redelivery:
            given[name] = value
        else:
            unknown.append(header)
    return given, unknown


def _warnings(headers: dict[str, str], unknown: list[str]) -> tuple[str, ...]:
    known = [ACTIVEMQ + name for name in CONSUMER]
    # Without the list of all known options: a warning is one line.
    texts = [
        f"SUBSCRIBE has {str(unknown_option(repr(one[:80]), known)).split(';')[0]}" for one in unknown[:WARNINGS_MOST]
    ]
    in_vain = [
        name
        for name in headers
        if name in _IN_VAIN
        or (name.startswith(_RABBITMQ_ARGUMENT) and name not in _RABBITMQ_HONOURED)
        or (name == TRANSFORMATION and not is_known(headers[name]))
    ]
    texts += [f"SUBSCRIBE has a header {name[:80]!r} that has no effect here" for name in in_vain]
    if len(unknown) + len(in_vain) <= WARNINGS_MOST:
        return tuple(texts)
    left = len(unknown) + len(in_vain) - WARNINGS_MOST
    return (*texts[:WARNINGS_MOST], f"SUBSCRIBE has {left} more headers that have no effect here")


def _subscription(
    headers: dict[str, str], own: ConsumerOptions, uri: ConsumerOptions, key: str, is_topic: bool
) -> tuple[str, bool, bool]:
    """Return name, durable, shared."""
    name = durable_name(headers) or (own.subscription_name or "") or (uri.subscription_name or "")
    if name:
        return name, True, False
    if not is_topic:
        name = headers.get("shared-subscription-name", "")  # the engine refuses it; x-queue-name has no effect
        return name, False, bool(name)
    if is_rabbitmq_durable(headers):
        return rabbitmq_name(headers, key), True, True
    name = shared_name(headers)
    return name, False, bool(name)


def _prefetch(headers: dict[str, str], own: ConsumerOptions, uri: ConsumerOptions) -> int | None:
    if own.prefetch is not None:
        return own.prefetch
    if PREFETCH_HEADER in headers:
        return number(PREFETCH_HEADER, headers[PREFETCH_HEADER], 0, PREFETCH_MOST) or PREFETCH_MOST
    return uri.prefetch


def _replay(headers: dict[str, str], own: ConsumerOptions, uri: ConsumerOptions) -> ReplayStart | None:
    said = {name: headers[name] for name in NAMES if name in headers} | own.replay_names()
    if STREAM_OFFSET in headers:
        if said:
            raise InvalidOption(f"{next(iter(said))} and {STREAM_OFFSET} both set the start of the replay")
        return stream_start(headers[STREAM_OFFSET])
    return replay_start(said or uri.replay_names())


def _rabbitmq_priority(headers: dict[str, str]) -> int | None:
    return _setting(_foreign(headers, "x-priority", "priority"), "priority")


def _foreign(headers: dict[str, str], header: str, option: str) -> Mapping[str, object]:
    """Return the value of another broker's header with the meaning of an ActiveMQ option.  Raises: InvalidOption."""
    if header not in headers:
        return {}
    try:
        return CONSUMER[option].values(headers[header])
    except OptionError as error:
        raise InvalidOption(header + str(error).removeprefix(option)) from None


def _switch(
    headers: dict[str, str], given: dict[str, str], option: str, header: str, own: bool, of_destination: bool
) -> bool:
    """Return a switch that can be set in three places; off in a higher one overrides on in a lower one."""
    if option in given:
        return own
    if header in headers:
        return boolean(header, headers[header])
    return of_destination


def _first(own: T | None, header: T | None, of_destination: T | None, default: T) -> T:
    for value in (own, header, of_destination):
        if value is not None:
            return value
    return default


def _setting(settings: Mapping[str, object], path: str) -> int | None:
    value = settings.get(path)
    assert value is None or isinstance(value, int), f"{path} is {value!r}"
    return value
