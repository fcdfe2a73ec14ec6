"""The budget of what only memory holds."""

from __future__ import annotations

from engine.memory import HOLDER_BYTES, MESSAGE_OVERHEAD_BYTES, MemoryBudget
from engine.message import STOMP, Message


def test_the_octets_of_a_message_count_once_and_each_further_holder_a_little() -> None:
    budget = MemoryBudget(10_000)
    message = Message(1, STOMP, 0, 4, 0, 0, 0, b"", b"a:b\n", b"body")
    budget.hold(message)
    budget.hold(message)
    assert budget.used_bytes == 8 + MESSAGE_OVERHEAD_BYTES + HOLDER_BYTES
    budget.release(message)
    assert budget.used_bytes == 8 + MESSAGE_OVERHEAD_BYTES
    budget.release(message)
    assert budget.used_bytes == 0


def test_producers_go_on_at_nine_tenths() -> None:
    assert MemoryBudget(1_000).resume_bytes == 900
