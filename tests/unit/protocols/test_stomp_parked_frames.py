"""Frames that wait at a gate."""

from __future__ import annotations

from engine.sources.composite import Composite
from protocols.stomp.codec.frames import SEND, Frame, Head
from protocols.stomp.session.parked_frames import FRAME_OVERHEAD_BYTES, ParkedFrames
from tests.support.engine_world import EngineWorld


def frame(command: int, body: bytes = b"") -> Frame:
    return Frame(command, Head(command, {}, -1, b""), None, None, body)


def test_frames_come_back_in_order_and_leave_nothing_behind() -> None:
    parking = ParkedFrames(100, 1_000)
    first, second = frame(SEND, b"12345"), frame(SEND, b"")
    destinations = EngineWorld().broker.destinations
    a, b, c = destinations.queue("a"), destinations.queue("b"), destinations.topic("c")
    parking.add(first, a)
    parking.add(second, Composite([b, a]))
    assert parking.addresses == {"queue://a", "queue://b"}
    assert [parking.holds(one) for one in (a, b, c, Composite([c, a]))] == [True, True, False, True]
    assert parking.parked_bytes == 5 + 2 * FRAME_OVERHEAD_BYTES, "empty bodies take room too"
    assert parking.take_all() == [first, second]
    assert (parking.parked, parking.parked_bytes, parking.addresses) == ([], 0, set())


def test_heads_receipts_and_what_is_held_besides_count() -> None:
    parking = ParkedFrames(100, 1_000)
    one = Frame(SEND, Head(SEND, {"ab": "cd"}, -1, b"ab:cd\n"), b"r1", None, b"body")
    parking.add(one, EngineWorld().queue("a"), 1_000)
    assert parking.parked_bytes == FRAME_OVERHEAD_BYTES + 4 + 6 + 2 + 4 + 1_000
