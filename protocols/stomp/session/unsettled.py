"""Unsettled deliveries of one connection, by the names that ACK and NACK use."""

from __future__ import annotations

from typing import Final

from engine.consumers.consumer import Consumer
from engine.selector.properties import PropertyReaders
from engine.values.delivery import ConsumerBase, Delivery
from engine.values.message import NOT_LOGGED
from protocols.stomp.codec import frames
from protocols.stomp.codec.escapes import unescape_known
from protocols.stomp.codec.frames import Frame
from protocols.stomp.codec.versions import VERSION_1_0, VERSION_1_1, VERSION_1_2
from protocols.stomp.errors import InvalidHeader
from protocols.stomp.session.subscription import Subscription

NOTED_LEAST: Final = 1_000  # entries of settled messages that may stay


class Unsettled:
    """subscriptions: of the connection, by their id, in 1.0 also by their destination.

    consumers: of these.  A consumer knows its subscription; a reference back would be a cycle, which is freed late.
    by_ack: unsettled deliveries by the ``ack`` header of 1.2, which is unique on the connection.  Earlier versions name
    a message-id, which is unique only in a subscription: ``Subscription.unsettled``.
    id_prefix, serial_prefix: of the message ids of this store.
    by_message: (log offset, serial) -> ``ack`` headers, once 1.2 has named a message-id; see ``_note_new``.
    noted_ack: the last of these headers that it contains.
    """

    __slots__ = ("subscriptions", "consumers", "by_ack", "id_prefix", "serial_prefix", "by_message", "noted_ack")

    def __init__(self, by_ack: dict[bytes, Delivery], readers: PropertyReaders) -> None:
        self.subscriptions: dict[str, Subscription] = {}
        self.consumers: dict[str, Consumer] = {}
        self.by_ack = by_ack
        self.id_prefix = readers.id_prefix
        self.serial_prefix = readers.serial_prefix
        self.by_message: dict[tuple[int, int], list[bytes]] = {}
        self.noted_ack = -1

    def rewrite_each_message(self) -> None:
        """Note that messages may now need rewriting for this connection."""
        for subscription in self.subscriptions.values():
            subscription.is_plain = False

    def find(self, frame: Frame, version: int, is_exact: bool) -> Delivery | None:
        """Return the delivery that an ACK or NACK names; None in automatic mode, which needs no ACK.

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
                "a header subscription must name one of them"
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
        # Some clients use escapes under 1.0, too (go-stomp): search both forms.
        keys = {wanted.encode(), unescape_known(wanted, version).encode()} if is_escaped else {wanted.encode()}
        names = {named, unescape_known(named, version)} if is_escaped and named is not None else {named}
        if version == VERSION_1_2:
            one = self.by_ack.get(wanted.encode())
            if one is not None and (named is None or _is_of(one, named)):
                return [one], False
        found: list[Delivery] = []
        has_automatic = False
        for subscription in self.subscriptions.values():
            if named is not None and subscription.key not in names:
                continue
            has_automatic = has_automatic or subscription.is_automatic
            if version != VERSION_1_2:
                found += [subscription.unsettled[key] for key in keys if key in subscription.unsettled]
        if version == VERSION_1_2:
            found = self._find_by_message_id(wanted, named)
        return found, has_automatic

    def forget(self, deliveries: list[Delivery]) -> None:
        """Forget deliveries that are settled or no longer this connection's."""
        consumer: ConsumerBase | None = None
        subscription: Subscription | None = None
        for delivery in deliveries:
            if subscription is None or delivery.consumer is not consumer:  # usually one has all of them
                consumer = delivery.consumer
                assert consumer is not None, "an unsettled delivery is with a consumer"
                adapter = consumer.adapter
                assert isinstance(adapter, Subscription), "a consumer of this session has a subscription"
                subscription = adapter
            subscription.unsettled.pop(delivery.key, None)

    def clear(self) -> None:
        for subscription in self.subscriptions.values():
            subscription.unsettled.clear()  # a delivery knows its consumer, which knows the subscription
        self.subscriptions.clear()
        self.consumers.clear()
        self.by_ack.clear()
        self.by_message.clear()

    def _find_by_message_id(self, wanted: str, named: str | None) -> list[Delivery]:
        """Search by message-id, which stomp-php's generic dialect sends in 1.2."""
        offset, serial = self._parse_message_id(wanted)
        if offset < 0 and serial < 0:
            return []
        self._note_new()
        found: list[Delivery] = []
        for key in self.by_message.pop((offset, serial), ()):
            delivery = self.by_ack.get(key)
            if delivery is not None:
                self.by_message.setdefault((offset, serial), []).append(key)
                if named is None or _is_of(delivery, named):
                    found.append(delivery)
        return found

    def _note_new(self) -> None:
        """Add the deliveries since the last call.  A search of everything for each ACK would visit thousands.

        Once most entries are settled otherwise, all are dropped and found anew.
        """
        if len(self.by_message) > 2 * len(self.by_ack) + NOTED_LEAST:
            self.by_message.clear()
            self.noted_ack = -1
        new: list[bytes] = []
        for key in reversed(self.by_ack):
            if int(key) <= self.noted_ack:
                break
            new.append(key)
        for key in reversed(new):
            message = self.by_ack[key].message
            name = (NOT_LOGGED, message.serial) if message.log_offset < 0 else (message.log_offset, -1)
            self.by_message.setdefault(name, []).append(key)
        if new:
            self.noted_ack = int(new[0])

    def _parse_message_id(self, text: str) -> tuple[int, int]:
        """Return log offset and serial of a message-id of this store, -1 for the absent one."""
        for prefix, is_serial in ((self.serial_prefix, True), (self.id_prefix, False)):
            digits = text.removeprefix(prefix)
            if text.startswith(prefix) and digits.isascii() and digits.isdigit() and len(digits) <= 19:
                return (NOT_LOGGED, int(digits)) if is_serial else (int(digits), -1)
        return NOT_LOGGED, -1


def _is_of(delivery: Delivery, name: str) -> bool:
    consumer = delivery.consumer
    return consumer is not None and consumer.name == name
