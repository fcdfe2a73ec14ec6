"""The one budget: what only memory holds, and what of the log is in memory, too."""

from __future__ import annotations

from engine.backlog.memory import HOLDER_BYTES, MESSAGE_OVERHEAD_BYTES, MemoryBudget
from engine.values.message import STOMP, Message


def test_the_octets_count_for_the_first_holder_for_the_encoded_copy_of_several_and_a_little_for_each() -> None:
    budget = MemoryBudget(10_000)
    message = Message(1, STOMP, 0, 4, 0, 0, 0, b"", b"a:b\n", b"body")
    budget.hold(message)
    budget.hold(message)
    assert budget.used_bytes == 8 + MESSAGE_OVERHEAD_BYTES + HOLDER_BYTES + 8, "what several get is kept encoded, too"
    budget.hold(message)
    assert budget.used_bytes == 8 + MESSAGE_OVERHEAD_BYTES + HOLDER_BYTES + 8 + HOLDER_BYTES
    budget.release(message)
    budget.release(message)
    assert budget.used_bytes == 8 + MESSAGE_OVERHEAD_BYTES
    budget.release(message)
    assert budget.used_bytes == 0


def message(size: int) -> Message:
    return Message(1, STOMP, 0, 4, 0, 0, 0, b"", b"", b"x" * size)


def test_producers_wait_at_the_limit_and_go_on_at_nine_tenths() -> None:
    budget = MemoryBudget(10_000)
    held = [message(1_000 - MESSAGE_OVERHEAD_BYTES) for _ in range(10)]
    for one in held:
        assert not budget.is_full()
        budget.hold(one)
    assert budget.is_full()
    assert not budget.is_eased()
    budget.release(held.pop())
    assert (budget.is_full(), budget.is_eased()) == (False, True)


def test_what_the_log_has_takes_of_the_room_but_no_more_than_half() -> None:
    budget = MemoryBudget(10_000)
    paged = message(4_000 - MESSAGE_OVERHEAD_BYTES)
    budget.load(paged)
    assert (budget.room_bytes(), budget.held_bytes(), budget.is_short()) == (6_000, 4_000, False)
    budget.load(message(4_000 - MESSAGE_OVERHEAD_BYTES))
    assert (budget.room_bytes(), budget.held_bytes(), budget.is_short()) == (5_000, 8_000, True)
    budget.unload(paged)
    assert (budget.room_bytes(), budget.held_bytes(), budget.is_short()) == (6_000, 4_000, False)


def test_a_message_whose_content_only_the_log_has_counts_as_its_objects() -> None:
    budget = MemoryBudget(10_000)
    hollow = message(1_000).twin(0, b"", b"", b"")
    budget.load(hollow)
    assert budget.held_bytes() == MESSAGE_OVERHEAD_BYTES
    budget.unload(hollow)
    assert budget.held_bytes() == 0
