"""One AMQP 1.0 client with every documented operation in any order, drawn from a seed."""

from __future__ import annotations

import random
from collections import deque
from typing import Any, Final

from protocols.amqp.v1_0.wire.composites.composite import Composite, Error
from protocols.amqp.v1_0.wire.composites.delivery_states import (
    Accepted,
    Declared,
    Modified,
    Rejected,
    Released,
    TransactionalState,
)
from protocols.amqp.v1_0.wire.composites.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Transfer,
)
from protocols.amqp.v1_0.wire.composites.sasl_frames import SaslInit, SaslMechanisms, SaslOutcome
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.composites.transaction_types import Coordinator, Declare, Discharge
from protocols.amqp.v1_0.wire.frames.frame_decoder import Decoder
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame, encode_sasl_frame
from protocols.amqp.v1_0.wire.frames.layout import AMQP_LAYER, FRAME_HEADER, HEADER_BYTES, SASL_LAYER, protocol_header
from protocols.amqp.v1_0.wire.messages import sections as at
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import Described, Symbol, Timestamp, UByte, UInt
from tests.support.hostile.hostile_config import HOSTILE, KINDS
from tests.support.hostile.random_stomp import CLIENT_IDS, SELECTORS, broken, random_name
from tests.support.protocols.amqp_composites import described_of
from tests.support.protocols.amqp_gateway import capabilities
from tests.support.protocols.amqp_stream import composite
from tests.support.typed import typed_amqp

DURABLE_NAMES: Final = ("d1", "d2", "s1", "s2")
MOST_REMEMBERED: Final = 200
TXN_NONE: Final = b"\0none"
FRAME_MOST: Final = 1 << 24


def address(draw: random.Random, is_source: bool, is_wild: bool, kinds: tuple[str, ...] = KINDS) -> str | None:
    """Return an allowed address for a link; for wild clients sometimes a forbidden one."""
    kind = draw.randrange(20 if is_wild else 14)
    name = random_name(draw, kinds)
    if kind < 8:
        return draw.choice((f"queue://{name}", f"/queue/{name}", name))
    if kind < 13:
        return f"topic://{name}"
    if kind == 13 and not is_source:
        return draw.choice((f"queue://{name},topic://past.1", None, "topic://VirtualTopic.v"))
    if kind in (13, 14):
        return draw.choice(("queue://>", "topic://past.>", "queue://plain.*", "topic://ActiveMQ.Advisory.>"))
    if kind == 15:
        return draw.choice(("topic://VirtualTopic.v", "queue://Consumer.a.VirtualTopic.v", "queue://ActiveMQ.DLQ"))
    if kind == 16:
        return draw.choice(("queue://honest.kept", "topic://honest.topic", "queue://honest.trip", "$cbs", "ID:gone-1"))
    if kind == 17:
        return f"queue://{name}?consumer.{draw.choice(('priority=3', 'browser=true', 'fromOffset=first', 'x=1'))}"
    if kind == 18:
        return draw.choice(
            ("queue://ActiveMQ.Statistics.Broker", "topic://ActiveMQ.Scheduler.Management", "", "topic://")
        )
    return None


class _Link:
    """handle: the client's.  credit: of a sender.  seen: deliveries of a receiver."""

    def __init__(self, channel: int, handle: int, is_sender: bool, is_coordinator: bool) -> None:
        self.channel = channel
        self.handle = handle
        self.is_sender = is_sender
        self.is_coordinator = is_coordinator
        self.credit = 0
        self.is_settled = False  # it sends settled
        self.seen = 0


class RandomAmqp:
    """The state of one connection, and its next octets.  kinds: of the addresses that it names."""

    def __init__(self, draw: random.Random, kinds: tuple[str, ...] = KINDS) -> None:
        self._draw = draw
        self._kinds = kinds
        self._is_wild = draw.randrange(3) == 0
        self._decoder = Decoder(FRAME_MOST)
        self._container = draw.choice(CLIENT_IDS)
        self._is_open = False
        self._next_number = 0
        self._delivery_ids: dict[int, int] = {}  # begun channel -> delivery-id of the next transfer
        self._links: list[_Link] = []
        self._named: dict[str, _Link] = {}
        self._remote_channels: dict[int, int] = {}  # the gateway's -> ours
        self._remote_links: dict[tuple[int, int], _Link] = {}  # our channel, the gateway's handle
        self._deliveries: deque[tuple[int, int]] = deque(maxlen=MOST_REMEMBERED)
        self._transactions: deque[bytes] = deque(maxlen=4)
        self.bodies: list[bytes] = []
        self.is_refused = False

    # -- input

    def receive_data(self, octets: bytes) -> bytes:
        """Take the gateway's octets; return the answers.  Raises: AmqpError if they are no AMQP."""
        self._decoder.receive_data(octets)
        answer = b""
        while (frame := self._decoder.next_frame()) is not None:
            answer += self._take(frame)
        return answer

    def _take(self, frame: Composite) -> bytes:
        channel = self._remote_channels.get(self._decoder.channel, -1)
        if isinstance(frame, SaslMechanisms):
            return b""
        if isinstance(frame, SaslOutcome):
            self._decoder.expect_header()
            self.is_refused = frame.code != 0
            return b"" if self.is_refused else protocol_header(AMQP_LAYER) + self._open()
        if isinstance(frame, Open):
            self._is_open = True
        elif isinstance(frame, Begin) and frame.remote_channel is not None:
            self._remote_channels[self._decoder.channel] = frame.remote_channel
        elif isinstance(frame, Attach) and frame.name in self._named:
            self._remote_links[(channel, frame.handle)] = self._named[frame.name]
        elif isinstance(frame, Flow) and frame.handle is not None:
            link = self._remote_links.get((channel, frame.handle))
            if link is not None:
                link.credit = frame.link_credit or 0
        elif isinstance(frame, Transfer):
            self._take_transfer(channel, frame)
        elif isinstance(frame, Disposition) and isinstance(frame.state, Declared):
            self._transactions.append(bytes(frame.state.txn_id))
        elif isinstance(frame, Detach):
            link = self._remote_links.pop((channel, frame.handle), None)
            if link is not None and link in self._links:
                self._links.remove(link)
                return encode_frame(link.channel, Detach(link.handle, frame.closed))
        elif isinstance(frame, End):
            self._forget_session(channel)
            return encode_frame(max(channel, 0), End())
        elif isinstance(frame, Close):
            self.is_refused = True
            return encode_frame(0, Close())
        return b""

    def _take_transfer(self, channel: int, frame: Transfer) -> None:
        self.bodies.append(bytes(self._decoder.payload))
        link = self._remote_links.get((channel, frame.handle))
        if link is not None and not frame.more:
            link.seen += 1
        if not frame.settled and frame.delivery_id is not None:
            self._deliveries.append((channel, frame.delivery_id))

    def _forget_session(self, channel: int) -> None:
        self._delivery_ids.pop(channel, None)
        self._links = [link for link in self._links if link.channel != channel]

    # -- output

    def opening(self) -> bytes:
        draw = self._draw
        password = HOSTILE[1] if draw.randrange(20) else "wrong"
        response = f"\0{HOSTILE[0]}\0{password}".encode()
        start = protocol_header(SASL_LAYER) + encode_sasl_frame(SaslInit("PLAIN", response))
        return start if draw.randrange(20) else start + protocol_header(AMQP_LAYER) + self._open()

    def _open(self) -> bytes:
        draw = self._draw
        size = draw.choice((None, 512, 1_024, 65_536))
        desired = capabilities("sole-connection-for-container") if not draw.randrange(6) else None
        idle = draw.choice((None, None, 5_000, 200))
        frame = Open(self._container, None, size, 7, idle_time_out=idle, desired_capabilities=desired)
        return encode_frame(0, frame) + self._begin()

    def operation(self) -> bytes:
        """Return the octets of one or more frames; some of them are broken."""
        draw = self._draw
        if not self._is_open:
            return b"" if draw.randrange(30) else draw.randbytes(20)
        kind = draw.randrange(100)
        if not self._delivery_ids or kind < 2:
            return self._begin()
        if not self._links or kind < (12 if len(self._links) < 20 else 2):
            return self._attach()
        if kind < 45:
            return self._transfer()
        if kind < 58:
            return self._flow()
        if kind < 78:
            return self._dispose()
        if kind < 84:
            return self._transact()
        if kind < 89:
            return self._detach()
        if kind < 90:
            channel = draw.choice(list(self._delivery_ids))
            self._forget_session(channel)
            return encode_frame(channel, End())
        if kind < 92 or not (self._is_wild or draw.randrange(20) == 0):
            return FRAME_HEADER.pack(HEADER_BYTES, 2, 0, 0)
        if kind < 97:
            body, payload = typed_amqp.performative(draw)
            channel = draw.choice(list(self._delivery_ids))
            return FRAME_HEADER.pack(HEADER_BYTES + len(body) + len(payload), 2, 0, channel) + body + payload
        if kind < 98:
            return encode_frame(0, Close(Error("a:b", "c") if draw.randrange(2) else None))
        return broken(draw, self._transfer() or b"\0")

    def goodbye(self) -> bytes:
        return encode_frame(0, Close())

    def _begin(self) -> bytes:
        draw = self._draw
        channel = draw.randrange(4) if not self._is_wild or draw.randrange(60) else 99
        if channel in self._delivery_ids and not self._is_wild:
            return b""
        self._delivery_ids.setdefault(channel, 0)
        window = draw.choice((1, 10, 1_000, 2**31))
        return encode_frame(channel, Begin(None, 0, window, 1_000))

    def _attach(self) -> bytes:
        draw = self._draw
        channel = draw.choice(list(self._delivery_ids))
        self._next_number += 1
        handle = self._next_number % 60
        if self._is_wild and not draw.randrange(20):
            handle = draw.choice((0, 70, 2**32 - 1))
        name = f"l{self._next_number}" if draw.randrange(6) else draw.choice((*DURABLE_NAMES, "d1|2"))
        kind = draw.randrange(10)
        link = _Link(channel, handle, kind >= 5, kind == 9)
        frame = self._receiver(name, handle) if kind < 5 else self._sender(name, handle, kind == 9)
        name = frame.name
        link.is_settled = frame.snd_settle_mode == 1
        self._links.append(link)
        self._named[name] = link
        octets = encode_frame(channel, frame)
        return octets if link.is_sender else octets + self._credit(link)

    def _receiver(self, name: str, handle: int) -> Attach:
        draw = self._draw
        asked: dict[Any, Any] = {}
        if not draw.randrange(4):
            selector = draw.choice(SELECTORS)
            asked[Symbol("s")] = Described(Symbol("apache.org:selector-filter:string"), selector)
        if not draw.randrange(8):
            start = draw.choice(("first", 0, "last", "next"))
            asked[Symbol("o")] = Described(Symbol("penstock:from-offset"), start)
        if not draw.randrange(8):
            asked[Symbol("n")] = Described(Symbol("apache.org:no-local-filter:list"), [])
        source = Source(
            address(draw, True, self._is_wild, self._kinds), UInt(draw.choice((0, 0, 2))), filter=asked or None
        )
        source.distribution_mode = draw.choice((None, None, None, "copy", "move"))
        kind = draw.randrange(12)
        if kind == 0:
            source = Source(None, dynamic=True, capabilities=[Symbol("temporary-queue")])
        elif kind == 1:
            source.capabilities = capabilities("shared", "global")[: draw.randrange(1, 3)]
        elif kind == 2:
            source.default_outcome = draw.choice((Released(), Modified(True), Accepted()))
        settle = draw.choice((None, 1, 2, 0))
        if source.durable or source.capabilities:
            name = draw.choice(DURABLE_NAMES)
        return Attach(name, handle, True, settle, draw.choice((None, 0, 1)), source, Target())

    def _sender(self, name: str, handle: int, is_coordinator: bool) -> Attach:
        draw = self._draw
        target: Target | Coordinator = (
            Coordinator() if is_coordinator else Target(address(draw, False, self._is_wild, self._kinds))
        )
        if not is_coordinator and not draw.randrange(12):
            target = Target(None, dynamic=True, capabilities=[Symbol("temporary-topic")])
        outcomes = capabilities("amqp:accepted:list", "amqp:rejected:list")
        source = Source(outcomes=outcomes if draw.randrange(3) else None)
        return Attach(name, handle, False, draw.choice((None, 0, 1, 2)), None, source, target, initial_delivery_count=0)

    def _chosen(self, is_sender: bool) -> _Link | None:
        links = [link for link in self._links if link.is_sender == is_sender and not link.is_coordinator]
        return self._draw.choice(links) if links else None

    def _transfer(self) -> bytes:
        draw = self._draw
        link = self._chosen(is_sender=True)
        if link is None:
            return self._attach()
        if link.credit <= 0 and not (self._is_wild and draw.randrange(30) == 0):
            return b""
        octets = b""
        for _ in range(draw.choice((1, 1, 1, 5))):
            if link.credit <= 0 and octets:
                break
            link.credit -= 1
            octets += self._delivery(link)
        return octets

    def _delivery(self, link: _Link) -> bytes:
        draw = self._draw
        channel = link.channel
        number = self._delivery_ids.get(channel, 0)
        self._delivery_ids[channel] = number + 1
        payload = typed_amqp.message(draw) if self._is_wild and not draw.randrange(3) else self._message()
        state = None
        if self._transactions and not draw.randrange(4):
            state = TransactionalState(draw.choice((*self._transactions, *((TXN_NONE,) if self._is_wild else ()))))
        settled = draw.choice((None, False, True)) if self._is_wild else True if link.is_settled else None
        size = draw.choice((8_000, 400, 20_000 if self._is_wild else 8_000))
        pieces = [payload[start : start + size] for start in range(0, max(len(payload), 1), max(size, 1))] or [b""]
        octets = b""
        for index, piece in enumerate(pieces[:40]):
            more = True if index + 1 < len(pieces) else None
            frame = Transfer(link.handle, number, b"%d" % number, 0, settled, more, state=state)
            if more and not draw.randrange(60):
                return octets + encode_frame(channel, Transfer(link.handle, number, aborted=True))
            octets += encode_frame(channel, frame, piece)
            if more and self._is_wild and not draw.randrange(100):
                return octets  # and never completes it
        return octets

    def _message(self) -> bytes:
        draw = self._draw
        header: list[Any] = [
            draw.choice((True, False)),
            UByte(draw.randrange(10)),
            draw.choice((None, UInt(100), UInt(60_000))),
        ]
        annotations: dict[Any, Any] = {}
        if not draw.randrange(8):
            annotations[Symbol("x-opt-delivery-delay")] = draw.choice((50, 100_000, 2**62)[: 2 + self._is_wild])
        if not draw.randrange(16):
            annotations[Symbol("x-opt-delivery-cron")] = draw.choice(("* * * * *", "0 0 30 2 *")[: 1 + self._is_wild])
        to = address(draw, False, self._is_wild, self._kinds)
        asked: list[Any] = [
            None,
            None,
            to,
            None,
            draw.choice((None, address(draw, False, self._is_wild, self._kinds))),
            None,
            None,
            None,
            None,
            Timestamp(1),
        ]
        if not draw.randrange(4):
            asked += ["g", UInt(draw.randrange(3))]
        properties: dict[Any, Any] = {"a": draw.choice("123"), "key": draw.choice("xyz")}
        if not draw.randrange(20):
            properties["AMQ_SCHEDULER_ACTION"] = draw.choice(("BROWSE", "REMOVEALL"))
        if not draw.randrange(8):
            properties["_AMQ_DUPL_ID"] = draw.choice(("1", "2", "3", b"4", 5, ""))
        sections = composite(at.HEADER, *(encode(one) for one in header))
        if annotations:
            sections += _section(at.MESSAGE_ANNOTATIONS, annotations)
        sections += composite(at.PROPERTIES, *(encode(one) for one in asked))
        sections += _section(at.APPLICATION_PROPERTIES, properties)
        size = draw.choice((1, 100, 1_000, 5_000, 30_000))
        kind = draw.choice(
            ((at.DATA, b"x" * size), (at.VALUE, "x" * size), (at.VALUE, {"a": 1}), (at.SEQUENCE, [1, "x"]))
        )
        return sections + _section(*kind)

    def _credit(self, link: _Link) -> bytes:
        draw = self._draw
        credit = draw.choice((0, 1, 5, 100, 2**32 - 1))
        drain = True if not draw.randrange(5) else None
        window = draw.choice((0, 1, 100, 2**31))
        flow = Flow(0, window, 0, 1_000, link.handle, link.seen, credit, drain=drain, echo=draw.choice((None, True)))
        return encode_frame(link.channel, flow)

    def _flow(self) -> bytes:
        draw = self._draw
        link = self._chosen(is_sender=False)
        if link is None or not draw.randrange(8):
            return encode_frame(draw.choice(list(self._delivery_ids)), Flow(0, 2**31, 0, 1_000, echo=True))
        return self._credit(link)

    def _dispose(self) -> bytes:
        draw = self._draw
        if not self._deliveries:
            return b""
        index = draw.randrange(len(self._deliveries))
        channel, first = self._deliveries[index]
        if draw.randrange(8):
            del self._deliveries[index]
        outcome: Any = draw.choice(
            (
                *(Accepted(), Accepted(), Released(), Rejected(Error("a:b", "why")), Modified(True), None),
                *(Modified(True, True, {Symbol("x-opt-a"): 1}), Modified(False, True)),
            )
        )
        if self._transactions and not draw.randrange(3):
            outcome = TransactionalState(
                draw.choice((*self._transactions, *((TXN_NONE,) if self._is_wild else ()))), outcome
            )
        last = (
            draw.choice((None, first, first + 3))
            if not self._is_wild or draw.randrange(20)
            else draw.choice((0, 2**32 - 1))
        )
        return encode_frame(channel, Disposition(True, first, last, draw.choice((True, True, False)), outcome))

    def _transact(self) -> bytes:
        draw = self._draw
        coordinators = [link for link in self._links if link.is_coordinator]
        if not coordinators:
            return b""
        link = draw.choice(coordinators)
        if self._transactions and draw.randrange(2):
            index = draw.randrange(len(self._transactions))
            asked: Any = Discharge(self._transactions[index], draw.choice((True, False, None)))
            del self._transactions[index]
        else:
            asked = Declare()
        number = self._delivery_ids.get(link.channel, 0)
        self._delivery_ids[link.channel] = number + 1
        transfer = Transfer(link.handle, number, b"%d" % number, 0)
        return encode_frame(link.channel, transfer, b"\x00\x53\x77" + encode(described_of(asked)))

    def _detach(self) -> bytes:
        draw = self._draw
        link = draw.choice(self._links)
        if not self._is_wild or draw.randrange(20):
            self._links.remove(link)
        return encode_frame(link.channel, Detach(link.handle, draw.choice((True, True, None))))


def _section(code: int, value: Any) -> bytes:
    return b"\x00\x53" + bytes((code,)) + encode(value)
