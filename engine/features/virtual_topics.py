"""Topics whose messages are copied to queues, one for each group of consumers.  Terms: ActiveMQ virtualTopic."""

from __future__ import annotations

from config.matching import ONE, Pattern
from config.model import VirtualTopic
from engine.backlog.context import Context
from engine.sources.observer import Observer
from engine.sources.queue import Queue
from engine.sources.queue_rules import has_send_advisories
from engine.sources.registry import Destinations
from engine.sources.topics.topic import Topic
from engine.values.destination import QUEUE, TOPIC
from engine.values.message import ORIGINAL_DESTINATION, PLAIN, Message, annotation


class _Rule:
    """One entry of the configuration.  A queue's name is ``prefix`` followed by the topic's name, by elements."""

    __slots__ = ("pattern", "prefix", "is_selective")

    def __init__(self, entry: VirtualTopic) -> None:
        self.pattern = Pattern.parse(entry.pattern)
        self.prefix = tuple(entry.prefix.rstrip(".").split("."))
        self.is_selective = entry.is_selective

    def topic_of(self, name: str) -> str:
        """Return the topic of which the queue ``name`` gets copies, "" for none."""
        elements = tuple(name.split("."))
        count = len(self.prefix)
        rest = elements[count:]
        is_prefixed = all(mine in (ONE, other) for mine, other in zip(self.prefix, elements[:count], strict=False))
        return ".".join(rest) if rest and is_prefixed and self.pattern.matches(rest) else ""

    def is_for(self, topic: str) -> bool:
        return self.pattern.matches(tuple(topic.split(".")))


class VirtualTopics(Observer):
    """queues: name of a topic -> its existing queues, even if the topic does not exist.

    rules: in the order of the configuration; the first that matches a topic counts.
    """

    __slots__ = ("context", "destinations", "rules", "queues")

    def __init__(
        self, context: Context, destinations: Destinations, observers: list[Observer], entries: tuple[VirtualTopic, ...]
    ) -> None:
        self.context = context
        self.destinations = destinations
        self.rules = [_Rule(entry) for entry in entries]
        self.queues: dict[str, list[Queue]] = {}
        observers.append(self)
        for destination in list(destinations.by_id.values()):
            self.destination_added(destination)

    def destination_added(self, destination: Queue | Topic) -> None:
        if isinstance(destination, Topic):
            if destination.kind == TOPIC:
                self._link(destination)
            return
        if destination.kind != QUEUE:
            return
        name = self._topic_of(destination.name)
        if name:
            self.queues.setdefault(name, []).append(destination)
            topic = self.destinations.topics.get(name)
            if topic is not None:
                self._link(topic)

    def destination_removed(self, destination: Queue | Topic) -> None:
        name = self._topic_of(destination.name) if destination.kind == QUEUE else ""
        if not name or not isinstance(destination, Queue):
            return
        queues = self.queues[name]
        queues.remove(destination)
        if not queues:
            del self.queues[name]
        topic = self.destinations.topics.get(name)
        if topic is not None:
            self._link(topic)

    def copies(self, topic: Topic, message: Message) -> list[tuple[Queue, Message]]:
        """Return the copies of a message to ``topic``, each for its queue."""
        rule = self._rule_for(topic.name)
        found: list[tuple[Queue, Message]] = []
        line = annotation(ORIGINAL_DESTINATION, f"/topic/{topic.name}")
        for queue in topic.copies:
            if rule is not None and rule.is_selective and not self._is_wanted(queue, message):
                continue
            copy = message.copy_to(queue.destination_id)
            copy.annotations = line + message.annotations
            copy.size += len(line)
            if b"\\" in line:
                copy.flags &= ~PLAIN
            found.append((queue, copy))
        return found

    def _link(self, topic: Topic) -> None:
        topic.copies = list(self.queues.get(topic.name, ()))
        topic.is_indirect = (
            topic.is_closed or has_send_advisories(topic.settings) or topic.is_sent_on or bool(topic.copies)
        )

    def _rule_for(self, topic: str) -> _Rule | None:
        return next((rule for rule in self.rules if rule.is_for(topic)), None)

    def _topic_of(self, name: str) -> str:
        for rule in self.rules:
            topic = rule.topic_of(name)
            if topic and self._rule_for(topic) is rule:
                return topic
        return ""

    def _is_wanted(self, queue: Queue, message: Message) -> bool:
        """Say whether some consumer would take it; ActiveMQ's selectorAware keeps nothing for future consumers."""
        properties = self.context.readers.properties(message, 1, False)
        return any(one.selector is None or one.selector.matches(properties) for one in queue.consumers.values())
