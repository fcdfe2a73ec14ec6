"""A simulated client that speaks STOMP: octets into a session in arbitrary pieces, answers decoded from its octets.

The inputs that the engine has taken are known from outside, except for parked frames.  Only the session knows whether
one still waits at its gate, and which of them end with a lost connection, so the client examines its parking place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from engine.consumers.consumer import AUTO, CLIENT, INDIVIDUAL
from engine.values.destination import QUEUE, TOPIC
from protocols.amqp.v1_0.mapping.stomp_form import StompForm
from protocols.stomp.codec import frames
from protocols.stomp.codec.decoder import Decoder
from protocols.stomp.codec.encoder import encode
from protocols.stomp.codec.frames import Frame
from protocols.stomp.codec.versions import VERSION_1_0, VERSION_1_1, VERSION_1_2
from protocols.stomp.session.settings import SessionSettings
from protocols.stomp.session.stomp_session import StompSession
from tests.support.world.bodies import Violation, read_body
from tests.support.world.clients import Held, PeerSubscription, PeerTransaction, Receipt
from tests.support.world.link import Parked, SocketPeer
from tests.support.world.replays import stomp_headers
from tests.support.world.views import Fact, Place, Sent

if TYPE_CHECKING:
    from tests.support.world.world import World

ACK_NAMES: Final = {AUTO: "auto", CLIENT: "client", INDIVIDUAL: "client-individual"}
VERSIONS: Final = {VERSION_1_0: "1.0", VERSION_1_1: "1.1", VERSION_1_2: "1.2"}
COLOUR: Final = "blue: \\ dark"  # needs escapes in 1.1 and 1.2, and must not have them in 1.0
# Never an ERROR for waiting frames: such a client would only be lost.
SETTINGS: Final = SessionSettings(block_park_bytes=20_000, block_park_max_bytes=1 << 30, converter=StompForm())


class StompPeer(SocketPeer):
    """A STOMP client.  It shares no durable subscriptions: they would belong to its client id."""

    knows_durable = False

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self.version = self.chance.choice((VERSION_1_0, VERSION_1_1, VERSION_1_2, VERSION_1_2))
        self.connection = self.session = StompSession(world.broker, self.link, SETTINGS, world.clock.now_ms)
        self.decoder = Decoder()
        self.decoder.version = self.version
        self.committing: dict[str, PeerTransaction] = {}
        self.ended_subscriptions: dict[str, tuple[PeerSubscription, Receipt | None]] = {}
        self.expected: dict[str, Receipt] = {}
        self.left: dict[str, PeerSubscription] = {}
        self._leave: Callable[[], None] | None = None
        self._next_receipt = 1
        self._group = 0
        self._group_start = -1
        self._write(
            frames.CONNECT, [("accept-version", VERSIONS[self.version]), ("host", "sim"), ("client-id", self.client_id)]
        )

    # -- octets out

    def _write(self, command: int, headers: list[tuple[str, str]], body: bytes = b"") -> None:
        self.write_octets(encode(command, headers, body, self.version))

    def _receipt(self, headers: list[tuple[str, str]], label: str, wants_receipt: bool) -> Receipt | None:
        if not wants_receipt:
            return None
        number = f"r{self._next_receipt}"
        self._next_receipt += 1
        headers.append(("receipt", number))
        receipt = Receipt(label, 0)
        self.expected[number] = receipt
        return receipt

    def _ask(self, receipt: Receipt | None, own: list[Fact] | None = None) -> None:
        """Note that the session has taken the frame with ``receipt``."""
        if receipt is None:
            return
        receipt.fact_count = len(self.facts)
        if own is not None and self._group_start >= 0:
            receipt.fact_count = self._group_start
            receipt.group = self._group
            receipt.own = own
        self.receipts.append(receipt)

    # -- actions of the client

    def _send(self, sent: Sent, body: bytes, transaction: PeerTransaction | None, wants_receipt: bool) -> None:
        prefix = "/queue/" if sent.kind == QUEUE else "/topic/"
        headers = [("destination", prefix + sent.name), ("persistent", str(sent.is_persistent).lower())]
        headers += [("priority", str(sent.priority)), ("expires", str(sent.expires_ms)), ("colour", COLOUR)]
        if self.chance.random() < 0.5:
            headers.append(("content-length", str(len(body))))
        receipt = self._receipt(headers, f"send {sent.uid}", wants_receipt)
        if transaction is not None:
            headers.append(("transaction", transaction.name))
            transaction.model.sends.append(sent)
            self._write(frames.SEND, headers, body)
            self._ask(receipt)
            return

        def taken() -> None:
            facts = self.oracle.accept(sent)
            self.facts.extend(facts)
            self._ask(receipt, facts)

        self._write(frames.SEND, headers, body)
        self.take(Parked(taken, body, ""))

    def is_parked(self, parked: Parked) -> bool:
        if parked.name:
            return any(transaction.name == parked.name for transaction in self.session.transactions.committing.values())
        return any(one.frame.body == parked.body for one in self.session.blocked.waiting)

    def _subscribe(self, subscription: PeerSubscription) -> None:
        view = subscription.subscriber.view
        prefix = "/queue/" if view.kind == QUEUE else "/topic/"
        headers = [("destination", prefix + view.name), ("id", subscription.key)]
        headers += [("ack", ACK_NAMES[subscription.ack_mode])]
        headers += [("activemq.prefetchSize", str(subscription.subscriber.prefetch))]
        if subscription.subscriber.replay is not None:
            headers += stomp_headers(subscription.subscriber.replay.start)
        receipt = self._receipt(headers, f"subscribe {subscription.key}", self.chance.random() < 0.5)
        subscription.handle = receipt
        self._write(frames.SUBSCRIBE, headers)
        self._ask(receipt)

    def _settle(
        self,
        subscription: PeerSubscription,
        held: Held,
        covered: list[Place],
        is_ack: bool,
        transaction: PeerTransaction | None,
        wants_receipt: bool,
    ) -> None:
        name = held.handle
        assert isinstance(name, str), "the handle is what ACK names"
        if self.version == VERSION_1_2:
            headers = [("id", name)]
        else:
            headers = [("message-id", name), ("subscription", subscription.key)]
        receipt = self._receipt(headers, f"settle {held.place.uid}", wants_receipt)
        if transaction is not None:
            headers.append(("transaction", transaction.name))
        self._write(frames.ACK if is_ack else frames.NACK, headers)
        self.settled(subscription, covered, is_ack, transaction)
        self._ask(receipt)

    def _begin(self, transaction: PeerTransaction) -> None:
        self._write(frames.BEGIN, [("transaction", transaction.name)])

    def commit(self, transaction: PeerTransaction) -> None:
        self.world.note(f"{self.number} commits {transaction.name}")
        headers = [("transaction", transaction.name)]
        receipt = self._receipt(headers, f"commit {transaction.name}", self.chance.random() < 0.8)
        del self.transactions[transaction.name]
        self.committing[transaction.name] = transaction

        def taken() -> None:
            del self.committing[transaction.name]
            start = len(self.facts)
            committed = self.committed(transaction)
            if receipt is not None:
                receipt.committed = committed
            self._ask(receipt, self.facts[start:])

        self._write(frames.COMMIT, headers)
        self.take(Parked(taken, b"", transaction.name))

    def _abort(self, transaction: PeerTransaction) -> None:
        self._write(frames.ABORT, [("transaction", transaction.name)])
        self.oracle.abort(transaction.model)

    def _unsubscribe(self, subscription: PeerSubscription) -> None:
        headers = [("id", subscription.key)]
        receipt = self._receipt(headers, f"unsubscribe {subscription.key}", self.chance.random() < 0.5)
        self._write(frames.UNSUBSCRIBE, headers)
        self.oracle.close(subscription.subscriber, is_lost=False)
        self._ask(receipt)
        self.ended_subscriptions[subscription.key] = (subscription, receipt)

    def disconnect(self) -> None:
        self.world.note(f"{self.number} disconnects")
        self.is_leaving = True
        headers: list[tuple[str, str]] = []
        receipt = self._receipt(headers, "disconnect", True)

        def taken() -> None:
            self.left = dict(self.subscriptions)
            self.ended(is_lost=False)
            self.is_closed = True
            self._ask(receipt)

        self._write(frames.DISCONNECT, headers)
        self._leave = taken
        self._look_whether_left()

    def _look_whether_left(self) -> None:
        """Leave once the engine has no client any more: a DISCONNECT waits behind parked frames."""
        if self._leave is not None and self.session.client_number not in self.world.broker.clients:
            self._leave()
            self._leave = None

    def lose(self) -> None:
        self.world.note(f"{self.number} is lost")
        self.session.share.lose()
        self.is_lost = self.is_leaving = True
        self._leave = self._gone
        self._look_whether_left()

    def _gone(self) -> None:
        """The engine has lost the client, after the frames that waited for steps: gates may have opened for others."""
        for transaction in self.committing.values():
            self.oracle.abort(transaction.model)
        self.committing.clear()
        self.parked.clear()
        self.ended(is_lost=True)
        self.receipts.clear()
        self.expected.clear()
        self.is_closed = True

    # -- octets in

    def turn_ended(self) -> None:
        self._group += 1
        self._group_start = len(self.facts)
        super().turn_ended()
        self._group_start = -1
        self._look_whether_left()

    def read_octets(self, octets: bytes) -> None:
        self.decoder.receive_data(octets)
        while (frame := self.decoder.next_frame()) is not None:
            self._read(frame)

    def _read(self, frame: Frame) -> None:
        headers = frame.head.headers
        if frame.command == frames.MESSAGE:
            self._read_message(frame)
        elif frame.command == frames.RECEIPT:
            number = headers["receipt-id"]
            self._read_receipt(number)
        elif frame.command != frames.CONNECTED:
            raise Violation(f"connection {self.number} gets {frames.NAMES[frame.command]!r} {headers} {frame.body!r}")

    def _read_receipt(self, number: str) -> None:
        receipt = self.expected.pop(number, None)
        following = self.receipts[0] if self.receipts else None
        if receipt is None or following is None:
            raise Violation(f"connection {self.number} gets receipt {number}, which it does not wait for")
        if receipt is not following and (not receipt.group or receipt.group != following.group):
            raise Violation(f"{receipt.label} is confirmed on connection {self.number} before {following.label}")
        self.receipts.remove(receipt)
        self.confirm(receipt)

    def _read_message(self, frame: Frame) -> None:
        headers = frame.head.headers
        key = headers["subscription"]
        subscription = self.subscriptions.get(key)
        if subscription is None:
            self._check_late(key, read_body(frame.body))
            return
        if subscription.handle is not None and subscription.handle in self.receipts:
            raise Violation(f"a MESSAGE overtakes the receipt of subscription {key}")
        if headers.get("colour") != COLOUR:
            raise Violation(f"header colour became {headers.get('colour')!r}")
        message_id = headers["message-id"]
        place = self.received(
            subscription,
            frame.body,
            message_id,
            headers.get("redelivered") == "true",
            int(headers.get("JMSXDeliveryCount", "1")),
        )
        self.oracle.identify(subscription.subscriber.view, place.uid, message_id)
        if subscription.ack_mode != AUTO:
            subscription.held.append(Held(place, headers["ack"] if self.version == VERSION_1_2 else message_id))

    def _check_late(self, key: str, uid: int) -> None:
        """Check a message after an UNSUBSCRIBE: a topic hands over at once, so messages on their way still arrive.

        So do messages of the turn in which a DISCONNECT passed its gate.
        """
        if key in self.left and self.receipts:
            self.oracle.arrive_late(self.left[key].subscriber, uid)
            return
        if key in self.ended_subscriptions:
            subscription, receipt = self.ended_subscriptions[key]
            is_ended = receipt is not None and receipt not in self.receipts
            if not is_ended and subscription.subscriber.view.kind == TOPIC and subscription.ack_mode == AUTO:
                return
        raise Violation(f"a MESSAGE for subscription {key}, which has ended")

    def is_at_rest(self) -> bool:
        return not self.receipts and not self.parked and not self.expected
