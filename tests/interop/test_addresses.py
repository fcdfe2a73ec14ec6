"""What an address's settings do, with stomp.py against the real process: one scenario a setting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.stomp_py import VERSIONS, Client
from tests.support.process.waiting import wait_until

# The last element of a pattern stands for the name that each test has for itself.
CONFIG: Final = """
addresses:
  - {match: newest.>, last-value-queue: true, last-value-key: kind}
  - {match: ring.>, ring-size: 2}
  - {match: brief.>, expiry-delay-ms: 1, expiry-queues: {strategy: individual}}
  - {match: unrouted.>, send-to-dla-on-no-route: true, dead-letters: {strategy: individual}}
  - {match: stamped.>, enable-ingress-timestamp: true}
  - {match: purged.>, purge-on-no-consumers: true}
  - {match: closed.>, auto-create: false}
  - {match: passing.>, auto-delete: true}
  - {match: paged.>, max-size-messages: 10, address-full-policy: PAGE}
  - {match: patient.>, consumers-before-dispatch: 2}
  - {match: strict.>, strict-order-dispatch: true, prefetch: {queue-prefetch: 2}}
  - {match: single.>, exclusive-queue: true}
  - {match: few.>, max-consumers: 1}
  - {match: ordered.>, redelivery: {non-blocking-redelivery: false, initial-redelivery-delay-ms: 50}}
  - match: ticker.>
    pending-message-limit: {strategy: constant, limit: 2}
    advisories: {discarding-messages: true}
  - {match: blamed.>, redelivery: {blame: all}}
  - {match: lately.>, retroactive-message-count: 2}
  - {match: unranked.>, prioritized-messages: false}
  - {match: idle.>, group-idle-timeout-ms: 50}
  - {match: shared-out.>, group-rebalance: true}
  - {match: watched.>, advisories: {dispatched: true, consumed: true, delivery: true, no-consumers: true}}
  - match: slow.>
    advisories: {slow-consumers: true}
    abort-slow-consumers: {check-period-ms: 100}
  - match: dead.>
    redelivery: {maximum-redeliveries: 0}
    dead-letters: {strategy: individual, destination-per-durable-subscriber: true}
  - {match: discarded.>, redelivery: {maximum-redeliveries: 0}, dead-letters: {strategy: discard}}
  - {match: given-up.>, nack: dead-letter, dead-letters: {strategy: individual}}
  - {match: back.>, nack: requeue}
  - {match: each.>, prefetch-top-up: each-ack, prefetch: {queue-prefetch: 4}}
  - match: brimful.>
    max-size-messages: 1
    address-full-policy: BLOCK
    advisories: {fast-producers: true, when-full: true}
  - {match: kept.>, non-destructive: true}
  - {match: half.>, prefetch: {queue-prefetch: 4}}
"""

Unique = Callable[[str], str]


@pytest.fixture(scope="module")
def addressed(start_session_gateway: StartGateway) -> GatewayProcess:
    return start_session_gateway(CONFIG)


@pytest.fixture(params=VERSIONS)
def connect(request: pytest.FixtureRequest, addressed: GatewayProcess) -> Callable[[], Client]:
    """A function that connects, each test once with each version."""
    return lambda: Client(addressed, request.param).connect()


Connect = Callable[[], Client]


def test_only_the_newest_of_a_key(connect: Connect, unique: Unique) -> None:
    client, queue = connect(), f"/queue/newest.{unique('q')}"
    for key, body in (("a", "1"), ("b", "2"), ("a", "3")):
        client.send(queue, body, kind=key)
    client.subscribe(queue)
    assert client.bodies(2) == ["2", "3"]
    client.close()


def test_a_ring_keeps_the_last(connect: Connect, unique: Unique) -> None:
    client, queue = connect(), f"/queue/ring.{unique('q')}"
    for number in range(5):
        client.send(queue, str(number))
    client.subscribe(queue)
    assert client.bodies(2) == ["3", "4"]
    client.close()


def test_what_expires_goes_to_a_queue_of_its_own(connect: Connect, unique: Unique) -> None:
    client, name = connect(), f"brief.{unique('q')}"
    client.send(f"/queue/{name}", "late")
    client.subscribe(f"/queue/EXP.{name}", subscription="expired")
    client.subscribe(f"/queue/{name}", subscription="never")  # a message is looked at when somebody could have it
    client.send(f"/queue/{name}", "late, too")
    message = client.message()
    assert (message.headers["subscription"], message.body) == ("expired", "late")
    assert message.headers["original-destination"] == f"/queue/{name}" and "_AMQ_ACTUAL_EXPIRY" in message.headers
    client.close()


def test_what_no_subscription_takes_becomes_a_dead_letter(connect: Connect, unique: Unique) -> None:
    client, name = connect(), f"unrouted.{unique('t')}"
    client.send(f"/topic/{name}", "nobody")
    client.subscribe(f"/queue/ActiveMQ.DLQ.Topic.{name}", subscription="dead")
    message = client.message()
    assert (message.body, message.headers["dlqCause"]) == ("nobody", "no-route")
    client.subscribe(f"/topic/{name}", subscription="live")
    client.send(f"/topic/{name}", "somebody")
    assert client.message().headers["subscription"] == "live"
    client.close()


def test_a_message_tells_when_it_was_stored(connect: Connect, unique: Unique) -> None:
    client, queue = connect(), f"/queue/stamped.{unique('q')}"
    client.subscribe(queue)
    client.send(queue, "1", timestamp="5")
    headers = client.message().headers
    assert headers["timestamp"] == "5" and int(headers["ingress-timestamp"]) > 1_700_000_000_000
    client.close()


def test_nothing_waits_without_consumers(connect: Connect, unique: Unique) -> None:
    client, queue = connect(), f"/queue/purged.{unique('q')}"
    client.send(queue, "nobody is there")
    client.subscribe(queue, "client-individual")
    client.send(queue, "held")
    assert client.message().body == "held"
    client.unsubscribe()
    client.subscribe(queue, subscription="2")
    client.send(queue, "seen")
    assert client.message().body == "seen"
    client.close()


def test_a_name_that_is_not_made(connect: Connect, unique: Unique) -> None:
    client = connect()
    client.connection.send(f"/queue/closed.{unique('q')}", "1", headers={"receipt": "r"})
    error = client.error()
    assert error.headers["condition"] == "invalid-destination" and "auto_create is off" in str(error.body)


def test_a_queue_goes_with_its_last_consumer(connect: Connect, unique: Unique, addressed: GatewayProcess) -> None:
    client, name = connect(), f"passing.{unique('q')}"
    client.send(f"/queue/{name}", "1")

    def is_there() -> bool:
        return name in [one["name"] for one in addressed.get_json("/api/stat")["destinations"]]

    assert is_there(), "a backlog keeps it"
    client.subscribe(f"/queue/{name}")
    assert client.message().body == "1"
    client.unsubscribe()
    wait_until(lambda: not is_there(), "the queue is deleted")
    client.close()


def test_a_backlog_beyond_memory_comes_in_order(connect: Connect, unique: Unique) -> None:
    client, queue = connect(), f"/queue/paged.{unique('q')}"
    for number in range(60):
        client.send(queue, str(number))
    client.subscribe(queue)
    assert client.bodies(60) == [str(number) for number in range(60)]
    client.close()


def test_a_queue_waits_for_its_consumers(connect: Connect, unique: Unique) -> None:
    first, second, queue = connect(), connect(), f"/queue/patient.{unique('q')}"
    first.send(queue, "1")
    first.send(queue, "2")
    first.subscribe(queue)
    first.send("/queue/elsewhere", "a receipt behind whatever would have come")
    assert first.nothing_came()
    second.subscribe(queue)
    assert sorted([first.message().body, second.message().body]) == ["1", "2"]
    for client in (first, second):
        client.close()


def test_one_consumer_is_filled_before_the_next(connect: Connect, unique: Unique) -> None:
    first, second, queue = connect(), connect(), f"/queue/strict.{unique('q')}"
    first.subscribe(queue, "client-individual")
    second.subscribe(queue, "client-individual")
    for number in range(3):
        first.send(queue, str(number))
    assert first.bodies(2) == ["0", "1"] and second.message().body == "2"
    for client in (first, second):
        client.close()


def test_one_consumer_gets_everything(connect: Connect, unique: Unique) -> None:
    first, second, queue = connect(), connect(), f"/queue/single.{unique('q')}"
    first.subscribe(queue)
    second.subscribe(queue)
    first.send(queue, "1")
    first.send(queue, "2")
    assert first.bodies(2) == ["1", "2"]
    first.close()
    second.send(queue, "3")
    assert second.message().body == "3"
    second.close()


def test_one_consumer_too_many(connect: Connect, unique: Unique) -> None:
    first, second, queue = connect(), connect(), f"/queue/few.{unique('q')}"
    first.subscribe(queue)
    second.connection.subscribe(queue, id="1", ack="auto", headers={"receipt": "r"})
    assert second.error().headers["condition"] == "limit-reached"
    first.close()


def test_where_order_is_asked_for_nothing_overtakes_a_redelivery(addressed: GatewayProcess, unique: Unique) -> None:
    client, queue = Client(addressed, "1.2").connect(), f"/queue/ordered.{unique('q')}"
    client.subscribe(f"{queue}?consumer.prefetchSize=1", "client-individual")
    client.send(queue, "1")
    client.send(queue, "2")
    client.nack(client.message())
    again = client.message()
    assert (again.body, again.headers["JMSXDeliveryCount"]) == ("1", "2")
    client.ack(again)
    assert client.message().body == "2"
    client.close()


def test_a_slow_reader_of_a_topic_loses_the_oldest_and_it_is_told(connect: Connect, unique: Unique) -> None:
    reader, sender, name = connect(), connect(), f"ticker.{unique('t')}"
    watcher = connect()
    watcher.subscribe(f"/topic/ActiveMQ.Advisory.MessageDiscarded.Topic.{name}")
    reader.subscribe(f"/topic/{name}", "client", **{"activemq.prefetchSize": "1"})
    for number in range(6):
        sender.send(f"/topic/{name}", str(number))
    got = []
    for _ in range(3):
        got.append(reader.message())
        reader.ack(got[-1])
    assert [message.body for message in got] == ["0", "4", "5"]
    assert len(watcher.bodies(3)) == 3
    for client in (reader, sender, watcher):
        client.close()


def test_all_that_a_lost_connection_held_is_blamed(connect: Connect, unique: Unique) -> None:
    lost, sender, queue = connect(), connect(), f"/queue/blamed.{unique('q')}"
    for number in range(3):
        sender.send(queue, str(number))
    lost.subscribe(queue, "client")
    assert lost.bodies(3) == ["0", "1", "2"]
    lost.drop()
    sender.subscribe(queue)
    assert [sender.message().headers["JMSXDeliveryCount"] for _ in range(3)] == ["2", "2", "2"]
    sender.close()


def test_a_new_subscription_gets_the_last_of_the_past(connect: Connect, unique: Unique) -> None:
    client, topic = connect(), f"/topic/lately.{unique('t')}"
    for number in range(4):
        client.send(topic, str(number))
    client.subscribe(topic)
    assert client.bodies(2) == ["2", "3"]
    client.close()


def test_priorities_do_not_count(connect: Connect, unique: Unique) -> None:
    client, queue = connect(), f"/queue/unranked.{unique('q')}"
    for priority in (1, 9, 4):
        client.send(queue, "x", priority=priority)
    client.subscribe(queue)
    assert [client.message().headers["priority"] for _ in range(3)] == ["1", "9", "4"]
    client.close()


def test_a_group_that_idles_loses_its_owner(connect: Connect, unique: Unique) -> None:
    first, second, queue = connect(), connect(), f"/queue/idle.{unique('q')}"
    first.subscribe(queue)
    second.subscribe(queue)
    owners: set[Client] = set()

    def has_moved() -> bool:
        first.send(queue, "x", JMSXGroupID="g")
        wait_until(lambda: not (first.nothing_came() and second.nothing_came()), "a message")
        owner = second if first.nothing_came() else first
        owner.message()
        owners.add(owner)
        return len(owners) == 2

    wait_until(has_moved, "another owner of the group", poll_s=0.15)
    for client in (first, second):
        client.close()


def test_groups_are_shared_out_anew_for_a_new_consumer(connect: Connect, unique: Unique) -> None:
    first, second, queue = connect(), connect(), f"/queue/shared-out.{unique('q')}"
    first.subscribe(queue)
    for group in "abcd":
        first.send(queue, group, JMSXGroupID=group)
    first.bodies(4)
    second.subscribe(queue)
    for group in "abcd":
        first.send(queue, group, JMSXGroupID=group)
    assert sorted(first.bodies(2) + second.bodies(2)) == ["a", "b", "c", "d"]
    for client in (first, second):
        client.close()


def test_each_step_of_a_message_is_told(connect: Connect, unique: Unique) -> None:
    watcher, client, name = connect(), connect(), f"watched.{unique('q')}"
    events = ("NoConsumer", "MessageDelivered", "MessageDispatched", "MessageConsumed")
    for event in events:
        watcher.subscribe(f"/topic/ActiveMQ.Advisory.{event}.Queue.{name}", subscription=event)
    client.send(f"/queue/{name}", "1")
    assert sorted(watcher.message().headers["subscription"] for _ in range(2)) == ["MessageDelivered", "NoConsumer"]
    client.subscribe(f"/queue/{name}", "client")
    assert watcher.message().headers["subscription"] == "MessageDispatched"
    client.ack(client.message())
    told = watcher.message()
    assert told.headers["subscription"] == "MessageConsumed"
    assert told.headers["orignalDestination"] == f"queue://{name}"
    for one in (watcher, client):
        one.close()


def test_a_slow_consumer_is_told(connect: Connect, unique: Unique) -> None:
    watcher, slow, name = connect(), connect(), f"slow.{unique('q')}"
    watcher.subscribe(f"/topic/ActiveMQ.Advisory.SlowConsumer.Queue.{name}")
    slow.subscribe(f"/queue/{name}", "client", **{"activemq.prefetchSize": "1"})
    for number in range(3):
        watcher.send(f"/queue/{name}", str(number))
    assert "consumerId" in watcher.message().headers
    for client in (watcher, slow):
        client.close()


def test_a_full_address_and_who_fills_it_are_told(connect: Connect, unique: Unique) -> None:
    watcher, sender, name = connect(), connect(), f"brimful.{unique('q')}"
    for event in ("FastProducer", "FULL"):
        watcher.subscribe(f"/topic/ActiveMQ.Advisory.{event}.Queue.{name}", subscription=event)
    for body in ("fills", "waits"):
        sender.connection.send(f"/queue/{name}", body)
    assert sorted(watcher.message().headers["subscription"] for _ in range(2)) == ["FULL", "FastProducer"]
    watcher.subscribe(f"/queue/{name}", subscription="drain")
    assert watcher.bodies(2) == ["fills", "waits"]
    for client in (watcher, sender):
        client.close()


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_a_dead_letter_queue_for_each_durable_subscriber(
    version: str, addressed: GatewayProcess, unique: Unique
) -> None:
    name = f"dead.{unique('t')}"
    client = Client(addressed, version).connect(**{"client-id": name})
    client.subscribe(f"/topic/{name}", "client-individual", **{"activemq.subscriptionName": "bills"})
    client.subscribe(f"/queue/ActiveMQ.DLQ.Topic.{name}.{name}:bills", subscription="dead")
    client.send(f"/topic/{name}", "bad")
    client.nack(client.message())
    dead = client.message()
    assert (dead.headers["subscription"], dead.headers["_AMQ_ORIG_QUEUE"]) == ("dead", f"{name}:bills")
    client.close()


@pytest.mark.parametrize("version", ["1.1", "1.2"])
@pytest.mark.parametrize(
    ("address", "comes_back", "is_kept"),
    [("discarded", False, False), ("given-up", False, True), ("back", True, False)],
)
def test_what_a_nack_does(
    version: str, address: str, comes_back: bool, is_kept: bool, addressed: GatewayProcess, unique: Unique
) -> None:
    name = f"{address}.{unique('q')}"
    client = Client(addressed, version).connect()
    client.subscribe(f"/queue/{name}", "client-individual")
    client.send(f"/queue/{name}", "bad")
    client.nack(client.message())
    found = {one["name"]: one for one in addressed.get_json("/api/stat")["destinations"]}
    assert found.get(f"ActiveMQ.DLQ.Queue.{name}", {"depth": 0})["depth"] == is_kept
    assert found[name]["depth"] == comes_back
    if comes_back:
        assert client.message().headers["JMSXDeliveryCount"] == "1"
    client.close()


def test_everybody_gets_all_of_a_queue_that_keeps_its_messages(connect: Connect, unique: Unique) -> None:
    first, second, queue = connect(), connect(), f"/queue/kept.{unique('q')}"
    first.send(queue, "1")
    first.subscribe(queue, "client")
    first.send(queue, "2")
    seen = [first.message(), first.message()]
    first.ack(seen[1])
    second.subscribe(queue)
    first.send(queue, "3")
    assert second.bodies(3) == ["1", "2", "3"] and first.message().body == "3"
    for client in (first, second):
        client.close()


@pytest.mark.parametrize(("address", "after"), [("half", [0, 2, 0, 2]), ("each", [1, 1, 1, 1])])
def test_when_a_full_window_is_topped_up(address: str, after: list[int], connect: Connect, unique: Unique) -> None:
    client, queue = connect(), f"/queue/{address}.{unique('q')}"
    for number in range(9):
        client.send(queue, str(number))
    client.subscribe(queue, "client-individual" if client.version != "1.0" else "client")
    held = [client.message() for _ in range(4)]
    for count in after:
        client.ack(held.pop(0))  # with a receipt, behind which nothing comes that the ACK has let go
        held += [client.message() for _ in range(count)]
        assert client.nothing_came()
    client.close()


def test_pull_is_one_at_a_time(connect: Connect, unique: Unique) -> None:
    client, queue = connect(), f"/queue/{unique('pull')}"
    client.send(queue, "1")
    client.send(queue, "2")
    client.subscribe(queue, "client", **{"activemq.prefetchSize": "0"})
    first = client.message()
    client.send(queue, "3")
    assert client.nothing_came()
    client.ack(first)
    assert client.message().body == "2"
    client.close()


# -- the whole gateway's limits, and options of a listener


def test_what_all_addresses_hold_together_has_a_limit(start_gateway: StartGateway) -> None:
    gateway = start_gateway("{limits: {global-max-messages: 3}, addresses: [{match: '>', address-full-policy: FAIL}]}")
    client = Client(gateway, "1.2").connect()
    for name in ("a", "b", "c"):
        client.send(f"/queue/{name}", "x")
    client.connection.send("/queue/d", "x", headers={"receipt": "r"})
    error = client.error()
    assert error.headers["condition"] == "address-full" and "global-max-messages" in str(error.body)
