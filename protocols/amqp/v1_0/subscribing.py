"""What a source asks for -> SubscribeOptions, and the source that says what is really done.

    filter apache.org:selector-filter:string      JMS selector
    filter apache.org:no-local-filter:list        nothing that this connection has sent
    queue, distribution-mode copy                 browser
    topic, durable 1 or 2, or expiry never        durable subscription, named by the link
    topic, capability shared (and global)         shared by name; global: not only by connections of one client id

A filter is known by its descriptor, never by its key (filter registry); one that is not known is left out of the
answer, which is how the client learns of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from config.destination_options import ConsumerOptions
from config.model import ConnectionDefaults
from engine.consumer import INDIVIDUAL
from engine.options import SubscribeOptions
from protocols.amqp.v1_0.errors import InvalidField
from protocols.amqp.v1_0.termini import Source
from protocols.amqp.v1_0.values import Described, Value
from protocols.consumer_defaults import with_defaults

SELECTOR: Final[frozenset[Value]] = frozenset((0x0000468C00000004, "apache.org:selector-filter:string"))
NO_LOCAL: Final[frozenset[Value]] = frozenset((0x0000468C00000003, "apache.org:no-local-filter:list"))
NUMBER_SEPARATOR: Final = "|"  # Qpid JMS writes ``name|2`` for the second consumer of a shared subscription


def subscription(
    name: str, source: Source, uri: ConsumerOptions, is_topic: bool, defaults: ConnectionDefaults
) -> tuple[SubscribeOptions, Source]:
    """Return what to subscribe with, and the source to answer.

    name: of the link.  uri: options behind the address's ``?``.  defaults: the connection's.  Raises: InvalidField.
    """
    selector = uri.selector or ""
    is_no_local = uri.no_local
    applied: dict[Value, Value] = {}
    for key, value in (source.filter or {}).items():
        if not isinstance(value, Described):
            raise InvalidField(f"filter {str(key)[:80]!r} is not described")
        if value.descriptor in SELECTOR:
            if type(value.value) is not str:
                raise InvalidField(f"the selector is a {type(value.value).__name__}; allowed is a string")
            selector = value.value
            applied[key] = value
        elif value.descriptor in NO_LOCAL:
            is_no_local = True
            applied[key] = value
    capabilities = source.capabilities or []
    is_durable = is_topic and (bool(source.durable) or source.expiry_policy == "never")
    is_shared = is_topic and "shared" in capabilities
    options = SubscribeOptions(
        INDIVIDUAL,
        name=name,
        selector=selector,
        has_text_properties=False,
        subscription=subscription_name(name) if is_durable or is_shared else "",
        is_durable=is_durable,
        is_shared=is_shared,
        is_global=is_shared and "global" in capabilities,
        is_no_local=is_no_local,
        is_exclusive=defaults.is_exclusive if uri.is_exclusive is None else uri.is_exclusive,
        is_browser=not is_topic and (source.distribution_mode == "copy" or uri.is_browser),
        is_retroactive=(is_topic and defaults.is_retroactive) if uri.is_retroactive is None else uri.is_retroactive,
        priority=uri.priority or 0,
        pending_limit=uri.maximum_pending_message_limit,
        is_credited=True,
    )
    # What stands behind the ``?`` is above what the connection says, and both are read alike.
    own = with_defaults(options, ConnectionDefaults(uri.settings), is_topic)
    return with_defaults(own, defaults, is_topic), replace(source, filter=applied or None)


def subscription_name(link_name: str) -> str:
    """Return the subscription that a link's name means: what stands before the number of the consumer."""
    return link_name.partition(NUMBER_SEPARATOR)[0]
