"""Purging, pausing and deleting of destinations in the running gateway, on an operator's command."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from config.matching import QUEUE
from engine.features.purge import Purge
from engine.sources.queue import Queue
from engine.values.errors import ConnectionForced, DestinationInUse, InvalidOption, LimitReached
from gateway.loop.durability import check_disk, until_durable
from gateway.loop.engine_loop import EngineLoop
from gateway.process.log_lines import PeerLines
from gateway.web.rest.named_destination import Named, named_destination
from gateway.web.rest.rest_client import RestClient
from protocols.connection import ProtocolConnection

log: Final = logging.getLogger("penstock.connection")

RUNNING_MAX: Final = 16
RUNNING_PER_USER_MAX: Final = 14  # nine tenths; per address where logins are not checked
REMEMBERED_MAX: Final = 256
EMPTYING_MS: Final = 5_000  # time limit of one request to delete; a larger backlog must be purged first
POLL_S: Final = 0.02


class LiveUpkeep:
    """lines: of the log, about what operators do.  _purges: the runs and who holds them, by number."""

    def __init__(self, engine_loop: EngineLoop, lines: PeerLines) -> None:
        self._engine_loop = engine_loop
        self._lines = lines
        self._upkeep = engine_loop.broker.upkeep
        self._pauses = engine_loop.broker.pauses
        self._destinations = engine_loop.broker.destinations
        self._clients = engine_loop.broker.clients
        self._purges: dict[int, tuple[Purge, str]] = {}
        self._next_number = 1

    def purge(self, queue: str, selector: str, holder: str) -> int:
        """Return the number of the run.  holder: user or address for which it counts, in words.

        Raises: EngineError, StoreError; LookupError if the queue does not exist.
        """
        found = self._queue(queue)
        check_disk(self._engine_loop, "nothing was purged")
        running = [its_holder for run, its_holder in self._purges.values() if not run.is_done]
        if len(running) >= RUNNING_MAX:
            raise LimitReached(f"{RUNNING_MAX} purges are under way, which is the limit")
        if running.count(holder) >= RUNNING_PER_USER_MAX:
            raise LimitReached(f"{RUNNING_PER_USER_MAX} purges of {holder} are under way, which is the limit")
        self._engine_loop.open_turn()
        number = self._next_number
        self._purges[number] = self._upkeep.purge(found, selector), holder
        self._next_number = number + 1
        ended = [one for one, (run, _) in self._purges.items() if run.is_done]
        for old in ended[: max(0, len(self._purges) - REMEMBERED_MAX)]:
            del self._purges[old]
        return number

    def purged(self, number: int) -> str | None:
        """Return the name of the queue that a run empties; None if there is no such run."""
        found = self._purges.get(number)
        return None if found is None else found[0].queue.name

    def status(self, number: int) -> Mapping[str, object]:
        run, _ = self._purges[number]
        return {"queue": run.queue.name, "dropped": run.count, "done": run.is_done}

    def stop(self, number: int) -> None:
        run, _ = self._purges[number]
        if not run.is_done:
            self._engine_loop.open_turn()
            run.end()

    async def delete(self, destination: Named, is_forced: bool) -> dict[str, Any]:
        """Delete a destination; return once that is durable.  is_forced: even with messages in it.

        Raises: EngineError, StoreError; LookupError if it does not exist.
        """
        found = named_destination(self._destinations, destination)
        uri = found.uri()
        check_disk(self._engine_loop, f"{uri} was not deleted")
        if is_forced and isinstance(found, Queue) and not found.consumer_count():
            await self._emptied(found)
        self._engine_loop.open_turn()
        if not found.is_closed:  # it was unused, so auto-delete may have removed it meanwhile
            self._upkeep.delete(found, is_forced)
        await until_durable(self._engine_loop, f"deleted {uri}", "it exists again if the gateway is killed before")
        return {"deleted": uri}

    def pause(self, queue: str, operator: str) -> None:
        """Hand out nothing more of a queue.  operator: who asks, in words.  Raises: LookupError."""
        found = self._queue(queue)
        self._engine_loop.open_turn()
        self._pauses.pause(found, operator)
        self._lines.done(log, logging.INFO, operator, f"{found.uri()} is paused by {operator}")

    def resume(self, queue: str, operator: str) -> None:
        found = self._queue(queue)
        self._engine_loop.open_turn()
        self._pauses.resume(found)
        self._lines.done(log, logging.INFO, operator, f"{found.uri()} is resumed by {operator}")

    def close_connection(self, number: int, operator: str) -> None:
        """End a connection.  operator: who asks, in words.  Raises: LookupError; InvalidOption if it is no client's."""
        client = self._clients.get(number)
        if client is None:
            raise LookupError(f"no connection {number}; 'penstock stat --json' lists them")
        if not isinstance(client, ProtocolConnection | RestClient):
            raise InvalidOption(
                f"connection {number} is a purge or a retry of the gateway; allowed is that of a client"
            )
        address = client.describe().get("address", "?")
        self._lines.done(log, logging.INFO, operator, f"connection {number} ({address}) is closed by {operator}")
        self._engine_loop.open_turn()
        client.give_up(ConnectionForced(f"closed by an operator, {operator}"))

    def _queue(self, name: str) -> Queue:
        """Raises: LookupError."""
        found = named_destination(self._destinations, (QUEUE, name))
        assert isinstance(found, Queue)
        return found

    async def _emptied(self, queue: Queue) -> None:
        """Drop the backlog over many turns, so that little is left for the turn of the deletion.

        Raises: DestinationInUse if that takes too long.
        """
        if not queue.depth:
            return
        self._engine_loop.open_turn()
        run = self._upkeep.purge(queue)
        until_ms = self._engine_loop.clock.monotonic_ms() + EMPTYING_MS
        while not run.is_done and not queue.is_closed:
            if self._engine_loop.clock.monotonic_ms() >= until_ms:
                self._engine_loop.open_turn()
                run.end()
                if not queue.depth:
                    return
                raise DestinationInUse(
                    f"{queue.uri()} still holds {queue.depth} messages after {EMPTYING_MS} ms; purging it first helps"
                )
            await asyncio.sleep(POLL_S)
