"""Well-formed frames that say anything, through sessions into the engine, out again in every protocol, also after a
restart: no exception leaves (``tests/support/typed/typed_world.py``).
"""

from __future__ import annotations

from typing import Final

import pytest

from engine.values.message import Message
from protocols.amqp.v1_0.mapping.selector_properties import AmqpPropertyReader
from protocols.amqp.v1_0.mapping.stomp_form import StompForm
from protocols.stomp.session.settings import SessionSettings
from tests.support.long_run import LongRun
from tests.support.typed.typed_world import Finding, TypedWorld
from tests.support.world.known_seeds import known_first
from tests.support.world.seeds import asked_or

SEEDS: Final = 100
SEEDS_OF_A_BUG: Final = 40
SEARCHED: Final = range(1, SEEDS_OF_A_BUG)


@pytest.mark.parametrize("seed", asked_or(range(1, SEEDS + 1)))
def test_typed_seed(seed: int) -> None:
    TypedWorld(seed).run()


def test_more_typed_seeds(long_run: LongRun) -> None:
    long_run.take(lambda seed: TypedWorld(seed).run())


class RefusesFloats(StompForm):
    """A conversion that nobody has thought of to the end."""

    def stomp_form(self, message: Message) -> tuple[Message, int]:
        if b"\x72" in message.headers:
            raise KeyError("float")
        return super().stomp_form(message)


class RefusesStoredFloats(RefusesFloats):
    """is_on: it is asked for what was stored before a restart."""

    def __init__(self) -> None:
        super().__init__()
        self.is_on = False

    def stomp_form(self, message: Message) -> tuple[Message, int]:
        return super().stomp_form(message) if self.is_on else StompForm().stomp_form(message)


class LateWorld(TypedWorld):
    """Its converter fails with what was stored before the restart, and with nothing else."""

    def __init__(self, seed: int) -> None:
        self.converter = RefusesStoredFloats()
        super().__init__(seed, settings=SessionSettings(converter=self.converter))

    def _restart(self) -> None:
        super()._restart()
        self.converter.is_on = True

    def _fuzz(self, steps: int) -> None:
        self.converter.is_on = False
        super()._fuzz(steps)


class ReadsTexts(AmqpPropertyReader):
    """A selector's reader that trusts what a message says of itself."""

    def __init__(self) -> None:
        super().__init__()
        self.failed_count = 0

    def read(self, message: Message, delivery_count: int, is_redelivered: bool) -> object:  # type: ignore[override]
        found = super().read(message, delivery_count, is_redelivered)
        if b"\x73" in message.headers:
            self.failed_count += 1
            found.get("a").upper()  # type: ignore[union-attr]
        return found


def _found(world: TypedWorld) -> str:
    try:
        world.run()
    except Finding as finding:
        return str(finding)
    return ""


def test_a_planted_bug_is_found() -> None:
    settings = SessionSettings(converter=RefusesFloats())
    assert any("last resort" in _found(TypedWorld(seed, settings=settings)) for seed in known_first(SEARCHED))


def test_a_bug_that_only_stored_messages_show_is_found() -> None:
    assert any("last resort" in _found(LateWorld(seed)) for seed in known_first(SEARCHED))


def test_a_reader_that_fails_ends_nothing() -> None:
    """A message whose properties cannot be read goes to consumers that ask for nothing."""
    reader = ReadsTexts()
    assert [_found(TypedWorld(seed, reader=reader)) for seed in range(1, SEEDS_OF_A_BUG)] == [""] * (SEEDS_OF_A_BUG - 1)
    assert reader.failed_count
