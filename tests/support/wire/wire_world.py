"""All features at once, octets in and octets out: random clients of both protocols on one gateway without sockets.

The clients are the hostile ones (``random_stomp.py``, ``random_amqp.py``), on a virtual clock.  The store in memory
loses everything that is not durable in a power cut.  A seed decides everything; the same seed gives the same history.
A seed uses few kinds of addresses, so that clients often meet.
"""

from __future__ import annotations

import random
import traceback
from dataclasses import dataclass
from typing import Final

from engine.broker import Broker
from engine.limits.producer_gate import GlobalLimits
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.store_listener import PAGE_RETRY_MS
from engine.values.errors import EngineError
from tests.support.engine.rest_law import check_rest
from tests.support.fakes import FakeClient
from tests.support.hostile.hostile_config import HOSTILE, KINDS
from tests.support.hostile.random_amqp import RandomAmqp
from tests.support.hostile.random_stomp import RandomStomp
from tests.support.protocols.socket_peer import SocketPeer
from tests.support.protocols.stomp_gateway import Peer
from tests.support.wire.wire_gateway import WireGateway
from tests.support.wire.wire_laws import check_empty, check_turn
from tests.support.wire.witness import SECRET, Witness
from tests.support.world.bodies import Violation

STEPS: Final = 150
CLIENTS: Final = 5
LITTLE_STEPS: Final = (0, 1, 12, 100)  # steps left in a turn that others have used up
ADVANCE_MS: Final = (0, 1, 10, 30, 100, 400, 2_000)
IDLE_BYTES: Final = 8  # octets of a heart-beat, or less
IDLE_MOST: Final = 3  # heart-beats that are replaced by the next operation
DRAIN_ROUNDS: Final = 60
DRAIN_MS: Final = 500
MANAGEMENT: Final = "/topic/ActiveMQ.Scheduler.Management"


@dataclass(eq=False, slots=True)
class WireClient:
    """speaker: its protocol.  peer: its connection.  is_deaf: it no longer reads."""

    speaker: RandomStomp | RandomAmqp
    peer: SocketPeer
    name: str
    is_deaf: bool = False


class WireWorld:
    """steps: the actions, in words.  counts: how often each happened."""

    def __init__(self, seed: int, broker_class: type[Broker] = Broker) -> None:
        self.seed = seed
        self.draw = draw = random.Random(seed)
        self.broker_class = broker_class
        kinds_most = draw.choice((1, 2, 3, 3, len(KINDS)))
        self.kinds = KINDS if kinds_most == len(KINDS) else tuple(draw.sample(KINDS, kinds_most))
        self.memory_limit_bytes = draw.choice((64 << 20, 64 << 20, 1 << 20, 100_000))
        self.global_limits = GlobalLimits(-1, draw.choice((-1, -1, -1, 60)))
        self.has_short_turns = draw.randrange(3) == 0
        self.dialect = draw.choice(("penstock", "penstock", "activemq"))
        self.witness = Witness(draw) if draw.randrange(2) else None  # a client whose queue nobody else may use
        self.told: list[str] = []
        self.counts: dict[str, int] = {}
        self.clients: list[WireClient] = []
        self._next_client = 1
        self.gateway = self._gateway(None)

    def run(self) -> None:
        """Raises: Violation, or an exception that left the gateway."""
        for _ in range(STEPS):
            self._step()
            self._look()
        self._finish()

    def _gateway(self, earlier: WireGateway | None) -> WireGateway:
        has_permissions = self.witness is not None
        return WireGateway(
            self.memory_limit_bytes, self.global_limits, self.dialect, has_permissions, self.broker_class, earlier
        )

    def _note(self, what: str, more: str = "") -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
        self.told.append(f"{self.gateway.clock.now_ms} {what} {more}")

    # -- actions

    def _step(self) -> None:
        draw = self.draw
        gateway = self.gateway
        if self.has_short_turns and draw.randrange(3) == 0:
            gateway.leave_steps(draw.choice(LITTLE_STEPS))
        kind = draw.randrange(100)
        if kind < 62:
            with gateway.one_turn():
                for _ in range(draw.choice((1, 2, 4, 8))):
                    self._act()
        elif kind < 82:
            step_ms = draw.choice(ADVANCE_MS)
            self._note("advances", str(step_ms))
            gateway.advance(step_ms)
        elif kind < 86:
            gateway.syncs = not gateway.syncs
            gateway.settle()
        elif kind < 88:
            gateway.holds_reads = not gateway.holds_reads
            gateway.settle()
        elif kind < 89:
            self._trouble()
        elif kind < 93:
            self._operate()
        elif kind < 95:
            self._part()
        elif kind < 97:
            self._rest()
        elif kind < 98 and draw.randrange(4) == 0:
            self._note("long pause")
            gateway.advance(61_000)
        elif kind == 98:
            self._hear_nothing()
        elif draw.randrange(3) == 0:
            self._restart()

    def _act(self) -> None:
        """Let one client send."""
        draw = self.draw
        if (len(self.clients) < CLIENTS and draw.randrange(6) == 0) or not self.clients:
            self._join()
            return
        if self.witness is not None and draw.randrange(8) == 0:
            self._note("the witness acts")
            self.witness.step(self.gateway)
            return
        client = draw.choice(self.clients)
        octets = client.speaker.operation()
        for _ in range(IDLE_MOST):
            if len(octets) > IDLE_BYTES:
                break
            octets = client.speaker.operation()  # preferably another octet than a heart-beat
        self._note("says", f"{client.name} {octets[:300]!r}")
        self._say(client, octets)

    def _say(self, client: WireClient, octets: bytes) -> None:
        draw = self.draw
        while octets:
            size = draw.choice((7, 100, 1 << 20, 1 << 20))
            client.peer.send_octets(octets[:size])
            octets = octets[size:]

    def _join(self) -> None:
        draw = self.draw
        gateway = self.gateway
        is_stomp = draw.randrange(2) == 0
        speaker = RandomStomp(draw, self.kinds) if is_stomp else RandomAmqp(draw, self.kinds)
        peer = gateway.open() if is_stomp else gateway.open_amqp()
        client = WireClient(speaker, peer, f"{'stomp' if is_stomp else 'amqp'}{self._next_client}")
        self._next_client += 1
        self.clients.append(client)
        self._note("joins", client.name)
        self._say(client, speaker.opening())

    def _operate(self) -> None:
        """Empty or delete a destination, or send dead letters back, as an operator."""
        draw = self.draw
        gateway = self.gateway
        queues = self._queues()
        destinations: list[Queue | Topic] = [*queues, *gateway.topics()]
        if not destinations:
            return
        destination = draw.choice(destinations)
        what = draw.choice(("purges", "purges", "deletes", "deletes by force", "retries"))
        self._note(what, destination.uri())
        try:
            if what == "deletes" or what == "deletes by force":
                gateway.delete(destination, is_forced=what != "deletes")
            elif isinstance(destination, Queue):
                selector = draw.choice(("", "", "a = '1'"))
                if what == "purges":
                    gateway.purge(destination, selector)
                else:
                    gateway.retry(draw.choice(queues), selector, draw.choice((0, 5)), draw.choice((0, 3)))
        except EngineError as error:
            self._note("an operator is refused", str(error))
        gateway.settle()

    def _queues(self) -> list[Queue]:
        """Return all queues but those of the witness."""
        queues = self.gateway.queues()
        return [one for one in queues if self.witness is None or not one.name.startswith("honest.")]

    def _part(self) -> None:
        """End a connection, in order or not."""
        if not self.clients:
            return
        client = self.draw.choice(self.clients)
        if self.draw.randrange(3):
            self._note("vanishes", client.name)
            client.peer.vanish()
        else:
            self._note("says goodbye", client.name)
            client.peer.send_octets(client.speaker.goodbye())

    def _hear_nothing(self) -> None:
        """Fill the transport of a client, or give it room again."""
        if not self.clients:
            return
        client = self.draw.choice(self.clients)
        peer = client.peer
        if peer.is_stuck:
            peer.drain()
            client.is_deaf = False
        elif not peer.is_closed:
            self._note("hears nothing", client.name)
            peer.is_stuck = client.is_deaf = True

    def _trouble(self) -> None:
        """Let the disk fail or heal, or set the wall clock."""
        gateway = self.gateway
        if gateway.store_failure():
            self._note("the disk heals")
            gateway.store.heal()
        elif self.draw.randrange(2):
            self._note("the disk fails")
            gateway.store.fail("no space left on device")
        else:
            by_ms = self.draw.choice((-3_000, -300, 300, 3_000))
            self._note("the wall clock is set", str(by_ms))
            gateway.clock.set_wall(by_ms)
            gateway.broker.begin_turn()
        gateway.settle()

    def _rest(self) -> None:
        """Let no client send until no work is left."""
        self._note("rests")
        if self.gateway.store_failure():
            self.gateway.store.heal()
        self.gateway.rest()
        self._look()
        self.gateway.advance(PAGE_RETRY_MS)  # reads that had failed before the disk healed
        self.gateway.rest()
        self._look()
        self.gateway.rest()
        check_rest(self.gateway, self.gateway.store)

    def _restart(self) -> None:
        """Cut the power: everything that is not durable is lost."""
        self._note("restarts")
        self.clients = []
        if self.witness is not None:
            self.witness.gone()
        self.gateway = self._gateway(self.gateway)
        self.gateway.settle()

    # -- observations

    def _look(self) -> None:
        """Read the gateway's output, answer it, and check the laws."""
        gateway = self.gateway
        for client in self.clients:
            peer = client.peer
            if peer.link.credentials:
                login, passcode = peer.link.credentials.pop()
                if not peer.is_closed:
                    peer.answer_login(is_allowed=(login, passcode) == HOSTILE)
            if not client.is_deaf and peer.octets:
                octets, peer.octets = peer.octets, b""
                answer = client.speaker.receive_data(octets)
                if answer and not peer.is_closed:
                    peer.send_octets(answer)
            if self.witness is not None and any(SECRET in body for body in client.speaker.bodies):
                raise Violation(f"{client.name} got what only the witness may read")
            client.speaker.bodies.clear()
        if self.witness is not None:
            self.witness.look()
        self.clients = [client for client in self.clients if not client.peer.is_closed]
        gateway.peers = [peer for peer in gateway.peers if not peer.is_closed]
        check_turn(gateway)
        self._note_what_is_there()

    def _note_what_is_there(self) -> None:
        """Count the events of a turn, so that a test can show that the seeds are not idle."""
        gateway = self.gateway
        spiller = gateway.broker.spiller
        found = {
            "spilled": spiller is not None and spiller.spilled_bytes,
            "waiting producers": gateway.waits(),
            "full addresses": gateway.address_accounts().full,
            "short memory": gateway.is_memory_short(),
            "delayed": gateway.delayed_count(),
            "schedules": len(gateway.schedule),
            "replays": gateway.replay_count(),
            "browsers": gateway.browsers(),
            "temporary destinations": gateway.temporary_count(),
            "named subscriptions": gateway.subscriptions(),
            "chores": gateway.chores(),
            "more to come": gateway.is_more_to_come(),
            "rated": gateway.rated_count(),
            "slow": gateway.slow_count(),
            "evicted": gateway.evicted_count(),
            "questions": gateway.question_count(),
            "joins": gateway.join_count(),
            "seekers of places": gateway.place_seekers(),
            "in flight": any(queue.in_flight_count for queue in gateway.queues()),
            "on disk alone": any(queue.has_backlog() for queue in gateway.queues()),
            "selections": any(queue.selection is not None for queue in gateway.queues()),
            "groups": any(queue.group_owners() for queue in gateway.queues()),
            "siblings": any(queue.extras.has_siblings for queue in gateway.queues()),
            "dead letters": gateway.depth("ActiveMQ.DLQ"),
        }
        for what, is_there in found.items():
            if is_there:
                self.counts[what] = self.counts.get(what, 0) + 1

    # -- the end

    def _finish(self) -> None:
        """End all clients and consume everything; nothing may be left."""
        gateway = self.gateway
        self._note("the end begins")
        self._rest()
        for client in list(self.clients):
            if client.is_deaf or self.draw.randrange(2):
                client.peer.vanish()
            else:
                client.peer.send_octets(client.speaker.goodbye())
        gateway.rest()
        self._look()
        gateway.advance(10_000)
        for peer in list(gateway.peers):
            if self.witness is None or peer is not self.witness.peer:
                peer.vanish()
        gateway.rest()
        operator = FakeClient()
        operator.user = HOSTILE[0]
        for client_id, name, is_durable in list(gateway.subscriptions()):
            if is_durable:
                gateway.broker.delete_subscription(operator, client_id, name)
        self._take_everything()
        if self.witness is not None:
            self.witness.finish(gateway)
        gateway.sync()
        gateway.advance(100_000)
        gateway.rest()
        check_turn(gateway)
        check_empty(gateway)
        self._restart()
        self.gateway.rest()
        check_empty(self.gateway)

    def _drainer(self) -> Peer:
        peer = self.gateway.open()
        peer.send("CONNECT", login=HOSTILE[0], passcode=HOSTILE[1], accept_version="1.2", host="h")
        if peer.link.credentials:
            peer.answer_login(is_allowed=True)
        peer.take()
        return peer

    def _take_everything(self) -> None:
        gateway = self.gateway
        for _ in range(DRAIN_ROUNDS):
            left = [queue for queue in self._queues() if queue.depth]
            if not left and not len(gateway.schedule):
                return
            peers = [self._drainer(), self._drainer()]
            if len(gateway.schedule):
                peers[0].send("SEND", destination=MANAGEMENT, AMQ_SCHEDULER_ACTION="REMOVEALL")
            for number, queue in enumerate(left[:30]):
                for peer in peers[: 2 if queue.name.startswith("gate.") else 1]:
                    peer.subscribe(f"/queue/{queue.name}", "auto", str(number))
                if queue.settings.queue.non_destructive:  # what a retry sent back to it never expires
                    gateway.purge(queue)
            for _ in range(3):
                gateway.advance(DRAIN_MS)
                gateway.rest()
                check_turn(gateway)
                check_rest(gateway, gateway.store)
                for peer in peers:
                    peer.octets = b""
            for peer in peers:
                peer.vanish()
            for place in gateway.schedule.places():
                gateway.schedule.cancel(place)  # an operator also cancels the schedules of temporary destinations
            gateway.rest()
        full = [f"{one.uri()}: {one.depth}, {one.in_flight_count} in flight" for one in gateway.queues() if one.depth]
        scheduled = [gateway.uri_of(target) for target in gateway.schedule.targets()]
        raise Violation(f"these queues are never empty: {full}, scheduled for {scheduled}")


def run_seed(seed: int, broker_class: type[Broker] = Broker) -> WireWorld:
    """Run one seed; a Violation has the command to run it again."""
    world = WireWorld(seed, broker_class)
    try:
        world.run()
    except Exception as error:
        told = "\n    ".join(line[:400] for line in world.told[-12:])
        where = "" if isinstance(error, Violation) else "".join(traceback.format_exception(error, limit=-8))
        raise Violation(
            f"seed {seed}: {type(error).__name__}: {error}\n{where}  kinds {world.kinds}, before it:\n    {told}\n"
            f"  again: PENSTOCK_SEED={seed} python -m pytest tests/simulation -k wire_seed"
        ) from error
    return world
