"""Names of destinations."""

from __future__ import annotations

import pytest

from config import matching
from engine.values.destination import KINDS_BY_NAME, NAME_MAX_BYTES, QUEUE, TOPIC, uri
from engine.values.errors import InvalidDestination
from tests.support.engine.engine_world import EngineWorld


def test_uris_are_activemq_s() -> None:
    assert uri(QUEUE, "orders.eu") == "queue://orders.eu"
    assert uri(TOPIC, "orders.eu") == "topic://orders.eu"
    assert KINDS_BY_NAME == {"queue": QUEUE, "topic": TOPIC}


def test_config_knows_the_same_kinds() -> None:
    assert (matching.QUEUE, matching.TOPIC) == (QUEUE, TOPIC)


@pytest.mark.parametrize("name", ["a", "a.b/c", "große.Öfen", "a b", "x" * NAME_MAX_BYTES])
def test_names_that_are_taken(name: str) -> None:
    world = EngineWorld()
    assert world.queue(name) is world.queue(name)
    assert world.topic(name).uri() == f"topic://{name}"


@pytest.mark.parametrize(
    "name",
    ["", "x" * (NAME_MAX_BYTES + 1), "a.*", "a.>", "#", "a?b", "a,b", "a\nb", "a\0", "a..b", ".a", "a.", "."],
)
def test_names_that_are_refused(name: str) -> None:
    world = EngineWorld()
    with pytest.raises(InvalidDestination):
        world.queue(name)
    with pytest.raises(InvalidDestination):
        world.topic(name)
