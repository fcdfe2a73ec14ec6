"""What a queue's Selection knows of one consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.waiting import Waiting

if TYPE_CHECKING:
    from engine.consumer import Consumer
    from engine.view import View


class Seat:
    """owned: messages that wait for this consumer alone: of its groups, or those that others will not have."""

    __slots__ = ("consumer", "view", "owned")

    def __init__(self, consumer: Consumer, view: View) -> None:
        self.consumer = consumer
        self.view = view
        self.owned = Waiting()
