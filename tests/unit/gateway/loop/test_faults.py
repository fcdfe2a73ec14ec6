"""Whose fault an exception is: what its traceback has passed decides."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.features.scheduler.schedule_record import read_header
from engine.selector.parser import parse
from engine.sources.queue import Queue
from engine.values.errors import DATA_FAULTS, InvalidSelector
from gateway.loop.faults import PURE, is_engine_whole
from protocols.amqp.v1_0.mapping.jms_ids import id_text
from tests.support.engine.engine_world import EngineWorld


def caught(call: Callable[[], object]) -> Exception:
    with pytest.raises(DATA_FAULTS) as found:
        call()
    error: Exception = found.value
    return error


def close_ordinary() -> None:
    world = EngineWorld()
    queue: Queue = world.queue("q")
    world.broker.close_temporary(queue)


def test_who_never_came_to_the_engine_has_left_it_whole() -> None:
    assert is_engine_whole(caught(lambda: int("x")))
    assert is_engine_whole(caught(lambda: id_text(_Odd(), True)))


class _Odd(str):
    def startswith(self, *_: object) -> bool:
        raise RecursionError


def test_one_frame_of_the_engine_is_enough_to_doubt_it() -> None:
    assert not is_engine_whole(caught(close_ordinary))


def test_what_only_computes_has_changed_nothing() -> None:
    error = caught(lambda: parse("a ="))
    assert isinstance(error, InvalidSelector)
    assert is_engine_whole(error)
    assert is_engine_whole(caught(lambda: read_header(b"schedule-what:1\n")))


def test_what_was_wrong_before_does_not_count() -> None:
    def again() -> None:
        try:
            close_ordinary()
        except AssertionError as error:
            raise KeyError("ours, afterwards") from error

    assert is_engine_whole(caught(again))


@pytest.mark.parametrize("module", PURE)
def test_what_only_computes_is_there(module: str) -> None:
    __import__(module)
