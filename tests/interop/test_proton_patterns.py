"""python-qpid-proton as applications use it: selectors, subscriptions, replies, browsing, transactions, reconnects."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("proton", reason="needs python-qpid-proton (pip builds it from source)")

from proton import Data, Message, symbol
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container, Copy, DurableSubscription, ReceiverOption, Selector

from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.proton_peer import LIMIT_S, Connect, connections, is_empty

Unique = Callable[[str], str]


class Shared(ReceiverOption):
    """A subscription that several connections share by its name."""

    def apply(self, receiver: Any) -> None:
        capabilities = receiver.source.capabilities
        capabilities.put_array(False, Data.SYMBOL)
        capabilities.enter()
        for name in ("topic", "shared", "global"):
            capabilities.put_symbol(symbol(name))
        capabilities.exit()


@pytest.fixture
def connect(shared_gateway: GatewayProcess) -> Iterator[Connect]:
    """A function that connects; connections are closed at the end of the test."""
    yield from connections(shared_gateway)


def taken(receiver: Any, count: int) -> list[Any]:
    """Return the bodies of the next messages, accepted."""
    bodies = []
    for _ in range(count):
        bodies.append(receiver.receive(timeout=LIMIT_S).body)
        receiver.accept()
    return bodies


def test_selector(connect: Connect, unique: Unique) -> None:
    connection = connect()
    sender = connection.create_sender(unique("q"))
    for number in range(6):
        sender.send(Message(body=number, properties={"n": number, "colour": "red" if number % 2 else "blue"}))
    receiver = connection.create_receiver(unique("q"), credit=10, options=Selector("colour = 'red' AND n > 1"))
    assert taken(receiver, 2) == [3, 5]
    assert is_empty(receiver)


def test_durable_subscription(connect: Connect, unique: Unique) -> None:
    address = f"topic://{unique('t')}"
    first = connect(client_id="proton-durable")
    first.create_receiver(address, name="sub", options=DurableSubscription())
    first.close()
    sender = connect().create_sender(address)
    for number in range(3):
        sender.send(Message(body=number, durable=True))
    again = connect(client_id="proton-durable")
    receiver = again.create_receiver(address, name="sub", credit=5, options=DurableSubscription())
    assert taken(receiver, 3) == [0, 1, 2]
    receiver.close()  # and with the link the subscription
    sender.send(Message(body="never seen"))
    assert is_empty(again.create_receiver(address, name="sub", options=DurableSubscription()))


def test_shared_subscription(connect: Connect, unique: Unique) -> None:
    address = f"topic://{unique('t')}"
    one = connect().create_receiver(address, name="shared|1", credit=2, options=Shared())
    two = connect().create_receiver(address, name="shared|2", credit=2, options=Shared())
    sender = connect().create_sender(address)
    for number in range(4):
        sender.send(Message(body=number))
    assert sorted([*taken(one, 2), *taken(two, 2)]) == [0, 1, 2, 3]
    assert is_empty(one)
    assert is_empty(two)


def test_request_and_reply_over_a_temporary_queue(connect: Connect, unique: Unique) -> None:
    server, client = connect(), connect()
    requests = server.create_receiver(unique("q"))
    answers = server.create_sender(None)
    replies = client.create_receiver(None, dynamic=True)
    address = replies.link.remote_source.address
    sender = client.create_sender(unique("q"))
    for number in range(3):
        sender.send(Message(body=f"r{number}", reply_to=address, correlation_id=number))
        request = requests.receive(timeout=LIMIT_S)
        requests.accept()
        answers.send(
            Message(address=request.reply_to, body=f"answer to {request.body!s}", correlation_id=request.correlation_id)
        )
        answer = replies.receive(timeout=LIMIT_S)
        replies.accept()
        assert (answer.body, answer.correlation_id) == (f"answer to r{number}", number)


def test_browser(connect: Connect, unique: Unique) -> None:
    connection = connect()
    sender = connection.create_sender(unique("q"))
    for number in range(3):
        sender.send(Message(body=number))
    browser = connection.create_receiver(unique("q"), credit=5, options=Copy())
    assert taken(browser, 3) == [0, 1, 2]
    browser.close()
    assert taken(connection.create_receiver(unique("q"), credit=5), 3) == [0, 1, 2]


@pytest.mark.parametrize("credit", [0, 1, 1_000])
def test_prefetch(credit: int, connect: Connect, unique: Unique) -> None:
    connection = connect()
    sender = connection.create_sender(unique("q"))
    for number in range(4):
        sender.send(Message(body=number))
    receiver = connection.create_receiver(unique("q"), credit=credit)
    other = connect().create_receiver(unique("q"), credit=1)
    left = {0: [0, 1, 2, 3], 1: [1, 2, 3], 1_000: []}[credit]
    for body in left[:1]:
        assert other.receive(timeout=LIMIT_S).body == body
    if not left:
        assert is_empty(other)
    other.close()  # what it had goes back
    assert taken(receiver, 4) == [0, 1, 2, 3]


class Transacting(MessagingHandler, TransactionHandler):
    """Sends two messages in a transaction that is rolled back, then in one that is committed; takes one likewise.

    settles: what it takes, before it discharges; otherwise it releases after a rollback what it has taken.
    """

    def __init__(self, url: str, address: str, settles: bool) -> None:
        super().__init__(prefetch=0, auto_accept=False)
        self.url = url
        self.settles = settles
        self.address = address
        self.steps: list[str] = []
        self.transaction: Any = None
        self.pending: Any = None
        self.error = ""

    def on_start(self, event: Any) -> None:
        self.container = event.container
        self.connection = event.container.connect(self.url, reconnect=False)
        self.sender = event.container.create_sender(self.connection, self.address)
        self.receiver = event.container.create_receiver(self.connection, self.address)
        self.container.schedule(LIMIT_S, self)
        self.container.declare_transaction(self.connection, handler=self, settle_before_discharge=self.settles)

    def on_timer_task(self, event: Any) -> None:
        self.error = f"took too long, after {self.steps}"
        self.connection.close()

    def on_transaction_declared(self, event: Any) -> None:
        transaction = event.transaction
        if len(self.steps) < 2:
            for body in ("a", "b"):
                transaction.send(self.sender, Message(body=body, durable=True))
            if self.steps:
                transaction.commit()
            else:
                transaction.abort()
        else:
            self.transaction = transaction
            self.receiver.flow(1)

    def on_message(self, event: Any) -> None:
        self.steps.append(f"{event.message.body} {event.message.delivery_count}")
        self.transaction.accept(event.delivery)
        if len([step for step in self.steps if step.startswith("a ")]) == 1:
            self.transaction.abort()
        else:
            self.transaction.commit()

    def on_transaction_committed(self, event: Any) -> None:
        self.steps.append("committed")
        if self.steps.count("committed") == 2:
            event.connection.close()
            self.container.stop()
        else:
            self.transaction = None
            self.container.declare_transaction(self.connection, handler=self, settle_before_discharge=self.settles)

    def on_transaction_aborted(self, event: Any) -> None:
        self.steps.append("rolled back")
        self.container.declare_transaction(self.connection, handler=self, settle_before_discharge=self.settles)


@pytest.mark.parametrize(("settles", "counted"), [(True, 1), (False, 0)])
def test_transactions(
    shared_gateway: GatewayProcess, connect: Connect, unique: Unique, settles: bool, counted: int
) -> None:
    handler = Transacting(f"127.0.0.1:{shared_gateway.stomp_port}", unique("q"), settles)
    Container(handler).run()
    assert handler.error == ""
    assert handler.steps == ["rolled back", "committed", "a 0", "rolled back", f"a {counted}", "committed"]
    receiver = connect().create_receiver(unique("q"), credit=5)
    assert taken(receiver, 1) == ["b"]
    assert is_empty(receiver)


class Reconnecting(MessagingHandler):
    """Sends a message, waits until its gateway has been killed and is back, sends another, and receives both."""

    def __init__(self, url: str) -> None:
        super().__init__(prefetch=0)
        self.url = url
        self.opened_count = 0
        self.bodies: list[str] = []
        self.sent_count = 0
        self.accepted = threading.Event()
        self.error = ""

    def on_start(self, event: Any) -> None:
        self.container = event.container
        self.connection = event.container.connect(self.url, reconnect=[0.1] * 200)
        self.sender = event.container.create_sender(self.connection, "reconnecting")
        self.container.schedule(3 * LIMIT_S, self)

    def on_timer_task(self, event: Any) -> None:
        self.error = f"took too long, after {self.opened_count} connections and {self.bodies}"
        self.container.stop()

    def on_connection_opened(self, event: Any) -> None:
        self.opened_count += 1

    def on_sendable(self, event: Any) -> None:
        if self.opened_count > self.sent_count:
            self.sent_count += 1
            event.sender.send(Message(body=f"message {self.sent_count}", durable=True))

    def on_accepted(self, event: Any) -> None:
        if self.opened_count == 1:
            self.accepted.set()
        else:
            self.container.create_receiver(self.connection, "reconnecting").flow(2)

    def on_message(self, event: Any) -> None:
        self.bodies.append(event.message.body)
        if len(self.bodies) == 2:
            event.connection.close()
            self.container.stop()


def test_reconnect_after_kill_9(start_gateway: StartGateway) -> None:
    gateway = start_gateway()
    port = gateway.stomp_port
    handler = Reconnecting(f"127.0.0.1:{port}")
    thread = threading.Thread(target=Container(handler).run)
    thread.start()
    assert handler.accepted.wait(LIMIT_S)
    gateway.kill9()
    gateway.start(port)
    thread.join(4 * LIMIT_S)
    assert not thread.is_alive()
    assert handler.error == ""
    assert handler.bodies == ["message 1", "message 2"]
