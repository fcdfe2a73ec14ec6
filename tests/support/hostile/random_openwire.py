"""One OpenWire client with every command in any order, drawn from a seed."""

from __future__ import annotations

import random
from collections import deque
from typing import Final

from protocols.openwire.mapping.contents import text_content
from protocols.openwire.wire import identities
from protocols.openwire.wire.commands import (
    ConnectionError,
    ConnectionInfo,
    ConsumerInfo,
    DestinationInfo,
    KeepAliveInfo,
    MessageAck,
    MessageDispatch,
    MessagePull,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Response,
    SessionInfo,
    ShutdownInfo,
    Structure,
    TransactionInfo,
    WireFormatInfo,
)
from protocols.openwire.wire.frame_decoder import FrameDecoder
from protocols.openwire.wire.identities import (
    ConnectionId,
    ConsumerId,
    Destination,
    LocalTransactionId,
    MessageId,
    ProducerId,
    SessionId,
    Throwable,
    TransactionId,
    XaTransactionId,
)
from protocols.openwire.wire.messages import TextMessage, WireMessage
from protocols.openwire.wire.property_map import write_map
from protocols.openwire.wire.reader import decode
from protocols.openwire.wire.writer import encode
from tests.support.hostile.hostile_config import HOSTILE, KINDS
from tests.support.hostile.random_stomp import CLIENT_IDS, SELECTORS, broken, random_name
from tests.support.typed import typed_openwire

FRAME_MOST: Final = 1 << 30
MOST_REMEMBERED: Final = 200
CONSUMERS: Final = 5
BEGIN, COMMIT, ROLLBACK = 0, 2, 4
OF_BRANCHES: Final = (1, 1, 1, 2, 3, 3, 4, 5, 6, 7)  # PREPARE to END
XIDS: Final = 20  # of all clients: they take part in each other's branches, and decide about them


class RandomOpenWire:
    """The state of one connection, and its next octets.  kinds: of the addresses that it names."""

    def __init__(self, draw: random.Random, kinds: tuple[str, ...] = KINDS) -> None:
        self._draw = draw
        self._kinds = kinds
        self._is_wild = draw.randrange(3) == 0
        self._version = draw.choice((9, 12))
        self._decoder = FrameDecoder(FRAME_MOST)
        self._connection_id = f"ID:{draw.choice((*CLIENT_IDS, draw.randrange(1 << 30)))}"
        self._dispatches: deque[MessageDispatch] = deque(maxlen=MOST_REMEMBERED)
        self._sequence = 0
        self._transaction = 0
        self._has_branches = draw.randrange(3) == 0
        self.bodies: list[bytes] = []
        self.is_refused = False

    # -- input

    def receive_data(self, octets: bytes) -> bytes:
        """Take the gateway's octets without an answer.  Raises: FrameError if they are no OpenWire."""
        self._decoder.receive_data(octets)
        while (frame := self._decoder.next_frame()) is not None:
            found = decode(frame, self._version)
            if isinstance(found, MessageDispatch) and isinstance(found.message, WireMessage):
                self._dispatches.append(found)
                self.bodies.append(found.message.content or b"")
            self.is_refused = self.is_refused or isinstance(found, ConnectionError)
        return b""

    # -- output

    def opening(self) -> bytes:
        draw = self._draw
        info = WireFormatInfo(version=self._version, marshalled_properties=write_map({}))
        passcode = HOSTILE[1] if draw.randrange(20) else "wrong"
        client_id = draw.choice((self._connection_id, *CLIENT_IDS))
        opening = ConnectionInfo(1, True, ConnectionId(self._connection_id), client_id, passcode, HOSTILE[0])
        opening.fault_tolerant = draw.randrange(2) == 0
        return encode(info, self._version) + encode(opening, self._version)

    def operation(self) -> bytes:
        """Return the octets of one or more commands; some of them are broken."""
        draw = self._draw
        octets = b"".join(encode(one, self._version) for one in self._commands())
        return broken(draw, octets) if self._is_wild and not draw.randrange(40) else octets

    def goodbye(self) -> bytes:
        leaving = RemoveInfo(9, True, ConnectionId(self._connection_id), -1)
        return encode(leaving, self._version) + encode(ShutdownInfo(), self._version)

    # -- the steps

    def _commands(self) -> list[Structure]:
        draw = self._draw
        kind = draw.randrange(100)
        if kind < 35:
            return [self._message() for _ in range(draw.choice((1, 1, 5, 30)))]
        if kind < 50:
            return [self._consumer()]
        if kind < 75 and self._dispatches:
            return [self._acknowledgement()]
        if kind < 80:
            return self._transact()
        if kind < 84:
            pulled = draw.choice((-1, 0, 20, 5_000))
            return [MessagePull(0, False, self._consumer_id(), self._destination(), pulled)]
        if kind < 88:
            return [draw.choice((RemoveInfo(0, False, self._consumer_id(), -1), RemoveInfo(0, False, self._session())))]
        if kind < 91:
            own = Destination(identities.TEMP_QUEUE, f"{self._connection_id}:{draw.randrange(3)}")
            return [DestinationInfo(0, True, ConnectionId(self._connection_id), own, draw.randrange(2))]
        if kind < 94:
            return [draw.choice((KeepAliveInfo(0, True), Response(), SessionInfo(0, True, self._session())))]
        if kind < 96:
            return [
                ProducerInfo(0, True, self._producer_id(), self._destination(), window_size=draw.choice((0, 5_000)))
            ]
        if kind < 97:
            return [RemoveSubscriptionInfo(0, True, subscription_name=draw.choice(("d1", "d2")))]
        return [typed_openwire.command(draw, self._connection_id)]

    def _message(self) -> WireMessage:
        draw = self._draw
        self._sequence += 1
        if self._is_wild:
            message = typed_openwire.message(draw, self._connection_id, self._sequence)
        else:
            size = draw.choice((1, 10, 100, 3_000))
            message = TextMessage(content=text_content("x" * size), persistent=draw.randrange(2) == 0, priority=4)
            message.message_id = MessageId(None, self._producer_id(), self._sequence, 0)
            message.producer_id = self._producer_id()
            message.group_id = draw.choice((None, None, "g1", "g2"))
            message.marshalled_properties = draw.choice((None, write_map(typed_openwire.values(draw))))
        message.destination = self._destination()
        message.response_required = draw.randrange(2) == 0
        if self._transaction and draw.randrange(2):
            message.transaction_id = self._name()
        return message

    def _consumer(self) -> ConsumerInfo:
        draw = self._draw
        info = ConsumerInfo(0, True, self._consumer_id(), destination=self._destination())
        info.prefetch_size = draw.choice((0, 1, 10, 1_000))
        info.selector = draw.choice((None, None, None, *SELECTORS))
        info.browser = not draw.randrange(6)
        info.exclusive = not draw.randrange(8)
        info.priority = draw.choice((0, 0, 5, -3))
        if info.destination is not None and info.destination.kind == identities.TOPIC and not draw.randrange(3):
            info.subscription_name = draw.choice(("d1", "d2"))
        return info

    def _acknowledgement(self) -> MessageAck:
        draw = self._draw
        last = draw.choice(self._dispatches)
        assert isinstance(last.message, WireMessage), "only those with a message are remembered"
        first = draw.choice((last, last, self._dispatches[0])).message
        assert isinstance(first, WireMessage), "only those with a message are remembered"
        ack = MessageAck(0, not draw.randrange(4), last.destination, None, last.consumer_id)
        ack.ack_type = draw.choice((0, 2, 2, 2, 2, 4, 1, 3, 5, 6))
        ack.first_message_id = first.message_id
        ack.last_message_id = last.message.message_id
        ack.poison_cause = Throwable("java.lang.Throwable", "x") if ack.ack_type == 1 else None
        if self._transaction and draw.randrange(2):
            ack.transaction_id = self._name()
        return ack

    def _transact(self) -> list[Structure]:
        connection = ConnectionId(self._connection_id)
        if not self._transaction or not self._draw.randrange(4):
            self._transaction += 1
            return [TransactionInfo(0, False, connection, self._name(), BEGIN)]
        kind = self._draw.choice(OF_BRANCHES if self._has_branches else (COMMIT, ROLLBACK))
        ended = TransactionInfo(0, True, connection, self._name(), kind)
        self._transaction = 0 if self._draw.randrange(2) else self._transaction
        return [ended]

    def _destination(self) -> Destination:
        draw = self._draw
        if self._is_wild and not draw.randrange(8):
            return Destination(
                draw.choice((100, 101, 102, 103)), draw.choice(("honest.q1", "honest.>", ">", "a,b", ""))
            )
        return Destination(draw.choice((100, 100, 101)), random_name(draw, self._kinds))

    def _name(self) -> TransactionId:
        if self._has_branches:
            return XaTransactionId(1, b"%d" % self._draw.randrange(XIDS), b"")
        return LocalTransactionId(self._transaction, ConnectionId(self._connection_id))

    def _session(self) -> SessionId:
        return SessionId(self._connection_id, 1)

    def _producer_id(self) -> ProducerId:
        return ProducerId(self._connection_id, 1, 1)

    def _consumer_id(self) -> ConsumerId:
        return ConsumerId(self._connection_id, 1, self._draw.randrange(CONSUMERS))
