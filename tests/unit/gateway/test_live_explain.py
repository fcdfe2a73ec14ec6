"""What a running gateway explains: a consumer's own settings above those of its address."""

from __future__ import annotations

import pytest

from config.model import ServerConfig
from gateway.live_why import LiveWhy
from tests.support.engine_world import EngineWorld, address


def live(world: EngineWorld) -> LiveWhy:
    return LiveWhy(world.broker, ServerConfig(addresses=(address("q", prefetch__queue_prefetch=20),)))


def test_a_consumers_own_settings_stand_above_its_address() -> None:
    world = EngineWorld(address("q", prefetch__queue_prefetch=20))
    consumer = world.consumer(
        world.client("worker"), prefetch=3, redelivery={"maximum_redeliveries": 2}, is_exclusive=True
    )
    document = live(world).explain_consumer(consumer.consumer_id)
    assert document is not None
    assert document["what"].startswith(f"consumer {consumer.consumer_id} of queue://q: worker")
    source = "the consumer, or the URI of its listener"
    assert document["settings"]["prefetch.queue-prefetch"] == {
        "value": "3",
        "source": source,
        "overrode": [{"value": "20", "source": "q"}, {"value": "1000", "source": "default"}],
    }
    assert document["settings"]["redelivery.maximum-redeliveries"]["value"] == "2"
    assert document["settings"]["redelivery.redelivery-delay-ms"]["source"] == "default"
    assert document["settings"]["exclusive-queue"]["value"] == "true"


def test_a_consumer_that_asks_for_nothing_has_its_addresss_settings() -> None:
    world = EngineWorld(address("q", prefetch__queue_prefetch=20))
    consumer = world.consumer(world.client())
    document = live(world).explain_consumer(consumer.consumer_id)
    assert document is not None
    assert {key for key, each in document["settings"].items() if each["source"] != "default"} == {
        "prefetch.queue-prefetch"
    }


def test_no_such_consumer() -> None:
    assert live(EngineWorld()).explain_consumer(7) is None


def test_a_destination_with_its_options() -> None:
    document = live(EngineWorld()).explain_destination("q?consumer.prefetchSize=5")
    assert document["what"] == "queue://q"
    assert document["settings"]["prefetch.queue-prefetch"]["value"] == "5"


@pytest.mark.parametrize("text", ["q.>", "q?consumer.nothing=1", ""])
def test_what_is_no_destination(text: str) -> None:
    with pytest.raises(ValueError):
        live(EngineWorld()).explain_destination(text)
