"""A named subscription of a topic: durable, shared, or both.  A client finds it again by its name.

topic_subscriptions.py opens, restores and ends them.
"""

from __future__ import annotations

from engine.consumers.client import Client
from engine.consumers.consumer import Consumer
from engine.selector.evaluate import Selector, selector_of
from engine.sources.feed import SubscriptionBase
from engine.sources.queue import Queue
from engine.sources.roster import Roster
from engine.sources.topics.topic import Topic
from engine.values.destination import NAME_MAX_BYTES, TOPIC, uri
from engine.values.errors import AccessDenied, InvalidOption, SubscriptionInUse
from engine.values.options import SubscribeOptions
from engine.values.wildcard import Wildcard, is_wildcard


class NamedSubscription(SubscriptionBase):
    """A named subscription: its owner, its topics, and the queue in which its messages wait.

    client_id: "" for a shared subscription that belongs to no client id.
    source: name of the topic, or a wildcard; kind: of the topic.
    queues: by the topic's number; a durable subscription has one per topic, any other a single one.
    roster: these, for work on all of them.
    carrier: queue of a durable wildcard's own record; it holds nothing and represents it while no topic matches.
    consumers: their present number.
    holder: the user or other holder for whom ``Quotas`` counts it, "" for none.
    owner: login of the user that made it; "" if logins are not checked, then anybody may use it.
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
        "roster",
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
        self.selector: Selector | None = selector_of(selector_text)
        self.is_no_local = is_no_local
        self.owner = owner
        self.holder = ""
        self.queues: dict[int, Queue] = {}
        self.roster = Roster(self.queues)
        self.carrier: Queue | None = None
        self.consumers = 0

    def key(self) -> tuple[str, str, bool]:
        return self.client_id, self.name, self.is_durable

    def full_name(self) -> str:
        """Return its name for people and the store: ``client id:name``."""
        return f"{self.client_id}:{self.name}"

    def require_names(self) -> None:
        """Raises: InvalidOption for names that are too long to be kept in the log for ever."""
        for text in (self.client_id, self.name):
            size = len(text.encode())
            if size > NAME_MAX_BYTES:
                raise InvalidOption(
                    f"a durable subscription has a client id and a name of 1 to {NAME_MAX_BYTES} octets, this one of "
                    f"{size}"
                )

    def require_owner(self, client: Client) -> None:
        """Raises: AccessDenied for another user.  A gateway that checks no logins knows no users and denies nobody."""
        if self.is_of_another_user(client.user):
            client.audit("use", f"subscription {self.full_name()}", is_denied=True)
            raise AccessDenied(
                f"subscription {self.full_name()[:200]!r} belongs to another user; only that user may "
                + ("change or delete it" if self.is_shared else "use or delete it")
            )

    def is_of_another_user(self, user: str) -> bool:
        """Say whether its owner and ``user`` are two users whose logins were checked."""
        return bool(self.owner and user and user != self.owner)

    def require_joinable(self, asked: NamedSubscription, client: Client) -> None:
        """Raises: AccessDenied, SubscriptionInUse if the user may neither join nor replace it."""
        is_like = self.is_like(asked)
        if not (self.is_shared and asked.is_shared and is_like):
            self.require_owner(client)
        if self.is_shared != asked.is_shared:
            raise SubscriptionInUse(
                f"subscription {self.full_name()[:200]!r} is {'' if self.is_shared else 'not '}shared; "
                "another name, or deleting it first, makes room for one that is otherwise"
            )
        if self.consumers and not self.is_shared:
            raise SubscriptionInUse(
                f"subscription {self.full_name()[:200]!r} has an active consumer, and only a shared subscription may "
                "have more than one"
            )
        if self.consumers and not is_like:
            raise SubscriptionInUse(
                f"subscription {self.full_name()[:200]!r} has consumers and takes from {self.uri()} with the "
                f"selector {self.selector_text!r}; it can be changed once they have closed"
            )

    def is_like(self, other: NamedSubscription) -> bool:
        """Say whether both ask for the same; else, as in JMS, the new one replaces the old one."""
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
        """Return its consumers of other connections that are not leaving; a reconnecting client may replace these."""
        return [
            consumer
            for queue in self.all_queues()
            for consumer in queue.consumers.values()
            if consumer.departing() is None and consumer.client is not client
        ]

    def description(self) -> dict[str, str]:
        """Return the description for the store; ``from_description`` reads it."""
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


def asked_for(client: Client, source: Topic | Wildcard, options: SubscribeOptions) -> NamedSubscription:
    """Return the subscription that a client asks for.  Raises: InvalidOption, InvalidSelector."""
    client_id = "" if options.is_global else client.describe().get("client_id", "")
    if not options.subscription:
        raise InvalidOption("a durable or shared subscription needs a name")
    if options.is_durable and not options.is_shared and not client_id:
        raise InvalidOption(
            f"durable subscription {options.subscription[:200]!r} needs a client id, to which it belongs"
        )
    is_lasting = source.kind == TOPIC and not (isinstance(source, Topic) and not source.is_logged)
    if options.is_durable and not is_lasting:
        raise InvalidOption(f"{source.uri()} is in memory only; a durable subscription needs a lasting topic")
    if options.is_shared and options.is_no_local:
        raise InvalidOption(
            "a shared subscription cannot have noLocal, because its consumers belong to several connections"
        )
    return NamedSubscription(
        client_id,
        options.subscription,
        options.is_durable,
        options.is_shared,
        source.kind,
        source.name,
        options.selector,
        options.is_no_local,
        client.user if options.is_durable else "",
    )


def from_description(description: dict[str, str]) -> NamedSubscription:
    """Return a durable subscription found in the store."""
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
