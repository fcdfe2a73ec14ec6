"""Replays: consumers that read a queue or a topic again from some place of the log, and settle nothing.

Like a browser, a replay has a queue of its own.  It shows the entries of the consume queues in log order over all
priorities, settled or not, as long as retention keeps them.  Then it follows what is published to the topic or sent to
the queue; a browsing replay ends instead.  However far behind, a replay holds at most a page of each priority and a
ready one, so slow replays do not delay others; pages are smaller if there are many replays.
Sources: RabbitMQ stream offset specifications; docs/reference/destinations.md for the different behaviour of
retroactive consumers.
"""

from __future__ import annotations

from collections import deque

from engine.backlog.context import Context
from engine.consumers.client import Client
from engine.selector.evaluate import Selector, selector_of
from engine.sources.entry_readers import Feeds
from engine.sources.feed import Feed
from engine.sources.observer import Observer
from engine.sources.queue import Queue
from engine.sources.registry import Destinations
from engine.sources.replay_pages import (
    Reading,
    ReplayPages,
    gone,
    log_offset_of,
    seek,
    shown_copy,
    start_words,
    tails_of,
)
from engine.sources.topics.topic import Topic
from engine.values.errors import EngineError, InvalidDestination, InvalidOption, ReplayGone
from engine.values.message import DEFAULT_PRIORITY, Message
from engine.values.options import LAST, NEXT, ReplayStart, SubscribeOptions
from engine.values.stored import LanePlace


class Replay(Feed):
    """One consumer's replay of ``source``, shown in ``view``.

    is_sought: its beginning is known.  is_over: it has failed, and its client was informed.
    seen_count: messages that had come to the queue at the last check.
    unjudged: new messages that the selector could not see in their own turn, before those of the readings.
    fault: why the disk could not say where the replay begins, "" if it could.
    """

    __slots__ = (
        "context",
        "replays",
        "source",
        "view",
        "start",
        "readings",
        "is_sought",
        "is_seeking",
        "is_over",
        "seen_count",
        "unjudged",
        "fault",
    )

    def __init__(
        self, replays: Replays, source: Queue | Topic, number: int, selector: Selector | None, start: ReplayStart
    ) -> None:
        super().__init__(number, source.destination_id, selector)
        self.is_browser = True
        self.since_ms = start.time_ms or 0
        self.context = replays.context
        self.replays = replays
        self.source = source
        self.start = start
        self.readings: dict[int, Reading] = {}
        for priority, tail in tails_of(self.context, source):
            first = tail - 1 if start.place == LAST else tail
            # The store answers only for priorities that have entries in the log.
            self.readings[priority] = Reading(priority, max(0, first, start.entry or 0), tail)
        self.is_sought = start.place in (LAST, NEXT)
        self.is_seeking = False
        self.is_over = False
        self.seen_count = source.enqueued_count
        self.unjudged: deque[Message] = deque()
        self.fault = ""
        self.view = replays.destinations.reader_queue(
            source.destination_id, source.kind, source.name, source.settings, False, self
        )

    def shown_by(self) -> str:
        return "replay"

    def has_more(self) -> bool:
        return not self.is_sought or bool(self.unjudged) or self._is_behind()

    def _is_behind(self) -> bool:
        return any(reading.has_more() for reading in self.readings.values())

    def is_at_limit(self) -> bool:
        return self.context.memory.is_short() and self.view.in_flight_count >= self.replays.pages.messages()

    def is_starved(self, is_short: bool) -> bool:
        return is_short and self.is_at_limit()

    def describe(self) -> str:
        if not self.is_sought:
            return f"waits for the disk: {self.fault}" if self.fault else "searching for its beginning"
        parts = [
            f"entry {reading.next_load - len(reading.loaded):,} of {reading.tail:,} (priority {reading.priority})"
            for reading in self.readings.values()
        ]
        return f"from {start_words(self.start)}; at {', '.join(parts) or 'the end of nothing'}"

    # -- new messages

    def message_came(self, message: Message, is_shunned: bool) -> None:
        """A message was published: show it from memory if the replay has read all before it, else read it in its turn.

        is_shunned: the replaying client has sent it and does not want its own.  The log does not record the sender.
        """
        is_current = self.is_sought and not self._is_behind()
        offset = message.queue_offset
        if offset < 0:
            # The message is only in memory, and is not kept for a replay that is behind.
            if is_current and not is_shunned and self._has_room_for_new():
                self._take(message)
            return
        reading = self._reading(message.priority, offset)
        reading.tail = offset + 1
        if offset != reading.next_load or not is_current:
            return
        if is_shunned:
            reading.next_load = reading.tail
        elif self._has_room_for_new():
            reading.next_load = reading.tail
            self._take(shown_copy(message))

    def _take(self, message: Message) -> None:
        """Show a new message if the selector matches it; without steps for that it waits for a later turn."""
        if not self.unjudged and self._has_steps():
            if self._is_wanted(message):
                self._show(message)
            return
        self.context.memory.hold(message)
        self.unjudged.append(message)
        self.replays.feeds.steps.postpone(self.view)

    def _has_steps(self) -> bool:
        return self.selector is None or self.replays.feeds.steps.left > 0

    def queue_grew(self) -> None:
        """Note messages that came to a queue; they are read from the log."""
        source = self.source
        if not isinstance(source, Queue) or source.enqueued_count == self.seen_count:
            return
        self.seen_count = source.enqueued_count
        for lane in source.used_lanes:
            reading = self._reading(lane.priority, 0)
            if lane.tail > reading.tail:
                reading.tail = lane.tail
                self.view.mark_dirty()

    def sought(self, log_start: int, places: list[LanePlace]) -> None:
        """Begin where the store says, or end with an error if that place is no longer kept."""
        self.is_seeking = False
        self.fault = ""
        if self.is_over:
            return
        reason = "" if self.start.is_lenient else gone(self.context, self.source.uri(), self.start, log_start, places)
        if reason:
            self.replays.refuse(self, ReplayGone(reason))
            return
        self.is_sought = True
        for place in places:
            reading = self._reading(place.priority, 0)
            reading.next_load = max(place.first, place.kept)

    def seek_failed(self, reason: str) -> None:
        self.is_seeking = False
        self.fault = reason

    def page_loaded(self, priority: int, next_offset: int, messages: list[Message]) -> bool:
        reading = self.readings[priority]
        reading.is_loading = False
        reading.next_load = next_offset
        for message in messages:
            shown = shown_copy(message)
            self.context.memory.hold(shown)
            reading.loaded.append(shown)
        return True

    def page_failed(self, priority: int) -> bool:
        self.readings[priority].is_loading = False
        return True

    # -- output

    def fill(self) -> bool:
        """Make available messages ready in log order, and request the next ones."""
        if self.is_over:
            return True  # its source is gone, or never existed
        if self.is_sought:
            self._fill()
        elif not self.is_seeking:
            self.is_seeking = True
            seek(self.context, self.source.destination_id, self.start, self.number)
        return True

    def _fill(self) -> None:
        if self.is_at_limit() and self.has_more():
            self.replays.starved[self.view] = None
            self.replays.context.agenda.is_open = True
        while self._has_room():
            if not self._has_steps():
                if self.has_more():
                    self.replays.feeds.steps.postpone(self.view)
                return
            if self.unjudged:
                self._show_next(self.unjudged)
                continue
            nearest: Reading | None = None
            is_waiting = False
            for reading in self.readings.values():
                if not reading.loaded:
                    if reading.next_load < reading.tail:
                        is_waiting = True  # it may hold the next message in log order
                        self._ask(reading)
                elif nearest is None or reading.loaded[0].log_offset < nearest.loaded[0].log_offset:
                    nearest = reading
            if nearest is None or is_waiting:
                return
            self._show_next(nearest.loaded)

    def _show_next(self, messages: deque[Message]) -> None:
        message = messages.popleft()
        self.context.memory.release(message)  # its delivery holds it again
        if self._is_wanted(message):
            self._show(message)

    def discard_loaded(self) -> None:
        """Discard loaded messages."""
        while self.unjudged:
            self.context.memory.release(self.unjudged.popleft())
        for reading in self.readings.values():
            for message in reading.loaded:
                self.context.memory.release(message)
            reading.loaded.clear()

    # -- the steps

    def _ask(self, reading: Reading) -> None:
        if reading.is_loading:
            return
        reading.is_loading = True
        store = self.context.store
        store.write()  # only written records can be read
        size_bytes, most = self.replays.pages.limits()
        count = min(most, reading.tail - reading.next_load)
        store.request(self.source.destination_id, reading.priority, reading.next_load, count, size_bytes, self.number)

    def _reading(self, priority: int, first: int) -> Reading:
        """Return the reading of a priority; a new one begins at ``first``."""
        reading = self.readings.get(priority)
        if reading is None:
            reading = self.readings[priority] = Reading(priority, max(first, self.start.entry or 0), first)
        return reading

    def _is_wanted(self, message: Message) -> bool:
        if message.expires_ms and message.expires_ms <= self.context.wall_ms:
            return False
        return self.replays.feeds.select(self.view, message)

    def _has_room(self) -> bool:
        lane = self.view.lane(DEFAULT_PRIORITY)
        size_bytes, count = self.replays.pages.limits()
        return lane.ready_bytes < size_bytes and len(lane.ready) < count and not self.is_at_limit()

    def _has_room_for_new(self) -> bool:
        return self._has_room() and len(self.unjudged) < self.replays.pages.messages()

    def _show(self, message: Message) -> None:
        view = self.view
        self.context.memory.hold(message)
        view.lane(DEFAULT_PRIORITY).add_volatile(message)
        view.depth += 1
        view.enqueued_count += 1
        if message.expires_ms:
            view.has_expiring = True
        view.mark_dirty()


class Replays(Observer):
    """All replays.  followers: replays of queues that follow new messages.

    pages: how much each replay may request and keep ready.
    starved: queues whose consumers wait because memory is too short to read more for them.
    """

    __slots__ = ("context", "destinations", "feeds", "starved", "replays", "followers", "pages")

    def __init__(self, context: Context, destinations: Destinations, feeds: Feeds, starved: dict[Queue, None]) -> None:
        self.context = context
        self.destinations = destinations
        self.feeds = feeds
        self.starved = starved
        self.replays: list[Replay] = []
        self.followers: list[Replay] = []
        self.pages = ReplayPages(context.memory)

    def open(self, client: Client, source: Queue | Topic, options: SubscribeOptions, start: ReplayStart) -> Queue:
        """Return a queue that shows ``source`` from ``start`` on.  Raises: InvalidOption, InvalidSelector."""
        if not source.is_logged:
            raise InvalidOption(f"{source.uri()} is in memory only: there is nothing in the log to replay")
        if start.message_id:
            log_offset_of(self.context, start.message_id)
        selector = selector_of(options.selector)
        replay = Replay(self, source, self.feeds.number(), selector, start)
        if options.is_no_local:
            replay.shunned = client.client_number
        view = replay.view
        self.replays.append(replay)
        self.pages.share(len(self.replays))
        if options.is_browser:
            return view
        if isinstance(source, Topic):
            source.add(view, False, False)
        else:
            self.followers.append(replay)
            self.context.agenda.is_open = True
        return view

    def close(self, replay: Replay) -> None:
        """Discard a replay whose consumer has gone."""
        self.replays.remove(replay)
        self.pages.share(len(self.replays))
        if replay in self.followers:
            self.followers.remove(replay)
        if isinstance(replay.source, Topic):
            replay.source.remove(replay.number)
        self.starved.pop(replay.view, None)
        replay.discard_loaded()

    def follow(self) -> None:
        """Check the followed queues for messages of this turn."""
        for replay in self.followers:
            replay.queue_grew()

    def refuse(self, replay: Replay, error: EngineError) -> None:
        """End a replay that cannot go on, and inform its client why."""
        replay.is_over = True
        for consumer in list(replay.view.consumers.values()):
            if consumer.departing() is None:
                consumer.client.expel(consumer.lead(), error, False)

    def destination_removed(self, destination: Queue | Topic) -> None:
        for replay in self.replays[:]:
            if replay.source is destination:
                self.refuse(replay, InvalidDestination(f"{destination.uri()} was deleted"))
