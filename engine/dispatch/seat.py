"""A consumer's place in a queue's Selection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.backlog.waiting_deliveries import Waiting
from engine.consumers.consumer import Consumer, SeatBase

if TYPE_CHECKING:
    from engine.dispatch.selector_view import View


class Seat(SeatBase):
    """owned: messages for this consumer alone: of its groups, or messages that the others refuse."""

    __slots__ = ("consumer", "view", "owned")

    def __init__(self, consumer: Consumer, view: View) -> None:
        self.consumer = consumer
        self.view = view
        self.owned = Waiting()


def seat_of(consumer: Consumer) -> Seat | None:
    """Return the seat of a consumer, None without a Selection."""
    seat = consumer.seat
    assert seat is None or isinstance(seat, Seat), "there is one kind of seat"
    return seat
