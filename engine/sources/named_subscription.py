"""A named subscription of a topic: durable, shared, or both.  Found again by its name."""

from __future__ import annotations

from engine.consumers.client import Client
from engine.consumers.consumer import Consumer
from engine.selector.evaluate import Selector, compile_selector
from engine.sources.feed import SubscriptionBase
from engine.sources.queue import Queue
from engine.values.destination import TOPIC, uri
from engine.values.errors import AccessDenied
from engine.values.wildcard import Wildcard, is_wildcard


class NamedSubscription(SubscriptionBase):
    """A named subscription: its owner, its topics, and the queue in which its messages wait.

    client_id: "" for a shared one that belongs to nobody in particular.
    source: name of the topic, or a wildcard; kind: of the topic.
    queues: one a topic for a durable one, else one in all; by the topic's number.  carrier: the queue of a durable
    wildcard's own record, which holds nothing and stands for it while no topic matches.
    consumers: how many there are now.
    holder: for whom ``Quotas`` counts it, "" for nobody in particular.
    owner: login of the user that made it, "" where logins are not checked: then it is anybody's.
    """

    __slots__ = (
        "client_id",
        "name",
        "is_durable",
        "is_shared",
        "kind",
        "source",
        "wildcard",
        "selector_text",
        "selector",
        "is_no_local",
        "owner",
        "holder",
        "queues",
        "carrier",
        "consumers",
    )

    def __init__(
        self,
        client_id: str,
        name: str,
        is_durable: bool,
        is_shared: bool,
        kind: int,
        source: str,
        selector_text: str,
        is_no_local: bool,
        owner: str = "",
    ) -> None:
        """Raises: InvalidSelector."""
        self.client_id = client_id
        self.name = name
        self.is_durable = is_durable
        self.is_shared = is_shared
        self.kind = kind
        self.source = source
        self.wildcard = Wildcard(kind, source) if is_wildcard(source) else None
        self.selector_text = selector_text
        self.selector: Selector | None = compile_selector(selector_text) if selector_text.strip() else None
        self.is_no_local = is_no_local
        self.owner = owner
        self.holder = ""
        self.queues: dict[int, Queue] = {}
        self.carrier: Queue | None = None
        self.consumers = 0

    def key(self) -> tuple[str, str, bool]:
        return self.client_id, self.name, self.is_durable

    def full_name(self) -> str:
        """Return what identifies it to people and in the store: ``client id:name``."""
        return f"{self.client_id}:{self.name}"

    def require_owner(self, user: str) -> None:
        """Raises: AccessDenied for another user; a gateway that checks no logins knows none, and keeps nobody out."""
        if self.owner and user and user != self.owner:
            raise AccessDenied(
                f"subscription {self.full_name()[:200]!r} belongs to another user; only that user may "
                + ("change or delete it" if self.is_shared else "use or delete it")
            )

    def is_like(self, other: NamedSubscription) -> bool:
        """Say whether both ask for the same; else JMS has the new one replace the old one."""
        return (
            self.kind == other.kind
            and self.source == other.source
            and self.selector_text.strip() == other.selector_text.strip()
            and self.is_no_local == other.is_no_local
        )

    def uri(self) -> str:
        return uri(self.kind, self.source)

    def all_queues(self) -> list[Queue]:
        queues = list(self.queues.values())
        return queues if self.carrier is None else [*queues, self.carrier]

    def holders_beside(self, client: Client) -> list[Consumer]:
        """Return its consumers of other connections that are not leaving: a connection that comes back may take it."""
        return [
            consumer
            for queue in self.all_queues()
            for consumer in queue.consumers.values()
            if consumer.departure is None and consumer.client is not client
        ]

    def description(self) -> dict[str, str]:
        """Return what the store keeps; ``from_description`` reads it."""
        description = {"client_id": self.client_id, "subscription": self.name, "source": self.source}
        if self.selector_text:
            description["selector"] = self.selector_text
        if self.is_shared:
            description["shared"] = "true"
        if self.is_no_local:
            description["no_local"] = "true"
        if self.owner:
            description["owner"] = self.owner
        return description


def from_description(description: dict[str, str]) -> NamedSubscription:
    """Return the durable subscription that the store has found."""
    return NamedSubscription(
        description.get("client_id", ""),
        description.get("subscription", ""),
        True,
        "shared" in description,
        TOPIC,
        description.get("source", ""),
        description.get("selector", ""),
        "no_local" in description,
        description.get("owner", ""),
    )
