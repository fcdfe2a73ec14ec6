"""What the names that one connection uses stand for."""

from __future__ import annotations

import pytest

from engine.sources.composite import Composite, CompositeSource
from engine.values.destination import TEMP_QUEUE, TEMP_TOPIC
from engine.values.errors import InvalidDestination
from engine.values.wildcard import Wildcard
from protocols.stomp.mapping.destination_header import address_in
from protocols.stomp.mapping.destination_resolver import DestinationResolver
from tests.support.engine.engine_world import EngineWorld


def resolver(world: EngineWorld) -> DestinationResolver:
    return DestinationResolver(world.broker, world.client())


def test_one_destination_and_several() -> None:
    names = resolver(EngineWorld())
    assert names.target(address_in("/queue/a")).uri() == "queue://a"
    several = names.target(address_in("/queue/a,/topic/b"))
    assert isinstance(several, Composite)
    assert several.uri() == "queue://a,topic://b"


def test_wildcards_are_to_receive_from() -> None:
    names = resolver(EngineWorld())
    assert isinstance(names.source(address_in("/topic/a.>")), Wildcard)
    assert isinstance(names.source(address_in("/topic/a.>,/queue/b")), CompositeSource)
    with pytest.raises(InvalidDestination):
        names.target(address_in("/topic/a.>"))


def test_a_temporary_destination_is_made_once_for_each_connection() -> None:
    world = EngineWorld()
    mine, other = resolver(world), resolver(world)
    made = mine.target(address_in("/temp-queue/a"))
    assert mine.source(address_in("/temp-queue/a")) is made
    assert mine.target(address_in("/temp-topic/a")) is not made
    assert other.target(address_in("/temp-queue/a")) is not made
    assert [one.kind for one in mine.temporaries.values()] == [TEMP_QUEUE, TEMP_TOPIC]


def test_another_connection_s_temporary_destination_by_its_real_name() -> None:
    world = EngineWorld()
    mine, other = resolver(world), resolver(world)
    made = mine.target(address_in("/temp-queue/a"))
    name = made.uri().removeprefix("temp-queue://")
    assert other.target(address_in(f"/remote-temp-queue/{name}")) is made


def test_a_reply_to_is_written_as_others_can_use_it() -> None:
    world = EngineWorld()
    names = resolver(world)
    made = names.target(address_in("/temp-queue/a"))
    name = made.uri().removeprefix("temp-queue://").replace(":", "\\c")
    block = b"x-reply-to:/temp-queue/a\nreply-to:/temp-queue/a\ncolour:red\n"
    remote = f"x-reply-to:/temp-queue/a\nreply-to:/remote-temp-queue/{name}\ncolour:red\n"
    assert names.with_reply_to(block, "/temp-queue/a") == remote.encode()
    for text in ("/queue/answers", "not a destination", "/remote-temp-queue/ID:x"):
        assert names.with_reply_to(block, text) is block
