"""What a queue's Selection knows of one consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.backlog.waiting_deliveries import Waiting

if TYPE_CHECKING:
    from engine.consumers.consumer import Consumer
    from engine.dispatch.selector_view import View


class Seat:
    """owned: messages that wait for this consumer alone: of its groups, or those that others will not have."""

    __slots__ = ("consumer", "view", "owned")

    def __init__(self, consumer: Consumer, view: View) -> None:
        self.consumer = consumer
        self.view = view
        self.owned = Waiting()
