"""What a running gateway explains: a consumer's own settings above those of its address."""

from __future__ import annotations

from typing import Any

import pytest

from config.matching import TOPIC, AddressEntry, Pattern
from config.model import ConnectionDefaults, ServerConfig
from engine.consumers.consumer import Consumer
from engine.sources.composite import CompositeSource
from engine.values.wildcard import Wildcard
from gateway.web.management.why import LiveWhy
from tests.support.engine.engine_world import EngineWorld, address
from tests.support.fakes import FakeClient
from tests.support.web import Storing


def live(world: EngineWorld) -> LiveWhy:
    config = ServerConfig(addresses=(address("q", prefetch__queue_prefetch=20),))
    return LiveWhy(world.broker, lambda: config, Storing())


def test_a_consumers_own_settings_stand_above_its_address() -> None:
    world = EngineWorld(address("q", prefetch__queue_prefetch=20))
    consumer = world.consumer(
        world.client("worker"), prefetch=3, redelivery={"maximum_redeliveries": 2}, is_exclusive=True
    )
    document = live(world).explain_consumer(consumer.consumer_id)
    assert document is not None
    assert document["what"].startswith(f"consumer {consumer.consumer_id} of queue://q: worker")
    source = "the consumer itself"
    assert document["settings"]["prefetch.queue-prefetch"] == {
        "value": "3",
        "source": source,
        "overrode": [{"value": "20", "source": "q"}, {"value": "1000", "source": "default"}],
    }
    assert document["settings"]["redelivery.maximum-redeliveries"]["value"] == "2"
    assert document["settings"]["redelivery.redelivery-delay-ms"]["source"] == "default"
    assert document["settings"]["exclusive-queue"]["value"] == "true"


def test_a_consumers_own_window_and_rate_stand_above_its_address() -> None:
    flow = {"flow__consumer_window_size_bytes": 5_000, "flow__consumer_max_rate_per_second": 7}
    world = EngineWorld(address("q", **flow))
    why = LiveWhy(world.broker, lambda: ServerConfig(addresses=(address("q", **flow),)), Storing())
    own, plain = world.consumer(world.client(), window_bytes=900, rate=3), world.consumer(world.client())
    free = world.consumer(world.client(), window_bytes=-1, rate=-1)
    shown = {}
    for consumer in (own, plain, free):
        document = why.explain_consumer(consumer.consumer_id)
        assert document is not None
        found = [document["settings"][name] for name in ("consumer-window-size", "consumer-max-rate")]
        shown[consumer] = [(one["value"], one["source"]) for one in found]
    assert shown[own] == [("900", "the consumer itself"), ("3", "the consumer itself")]
    assert shown[plain] == [("5000", "q"), ("7", "q")]
    assert shown[free] == [("-1", "the consumer itself"), ("-1", "the consumer itself")]


def test_a_consumer_that_asks_for_nothing_has_its_addresss_settings() -> None:
    world = EngineWorld(address("q", prefetch__queue_prefetch=20))
    consumer = world.consumer(world.client())
    document = live(world).explain_consumer(consumer.consumer_id)
    assert document is not None
    assert {key for key, each in document["settings"].items() if each["source"] != "default"} == {
        "prefetch.queue-prefetch"
    }


def own_values(why: LiveWhy, consumer: Consumer) -> dict[str, str]:
    """Return what a consumer itself has set, as "explain" says."""
    document = why.explain_consumer(consumer.consumer_id)
    assert document is not None
    return {key: each["value"] for key, each in document["settings"].items() if each["source"] == "the consumer itself"}


def test_a_consumer_of_several_topics_is_compared_with_the_first_one() -> None:
    topic = AddressEntry(
        Pattern.parse("t"), TOPIC, {"prefetch.topic_prefetch": 7, "flow.consumer_max_rate_per_second": 3}
    )
    entries = (topic, address("t.>", prefetch__topic_prefetch=8, flow__consumer_window_size_bytes=900))
    world = EngineWorld(*entries)
    several = CompositeSource([world.topic("t"), world.queue("q")])
    why = LiveWhy(world.broker, lambda: ServerConfig(addresses=entries), Storing())
    for source, value in ((several, "7"), (Wildcard(TOPIC, "t.>"), "8")):
        plain = world.consumer(world.client(), source)
        assert own_values(why, plain) == {}
        document = why.explain_consumer(plain.consumer_id)
        assert document is not None
        assert document["settings"]["prefetch.topic-prefetch"]["value"] == value
        own = world.consumer(world.client(), source, prefetch=3)
        assert own_values(why, own) == {"prefetch.topic-prefetch": "3"}


@pytest.mark.parametrize(
    ("asked", "key"),
    [
        ({"subscription": "s", "is_durable": True}, "prefetch.durable-topic-prefetch"),
        ({"is_browser": True}, "prefetch.queue-browser-prefetch"),
    ],
)
def test_a_prefetch_of_its_own_stands_with_its_kind_of_consumer(asked: dict[str, Any], key: str) -> None:
    world = EngineWorld()
    source = world.topic("t") if "subscription" in asked else world.queue("q")
    own = world.consumer(world.client("w", "w"), source, prefetch=3, **asked)
    assert own_values(live(world), own) == {key: "3"}
    assert own_values(live(world), world.consumer(world.client("v", "v"), source, **asked)) == {}


def test_a_larger_prefetch_for_what_is_not_persistent_is_none_of_the_consumer() -> None:
    entry = address("q", prefetch__queue_prefetch=5, prefetch__non_persistent_queue_prefetch=9)
    world = EngineWorld(entry)
    why = LiveWhy(world.broker, lambda: ServerConfig(addresses=(entry,)), Storing())
    assert own_values(why, world.consumer(world.client())) == {}


def test_no_such_consumer() -> None:
    assert live(EngineWorld()).explain_consumer(7) is None


class Asking(FakeClient):
    """A connection that came with wishes of its own."""

    def connection_defaults(self) -> ConnectionDefaults:
        return ConnectionDefaults(
            {"prefetch.queue_prefetch": 9, "redelivery.maximum_redeliveries": 1},
            {"prefetch.queue_prefetch": "header activemq.prefetchPolicy.queuePrefetch of CONNECT"},
        )


def test_a_destination_for_a_connection() -> None:
    world = EngineWorld()
    client = Asking("worker")
    world.broker.connect(client)
    document = live(world).explain_destination("q", client.client_number)
    assert document is not None
    assert document["what"] == f"queue://q for connection {client.client_number}: worker"
    assert document["settings"]["prefetch.queue-prefetch"] == {
        "value": "9",
        "source": f"header activemq.prefetchPolicy.queuePrefetch of CONNECT, of connection {client.client_number}",
        "overrode": [{"value": "20", "source": "q"}, {"value": "1000", "source": "default"}],
    }
    assert live(world).explain_destination("q", 99) is None


def test_what_a_consumers_connection_set_is_told_apart_from_what_it_set_itself() -> None:
    world = EngineWorld(address("q", prefetch__queue_prefetch=20))
    client = Asking("worker")
    world.broker.connect(client)
    consumer = world.consumer(client, prefetch=9, redelivery={"maximum_redeliveries": 5})
    document = live(world).explain_consumer(consumer.consumer_id)
    assert document is not None
    settings = document["settings"]
    assert settings["prefetch.queue-prefetch"]["source"].endswith(f"of connection {client.client_number}")
    assert settings["redelivery.maximum-redeliveries"]["source"] == "the consumer itself"
    assert [one["value"] for one in settings["redelivery.maximum-redeliveries"]["overrode"]] == ["1", "6"]


def test_a_destination_with_its_options() -> None:
    document = live(EngineWorld()).explain_destination("q?consumer.prefetchSize=5")
    assert document is not None
    assert document["what"] == "queue://q"
    assert document["settings"]["prefetch.queue-prefetch"]["value"] == "5"


@pytest.mark.parametrize("text", ["q.>", "q?consumer.nothing=1", ""])
def test_what_is_no_destination(text: str) -> None:
    with pytest.raises(ValueError):
        live(EngineWorld()).explain_destination(text)


class Telling(FakeClient):
    def asked_for(self) -> list[str]:
        return ["a client, OpenWire 12", "consumer 1:1 of queue://q: prefetch 7"]


def test_what_a_connection_has_asked_for() -> None:
    world = EngineWorld()
    client = Telling()
    world.broker.connect(client)
    document = live(world).explain_destination("q", client.client_number)
    assert document is not None
    assert document["asked"] == ["a client, OpenWire 12", "consumer 1:1 of queue://q: prefetch 7"]
    consumer = world.consumer(client)
    of_consumer = live(world).explain_consumer(consumer.consumer_id)
    assert of_consumer is not None
    assert of_consumer["asked"] == document["asked"]
    plain = live(world).explain_destination("q")
    assert plain is not None
    assert plain["asked"] == []
