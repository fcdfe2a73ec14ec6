"""stomp.py, the Python client, against the real process, in all three versions of the protocol."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import stomp.exception

from tests.support.config import configurations
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.stomp_py import LIMIT_S, VERSIONS, Client, Connect

Unique = Callable[[str], str]

# 1.0 knows neither NACK nor single acknowledgement.
VERSIONS_WITH_NACK = VERSIONS[1:]


@pytest.mark.parametrize("version", VERSIONS)
def test_version_is_agreed(version: str, connect: Connect) -> None:
    client = connect(version)
    assert client.inbox.connected["version"] == version
    assert client.inbox.connected["server"]


@pytest.mark.parametrize("version", VERSIONS)
def test_queue_gives_each_message_to_one_consumer(version: str, connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('work')}"
    sender, first, second = connect(version), connect(version), connect(version)
    first.subscribe(queue)
    second.subscribe(queue)
    for number in range(10):
        sender.send(queue, f"message {number}", colour="blue")
    got = [first.message() for _ in range(5)] + [second.message() for _ in range(5)]
    assert sorted(message.body for message in got) == [f"message {number}" for number in range(10)]
    assert {message.headers["colour"] for message in got} == {"blue"}
    assert {message.headers["destination"] for message in got} == {queue}
    assert len({message.headers["message-id"] for message in got}) == 10


@pytest.mark.parametrize("version", VERSIONS)
def test_queue_keeps_messages_until_somebody_comes(version: str, connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('later')}"
    sender = connect(version)
    for number in range(20):
        sender.send(queue, str(number))
    receiver = connect(version)
    receiver.subscribe(queue)
    assert receiver.bodies(20) == [str(number) for number in range(20)]


@pytest.mark.parametrize("version", VERSIONS)
def test_topic_gives_each_message_to_every_subscriber(version: str, connect: Connect, unique: Unique) -> None:
    topic = f"/topic/{unique('news')}"
    sender, first, second = connect(version), connect(version), connect(version)
    sender.send(topic, "before anybody listened")
    first.subscribe(topic)
    second.subscribe(topic)
    for number in range(5):
        sender.send(topic, str(number))
    assert first.bodies(5) == second.bodies(5) == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("version", VERSIONS)
def test_auto_needs_no_acknowledgement(version: str, connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('auto')}"
    sender, receiver = connect(version), connect(version)
    receiver.subscribe(queue)
    for number in range(3):
        sender.send(queue, str(number))
    receiver.bodies(3)
    receiver.close()
    after = connect(version)
    after.subscribe(queue)
    sender.send(queue, "fence")
    assert after.message().body == "fence"


@pytest.mark.parametrize("version", VERSIONS)
def test_client_mode_acknowledges_everything_up_to_a_message(version: str, connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('cumulative')}"
    sender, receiver = connect(version), connect(version)
    receiver.subscribe(queue, ack="client")
    for number in range(5):
        sender.send(queue, str(number))
    messages = [receiver.message() for _ in range(5)]
    receiver.ack(messages[2])
    receiver.close()
    after = connect(version)
    after.subscribe(queue, ack="client")
    assert after.bodies(2) == ["3", "4"]


@pytest.mark.parametrize("version", VERSIONS_WITH_NACK)
def test_client_individual_acknowledges_one_message(version: str, connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('individual')}"
    sender, receiver = connect(version), connect(version)
    receiver.subscribe(queue, ack="client-individual")
    for number in range(5):
        sender.send(queue, str(number))
    messages = [receiver.message() for _ in range(5)]
    receiver.ack(messages[1])
    receiver.ack(messages[3])
    receiver.close()
    after = connect(version)
    after.subscribe(queue, ack="client-individual")
    again = [after.message() for _ in range(3)]
    assert [message.body for message in again] == ["0", "2", "4"]
    assert {message.headers.get("redelivered") for message in again} == {"true"}


@pytest.fixture(scope="session")
def quick_redelivery(start_session_gateway: StartGateway) -> GatewayProcess:
    """A gateway that gives a message up after two redeliveries, each after a moment."""
    return start_session_gateway(configurations.quick_redelivery(maximum_redeliveries=2))


@pytest.mark.parametrize("version", VERSIONS_WITH_NACK)
def test_nack_redelivers_then_dead_letters(
    version: str, connect: Connect, unique: Unique, quick_redelivery: GatewayProcess
) -> None:
    name = unique("poison")
    queue = f"/queue/{name}"
    client = connect(version, quick_redelivery)
    client.subscribe(queue, ack="client-individual")
    client.send(queue, "poison", colour="green")
    deliveries = []
    for _ in range(3):
        message = client.message()
        deliveries.append(message)
        client.nack(message)
    assert [message.body for message in deliveries] == ["poison"] * 3
    assert len({message.headers["message-id"] for message in deliveries}) == 1
    assert [message.headers.get("redelivered", "false") for message in deliveries] == ["false", "true", "true"]

    undertaker = connect(version, quick_redelivery)
    undertaker.subscribe("/queue/ActiveMQ.DLQ", ack="client-individual")
    dead = undertaker.message()
    undertaker.ack(dead)
    assert dead.body == "poison"
    assert dead.headers["colour"] == "green"
    assert name in dead.headers["original-destination"]
    assert client.nothing_came()


@pytest.mark.parametrize("version", VERSIONS)
def test_committed_transaction_sends_everything(version: str, connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('committed')}"
    sender, receiver = connect(version), connect(version)
    receiver.subscribe(queue)
    transaction = sender.connection.begin()
    for number in range(3):
        sender.send(queue, str(number), transaction=transaction)
    with receiver.receipt() as receipt:  # a fence: had anything been dispatched, it would stand before this receipt
        receiver.connection.send(f"{queue}.fence", "", receipt=receipt)
    assert receiver.nothing_came()
    with sender.receipt() as receipt:
        sender.connection.commit(transaction, receipt=receipt)
    assert receiver.bodies(3) == ["0", "1", "2"]


@pytest.mark.parametrize("version", VERSIONS)
def test_aborted_transaction_sends_nothing(version: str, connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('aborted')}"
    sender, receiver = connect(version), connect(version)
    receiver.subscribe(queue)
    transaction = sender.connection.begin()
    sender.send(queue, "never", transaction=transaction)
    with sender.receipt() as receipt:
        sender.connection.abort(transaction, receipt=receipt)
    sender.send(queue, "fence")
    assert receiver.message().body == "fence"


@pytest.mark.parametrize("version", VERSIONS)
def test_acknowledgement_in_a_transaction_counts_at_its_commit(version: str, connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('acknowledged')}"
    sender, receiver = connect(version), connect(version)
    receiver.subscribe(queue, ack="client")
    for number in range(3):
        sender.send(queue, str(number))
    messages = [receiver.message() for _ in range(3)]

    undone = receiver.connection.begin()
    receiver.ack(messages[2], transaction=undone)
    with receiver.receipt() as receipt:
        receiver.connection.abort(undone, receipt=receipt)
    done = receiver.connection.begin()
    receiver.ack(messages[1], transaction=done)  # legal: the abort has made it pending again
    with receiver.receipt() as receipt:
        receiver.connection.commit(done, receipt=receipt)
    receiver.close()

    after = connect(version)
    after.subscribe(queue)
    sender.send(queue, "fence")
    assert after.bodies(2) == ["2", "fence"]


@pytest.mark.parametrize("version", VERSIONS)
def test_receipts_come_for_every_frame(version: str, connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('receipts')}"
    client = connect(version)
    with client.receipt() as receipt:
        client.connection.begin("t", receipt=receipt)
    client.send(queue, "body", transaction="t")
    with client.receipt() as receipt:
        client.connection.commit("t", receipt=receipt)
    client.subscribe(queue, ack="client")
    client.ack(client.message())
    with client.receipt() as receipt:
        client.connection.unsubscribe("1", receipt=receipt)


def test_heart_beats_go_both_ways(connect: Connect) -> None:
    # The client takes late beats, too.
    clients = [
        connect(version, heartbeats=(1_000, 200), heart_beat_receive_scale=LIMIT_S) for version in VERSIONS_WITH_NACK
    ]
    for client in clients:
        for _ in range(11):
            client.inbox.heart_beats.get(timeout=LIMIT_S)
        # The gateway has meanwhile been content with ours: it gives a silent peer up after twice the interval.
        assert client.connection.is_connected()
        assert client.inbox.disconnects.empty()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("how", ["header", "destination option"])
def test_prefetch_bounds_what_is_in_flight(version: str, how: str, connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('window')}"
    sender, receiver = connect(version), connect(version)
    for number in range(8):
        sender.send(queue, str(number))
    if how == "header":
        receiver.subscribe(queue, ack="client", **{"activemq.prefetchSize": "4"})
    else:
        receiver.subscribe(f"{queue}?consumer.prefetchSize=4", ack="client")

    def fence() -> None:
        """What the gateway has sent before this receipt has come when it comes."""
        with receiver.receipt() as receipt:
            receiver.connection.send(f"{queue}.fence", "", receipt=receipt)

    window = [receiver.message() for _ in range(4)]
    assert [message.body for message in window] == ["0", "1", "2", "3"]
    fence()
    assert receiver.nothing_came(), "more than the window of 4 is in flight"
    receiver.ack(window[0])
    fence()
    assert receiver.nothing_came(), "the window was topped up before half of it was settled"
    receiver.ack(window[1])
    assert receiver.bodies(2) == ["4", "5"]
    fence()
    assert receiver.nothing_came()


@pytest.mark.parametrize("version", VERSIONS)
def test_body_survives(version: str, connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('bodies')}"
    text, octets = connect(version), connect(version, auto_decode=False)
    bodies = ["", "plain", "grüße, 世界, 𝄞", "line\nline\r\n\n", "nul \0 inside \0"]
    text.subscribe(queue)
    for body in bodies:
        text.send(queue, body)
    assert [message or "" for message in text.bodies(len(bodies))] == bodies
    octets.subscribe(f"{queue}.octets")
    binary = bytes(range(256)) * 7
    octets.send(f"{queue}.octets", binary)
    assert octets.message().body == binary


@pytest.mark.parametrize("version", VERSIONS)
def test_body_of_five_mebibytes_survives(version: str, connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('big')}"
    client = connect(version, auto_decode=False)
    client.subscribe(queue, ack="client")
    body = bytes(range(256)) * (5 * 4096)
    client.send(queue, body)
    message = client.message()
    assert message.body == body
    client.ack(message)


@pytest.mark.parametrize("version", VERSIONS)
def test_header_survives(version: str, connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('headers')}"
    client = connect(version)
    client.subscribe(queue)
    headers = {"latin": "grüße", "cjk": "世界", "clef": "𝄞", "quotes": "\"'"}
    if version != "1.0":
        headers |= {"colon": "a:b:c", "escapes": "back\\slash", "lines": "one\ntwo"}
    client.send(queue, "", **headers)
    received = client.message().headers
    assert {name: received[name] for name in headers} == headers


@pytest.mark.parametrize("version", VERSIONS)
def test_jms_headers_come_back(version: str, connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('jms')}"
    client = connect(version)
    client.subscribe(queue)
    headers = {"correlation-id": "order-7", "type": "order", "reply-to": "/queue/answers", "priority": "7"}
    client.send(queue, "", **headers)
    received = client.message().headers
    assert {name: received[name] for name in headers} == headers
    assert received["persistent"] == "true"
    assert int(received["timestamp"]) > 0


@pytest.mark.parametrize("version", VERSIONS)
def test_priority_goes_first(version: str, connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('priority')}"
    client = connect(version)
    for priority in ("1", "9", "4"):
        client.send(queue, priority, priority=priority)
    client.subscribe(queue)
    assert client.bodies(3) == ["9", "4", "1"]


@pytest.mark.parametrize("version", VERSIONS)
def test_expired_message_is_not_delivered(version: str, connect: Connect, unique: Unique) -> None:
    queue = f"/queue/{unique('expired')}"
    client = connect(version)
    client.send(queue, "too late", expires="1000")  # one second after the epoch
    client.send(queue, "in time", expires="0")
    client.subscribe(queue)
    assert client.message().body == "in time"


@pytest.fixture(scope="session")
def with_users(start_session_gateway: StartGateway) -> GatewayProcess:
    return start_session_gateway(configurations.with_user("alice", "open sesame"))


@pytest.mark.parametrize("version", VERSIONS)
def test_right_password_is_let_in(version: str, with_users: GatewayProcess, unique: Unique) -> None:
    client = Client(with_users, version).connect("alice", "open sesame")
    client.send(f"/queue/{unique('private')}", "body")
    client.close()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("login", "passcode"), [("alice", "wrong"), ("mallory", "open sesame"), ("", "")])
def test_wrong_password_gets_an_error_and_a_closed_connection(
    version: str, login: str, passcode: str, with_users: GatewayProcess
) -> None:
    client = Client(with_users, version)
    with pytest.raises(stomp.exception.ConnectFailedException):
        client.connect(login, passcode)
    error = client.error()
    assert error.headers["message"]
    assert "open sesame" not in str(error) and "wrong" not in str(error), "the ERROR repeats a password"
    client.inbox.disconnects.get(timeout=LIMIT_S)


@pytest.mark.parametrize("version", VERSIONS)
def test_client_comes_back_after_a_restart(version: str, start_gateway: StartGateway, unique: Unique) -> None:
    gateway = start_gateway()
    queue = f"/queue/{unique('restart')}"
    client = Client(gateway, version).connect()
    client.subscribe(queue, ack="client")
    client.send(queue, "acknowledged")
    client.ack(client.message())
    client.send(queue, "kept")
    client.message()
    gateway.kill9()
    client.inbox.disconnects.get(timeout=LIMIT_S)
    gateway.restart(same_port=True)
    again = Client(gateway, version).connect()
    again.subscribe(queue, ack="client")
    message = again.message()
    assert message.body == "kept"
    again.ack(message)
    again.close()
