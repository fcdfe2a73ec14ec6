"""One gateway between clients with well-formed frames of any content, and receivers of every protocol.

A seed decides everything.  Laws: no exception leaves a session, the engine or a timer.  No conversion takes its last
resort.  No message ends its receiver.  Stored messages are also delivered after a restart.
"""

from __future__ import annotations

import random
import traceback
from typing import Final

from engine.selector.properties import PropertyReader
from engine.values.message import AMQP_1_0
from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.composites.delivery_states import Accepted, Released
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Disposition, Transfer
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame
from protocols.amqp.v1_0.wire.frames.layout import AMQP_LAYER, SASL_LAYER, protocol_header
from protocols.amqp.v1_0.wire.types.values import Described, Symbol, UInt
from protocols.openwire.connection.settings import OpenWireSettings
from protocols.openwire.wire.commands import MessageDispatch
from protocols.stomp.codec.frame_limits import FrameLimits
from protocols.stomp.session.settings import SessionSettings
from tests.support.engine.engine_world import address
from tests.support.protocols.amqp_gateway import AmqpPeer, text
from tests.support.protocols.amqp_stream import frame
from tests.support.protocols.openwire_gateway import OpenWireGateway, OpenWirePeer, message_in, queue, topic
from tests.support.protocols.stomp_gateway import Peer
from tests.support.typed import typed_amqp, typed_openwire, typed_stomp

STEPS: Final = 25
ADVANCE_MS: Final = (0, 1, 150, 1_000, 30_000)
VERSIONS: Final = ("1.0", "1.1", "1.2")
WITNESS: Final = b"seen by all"
SELECTORS: Final = (
    "a = 1 OR b LIKE 'x%' OR JMSXGroupSeq > 2 OR JMSPriority < 3 OR JMSReplyTo <> 'q' OR JMSTimestamp > 0",
    "JMSCorrelationID = 'c' OR JMSXUserID = 'me' OR JMSMessageID <> '' OR a BETWEEN 1 AND 2 OR b IN ('x')",
)


class Finding(AssertionError):
    """A broken law; the text has the seed and the last steps."""


class TypedWorld:
    """settings: of STOMP sessions; reader: of AMQP properties for selectors; planted bugs replace both.

    steps: the actions, in words.
    """

    def __init__(
        self, seed: int, settings: SessionSettings | None = None, reader: PropertyReader | None = None
    ) -> None:
        self.seed = seed
        self.draw = random.Random(seed)
        self.settings = settings
        self.reader = reader
        self.steps: list[str] = []
        self.openwire: list[OpenWirePeer] = []
        self.seen_by_openwire: dict[OpenWirePeer, int] = {}
        self.gateway = self._gateway(None)

    def run(self, steps: int = STEPS) -> None:
        """Raises: Finding."""
        try:
            self._watch(is_first=True)
            self._fuzz(steps)
            self._check_receivers()
            self._restart()
            self._watch(is_first=False)
            self.gateway.advance(2_000)
            self._check_receivers()
            self._fuzz(steps // 5)
            self._check_receivers()
            for peer in self.gateway.peers:
                peer.vanish()
            self.gateway.advance(1_000)
        except Finding:
            raise
        except Exception as error:
            raise Finding(
                self._report(f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-12)}")
            ) from error

    # -- the steps

    def _gateway(self, earlier: OpenWireGateway | None) -> OpenWireGateway:
        gateway = OpenWireGateway(
            address("full", full__max_size_bytes=600, full__address_full_policy="BLOCK", full__block_timeout_ms=900),
            amqp=AmqpSettings(idle_time_ms=0),
            openwire=OpenWireSettings(idle_time_ms=0),
            is_restartable=True,
            earlier=earlier,
        )
        if self.settings is not None:
            gateway.settings = self.settings
        if self.reader is not None:
            gateway.read_properties_by(AMQP_1_0, self.reader)
        return gateway

    def _watch(self, *, is_first: bool) -> None:
        """Subscribe receivers of every version and protocol, some with selectors, some durable, some on a queue."""
        gateway = self.gateway
        self.stomp: list[Peer] = []
        self.amqp: list[AmqpPeer] = []
        self._keep(is_first=is_first)
        for version in VERSIONS:
            for selector in ("", SELECTORS[0]):
                peer = gateway.connect(version, client_id=f"w{version}{bool(selector)}")
                headers = {"selector": selector} if selector else {}
                if version != "1.0" and not selector:
                    headers["transformation"] = "jms-xml" if version == "1.1" else "jms-json"
                peer.subscribe(
                    "/topic/t", "auto", "1", **{"activemq.subscriptionName": f"d{bool(selector)}"}, **headers
                )
                if not selector:
                    peer.subscribe("/queue/full", "client", "2")
                    peer.subscribe("/queue/q", "client", "3", **{"activemq.exclusive": "false"})
                if not is_first:
                    peer.subscribe("/queue/kept", "client-individual", "4")
                peer.takes(
                    FrameLimits(header_line_bytes=1 << 30)
                )  # one value of a protocol may become a long line here
                self.stomp.append(peer)
        for number, selector in enumerate(("", SELECTORS[1])):
            receiver = gateway.amqp_session(container=f"w{number}")
            sources = [self._durable("topic://t", selector), Source("queue://q"), Source("topic://VirtualTopic.v")]
            for handle, source in enumerate([*sources, Source("queue://kept")] if not is_first else sources):
                receiver.send(Attach(f"r{handle}", handle, True, source=source, target=Target()))
                receiver.credit(handle, 5_000)
            self.amqp.append(receiver)
        self.openwire = []
        for spoken in (9, 12):
            for selector in ("", SELECTORS[0]):
                watcher = gateway.connect_openwire(f"o{spoken}{bool(selector)}", spoken)
                watcher.consume(topic("t"), 1, subscription_name="d", selector=selector or None)
                watcher.consume(topic("VirtualTopic.v"), 2)
                watcher.consume(queue("q"), 3, prefetch=10)
                if not is_first:
                    watcher.consume(queue("kept"), 4)
                self.openwire.append(watcher)

    def _keep(self, *, is_first: bool) -> None:
        """Have all that is stored before the restart come to a subscriber of each version and protocol behind it.

        First each subscribes and leaves again; behind the restart it comes for what was kept for it.
        """
        gateway = self.gateway
        for version in VERSIONS:
            peer = gateway.connect(version, client_id=f"k{version}")
            peer.takes(FrameLimits(header_line_bytes=1 << 30))
            peer.subscribe("/topic/t", "client-individual", "5", **{"activemq.subscriptionName": "kept"})
            if is_first:
                peer.vanish()
            else:
                self.stomp.append(peer)
        receiver = gateway.amqp_session(container="k")
        receiver.send(Attach("kept", 5, True, source=self._durable("topic://t", ""), target=Target()))
        if is_first:
            receiver.vanish()
        else:
            receiver.credit(5, 5_000)
            self.amqp.append(receiver)

    @staticmethod
    def _durable(name: str, selector: str) -> Source:
        kind = Symbol("apache.org:selector-filter:string")
        found = {kind: Described(kind, selector)} if selector else None
        return Source(name, UInt(2), filter=found)

    def _fuzz(self, steps: int) -> None:
        draw = self.draw
        for _ in range(steps):
            choice = draw.randrange(17)
            if choice >= 15:
                self._odd_commands()
            elif choice >= 12:
                self._send_openwire()
            elif choice < 4:
                self._send_amqp()
            elif choice < 8:
                self._send_stomp()
            elif choice < 10:
                self._odd_frames()
            else:
                self._odd_requests()
            if not draw.randrange(3):
                self.gateway.advance(draw.choice(ADVANCE_MS))
            self._take()

    def _send_amqp(self) -> None:
        """Send messages, one in three in a transaction."""
        draw = self.draw
        where = draw.choice(("topic://t", "topic://t", "queue://kept", None, "queue://full", "queue://q,topic://t"))
        peer = self.gateway.amqp_session(container="sender")
        peer.send(Attach("s", 0, False, source=Source(), target=typed_amqp.target(where), initial_delivery_count=0))
        for _ in range(4):
            payload = typed_amqp.message(draw)
            self._note(f"amqp to {where}", payload)
            with_settled = draw.choice((None, None, True))
            peer.transfer(payload, settled=with_settled)
        if draw.randrange(2):
            peer.vanish()

    def _send_stomp(self) -> None:
        draw = self.draw
        peer = self.gateway.connect(draw.choice(VERSIONS))
        is_in_transaction = not draw.randrange(3)
        if is_in_transaction:
            peer.send("BEGIN", transaction="x")
        for _ in range(3):
            headers, body = typed_stomp.send(draw)
            if is_in_transaction:
                headers["transaction"] = "x"
            self._note(f"stomp {headers}", body)
            self._stomp(peer, "SEND", headers, body)
        if is_in_transaction and not peer.is_closed:
            self._stomp(peer, draw.choice(("COMMIT", "ABORT")), {"transaction": "x"})
        if draw.randrange(2):
            peer.vanish()

    def _odd_frames(self) -> None:
        """Open a connection, perhaps with odd fields, and links of every kind; send performatives of any content."""
        draw = self.draw
        peer = self.gateway.open_amqp()
        if not draw.randrange(6):
            peer.send_octets(protocol_header(SASL_LAYER))
            for _ in range(2):
                octets = typed_amqp.sasl(draw)
                self._note("sasl", octets)
                peer.send_octets(frame(octets, frame_type=1))
            return
        peer.send_octets(protocol_header(AMQP_LAYER))
        opening = typed_amqp.open_with(draw)
        self._note("open", opening)
        peer.send_octets(frame(opening))
        for octets in typed_amqp.OPENING:
            peer.send_octets(octets)
        for _ in range(6):
            if not draw.randrange(4):
                body, payload = encode_frame(0, Transfer(4, 0, b"t", 0))[8:], typed_amqp.request(draw)
            else:
                body, payload = typed_amqp.performative(draw)
            self._note("frame", body + payload)
            peer.send_octets(frame(body + payload))
        if not draw.randrange(5) and not peer.is_closed:
            self._note("a burst of sessions that err")
            peer.send_octets(typed_amqp.erring_sessions(600))
        if draw.randrange(2):
            peer.vanish()

    def _odd_requests(self) -> None:
        """Subscribe, acknowledge, commit and connect with headers of any content."""
        draw = self.draw
        version = draw.choice(VERSIONS)
        peer = self.gateway.open()
        headers = {} if version == "1.0" else {"accept-version": version, "host": "h"}
        headers |= typed_stomp.some(draw, typed_stomp.CONNECT_NAMES, 2)
        self._note(f"connect {headers}")
        self._stomp(peer, "CONNECT", headers)
        for number in range(4):
            if peer.is_closed:
                return
            command = draw.choice(("SUBSCRIBE", "SUBSCRIBE", "ACK", "NACK", "UNSUBSCRIBE", "BEGIN", "COMMIT", "ABORT"))
            names = typed_stomp.SUBSCRIBE_NAMES if "SUB" in command else typed_stomp.ACK_NAMES
            headers = {"transaction": "x"} if command in ("BEGIN", "COMMIT", "ABORT") else {"id": str(number)}
            if command == "SUBSCRIBE":
                headers["destination"] = draw.choice(typed_stomp.SEND_TO)
            headers |= typed_stomp.some(draw, names, 3)
            self._note(f"{command} {headers}")
            self._stomp(peer, command, headers)
        if draw.randrange(2):
            peer.vanish()

    def _send_openwire(self) -> None:
        draw = self.draw
        peer = self.gateway.connect_openwire(version=draw.choice((9, 12)))
        for number in range(4):
            message = typed_openwire.message(draw, peer.connection_id, number)
            self._note(f"openwire {message}")
            peer.send(message)
        if draw.randrange(2):
            peer.vanish()

    def _odd_commands(self) -> None:
        """Send commands of any kind with fields of any content, in and out of transactions."""
        draw = self.draw
        peer = self.gateway.connect_openwire(version=draw.choice((9, 12)))
        peer.send(peer.transact(0))
        for _ in range(12):
            if peer.is_closed:
                return
            command = typed_openwire.command(draw, peer.connection_id)
            self._note(f"openwire {command}")
            peer.send(command)
            for one in peer.take():
                if isinstance(one, MessageDispatch) and one.message is not None and not peer.is_closed:
                    name = draw.choice((None, peer.transaction()))
                    peer.acknowledge(one, draw.randrange(7), transaction_id=name)
        if draw.randrange(2):
            peer.vanish()

    def _stomp(self, peer: Peer, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        peer.send_octets(typed_stomp.octets(command, headers, body, peer.session.version))

    def _take(self) -> None:
        """Receive like a client: refuse some messages and acknowledge the rest."""
        draw = self.draw
        for peer in self.stomp:
            for message in peer.take():
                if message.command == "MESSAGE" and message.headers.get("subscription") != "1":
                    name = message.headers.get("ack") or message.headers["message-id"]
                    verb = "NACK" if not draw.randrange(4) and peer.session.version else "ACK"
                    if not peer.is_closed:
                        subscription = message.headers.get("subscription", "")
                        peer.send(verb, id=name, message_id=name, subscription=subscription)
        for receiver in self.amqp:
            for delivery in receiver.take():
                if isinstance(delivery, Transfer) and delivery.delivery_id is not None and not receiver.is_closed:
                    state = draw.choice((Accepted(), Accepted(), Released()))
                    receiver.send(Disposition(True, delivery.delivery_id, None, True, state))
        for watcher in self.openwire:
            for one in watcher.take():
                if isinstance(one, MessageDispatch) and one.message is not None and not watcher.is_closed:
                    self.seen_by_openwire[watcher] = self.seen_by_openwire.get(watcher, 0) + (
                        WITNESS in (message_in(one).content or b"")
                    )
                    watcher.acknowledge(one, draw.choice((0, 1, 2, 2, 2, 4)))

    def _check_receivers(self) -> None:
        """Check that all receivers are still connected and get messages."""
        gateway = self.gateway
        for closed in (*self.stomp, *self.amqp, *self.openwire):
            if closed.is_closed:
                raise Finding(self._report(f"a receiver was closed: {closed.link.warnings}, {closed.octets[-300:]!r}"))
        self._take()
        self.seen_by_openwire.clear()
        sender = gateway.connect()
        sender.publish("/topic/t", WITNESS, persistent="true", a="1", JMSXUserID="me", **{"correlation-id": "c"})
        peer = gateway.amqp_session(container="witness")
        peer.attach_sender("topic://t")
        peer.transfer(text(WITNESS, durable=True))
        gateway.advance(10)
        for receiver in self.stomp:
            if sum(one.body == WITNESS for one in receiver.take()) < 1:
                raise Finding(self._report(f"STOMP {receiver.session.version} does not get what comes"))
        for other in self.amqp:
            other.take()
            if not any(WITNESS in payload for payload in other.payloads):
                raise Finding(self._report("an AMQP receiver does not get what comes"))
        self._take()
        for watcher in self.openwire:
            if not self.seen_by_openwire.get(watcher):
                raise Finding(self._report(f"OpenWire {watcher.version} does not get what comes"))
        for one in gateway.peers:
            if one.link.conversion_faults:
                raise Finding(self._report(f"converted by its last resort: {one.link.conversion_faults}"))

    def _restart(self) -> None:
        self.steps.append("restart")
        self.gateway.advance(100)
        self.gateway = self._gateway(self.gateway)

    def _note(self, what: str, octets: bytes = b"") -> None:
        self.steps.append(f"{what} {octets[:600].hex(' ')}")

    def _report(self, what: str) -> str:
        lines = "\n".join(step[:900] for step in self.steps[-12:])
        again = f"PENSTOCK_SEED={self.seed} python -m pytest tests/fuzz -k typed"
        return f"seed {self.seed}: {what}\nthe last steps:\n{lines}\nagain: {again}"
