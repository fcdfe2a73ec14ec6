"""A source -> SubscribeOptions, and the answering source, which shows the real effect.

    filter apache.org:selector-filter:string      JMS selector
    filter apache.org:no-local-filter:list        nothing that this connection has sent
    filter penstock:from-offset, from-time,       replay, from there on
           from-id; rabbitmq:stream-offset-spec
    queue, distribution-mode copy                 browser; a replay of a queue with it ends
    topic, durable 1 or 2, or expiry never        durable subscription, named by the link
    address ?consumer.subscriptionName=           durable subscription with this name
    topic, capability shared (and global)         shared by name; global: not only by connections of one client id

A filter is recognised by its descriptor, never by its key (filter registry).  The answer leaves out unknown filters, so
that the client learns of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from config.destination_options import ConsumerOptions
from config.model import ConnectionDefaults
from engine.consumers.consumer import INDIVIDUAL
from engine.values.options import ReplayStart, SubscribeOptions
from protocols.amqp.v1_0.wire.composites.termini import Source
from protocols.amqp.v1_0.wire.errors import InvalidField
from protocols.amqp.v1_0.wire.types.values import Described, Symbol, Timestamp, UInt, Value
from protocols.consumer_defaults import with_defaults
from protocols.replay_start import FROM_ID, FROM_TIME, NAMES, PLACES, replay_start

SELECTOR: Final[frozenset[Value]] = frozenset((0x0000468C00000004, "apache.org:selector-filter:string"))
NO_LOCAL: Final[frozenset[Value]] = frozenset((0x0000468C00000003, "apache.org:no-local-filter:list"))
STARTS: Final = {f"penstock:{name}": name for name in NAMES}
STREAM_OFFSET_SPEC: Final = "rabbitmq:stream-offset-spec"
MOVE: Final = Symbol("move")
COPY: Final = Symbol("copy")
NEVER: Final = Symbol("never")
LINK_DETACH: Final = Symbol("link-detach")
PREFETCH_NOTE: Final = "consumer.prefetchSize has no effect: the link's credit is the window"
NUMBER_SEPARATOR: Final = "|"  # Qpid JMS writes ``name|2`` for the second consumer of a shared subscription


def subscription(
    name: str, source: Source, uri: ConsumerOptions, is_topic: bool, defaults: ConnectionDefaults
) -> tuple[SubscribeOptions, Source]:
    """Return the options of the subscription, and the source for the answer.

    name: of the link.  uri: options after the address's ``?``.  defaults: the connection's.  Raises: InvalidField.
    """
    selector, is_no_local, replay, applied = _filters(source, uri)
    capabilities = source.capabilities or []
    named = uri.subscription_name or ""
    # The engine refuses a name for a queue.
    is_durable = bool(named) or (is_topic and (bool(source.durable) or source.expiry_policy == NEVER))
    is_shared = is_topic and "shared" in capabilities
    options = SubscribeOptions(
        INDIVIDUAL,
        name=name,
        selector=selector,
        subscription=(named or subscription_name(name)) if is_durable or is_shared else "",
        is_durable=is_durable,
        is_shared=is_shared,
        is_global=is_shared and "global" in capabilities,
        is_no_local=is_no_local,
        is_exclusive=defaults.is_exclusive if uri.is_exclusive is None else uri.is_exclusive,
        is_browser=_is_browser(source, uri, is_topic, replay is not None),
        replay=replay,
        is_retroactive=(is_topic and defaults.is_retroactive) if uri.is_retroactive is None else uri.is_retroactive,
        priority=uri.priority or 0,
        pending_limit=uri.maximum_pending_message_limit,
        is_credited=True,
        remarks=uri.notes if uri.prefetch is None else (*uri.notes, PREFETCH_NOTE),
    )
    # Options after the ``?`` override the connection's; both are read in the same way.
    own = with_defaults(options, ConnectionDefaults(uri.settings), is_topic)
    actual = _actual(source, applied, is_topic or options.is_browser, is_durable)
    return with_defaults(own, defaults, is_topic), actual


def _filters(source: Source, uri: ConsumerOptions) -> tuple[str, bool, ReplayStart | None, dict[Value, Value]]:
    """Return selector, noLocal and replay by the filters or, where these are silent, by ``uri``; and known filters.

    Raises: InvalidField.
    """
    selector = uri.selector or ""
    is_no_local = uri.no_local
    replay: ReplayStart | None = None
    applied: dict[Value, Value] = {}
    for key, value in (source.filter or {}).items():
        if not isinstance(key, Symbol):
            raise InvalidField(f"a key of the filters is a {type(key).__name__}; allowed are symbols")
        if value is None:  # a null filters nothing
            continue
        if not isinstance(value, Described):
            raise InvalidField(f"filter {str(key)[:80]!r} is not described")
        # A descriptor that is neither symbol nor number (it may be a list) names no known filter.
        descriptor = value.descriptor if isinstance(value.descriptor, (str, int)) else None
        if descriptor in SELECTOR:
            if type(value.value) is not str:
                raise InvalidField(f"the selector is a {type(value.value).__name__}; allowed is a string")
            selector = value.value
            applied[key] = value
        elif descriptor in NO_LOCAL:
            is_no_local = True
            applied[key] = value
        elif descriptor in STARTS or descriptor == STREAM_OFFSET_SPEC:
            if replay is not None:
                raise InvalidField("two filters set the start of the replay; allowed is one")
            replay = _stream_start(value.value) if descriptor == STREAM_OFFSET_SPEC else _replay_start(value)
            applied[key] = value
    if replay is None:
        replay = replay_start(uri.replay_names())
    return selector, is_no_local, replay, applied


def _is_browser(source: Source, uri: ConsumerOptions, is_topic: bool, is_replay: bool) -> bool:
    """Say whether it is a browser.  On a topic the mode copy means nothing: all deliveries are copies (Qpid JMS)."""
    return (uri.is_browser and (not is_topic or is_replay)) or (source.distribution_mode == COPY and not is_topic)


def _actual(source: Source, applied: dict[Value, Value], is_copying: bool, is_durable: bool) -> Source:
    """Return a source with the real effect (transport 2.6.3), and how long it lives (messaging 3.5.6)."""
    source = replace(source, filter=applied or None, distribution_mode=COPY if is_copying else MOVE)
    if is_durable:
        return replace(source, durable=source.durable or UInt(1), expiry_policy=NEVER)
    if source.durable or source.expiry_policy == NEVER:
        return replace(source, durable=None, expiry_policy=LINK_DETACH)
    return source


def _replay_start(given: Described) -> ReplayStart | None:
    """Raises: InvalidField, InvalidOption."""
    name = STARTS[str(given.descriptor)]
    allowed = {FROM_ID: "a string", FROM_TIME: "a timestamp or a string"}.get(name, "a number or a string")
    value = given.value
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if not isinstance(value, str) and not (is_number and name != FROM_ID):
        raise InvalidField(f"the filter {name} is a {type(value).__name__}; allowed is {allowed}")
    return replay_start({name: str(int(value)) if is_number else value})


def _stream_start(value: Value) -> ReplayStart:
    """Return the start in RabbitMQ's filter: a text, an offset, a timestamp.  Raises: InvalidField, InvalidOption."""
    if isinstance(value, Timestamp):
        return ReplayStart(time_ms=max(0, int(value)))
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return ReplayStart(entry=int(value), is_lenient=True)
    if isinstance(value, str) and value in PLACES:
        return ReplayStart(str(value))
    raise InvalidField(
        f"the filter {STREAM_OFFSET_SPEC} is {str(value)[:80]!r}; allowed are first, last, next, a number, a timestamp"
    )


def subscription_name(link_name: str) -> str:
    """Return the subscription in a link's name: the part before the number of the consumer."""
    return link_name.partition(NUMBER_SEPARATOR)[0]
