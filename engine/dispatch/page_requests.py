"""Asks for the next pages of lanes that run low, from the store or from what has spilled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.backlog.lane_shares import LEAST_BYTES, LEAST_MESSAGES
from engine.backlog.memory_budget import MemoryBudget
from engine.consumers.turn_steps import Steps
from engine.ports.store import Store
from engine.sources.queue import Queue

PAGE_STEPS: Final = 40  # for a page, so that not thousands of them come in one turn
PAGES_DEBT: Final = 1_000  # steps for pages beyond those of a turn, so that other work does not keep them all back
COSTLY_MESSAGES: Final = 16  # of a page for a selector that looks into bodies: what a turn leaves of it is read again


@dataclass(slots=True, eq=False)
class PageRequests:
    _store: Store
    _memory: MemoryBudget
    _steps: Steps

    def ask(self, queue: Queue, is_all_wanted: bool = False) -> None:
        """Request what the lanes want, each a page; a little of each while memory is short.

        is_all_wanted: more than the lanes want by themselves, as far as there is memory.
        """
        feed = queue.feed
        if not feed.is_own and feed.fill():
            return
        for lane in queue.used_lanes:
            if lane.spill is not None:
                assert queue.spiller is not None, "a lane that has spilled has a spiller"
                count = queue.spiller.fill(lane)
            elif lane.next_load < lane.tail and lane.wants_page(is_all_wanted):
                count = min(lane.pages.count, lane.tail - lane.next_load)
            else:
                continue
            size_bytes = lane.pages.size_bytes
            if feed.is_costly:
                count = min(count, COSTLY_MESSAGES)
            if self._memory.is_short():
                if lane.ready or self._memory.is_choked():
                    continue  # that first
                count = min(count, LEAST_MESSAGES)
                size_bytes = min(size_bytes, LEAST_BYTES)
            if count > 0 and self._steps.left <= -PAGES_DEBT:
                self._steps.postpone(queue)
            elif count > 0:
                self._steps.left -= PAGE_STEPS
                lane.pages.is_loading = True
                self._store.write()  # only written records can be read
                reader = queue.feed.number
                self._store.request(queue.source_id(), lane.priority, lane.next_load, count, size_bytes, reader)
