"""What monitoring plug-ins of ActiveMQ ask Jolokia for, and what it answers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from engine.values.broker_stats import BrokerStats
from gateway.answers.jolokia import READS_MAX, WALKS_MAX, DiskUse, Jolokia
from tests.support.engine.snapshots import broker, destination

BROKER = "org.apache.activemq:type=Broker,brokerName=localhost"
QUEUES = "org.apache.activemq:brokerName=*,destinationName=*,destinationType=Queue,type=Broker"
ORDERS = "org.apache.activemq:brokerName=localhost,destinationName=orders,destinationType=Queue,type=Broker"


def stats() -> BrokerStats:
    return broker(destination("orders"), destination("a,b:c?d"), destination("news", "topic"))


def asked(document: Any, is_lenient: bool = False, of: BrokerStats | None = None) -> Any:
    return json.loads("".join(Jolokia(of or stats(), 7).one(document, is_lenient)))


def read(mbean: str, attribute: Any = None, is_lenient: bool = False) -> Any:
    return asked({"type": "read", "mbean": mbean, "attribute": attribute}, is_lenient)


def test_a_read_of_one_attribute_is_its_value_and_of_a_list_an_object() -> None:
    assert read(ORDERS, "QueueSize") == {
        "request": {"type": "read", "mbean": ORDERS, "attribute": "QueueSize"},
        "timestamp": 7,
        "status": 200,
        "value": 6,
    }
    assert read(ORDERS, ["QueueSize"])["value"] == {"QueueSize": 6}
    assert read(ORDERS)["value"]["Name"] == "orders"


def test_a_pattern_leaves_out_attributes_that_are_not_there() -> None:
    # Telegraf's and Metricbeat's settings for ActiveMQ ask for more than there is here.
    found = read(QUEUES, ["QueueSize", "AverageEnqueueTime", "MemoryPercentUsage"])
    assert found["status"] == 200
    assert found["value"][ORDERS] == {"QueueSize": 6}
    assert len(found["value"]) == 2
    of_broker = read("org.apache.activemq:brokerName=*,type=Broker", ["TotalMessageCount", "UptimeMillis"])
    assert of_broker["value"] == {"org.apache.activemq:brokerName=localhost,type=Broker": {"TotalMessageCount": 18}}


@pytest.mark.parametrize(
    ("mbean", "count"),
    [
        ("org.apache.activemq:brokerName=*,destinationName=*,destinationType=*,type=Broker", 3),
        ("org.apache.activemq:type=Broker,brokerName=*,destinationType=Queue,destinationName=ord*", 1),
        ("org.apache.activemq:type=Broker,brokerName=x,destinationType=Queue,destinationName=orders", 1),
        ("org.apache.activemq:type=Broker,brokerName=x,destinationType=Queue,destinationName=a_b_c&qe;d", 1),
        ("org.apache.activemq:type=Broker,brokerName=*,service=Health", 1),
        ("org.apache.activemq:type=Broker,destinationName=*,*", 3),
        ("org.apache.activemq:*", 5),
        ("java.lang:type=*", 0),
    ],
)
def test_a_search_lists_the_mbeans_of_a_pattern(mbean: str, count: int) -> None:
    assert len(asked({"type": "search", "mbean": mbean})["value"]) == count


def test_the_broker_lists_its_queues_by_names_that_can_be_read() -> None:
    value = read(BROKER)["value"]
    assert [read(one["objectName"], "Name")["value"] for one in value["Queues"]] == ["orders", "a,b:c?d"]
    assert [read(one["objectName"], "Name")["value"] for one in value["Topics"]] == ["news"]
    assert "Queues" not in read(BROKER, ["TotalMessageCount"])["value"]


def test_producers_are_counted_per_destination_and_for_all() -> None:
    orders = replace(destination("orders"), producers=2)
    seen = broker(orders, destination("idle"), replace(destination("news", "topic"), producers=1))
    pattern = {"type": "read", "mbean": QUEUES, "attribute": ["ProducerCount"]}
    assert [one["ProducerCount"] for one in asked(pattern, of=seen)["value"].values()] == [2, 0]
    total = {"type": "read", "mbean": BROKER, "attribute": "TotalProducerCount"}
    assert asked(total, of=seen)["value"] == 3


@pytest.mark.parametrize(
    ("disk", "store", "temp"),
    [
        (DiskUse(300, 700), 30, 12),
        (DiskUse(0, 900), 0, 10),
        (DiskUse(300, 0), 100, 100),
        (DiskUse(300, -5), 100, 100),  # beyond the limit
    ],
)
def test_use_of_the_disk_is_a_share_of_what_is_used_and_may_be_added(disk: DiskUse, store: int, temp: int) -> None:
    seen = replace(stats(), spilled_bytes=100)
    document = {"type": "read", "mbean": BROKER, "attribute": ["StorePercentUsage", "TempPercentUsage"]}
    text = "".join(Jolokia(seen, 7, disk=disk).one(document, False))
    assert json.loads(text)["value"] == {"StorePercentUsage": store, "TempPercentUsage": temp}


def test_without_limits_of_the_disk_there_is_no_share_of_it() -> None:
    for name in ("StorePercentUsage", "TempPercentUsage"):
        assert read(BROKER, name)["status"] == 404
    unused = json.loads("".join(Jolokia(stats(), 7, disk=DiskUse(0, 0)).one({"type": "read", "mbean": BROKER}, False)))
    assert (unused["value"]["StorePercentUsage"], unused["value"]["TempPercentUsage"]) == (100, 100), "no room"


def test_health() -> None:
    mbean = f"{BROKER},service=Health"
    assert read(mbean)["value"] == {"CurrentStatus": "Good"}
    store = replace(stats().store, is_accepting=False, reason="the disk is full")
    ill = asked({"type": "read", "mbean": mbean, "attribute": "CurrentStatus"}, of=replace(stats(), store=store))
    assert ill["value"] == "The store takes no messages: the disk is full"


@pytest.mark.parametrize(
    ("document", "status", "says"),
    [
        (5, 400, "a JSON object with type"),
        ({"type": "exec", "mbean": BROKER, "operation": "stop"}, 403, "type is exec"),
        ({"type": "raed", "mbean": BROKER}, 400, "type is raed; allowed is read, search or version"),
        ({"type": "read"}, 400, "mbean is the name"),
        ({"type": "read", "mbean": 5}, 400, "mbean is the name"),
        ({"type": "read", "mbean": BROKER, "attribute": [5]}, 400, "attribute is a text or a list"),
        ({"type": "read", "mbean": BROKER, "attribute": ["x"] * 60}, 400, "at most 50 texts"),
        ({"type": "read", "mbean": BROKER, "attribute": "Persistent", "path": "a"}, 400, "path is not supported"),
        ({"type": "read", "mbean": BROKER, "attribute": "Uptime"}, 404, "No such attribute: Uptime"),
        ({"type": "read", "mbean": "java.lang:type=Memory"}, 404, "java.lang:type=Memory"),
        (
            {"type": "read", "mbean": QUEUES.replace("=*", "=x*"), "attribute": "QueueSize"},
            404,
            "No MBean with pattern",
        ),
        (
            {"type": "read", "mbean": QUEUES, "attribute": "MaxEnqueueTime"},
            400,
            "No matching attributes MaxEnqueueTime",
        ),
    ],
)
def test_an_error_is_in_the_answer(document: Any, status: int, says: str) -> None:
    found = asked(document)
    assert (found["status"], says in found["error"], "value" in found) == (status, True, False), found


def test_a_lenient_read_says_what_is_not_there_beside_the_rest() -> None:
    lenient = {"type": "read", "mbean": BROKER, "attribute": ["Persistent", "Uptime"]}
    for found in (asked(lenient, True), asked({**lenient, "config": {"ignoreErrors": "true"}})):
        assert found["value"]["Persistent"] is True
        assert found["value"]["Uptime"].startswith("ERROR: javax.management.AttributeNotFoundException")


def test_an_array_is_answered_as_an_array_with_few_reads_of_all_destinations() -> None:
    many = [{"type": "read", "mbean": QUEUES, "attribute": "QueueSize"}] * (WALKS_MAX + 1)
    assert len(many) < READS_MAX
    found = json.loads("".join(Jolokia(stats(), 7).bulk([*many, {"type": "version"}], False)))
    assert [one["status"] for one in found] == [*[200] * WALKS_MAX, 400, 200]
    assert found[-1]["value"]["protocol"] == "7.2"
