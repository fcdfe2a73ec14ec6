"""The topics ``ActiveMQ.Advisory.>``: made while somebody listens, and forgotten once they are of no use."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from engine.acceptance import Acceptance
from engine.backlog.context import Context
from engine.sources.queue import Queue
from engine.sources.registry import Destinations
from engine.sources.topics.topic import Topic
from engine.sources.topics.topic_subscriptions import Subscriptions
from engine.values.destination import ADVISORY_PREFIX, TEMP_QUEUE, TEMP_TOPIC, advisory_name
from engine.values.message import DEFAULT_PRIORITY, PLAIN, STOMP, TEXT, Message, annotation

Fields = dict[str, object]

RETIRED_MAX: Final = 1_000  # topics kept for removed destinations, whose waiting advisories refer to them


@dataclass(slots=True, eq=False)
class AdvisoryTopics:
    """retired: topics kept only for advisories that wait for listeners of wildcards, the oldest first.

    name: of the broker.
    """

    context: Context
    destinations: Destinations
    subscriptions: Subscriptions
    acceptance: Acceptance
    name: str
    retired: deque[Topic] = field(default_factory=deque)

    def advise(
        self, event: str, destination: Queue | Topic | None, name: str, fields: Fields, headers: dict[str, str]
    ) -> None:
        """Publish an advisory of ``event``, about ``destination`` or None, to its listeners.

        name, fields: the JSON object of the body.  headers: of the message, beside those of every advisory.
        """
        if destination is None:
            topic = self._topic(f"{ADVISORY_PREFIX}{event}", True)
        else:
            topic = self._topic(advisory_name(event, destination.kind, destination.name), self._is_there(destination))
        if topic is None:
            return
        if self.context.memory.is_full():
            return  # advisories do not wait at gates
        all_headers = {
            "type": "Advisory",
            "transformation": "jms-advisory-json",
            "originBrokerId": self.context.store.store_id(),
            "originBrokerName": self.name,
            **headers,
        }
        lines = b"".join(annotation(header, value) for header, value in all_headers.items())
        flags = TEXT if b"\\" in lines else TEXT | PLAIN
        body = json.dumps({name: fields}, separators=(",", ":"), ensure_ascii=False).encode()
        self.acceptance.publish_own(
            topic, Message(topic.destination_id, STOMP, flags, DEFAULT_PRIORITY, 0, 0, 0, b"", lines, body)
        )

    def retire(self, topic: Topic) -> None:
        """Forget an unused topic once nothing of it can be waiting; it is made again when needed."""
        self.retired.append(topic)
        while self.retired and (len(self.retired) > RETIRED_MAX or not _is_waited_for(self.retired[0])):
            oldest = self.retired.popleft()
            if not oldest.is_closed and not oldest.subscriptions:
                self.destinations.remove(oldest)

    def _topic(self, name: str, may_be_made: bool) -> Topic | None:
        """Return the topic of an advisory if it has listeners."""
        destinations = self.destinations
        topic = destinations.topics.get(name)
        if topic is None and may_be_made and self.subscriptions.queues.wildcards.matching(name):
            topic = destinations.advisory_topic(name)
        return topic

    def _is_there(self, destination: Queue | Topic) -> bool:
        """Say whether a destination exists; after a temporary one has gone nothing would remove its topics."""
        is_temporary = destination.kind in (TEMP_QUEUE, TEMP_TOPIC)
        return not is_temporary or destination.name in self.destinations.temporaries


def _is_waited_for(topic: Topic) -> bool:
    """Say whether messages of a topic may wait for a listener."""
    return any(
        queue.depth for taking in (topic.plain, topic.selected.queues, topic.choosy) for queue in taking.values()
    )
