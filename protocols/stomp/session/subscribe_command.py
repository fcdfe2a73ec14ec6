"""SUBSCRIBE and UNSUBSCRIBE: from the frame to the engine's consumer, and their confirmations."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.api import EngineApi
from engine.consumers.consumer import ACK_MODES
from engine.sources.composite import is_several
from engine.values.errors import InvalidSelector, LimitReached
from protocols.connection import ProtocolConnection
from protocols.peer_socket import PeerSocket
from protocols.stomp.codec.frames import Frame
from protocols.stomp.codec.versions import VERSION_1_0
from protocols.stomp.errors import InvalidHeader
from protocols.stomp.mapping.destination_header import address_in
from protocols.stomp.mapping.destination_resolver import DestinationResolver
from protocols.stomp.mapping.subscribe_options import (
    durable_name,
    is_rabbitmq_durable,
    rabbitmq_name,
    subscribe_options,
)
from protocols.stomp.mapping.transformations import form_asked
from protocols.stomp.session.handshake import Terms
from protocols.stomp.session.receipts import Receipts
from protocols.stomp.session.settings import SessionSettings
from protocols.stomp.session.subscription import Subscription
from protocols.stomp.session.unsettled import Unsettled


@dataclass(slots=True, eq=False)
class SubscribeCommand:
    """terms: of the connection."""

    engine: EngineApi
    client: ProtocolConnection
    socket: PeerSocket
    settings: SessionSettings
    terms: Terms
    resolver: DestinationResolver
    unsettled: Unsettled
    receipts: Receipts
    subscriptions: dict[str, Subscription] = field(init=False)

    def __post_init__(self) -> None:
        self.subscriptions = self.unsettled.subscriptions

    def subscribe(self, frame: Frame) -> None:
        """Take a SUBSCRIBE; its RECEIPT comes before its first MESSAGE.

        Raises: InvalidHeader, EngineError.
        """
        headers = frame.head.headers
        version = self.terms.version
        name = headers.get("destination")
        if name is None:
            raise InvalidHeader("SUBSCRIBE needs a header destination")
        key = self._new_key(headers, name)
        ack = headers.get("ack", "auto")
        if ack not in ACK_MODES:
            raise InvalidHeader(f"ack is {ack[:80]!r}; allowed are {', '.join(ACK_MODES)}")
        if self.settings.dialect.needs_selector and "selector" in headers and not headers["selector"].strip():
            raise InvalidSelector("the header selector is blank; a SUBSCRIBE without a selector leaves it out")
        address = address_in(name, headers.get("subscription-type"))
        asked = subscribe_options(
            headers,
            address.options,
            ACK_MODES[ack],
            key,
            address.is_topic(),
            self.terms.defaults,
            self.settings.is_strict,
        )
        for warning in asked.warnings:
            self.socket.warn(warning)
        known = len(self.resolver.aliases)
        source = self.resolver.source(address)
        if len(self.resolver.aliases) > known:
            self.unsettled.rewrite_each_message()
        is_mixed = is_several(source)
        consumer = self.engine.subscribe(self.client, source, asked.options)
        subscription = Subscription(
            consumer,
            headers.get("id"),
            address.text,
            is_mixed,
            asked.options,
            version,
            self.unsettled.by_ack,
            form_asked(headers),
        )
        if self.resolver.aliases:
            subscription.is_plain = False
        consumer.adapter = subscription
        self.subscriptions[key] = subscription
        self.client.count_selector(len(asked.options.selector))
        self.unsettled.consumers[key] = consumer
        if asked.options.is_durable:
            self.receipts.has_logged = True
        if frame.receipt is None:
            consumer.start()
        else:
            self.receipts.start_after(frame.receipt, consumer)

    def unsubscribe(self, frame: Frame) -> None:
        """Take an UNSUBSCRIBE; one that names a durable subscription deletes it.

        Raises: InvalidHeader, EngineError.
        """
        headers = frame.head.headers
        durable = durable_name(headers)
        is_by_id = not durable and ("durable" in headers or "persistent" in headers) and is_rabbitmq_durable(headers)
        if is_by_id:
            durable = rabbitmq_name(headers, headers.get("id", ""))
        subscription = self._take(headers, durable)
        if subscription is not None:
            consumer = self.unsettled.consumers.pop(subscription.key)
            self.client.count_selector(-len(subscription.options.selector))
            self.unsettled.forget(list(consumer.ledger.values()))
            self.engine.unsubscribe(consumer, is_lost=False)
            if is_by_id:
                durable = subscription.options.subscription  # on a queue it has no durable subscription, and no effect
        if durable:
            self._delete(durable)
        if frame.receipt is not None:
            self.receipts.parts.append(frame.receipt)

    def _delete(self, name: str) -> None:
        """End a durable subscription.  In 1.0 its own name may replace the client id, as with ActiveMQ."""
        client_id = self.terms.client_id
        named = self.engine.subscribing.subscriptions.named.by_key
        if self.terms.version == VERSION_1_0 and (client_id, name, True) not in named:
            client_id = name
        self.engine.delete_subscription(self.client, client_id, name)
        self.receipts.has_logged = True

    def _new_key(self, headers: dict[str, str], destination: str) -> str:
        """Return the id of a SUBSCRIBE.  Raises: InvalidHeader, LimitReached."""
        key = headers.get("id")
        if key is None:
            if self.terms.version != VERSION_1_0:
                raise InvalidHeader("SUBSCRIBE needs a header id")
            key = destination
        if key in self.subscriptions:
            raise InvalidHeader(f"subscription {key[:200]!r} already exists on this connection")
        most = self.settings.subscriptions
        if len(self.subscriptions) >= most:
            raise LimitReached(f"{most} subscriptions are open on this connection, which is the limit")
        return key

    def _take(self, headers: dict[str, str], durable: str) -> Subscription | None:
        """Remove and return the subscription that an UNSUBSCRIBE ends.

        durable: name of the durable subscription that it deletes, "" for none; None if that has no consumer here.
        Raises: InvalidHeader.
        """
        known = self.subscriptions
        key = headers.get("id")
        if key is None and self.terms.version == VERSION_1_0:
            key = self._key_of_destination(headers.get("destination"))
        if key is None and durable:
            key = next((one.key for one in known.values() if one.options.subscription == durable), None)
            if key is None:
                return None
        if key is None:
            raise InvalidHeader("UNSUBSCRIBE needs a header id")
        subscription = known.pop(key, None)
        if subscription is None and not durable:
            raise InvalidHeader(f"UNSUBSCRIBE names {key[:200]!r}, which is not a subscription of this connection")
        return subscription

    def _key_of_destination(self, destination: str | None) -> str | None:
        """Return the id of the subscription that a 1.0 client names by its destination, even if it has an id."""
        if destination is None or destination in self.subscriptions:
            return destination
        found = (one.key for one in self.subscriptions.values() if one.destination == destination)
        return next(found, destination)
