"""Questions of tests to a broker's features, and changes to them: only this file knows their parts."""

from __future__ import annotations

from engine.broker import Broker
from engine.consumers.client import Client
from engine.consumers.consumer import Consumer
from engine.consumers.user_quota import Quotas
from engine.features.advisories import Advisories
from engine.features.advisory_state import Present
from engine.features.last_settlements import LastSettlements
from engine.features.retry import Retry
from engine.features.slow_consumers import Watch
from engine.features.statistics_plugin import Statistics
from engine.features.why import Why
from engine.selector.properties import Properties, PropertyReader, PropertyReaders
from engine.sources.composite import Destination, Target
from engine.sources.queue import Queue
from engine.values.delivery import Delivery
from engine.values.message import Message
from engine.xa.branches import Branches
from tests.support.engine.schedule_view import ScheduleView


class FeatureView:
    broker: Broker

    @property
    def last_settlements(self) -> LastSettlements:
        return self.broker.last_settlements

    @property
    def _quotas(self) -> Quotas:
        return self.broker.quotas

    @property
    def _advisories(self) -> Advisories:
        return self.broker.advisories

    @property
    def _statistics(self) -> Statistics:
        return self.broker.statistics

    @property
    def _readers(self) -> PropertyReaders:
        return self.broker.readers

    @property
    def schedule(self) -> ScheduleView:
        return ScheduleView(self.broker)

    @property
    def branches(self) -> Branches:
        return self.broker.branches

    @property
    def why(self) -> Why:
        return self.broker.why

    def retry(self, queue: Queue, selector: str = "", rate: int = 0, limit: int = 0) -> Retry:
        """Send dead letters back.  Raises: InvalidSelector."""
        return self.broker.retries.begin(queue, selector, rate, limit)

    def present(self, topic: str) -> list[Present]:
        """Return what an advisory topic tells a new listener of."""
        return self._advisories.present(topic)

    def copies(self, destination: Destination, message: Message) -> list[tuple[Target, Message]]:
        """Return the copies of a message to a composite or virtual destination."""
        return self.broker.composite_send.copies.expand(destination, message)

    def replay_count(self) -> int:
        """Return how many replays there are, including up-to-date ones that follow new messages."""
        return len(self.broker.subscribing.replays.replays) + len(self.broker.subscribing.replays.followers)

    def browsers(self) -> list[Consumer]:
        return list(self.broker.subscribing.browsing.consumers)

    def delayed(self, queue: Queue) -> list[Delivery]:
        """Return the deliveries that wait for their redelivery."""
        return self.broker.refusals.redelivery.delays.delayed_of(queue)

    def delayed_count(self) -> int:
        return sum(map(len, self.broker.refusals.redelivery.delays.of_queue.values()))

    def reloading_count(self) -> int:
        """Return how many messages are read again for their redelivery."""
        return len(self.broker.refusals.redelivery.delays.reloading)

    def handed_over_ms(self, delivery: Delivery) -> int:
        """Return the approximate time of a delivery's hand-over."""
        return self.broker.turn.hand_overs.since_ms(delivery.tag)

    def rated_count(self) -> int:
        """Return how many consumers wait because of their rate."""
        return len(self.broker.dispatcher.rates.waiting)

    def look_for_expired(self) -> None:
        """Begin the scan for expired messages, as its timer would."""
        self.broker.expiry.timer_fired(0)

    def is_sweeping(self) -> bool:
        """Say whether the scan for expired messages is under way on the disk."""
        sweep = self.broker.expiry.sweep
        return sweep.lane is not None or bool(sweep.waiting)

    def evicted_count(self) -> int:
        """Return how many messages a limit of pending messages has dropped."""
        return self.broker.subscribing.pending_limits.evicted_count

    def watches(self) -> list[tuple[int, int, Watch, bool]]:
        """Return the consumers that are checked for slowness."""
        return self.broker.slow_consumers.checks

    def slow_count(self) -> int:
        return self.broker.slow_consumers.found_count

    def slow_notices(self) -> list[str]:
        """Return the pending reports of slow consumers."""
        return self.broker.slow_consumers.notices

    def announce(self, client: Client) -> None:
        """Send a connection advisory."""
        self._advisories.connected(client)

    def advisory_listeners(self) -> int:
        return self._advisories.listeners

    def expiry_listeners(self) -> int:
        return self._advisories.dispatcher.expiry_listeners

    def stop_advisories(self) -> None:
        self._advisories.is_enabled = False

    def announced_producers(self) -> list[object]:
        """Return the producers that an advisory has reported."""
        return list(self._advisories.announced.producers)

    def question_count(self) -> int:
        """Return how many questions for statistics are under way."""
        return self._statistics.count

    def asking_count(self) -> int:
        """Return how many clients have questions for statistics under way."""
        return len(self._statistics.counts)

    def questions_of(self, client: Client) -> int:
        return self._statistics.counts.get(client.client_number, 0)

    def question_steps(self) -> int:
        """Return how many destinations and consumers may still be examined in this turn."""
        return self._statistics.steps_left

    def answer_questions(self) -> None:
        """Continue the answers, as the timer would if it is set."""
        if self._statistics.is_armed:
            self._statistics.go_on()

    def refused_counts(self) -> dict[str, int]:
        """Return the number of refusals for each limit of a user."""
        return self._quotas.refused_counts()

    def destinations_made_by(self, holder: str) -> int:
        return self._quotas.destinations.count(holder)

    def subscriptions_of(self, holder: str) -> int:
        return self._quotas.durable_subscriptions.count(holder)

    def enter(self, client: Client, user: str, host: str) -> None:
        """Count a connection for its user.  Raises: LimitReached."""
        self._quotas.enter(client, user, host)

    def read_properties_by(self, encoding: int, reader: PropertyReader) -> None:
        """Register ``reader`` for the properties of one protocol's messages."""
        self._readers.register(encoding, reader)

    def properties(self, message: Message) -> Properties:
        """Return the properties of a message for selectors."""
        return self._readers.properties(message, 1, False)
