"""SUBSCRIBE and UNSUBSCRIBE: from the frame to the engine's consumer, and what is confirmed when."""

from __future__ import annotations

from config.model import ConnectionDefaults
from engine.broker import Broker
from engine.consumers.consumer import ACK_MODES
from engine.ports.client import Client
from engine.sources.queue import Queue
from engine.sources.topic import Topic
from engine.values.errors import InvalidSelector
from protocols.connection import Link
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
from protocols.stomp.session.receipts import Receipts, receipt_frames
from protocols.stomp.session.subscription import Subscription
from protocols.stomp.session.unsettled import Unsettled


class SubscribeCommand:
    """terms, defaults: of the connection, once it is open.  needs_selector: a selector must not be blank."""

    __slots__ = (
        "broker",
        "client",
        "link",
        "is_strict",
        "needs_selector",
        "naming",
        "subscriptions",
        "confirmations",
        "terms",
        "defaults",
    )

    def __init__(
        self,
        broker: Broker,
        client: Client,
        link: Link,
        is_strict: bool,
        needs_selector: bool,
        naming: DestinationResolver,
        subscriptions: Unsettled,
        confirmations: Receipts,
    ) -> None:
        self.broker = broker
        self.client = client
        self.link = link
        self.is_strict = is_strict
        self.needs_selector = needs_selector
        self.naming = naming
        self.subscriptions = subscriptions
        self.confirmations = confirmations
        self.terms = Terms()
        self.defaults = ConnectionDefaults()

    def subscribe(self, frame: Frame, out: list[bytes]) -> None:
        """Take a SUBSCRIBE; its RECEIPT comes before its first MESSAGE, in ``out`` if it can leave at once.

        Raises: InvalidHeader, EngineError.
        """
        headers = frame.head.headers
        version = self.terms.version
        name = headers.get("destination")
        if name is None:
            raise InvalidHeader("SUBSCRIBE needs a header destination")
        key = self.subscriptions.new_key(headers, name, version)
        ack = headers.get("ack", "auto")
        if ack not in ACK_MODES:
            raise InvalidHeader(f"ack is {ack[:80]!r}; allowed are {', '.join(ACK_MODES)}")
        if self.needs_selector and "selector" in headers and not headers["selector"].strip():
            raise InvalidSelector("the header selector is blank; a SUBSCRIBE without a selector leaves it out")
        address = address_in(name, headers.get("subscription-type"))
        asked = subscribe_options(
            headers, address.options, ACK_MODES[ack], key, address.is_topic(), self.defaults, self.is_strict
        )
        for warning in asked.warnings:
            self.link.warn(warning)
        source = self.naming.source(address)
        is_mixed = not isinstance(source, Queue | Topic)
        consumer = self.broker.subscribe(self.client, source, asked.options)
        subscription = Subscription(
            consumer,
            headers.get("id"),
            address.text,
            is_mixed,
            asked.options,
            version,
            self.subscriptions.by_ack,
            form_asked(headers),
        )
        if self.naming.aliases:
            subscription.is_plain = False
        consumer.adapter = subscription
        self.subscriptions.by_key[key] = subscription
        confirmations = self.confirmations
        if asked.options.is_durable:
            confirmations.has_logged = True
        receipt = frame.receipt
        if receipt is None:
            self.broker.start(consumer)
        elif confirmations.is_settled(self.broker.store.confirmed_offset()):
            out.append(receipt_frames([receipt]))  # nothing that it would have to wait for
            self.broker.start(consumer)
        else:
            confirmations.receipts.append(receipt)
            confirmations.turn_held.append(consumer)

    def unsubscribe(self, frame: Frame) -> None:
        """Take an UNSUBSCRIBE; one that names a durable subscription deletes it.

        Raises: InvalidHeader, EngineError.
        """
        headers = frame.head.headers
        durable = durable_name(headers)
        is_by_id = not durable and ("durable" in headers or "persistent" in headers) and is_rabbitmq_durable(headers)
        if is_by_id:
            durable = rabbitmq_name(headers, headers.get("id", ""))
        subscription = self.subscriptions.take(headers, self.terms.version, durable)
        if subscription is not None:
            self.subscriptions.forget(list(subscription.consumer.ledger.values()))
            self.broker.unsubscribe(subscription.consumer, is_lost=False)
            if is_by_id:
                durable = subscription.options.subscription  # of a queue it has none, and asks for nothing
        if durable:
            self._delete(durable)
        if frame.receipt is not None:
            self.confirmations.receipts.append(frame.receipt)

    def _delete(self, name: str) -> None:
        """End a durable subscription.  In 1.0 its own name may stand for the client id, as with ActiveMQ."""
        client_id = self.terms.client_id
        if self.terms.version == VERSION_1_0 and (client_id, name, True) not in self.broker.subscriptions.named:
            client_id = name
        self.broker.delete_subscription(self.client, client_id, name)
        self.confirmations.has_logged = True
