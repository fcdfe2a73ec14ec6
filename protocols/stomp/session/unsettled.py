"""The subscriptions of one connection, and which of their deliveries an ACK or NACK means."""

from __future__ import annotations

from engine.consumers.consumer import Consumer
from engine.values.delivery import Delivery
from engine.values.errors import LimitReached
from engine.values.message import NOT_LOGGED
from protocols.stomp.codec import frames
from protocols.stomp.codec.escapes import unescape_known
from protocols.stomp.codec.frames import Frame
from protocols.stomp.codec.versions import VERSION_1_0, VERSION_1_1, VERSION_1_2
from protocols.stomp.errors import InvalidHeader
from protocols.stomp.session.subscription import Subscription


class Unsettled:
    """by_key: under their id, in 1.0 also under their destination.

    by_ack: what is not settled, by the ``ack`` header of 1.2, which is unique on the connection.  Earlier versions
    name a message-id, which is unique in a subscription only: ``Subscription.unsettled``.
    id_prefix, serial_prefix: of the message ids that this store gives.
    """

    __slots__ = ("by_key", "by_ack", "most", "id_prefix", "serial_prefix")

    def __init__(self, most: int, id_prefix: str, serial_prefix: str) -> None:
        self.by_key: dict[str, Subscription] = {}
        self.by_ack: dict[bytes, Delivery] = {}
        self.most = most
        self.id_prefix = id_prefix
        self.serial_prefix = serial_prefix

    def new_key(self, headers: dict[str, str], destination: str, version: int) -> str:
        """Return what a SUBSCRIBE is known by.  Raises: InvalidHeader, LimitReached."""
        key = headers.get("id")
        if key is None:
            if version != VERSION_1_0:
                raise InvalidHeader("SUBSCRIBE needs a header id")
            key = destination
        if key in self.by_key:
            raise InvalidHeader(f"subscription {key[:200]!r} is there already on this connection")
        if len(self.by_key) >= self.most:
            raise LimitReached(f"{self.most} subscriptions are open on this connection, which is the limit")
        return key

    def look_at_each_message(self) -> None:
        """From now on a message may have to be written otherwise for this connection."""
        for subscription in self.by_key.values():
            subscription.is_plain = False

    def take(self, headers: dict[str, str], version: int, durable: str) -> Subscription | None:
        """Return the subscription that an UNSUBSCRIBE ends; it is known no more.

        durable: name of the durable subscription that it deletes, "" for none; None if that has no consumer here.
        Raises: InvalidHeader.
        """
        key = headers.get("id")
        if key is None and version == VERSION_1_0:
            key = self._key_of_destination(headers.get("destination"))
        if key is None and durable:
            key = next((one.key for one in self.by_key.values() if one.options.subscription == durable), None)
            if key is None:
                return None
        if key is None:
            raise InvalidHeader("UNSUBSCRIBE needs a header id")
        subscription = self.by_key.pop(key, None)
        if subscription is None and not durable:
            raise InvalidHeader(f"UNSUBSCRIBE names {key[:200]!r}, which is not a subscription of this connection")
        return subscription

    def find(self, frame: Frame, version: int, is_exact: bool) -> Delivery | None:
        """Return what an ACK or NACK names; None if there is nothing to acknowledge (automatic mode).

        is_exact: the headers that the version requires must all be there.  Raises: InvalidHeader.
        """
        headers = frame.head.headers
        command = frames.NAMES[frame.command].decode()
        own_id = headers.get("id") if frame.id is None else frame.id.decode()
        named = headers.get("subscription")
        wanted = own_id if version == VERSION_1_2 and own_id is not None else headers.get("message-id", own_id)
        required = "id" if version == VERSION_1_2 else "message-id"
        if wanted is None or (is_exact and (own_id if version == VERSION_1_2 else headers.get("message-id")) is None):
            raise InvalidHeader(f"{command} needs a header {required}")
        if is_exact and version == VERSION_1_1 and named is None:
            raise InvalidHeader(f"{command} needs a header subscription")
        found, has_automatic = self._find_named(wanted, named, version)
        if len(found) > 1 and version != VERSION_1_0:
            raise InvalidHeader(
                f"{command} names {wanted[:200]!r}, which {len(found)} subscriptions of this connection have; "
                "a header subscription must say which one is meant"
            )
        if found:
            return found[0]
        if has_automatic and frame.command == frames.ACK and wanted.startswith(("ID:", "ID\\c")):
            return None
        raise InvalidHeader(
            f"{command} names {wanted[:200]!r}, which is not an unacknowledged message of this connection"
        )

    def _find_named(self, wanted: str, named: str | None, version: int) -> tuple[list[Delivery], bool]:
        """Return the deliveries that ``wanted`` may mean, and whether one subscription settles by itself.

        named: the subscription, None for any.
        """
        is_escaped = version == VERSION_1_0 and "\\" in wanted + (named or "")
        # Some clients escape what they send under 1.0, too (go-stomp): found in either form.
        keys = {wanted.encode(), unescape_known(wanted, version).encode()} if is_escaped else {wanted.encode()}
        names = {named, unescape_known(named, version)} if is_escaped and named is not None else {named}
        if version == VERSION_1_2:
            one = self.by_ack.get(wanted.encode())
            if one is not None and (named is None or _is_of(one, named)):
                return [one], False
        found: list[Delivery] = []
        has_automatic = False
        for subscription in self.by_key.values():
            if named is not None and subscription.key not in names:
                continue
            has_automatic = has_automatic or subscription.is_automatic
            if version != VERSION_1_2:
                found += [subscription.unsettled[key] for key in keys if key in subscription.unsettled]
        if version == VERSION_1_2:
            found = self._find_by_message_id(wanted, named)
        return found, has_automatic

    def forget(self, deliveries: list[Delivery]) -> None:
        """These are settled, or no longer this connection's."""
        consumer: Consumer | None = None
        subscription: Subscription | None = None
        for delivery in deliveries:
            if subscription is None or delivery.consumer is not consumer:  # mostly one has them all
                consumer = delivery.consumer
                assert consumer is not None, "an unsettled delivery is with a consumer"
                adapter = consumer.adapter
                assert isinstance(adapter, Subscription), "a consumer of this session has a subscription"
                subscription = adapter
            subscription.unsettled.pop(delivery.key, None)

    def clear(self) -> None:
        self.by_key.clear()
        self.by_ack.clear()

    def _key_of_destination(self, destination: str | None) -> str | None:
        """1.0 names a subscription by its destination, even where it has an id."""
        if destination is None or destination in self.by_key:
            return destination
        return next((one.key for one in self.by_key.values() if one.destination == destination), destination)

    def _find_by_message_id(self, wanted: str, named: str | None) -> list[Delivery]:
        """In 1.2 stomp-php's generic dialect answers with the message-id."""
        offset, serial = self._parse_message_id(wanted)
        if offset < 0 and serial < 0:
            return []
        return [
            delivery
            for delivery in self.by_ack.values()
            if delivery.message.log_offset == offset
            and (offset >= 0 or delivery.message.serial == serial)
            and (named is None or _is_of(delivery, named))
        ]

    def _parse_message_id(self, text: str) -> tuple[int, int]:
        """Return log offset and serial that a message-id of this store names, -1 for what it does not."""
        for prefix, is_serial in ((self.serial_prefix, True), (self.id_prefix, False)):
            digits = text.removeprefix(prefix)
            if text.startswith(prefix) and digits.isascii() and digits.isdigit() and len(digits) <= 19:
                return (NOT_LOGGED, int(digits)) if is_serial else (int(digits), -1)
        return NOT_LOGGED, -1


def _is_of(delivery: Delivery, name: str) -> bool:
    consumer = delivery.consumer
    return consumer is not None and consumer.name == name
