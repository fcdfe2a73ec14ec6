"""The running gateway's answers to "why"."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from config.destination_options import parse_destination
from config.matching import QUEUE, TOPIC, AddressMatcher, Setting, with_values
from config.model import ConnectionDefaults, ServerConfig
from config.names import DestinationName
from config.policies import UNLIMITED, AddressSettings, clamp_prefetch
from config.redelivery_policy import RedeliveryPolicy
from config.reports.explain import Layer, explain, prefetch_values
from engine.broker import Broker
from engine.consumers.consumer import AUTO, Consumer
from engine.consumers.credit_window import CreditWindow
from engine.features.why import Whereabouts
from engine.sources.composite import parts_named
from engine.store.read.message_history import Biography, entry_of
from engine.values.delivery import consumer_words
from engine.values.destination import KINDS_BY_NAME, is_topic
from gateway.answers.message_lives import Lives, search_lines
from gateway.answers.why import consumer_lines, message_lines, producer_lines
from gateway.web.management.store import LiveStore


@dataclass(frozen=True, slots=True)
class Answer:
    """lines: for people; facts: the same for programs, JSON values only."""

    lines: list[str]
    facts: dict[str, Any]


class LiveWhy:
    """The answer is None for an unknown id."""

    def __init__(self, broker: Broker, config: Callable[[], ServerConfig], store: LiveStore) -> None:
        """config: returns the configuration in force."""
        self._why = broker.why
        self._branches = broker.branches
        self._clients = broker.clients
        self._scheduler = broker.scheduler
        self._destinations = broker.destinations
        self._clock = broker.context.clock
        self._config = config
        self._store = store

    def consumer(self, consumer_id: int) -> Answer | None:
        view = self._why.consumer(consumer_id)
        return None if view is None else Answer(consumer_lines(view, self._clock.wall_ms()), asdict(view))

    def producer(self, connection_id: int) -> Answer | None:
        view = self._why.producer(connection_id)
        return None if view is None else Answer(producer_lines(view), asdict(view))

    async def message(self, address: str, message_id: str, before: int) -> Answer:
        """before: as in ``lives_of``.  Raises: StoreError."""
        found = await self._store.lives(address, message_id, before)
        return lives_answer(
            found, self._destinations.addresses, self._clock.wall_ms(), self._locate, self._subscriptions
        )

    def explain_consumer(self, consumer_id: int) -> dict[str, Any] | None:
        """Return where each setting of a consumer comes from (config.reports.explain)."""
        found = next((one for client in self._clients.values() if (one := client.consumers.get(consumer_id))), None)
        if found is None:
            return None
        queue = found.queue
        kind = TOPIC if is_topic(queue.kind) else QUEUE
        defaults = found.client.connection_defaults()
        _, name = parts_named(kind, queue.name)[0]  # of several, the first one's settings apply
        above = Layer(_own_values(found, kind, with_values(queue.settings, defaults.values)))
        what = f"consumer {consumer_id} of {queue.uri()}: {consumer_words(found.description())}"
        connection = (found.client.client_number, defaults)
        found_settings = explain(self._config(), kind, name, above=[above], connection=connection)
        return found_settings.document(what, found.client.asked_for())

    def explain_destination(self, text: str, connection_id: int | None = None) -> dict[str, Any] | None:
        """Return the same for a destination as a client would write it, for one connection if that is given.

        None: there is no such connection.  Raises: ValueError.
        """
        connection: tuple[int, ConnectionDefaults] | None = None
        who = ""
        asked: list[str] = []
        if connection_id is not None:
            client = self._clients.get(connection_id)
            if client is None:
                return None
            connection = (connection_id, client.connection_defaults())
            asked = client.asked_for()
            who = f" for connection {connection_id}: {consumer_words(client.describe())}"
        parsed = parse_destination(text)
        try:
            kind, name = DestinationName().parse(parsed.name)
        except ValueError:
            raise ValueError(f"destination is {text[:200]!r}, allowed is {DestinationName().allowed}") from None
        what = f"{DestinationName().show((kind, name))}{who}"
        return explain(self._config(), kind, name, None, parsed, connection=connection).document(what, asked)

    def _locate(self, life: Biography) -> Whereabouts | None:
        if life.is_scheduled:
            return self._why.locate_schedule(self._scheduler.place_named(life.message_id))
        kind, name, priority, queue_offset = entry_of(life)
        queue = self._destinations.queues.get(name) if kind == "queue" else None
        if queue is None:
            return None
        branch = self._branches.holder_of(queue, priority, queue_offset)
        if branch is not None:
            return Whereabouts("prepared", held=str(branch.xid))
        return self._why.locate(queue, priority, queue_offset)

    def _subscriptions(self, life: Biography) -> dict[str, Whereabouts] | None:
        kind, name, priority, queue_offset = entry_of(life)
        topic = self._destinations.topics.get(name) if kind == "topic" else None
        return None if topic is None else self._why.locate_by_subscription(topic, priority, queue_offset)


def lives_answer(
    found: Lives,
    addresses: AddressMatcher,
    now_ms: int,
    locate: Callable[[Biography], Whereabouts | None],
    locate_by_subscription: Callable[[Biography], dict[str, Whereabouts] | None],
) -> Answer:
    """Describe messages; the newest one has the facts of the document, ``others`` those of the older ones."""
    lines = [] if found.search is None else search_lines(found.search, len(found.lives))
    facts: list[dict[str, Any]] = []
    for life in found.lives:
        where = locate(life)
        policy, settings = policy_of(addresses, life)
        by_subscription = locate_by_subscription(life)
        lines += message_lines(life, where, policy, settings, now_ms, by_subscription)
        places = None if by_subscription is None else {name: asdict(one) for name, one in by_subscription.items()}
        facts.append({**asdict(life), "where": None if where is None else asdict(where), "subscriptions": places})
    search = None if found.search is None else asdict(found.search)
    return Answer(lines, {**facts[0], "search": search, "others": facts[1:]})


def policy_of(addresses: AddressMatcher, life: Biography) -> tuple[RedeliveryPolicy, dict[str, Setting]]:
    """Return the redelivery policy of a message's destination as configured now, and the places of its values."""
    kind, name, _, _ = entry_of(life)
    number = KINDS_BY_NAME[kind]
    return addresses.settings_for(number, name).redelivery, addresses.explain(number, name)


def _own_values(consumer: Consumer, kind: int, settings: AddressSettings) -> dict[str, Setting]:
    """Return the consumer's own options: values that its address and connection (``settings``) do not have."""
    source = "the consumer itself"
    values: dict[str, Setting] = {}
    limits = consumer.window.limits
    rate = UNLIMITED if limits.bucket is None else limits.bucket.rate
    if rate != settings.flow.consumer_max_rate_per_second:
        values["flow.consumer_max_rate_per_second"] = Setting(rate, source)
    octets = UNLIMITED if limits.octets is None else limits.octets.limit
    # With automatic acknowledgements nothing is in flight, and octets are not limited.  A window of 0 is one of 1.
    if consumer.ack_mode != AUTO and octets != (settings.flow.consumer_window_size_bytes or 1):
        values["flow.consumer_window_size_bytes"] = Setting(octets, source)
    is_durable, is_browser = consumer.queue.feed.subscriber is not None, consumer.shown_by() == "browser"
    expected = [settings.prefetch.default_for(kind == TOPIC, is_durable, is_browser)]
    if kind == QUEUE and not is_browser:  # the connection's default is for both kinds of messages
        expected.append(max(*expected, settings.prefetch.non_persistent_queue_prefetch))
    # Credit is granted by each link, and is no setting.
    if not isinstance(consumer.window, CreditWindow) and consumer.window.prefetch not in map(clamp_prefetch, expected):
        values.update(prefetch_values(kind, consumer.window.prefetch, is_durable, is_browser, source))
    if consumer.redelivery is not None:
        for field in dataclasses.fields(consumer.redelivery):
            value = getattr(consumer.redelivery, field.name)
            if value != getattr(settings.redelivery, field.name):
                values[f"redelivery.{field.name}"] = Setting(value, source)
    if consumer.is_exclusive != settings.queue.exclusive_consumer:
        values["queue.exclusive_consumer"] = Setting(consumer.is_exclusive, source)
    return values
