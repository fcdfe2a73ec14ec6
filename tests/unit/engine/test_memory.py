"""The budget of what only memory holds."""

from __future__ import annotations

from engine.memory import HOLDER_BYTES, MESSAGE_OVERHEAD_BYTES, MemoryBudget
from engine.message import STOMP, Message


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


def test_producers_go_on_at_nine_tenths() -> None:
    assert MemoryBudget(1_000).resume_bytes == 900
