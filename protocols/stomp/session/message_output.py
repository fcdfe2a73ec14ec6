"""Deliveries to a STOMP connection, written as MESSAGE frames."""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from engine.api import EngineApi
from engine.consumers.consumer import Consumer
from engine.values.delivery import Delivery
from engine.values.errors import DATA_FAULTS
from engine.values.message import STOMP as STOMP_ENCODING
from engine.values.message import Message
from engine.values.pieces import PIECE_BYTES
from protocols.converter import is_shared
from protocols.map_message import item_count
from protocols.outbox import DELIVERY_OVERHEAD_BYTES
from protocols.peer_socket import PeerSocket
from protocols.peer_times import PeerTimes
from protocols.session.client_session import ClientSession
from protocols.session.frame_source import FrameSource
from protocols.session.states import CONNECTING
from protocols.stomp.codec.escapes import escape
from protocols.stomp.codec.frame_octets import ack_line, decimal
from protocols.stomp.codec.versions import VERSION_1_0, VERSION_1_2
from protocols.stomp.mapping.destination_resolver import DestinationResolver
from protocols.stomp.mapping.message_octets import message_parts, shared_octets
from protocols.stomp.mapping.reply_to import with_own_reply_to
from protocols.stomp.mapping.transformations import transformed
from protocols.stomp.session.send_command import BlockedFrame
from protocols.stomp.session.settings import SessionSettings
from protocols.stomp.session.states import TRANSITIONS
from protocols.stomp.session.subscription import Subscription

_DECIMAL: Final = decimal
_ACK_LINE: Final = ack_line
MAP_STEPS: Final = 30  # for a map in another form, apart from its items


@mypyc_attr(allow_interpreted_subclasses=True)
class MessageOutput(ClientSession[BlockedFrame]):
    """by_ack: unsettled deliveries by the ``ack`` header of 1.2; next_ack: the next such header.

    version: of the connection, once it is open.  id_prefix, serial_prefix: of message ids, in the version's form.
    resolver: knows the client's names of destinations.  converter: for messages that came by another protocol.
    """

    __deletable__ = ("resolver",)
    __slots__ = ("version", "by_ack", "next_ack", "id_prefix", "serial_prefix", "resolver", "converter")

    def __init__(
        self, engine: EngineApi, socket: PeerSocket, settings: SessionSettings, times: PeerTimes, source: FrameSource
    ) -> None:
        super().__init__(engine, socket, settings.session_limits, TRANSITIONS, CONNECTING, times, source)
        self.version = VERSION_1_0
        self.by_ack: dict[bytes, Delivery] = {}
        self.next_ack = 1
        self.id_prefix = b""
        self.serial_prefix = b""
        self.resolver = DestinationResolver(engine, self)
        self.converter = settings.converter

    def speak(self, version: int) -> None:
        """From now on frames are of ``version``."""
        self.version = version
        readers = self.context.readers
        self.id_prefix = escape(readers.id_prefix, version)
        self.serial_prefix = escape(readers.serial_prefix, version)

    def deliver(self, consumer: Consumer, delivery: Delivery) -> None:
        try:
            subscription = consumer.adapter
            assert isinstance(subscription, Subscription), "a consumer of this session has a subscription"
            message = delivery.message
            if not subscription.is_plain:
                message = self._written_for(subscription, message)
            outbox = self.outbox
            out = outbox.parts
            if self.version == VERSION_1_2:
                number = self.next_ack
                self.next_ack = number + 1
                key = _DECIMAL(number)
                self.by_ack[key] = delivery
                if delivery.is_redelivered:
                    count = delivery.failed_attempts + 1
                    head = subscription.prefix
                    out.append(b"%bredelivered:true\nJMSXDeliveryCount:%d\nack:%b\n" % (head, count, key))
                else:
                    out.append(_ACK_LINE(subscription.first_prefix, key))
                delivery.key = key
                if message.wire is not None:
                    out.append(message.wire)
                elif message.encoding == STOMP_ENCODING and message.holders <= 1:
                    out += message_parts(message, VERSION_1_2, self.id_prefix, self.serial_prefix)
                else:
                    message = self._append_message(message)
            else:
                key = self.context.message_id(message).encode()
                subscription.unsettled[key] = delivery
                if delivery.is_redelivered:
                    count = delivery.failed_attempts + 1
                    out.append(b"%bredelivered:true\nJMSXDeliveryCount:%d\n" % (subscription.prefix, count))
                else:
                    out.append(subscription.first_prefix)
                delivery.key = key
                if message.encoding == STOMP_ENCODING and message.holders <= 1:
                    out += message_parts(message, self.version, self.id_prefix, self.serial_prefix)
                else:
                    message = self._append_message(message)
            size_bytes = outbox.size_bytes + message.size + DELIVERY_OVERHEAD_BYTES
            outbox.size_bytes = size_bytes
            if size_bytes > outbox.limit_bytes:
                self.is_output_full = True
            if not outbox.is_touched:
                outbox.touch()
        except DATA_FAULTS as error:
            if not self.socket.take_fault(error):
                raise

    def deliver_settled(self, consumer: Consumer, message: Message, is_redelivered: bool, delivery_count: int) -> None:
        try:
            subscription = consumer.adapter
            assert isinstance(subscription, Subscription), "a consumer of this session has a subscription"
            if not subscription.is_plain:
                message = self._written_for(subscription, message)
            outbox = self.outbox
            out = outbox.parts
            if is_redelivered:
                out.append(b"%bredelivered:true\nJMSXDeliveryCount:%d\n" % (subscription.prefix, delivery_count))
            else:
                out.append(subscription.first_prefix)
            if message.wire is not None and self.version == VERSION_1_2:
                out.append(message.wire)
            else:
                message = self._append_message(message)
            outbox.size_bytes += message.size + DELIVERY_OVERHEAD_BYTES
            if outbox.size_bytes > outbox.limit_bytes:
                self.is_output_full = True
                outbox.settled_bytes = outbox.size_bytes
            if not outbox.is_touched:
                outbox.touch()
        except DATA_FAULTS as error:
            if not self.socket.take_fault(error):
                raise

    def browse_ended(self, consumer: Consumer) -> None:
        try:
            subscription = consumer.adapter
            assert isinstance(subscription, Subscription), "a consumer of this session has a subscription"
            self.outbox.parts.append(subscription.end_of_browsing())
            self.outbox.touch()
        except DATA_FAULTS as fault:
            if not self.socket.take_fault(fault):
                raise

    # -- the steps

    def _append_message(self, message: Message) -> Message:
        """Write a message in STOMP's form, which it returns; encode it once if several receivers may get it.

        The body of a large one is not copied at all.
        """
        form = self._stomp_form(message)
        if is_shared(message) and form.size <= PIECE_BYTES:
            self.outbox.parts.append(shared_octets(form, self.version, self.id_prefix, self.serial_prefix))
        else:
            self.outbox.parts += message_parts(form, self.version, self.id_prefix, self.serial_prefix)
        return form

    def _written_for(self, subscription: Subscription, message: Message) -> Message:
        """Return a message in the form for a subscription that rewrites some of its messages."""
        aliases = self.resolver.aliases
        if subscription.is_mixed:
            subscription.turn_to(message.destination_id, self.engine.destinations, aliases)
        if not aliases and not subscription.form:
            return message
        written = self._stomp_form(message)
        try:
            if subscription.form:
                before = written
                written = transformed(before, message, subscription.form, self.converter)
                if written is not before:
                    self.charge_form(MAP_STEPS + item_count(before.body) + item_count(written.body))
            return with_own_reply_to(written, aliases) if aliases else written
        except DATA_FAULTS as error:
            self._warn_unconverted(message, error)
            return written

    def _stomp_form(self, message: Message) -> Message:
        if message.encoding == STOMP_ENCODING:
            return message
        converter = self.converter
        assert converter is not None, "a gateway that takes other protocols has a converter"
        try:
            form, steps = converter.stomp_form(message)
        except DATA_FAULTS as error:
            self._warn_unconverted(message, error)
            return converter.raw_form(message)
        self.charge_form(steps)
        return form

    def _warn_unconverted(self, message: Message, error: Exception) -> None:
        name = self.context.message_id(message)
        self.socket.conversion_failed(f"{name} is sent unconverted: {type(error).__name__}: {error}")
