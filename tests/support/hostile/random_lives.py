"""Lives of a simulated gateway among hostile clients, and the laws that hold whatever they do."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Final

from config.loader import merged
from config.model import ServerConfig
from config.sources.detect import read
from engine.broker import Broker
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.store.verify.store_check import verify
from engine.values.errors import EngineError
from gateway.settings.message_keys import MESSAGE_KEYS
from protocols.connection import ProtocolConnection
from tests.support.disk.faulty_files import FaultyFiles
from tests.support.engine.idle_law import check_nobody_idles
from tests.support.engine.rest_law import MessageSource, check_rest
from tests.support.fakes import FakeClient
from tests.support.hostile.forms_law import FormsLaw
from tests.support.hostile.gateway_laws import check_counts, check_holdings, check_nothing_left, what_is_there
from tests.support.hostile.hostile_config import HOSTILE, KINDS, hostile_config
from tests.support.hostile.hostile_crowd import Crowd
from tests.support.hostile.mixed_config import MIXED, mixed_config
from tests.support.hostile.simulated_gateway import HANGS_S, START_WALL_MS, FaultLog, SimulatedGateway
from tests.support.hostile.simulated_web import SimulatedWeb
from tests.support.hostile.witness import Witness
from tests.support.protocols.stomp_gateway import StompSpeech
from tests.support.world.bodies import Violation

MEMORIES_BYTES: Final = (64 << 20, 4 << 20, 700_000, 200_000)
WEB_SEEDS: Final = 4  # one of so many has clients that come by HTTP
WEB_EVERY: Final = 3  # operations of the others for one of these
LOOKS_EVERY: Final = 50  # operations between two looks at all laws
WITNESS_EVERY: Final = 20
OPERATES_EVERY: Final = 200
TROUBLES_EVERY: Final = 300
RESTS_EVERY: Final = 400
LITTLE_STEPS: Final = (0, 1, 12, 100)  # steps left in a turn that others have used up
REST_LOOK_S: Final = 0.1
REST_MS: Final = 15_000  # for what waits for a time limit of the configuration
NOTICED_MS: Final = 2_000  # until the end of a socket is noticed
END_MS: Final = 100_000
DRAIN_ROUNDS: Final = 60  # in which no less is left than before
DRAIN_MS: Final = 500
MANAGEMENT: Final = "/topic/ActiveMQ.Scheduler.Management"

# Where clients wait for ever they cannot say goodbye.
FREE_KINDS: Final = tuple(kind for kind in KINDS if kind not in ("wait", "few"))

Plant = Callable[[Broker], None]


class _NoStore(MessageSource):
    """The law of rest looks at messages in memory only."""

    def message_at(self, destination_id: int, priority: int, entry: int) -> None:
        return None


class RandomLives:
    """plant: puts a mistake into each broker.  has_web: a second crowd comes by HTTP too; None: the seed decides.

    is_mixed: the seed decides about the settings of the addresses, too (``mixed_config``).
    """

    def __init__(
        self,
        seed: int,
        operations: int,
        lives_most: int = 3,
        plant: Plant | None = None,
        hangs_s: float = HANGS_S,
        has_web: bool | None = None,
        is_mixed: bool = False,
    ) -> None:
        self.seed = seed
        self._draw = draw = random.Random(seed)
        self._machine = random.Random(f"{seed} machine")
        self._operations = operations
        self._lives = draw.randrange(1, lives_most + 1)
        mixed = mixed_config(random.Random(f"{seed} mixed")) if is_mixed else ""
        config = _config(draw.choice(("penstock", "activemq")), mixed)
        self._config = replace(config, memory_limit_bytes=draw.choice(MEMORIES_BYTES))
        kinds_most = draw.choice((1, 2, 4, len(KINDS)))
        self._kinds = KINDS if kinds_most == len(KINDS) else tuple(draw.sample(FREE_KINDS, kinds_most))
        if is_mixed:
            self._kinds = MIXED[-kinds_most:]
        self._plant = plant
        self._hangs_s = hangs_s
        self._witness = Witness(random.Random(f"{seed} witness"))
        self._is_troubled = draw.randrange(3) == 0
        self._files = FaultyFiles(seed)
        self._forms = FormsLaw()
        self._wall_ms = START_WALL_MS
        self._log = FaultLog()
        self._web = random.Random(f"{seed} web")
        self._turns = random.Random(f"{seed} turns")
        self._has_short_turns = self._turns.randrange(3) == 0
        self._has_web = self._web.randrange(WEB_SEEDS) == 0 if has_web is None else has_web
        self.seen: set[str] = set()  # see ``what_is_there``
        self.told: list[object] = []  # something of each life that differs if anything does

    def run(self) -> None:
        """Raises: Violation."""
        with self._log:
            for life in range(self._lives):
                self._gateway = self._start()
                try:
                    self._live(is_last=life == self._lives - 1)
                finally:
                    self._gateway.abandon()
            self._verify()
            self._gateway = self._start()
            check_nothing_left(self._gateway, {})
            self._gateway.loop.close()

    def _start(self) -> SimulatedGateway:
        gateway = SimulatedGateway(self._config, self._machine, self._files, self._log, self._wall_ms, self._hangs_s)
        if self._plant is not None:
            self._plant(gateway.broker)
        return gateway

    def _live(self, is_last: bool) -> None:
        gateway = self._gateway
        crowd = Crowd(gateway, self._draw, self._kinds)
        web: Crowd | None = None
        if self._has_web:
            web = Crowd(SimulatedWeb(gateway, self._config, self._web), self._web, self._kinds)
        browsed: set[int] = set()
        for number in range(1, self._operations + 1):
            if self._has_short_turns and self._turns.randrange(3) == 0:
                gateway.engine_loop.open_turn()
                gateway.leave_steps(self._turns.choice(LITTLE_STEPS))
            crowd.step()
            if web is not None and self._web.randrange(WEB_EVERY) == 0:
                web.step()
            if number % WITNESS_EVERY == 0:
                self._witness.step(gateway)
                self._witness.look()
            if number % OPERATES_EVERY == 0:
                self._operate()
            if self._is_troubled and number % TROUBLES_EVERY == 0:
                self._trouble()
            if number % RESTS_EVERY == 0:
                self._rest(crowd)
            if number % LOOKS_EVERY == 0 and not gateway.engine_loop.is_open:
                check_counts(gateway, browsed)
                check_holdings(gateway)
                self._forms.check(gateway)
                check_nobody_idles(gateway.broker)
                self.seen |= what_is_there(gateway)
        self._files.heal()
        self._wall_ms = gateway.clock.wall_ms()
        self.told += [gateway.now_s(), gateway.store.append_offset(), gateway.total_depth()]
        if not is_last and self._draw.randrange(4):
            crowd.cut()
            if web is not None:
                web.cut()
            self._files = gateway.kill(is_power_cut=self._draw.randrange(2) == 0)
            self._witness.gone()
            return
        crowd.leave()
        if web is not None:
            web.leave()
        gateway.advance(REST_MS)
        self._witness.look()
        gateway.advance(NOTICED_MS)
        check_counts(gateway, browsed)
        check_holdings(gateway)
        self._check_nothing_held()
        self._forms.check(gateway)
        self._forget_subscriptions()
        self._roll_back_branches()
        self._drain()
        if is_last:
            self._witness.finish(gateway)
            gateway.advance(END_MS)
            check_nothing_left(gateway, {"temporary files": self._files.paths(".spill")})
        self._witness.gone()
        self._wall_ms = gateway.clock.wall_ms()
        self._files = gateway.stop()

    def _operate(self) -> None:
        """Empty or delete a destination, or send dead letters back, as an operator."""
        draw, gateway = self._draw, self._gateway
        queues = [queue for queue in gateway.queues() if not queue.name.startswith("honest.")]
        if not queues:
            return
        queue = draw.choice(queues)
        gateway.engine_loop.open_turn()
        selector = draw.choice(("", "", "a = '1'"))
        kind = draw.randrange(4)
        try:
            if kind == 0:
                destinations: list[Queue | Topic] = [*queues, *gateway.topics()]
                gateway.delete(draw.choice(destinations), is_forced=draw.randrange(2) == 0)
            elif kind == 1:
                gateway.retry(queue, selector, draw.choice((0, 5)), draw.choice((0, 3)))
            else:
                gateway.purge(queue, selector)
        except EngineError:
            pass  # it is in use, or too much is under way

        gateway.broker.inspect()
        for consumer in [one for client in gateway.connections() for one in client.consumers]:
            gateway.why.consumer(consumer)
        for client in gateway.connections():
            gateway.why.producer(client.client_number)

    def _rest(self, crowd: Crowd) -> None:
        """Let clients only read and send what they have begun for a while."""
        gateway = self._gateway
        for _ in range(self._draw.choice((1, 10, 50))):
            crowd.look(REST_LOOK_S)
        if gateway.workers.is_idle() and not gateway.engine_loop.is_open and not gateway.store_failure():
            check_rest(gateway, _NoStore())

    def _trouble(self) -> None:
        """Fill the disk, make room again, or set the wall clock."""
        draw = self._draw
        if self._files.free_bytes >= 0:
            self._files.heal()
        elif draw.randrange(2):
            self._files.free_bytes = draw.choice((0, 5_000, 100_000))
        else:
            self._gateway.clock.wall_offset_ms += draw.choice((-3_000, -300, 300, 3_000))

    # -- the end of a life

    def _check_nothing_held(self) -> None:
        gateway = self._gateway
        connections = sum(isinstance(client, ProtocolConnection) for client in gateway.connections())
        left = {
            "connections": connections - (self._witness.peer is not None),
            "sockets": len(gateway.open_sockets()) - (self._witness.peer is not None),
            "octets of connections": gateway.held_by_connections(),
            "waiting producers": len(gateway.waits()),
            "conversions by their last resort": gateway.counters.conversion_faults,
        }
        if any(left.values()):
            raise Violation(f"all clients have gone, and yet: {left}, {gateway.waits()}, {gateway.open_sockets()}")

    def _forget_subscriptions(self) -> None:
        """Delete all durable subscriptions, as an operator."""
        gateway = self._gateway
        operator = FakeClient()
        operator.user = HOSTILE[0]
        gateway.engine_loop.open_turn()
        for client_id, name, is_durable in list(gateway.subscriptions()):
            if is_durable:
                gateway.broker.delete_subscription(operator, client_id, name)

    def _roll_back_branches(self) -> None:
        """Decide about all prepared branches, as an operator: their transaction managers will not come back."""
        branches = self._gateway.branches
        self._gateway.engine_loop.open_turn()
        for branch in branches.prepared():
            branches.roll_back(branch, is_heuristic=True)
        for decided in branches.heuristics.all():
            branches.heuristics.forget(decided.xid)

    def _queues(self) -> list[Queue]:
        return [queue for queue in self._gateway.queues() if not queue.name.startswith("honest.")]

    def _drain(self) -> None:
        """Take everything from all queues but the witness's, and cancel all schedules."""
        gateway = self._gateway
        gateway.engine_loop.open_turn()
        for queue in self._queues():
            gateway.resume(queue.name)  # somebody has paused it over HTTP
        rounds_left = DRAIN_ROUNDS
        least: int | None = None
        while rounds_left:
            left = [queue for queue in self._queues() if queue.depth]
            if not left and not len(gateway.schedule):
                break
            depth = sum(queue.depth for queue in left) + len(gateway.schedule)
            rounds_left = DRAIN_ROUNDS if least is None or depth < least else rounds_left - 1
            least = depth if least is None else min(least, depth)
            peers = [self._drainer(), self._drainer()]
            peers[0].send("SEND", destination=MANAGEMENT, AMQ_SCHEDULER_ACTION="REMOVEALL")
            for number, queue in enumerate(left[:15]):
                if queue.settings.queue.non_destructive:  # what a retry sent back to it never expires
                    if not _is_purged(queue):
                        gateway.engine_loop.open_turn()
                        gateway.purge(queue)
                    continue
                for peer in peers[: 2 if queue.name.startswith("gate.") else 1]:
                    peer.subscribe(f"/queue/{queue.name}", "auto", str(number))
            for _ in range(5):
                gateway.advance(DRAIN_MS // 5)
                for peer in peers:
                    peer.take()
            for peer in peers:
                peer.vanish()
            gateway.engine_loop.open_turn()
            for place in gateway.schedule.places():
                gateway.schedule.cancel(place)
            gateway.advance(DRAIN_MS)
        left = [queue for queue in self._queues() if queue.depth]
        if left:
            raise Violation(f"these queues are never empty: {[(one.uri(), one.depth) for one in left]}")

    def _drainer(self) -> StompSpeech:
        peer = self._gateway.open()
        peer.send("CONNECT", login=HOSTILE[0], passcode=HOSTILE[1], accept_version="1.2", host="h")
        return peer

    def _verify(self) -> None:
        found = verify(self._files, self._gateway.directory, MESSAGE_KEYS)
        if found.findings:
            raise Violation(f"the store is not sound: {'; '.join(map(str, found.findings[:5]))}")


@cache
def _hostile_config(dialect: str) -> str:
    return hostile_config(dialect)


@cache
def _config(dialect: str, mixed: str) -> ServerConfig:
    files = {"hostile.yaml": _hostile_config(dialect), "mixed.yaml": mixed}
    return merged([read(name, text.encode()) for name, text in files.items() if text])


def _is_purged(queue: Queue) -> bool:
    return any(consumer.client.describe()["address"] == "purge" for consumer in queue.consumers.values())
