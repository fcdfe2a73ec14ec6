"""ConsumerInfo, and the end of consumers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.api import EngineApi
from engine.consumers.consumer import CLIENT, Consumer
from engine.values.errors import InvalidOption, LimitReached
from engine.values.options import SubscribeOptions
from protocols.connection import ProtocolConnection
from protocols.consumer_defaults import with_defaults
from protocols.openwire.connection.responses import Responses, response
from protocols.openwire.connection.settings import OpenWireSettings
from protocols.openwire.errors import RequestError
from protocols.openwire.mapping.destinations import source_of
from protocols.openwire.session.advisory_output import has_temporaries, is_advisory, others_than_temporaries
from protocols.openwire.session.hand_overs import HandOvers
from protocols.openwire.session.open_consumer import OpenConsumer
from protocols.openwire.session.pulls import Pulls
from protocols.openwire.session.temporaries import Temporaries
from protocols.openwire.wire import identities
from protocols.openwire.wire.commands import ConsumerControl, ConsumerInfo, RemoveSubscriptionInfo
from protocols.openwire.wire.identities import ConsumerId, Destination

PREFETCH_MOST: Final = 2**31 - 1
# In RemoveInfo; clients before 5.12 always send 0.
NONE_DELIVERED: Final = -1
NOT_KNOWN: Final = -2
CONSUMER_STEPS: Final = 15  # of a turn, for each destination of a consumer that comes and later goes
SCANNED_A_STEP: Final = 10  # consumers of a connection, of which a session's are looked for
AT_ONCE_MOST: Final = 10  # consumers of a session that are closed in one turn


@dataclass(slots=True, eq=False)
class Consumers:
    """connection_id: ids of consumers begin with it.  client_id: of the connection."""

    engine: EngineApi
    client: ProtocolConnection
    settings: OpenWireSettings
    temporaries: Temporaries
    pulls: Pulls
    responses: Responses
    hand_overs: HandOvers
    connection_id: str = ""
    client_id: str = ""
    open: dict[ConsumerId, OpenConsumer] = field(default_factory=dict)

    def add(self, info: ConsumerInfo) -> None:
        """Take a ConsumerInfo; its response comes before its first message.  Raises: RequestError, EngineError."""
        name = info.consumer_id
        if name is None or info.destination is None:
            raise RequestError("ConsumerInfo has no consumerId or no destination")
        if name.connection_id != self.connection_id:
            raise RequestError(f"the consumer {str(name)[:200]} belongs to another connection")
        if name in self.open:  # a client that reconnects adds it again
            self._respond(info)
            return
        if len(self.open) >= self.settings.consumers:
            raise LimitReached(f"{self.settings.consumers} consumers are open on this connection, which is the limit")
        info.client_id = info.additional_predicate = info.broker_path = info.network_consumer_path = None  # not kept
        self._add(name, info, info.destination)

    def is_any(self) -> bool:
        """Say whether the connection takes messages, and not only advisories about temporary destinations."""
        return any(one.consumer is not None for one in self.open.values())

    def remove(self, name: ConsumerId, last_delivered: int = NOT_KNOWN) -> None:
        """Close a consumer; what it holds returns to its place.  An unknown one is closed already.

        last_delivered: as in RemoveInfo, the sequence of the last message that the application has received; -1 if
        it has received none.
        """
        self._end(self._forget(name, last_delivered))

    def _end(self, consumer: Consumer | None) -> None:
        if consumer is not None:
            self.engine.unsubscribe(consumer, is_lost=False)

    def _forget(self, name: ConsumerId, last_delivered: int, is_only: bool = True) -> Consumer | None:
        """Return the engine's consumer, which is still to be closed.

        is_only: no other closes with it, so that it has received the last message.
        """
        found = self.open.pop(name, None)
        if found is None:
            return None
        self.temporaries.watching.pop(name, None)
        self.pulls.forget(found)
        consumer = found.consumer
        if consumer is not None:
            found.consumer = None
            self.client.count_selector(-len(found.info.selector or ""))
            if last_delivered > 0 or last_delivered == NONE_DELIVERED:
                tag = max(0, self.hand_overs.tag(last_delivered))
                consumer.looked_tag = tag if is_only or tag in consumer.ledger else consumer.furthest_tag
        return consumer

    def remove_session(self, session_id: int, last_delivered: int) -> None:
        self.client.share.charge(len(self.open) // SCANNED_A_STEP)
        self._remove_several([one for one in self.open if one.session_id == session_id], last_delivered)

    def remove_all(self, last_delivered: int) -> None:
        self._remove_several(list(self.open), last_delivered)

    def forget_all(self) -> None:
        """Forget all; the engine closes them.  Each knows its consumer, which knows it."""
        for found in self.open.values():
            found.consumer = None
        self.open.clear()

    def control(self, control: ConsumerControl) -> None:
        """Let messages come to a consumer that a client had added without a prefetch while it reconnected.

        Raises: EngineError.
        """
        found = self.open.get(control.consumer_id) if control.consumer_id is not None else None
        if found is None or found.consumer is None or not found.is_pulling() or control.prefetch <= 0:
            return
        info = found.info
        if found.consumer.ledger:
            return  # it has pulled meanwhile, and goes on like this
        self.remove(found.consumer_id)
        info.prefetch_size = control.prefetch
        info.response_required = False
        assert info.destination is not None, "a consumer has a destination"
        self._add(found.consumer_id, info, info.destination)

    def unsubscribe(self, info: RemoveSubscriptionInfo) -> None:
        """Delete a durable subscription.  Raises: EngineError."""
        self.engine.delete_subscription(self.client, self.client_id, info.subscription_name or "")
        self.responses.has_logged = True

    # -- the steps

    def _remove_several(self, names: list[ConsumerId], last_delivered: int) -> None:
        """Close consumers; many of them over several turns, in which they get nothing more.

        Of one of several the client says nothing, unless it is the one that has received the last message of all.
        Otherwise its application has received what it has acknowledged, in a transaction or as DELIVERED.
        """
        is_only = sum(self.open[name].consumer is not None for name in names) == 1
        found = [self._forget(name, last_delivered, is_only) for name in names]
        if len(names) > AT_ONCE_MOST:
            self.engine.leave([one for one in found if one is not None])
            return
        for one in found:
            self._end(one)

    def _add(self, name: ConsumerId, info: ConsumerInfo, destination: Destination) -> None:
        """Raises: RequestError, EngineError."""
        if not is_advisory(destination):
            self._open(name, info, destination)
            return
        others = others_than_temporaries(destination)
        if others is None:
            watcher = OpenConsumer(name, info, None)
            self.temporaries.watch(watcher)
            self.open[name] = watcher
            self._respond(info)
            return
        self._open(name, info, others)
        if has_temporaries(destination):
            self.temporaries.watch(self.open[name])
        self.temporaries.output.replay(self.open[name], others)

    def _open(self, name: ConsumerId, info: ConsumerInfo, destination: Destination) -> None:
        is_topic = destination.kind in (identities.TOPIC, identities.TEMP_TOPIC)
        options = with_defaults(self._options(name, info, is_topic), self.settings.defaults, is_topic)
        steps = self.engine.steps
        before = steps.left
        source = source_of(self.engine, self.client, destination)
        made = before - steps.left  # destinations; the engine counts its part, and here it counts for the share
        self.client.share.charge(made + CONSUMER_STEPS * (destination.name.count(",") + 1))
        consumer = self.engine.subscribe(self.client, source, options)
        consumer.adapter = self.open[name] = OpenConsumer(name, info, consumer)
        self.client.count_selector(len(options.selector))
        if options.is_durable:
            self.responses.has_logged = True
        if info.response_required:
            self.responses.start_after(response(info.command_id), consumer)
        else:
            consumer.start()

    def _options(self, name: ConsumerId, info: ConsumerInfo, is_topic: bool) -> SubscribeOptions:
        """Raises: RequestError, InvalidOption."""
        is_durable = info.subscription_name is not None
        if is_durable and (info.destination is None or info.destination.kind != identities.TOPIC):
            raise RequestError("a durable subscription is of a topic that is not temporary")
        if info.subscription_name == "":
            raise InvalidOption("the name of a durable subscription is empty; allowed is a name")
        prefetch = min(info.prefetch_size, PREFETCH_MOST)
        return SubscribeOptions(
            CLIENT,
            prefetch=prefetch if prefetch > 0 else None,
            name=info.subscription_name or f"{name.session_id}:{name.value}",
            selector=info.selector or "",
            subscription=info.subscription_name or "",
            is_durable=is_durable,
            is_no_local=info.no_local and is_topic,
            is_exclusive=info.exclusive and not is_topic,
            is_browser=info.browser,
            is_retroactive=info.retroactive and is_topic,
            priority=info.priority,
            pending_limit=max(0, info.maximum_pending_message_limit) if is_topic else 0,
            is_credited=prefetch <= 0,
        )

    def _respond(self, info: ConsumerInfo) -> None:
        if info.response_required:
            self.responses.respond(info.command_id)
