"""What OpenWire connections know of each other: ids of connections, and temporary destinations.

A client publishes to a temporary destination only if an advisory has announced it.  We announce it right before a
message that names it as reply-to, to the receiver and to the other connections of the same user and host, because an
application may answer on any of them.  So no client hears of destinations that are not meant for it, and many clients
cost nothing.  Connections that know a destination also hear of its end, and of its new beginning: a requester that
reconnects makes its destinations again.  Nothing of this is kept in the log.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from engine.consumers.turn_steps import Chore, Steps
from protocols.openwire.wire.commands import DestinationInfo
from protocols.openwire.wire.identities import ConnectionId, Destination

ADDED: Final = 0
REMOVED: Final = 1
ENDED_MOST: Final = 1_000  # destinations that have ended, and may begin again
NOTICE_STEPS: Final = 1  # of a turn, for an advisory, beside those for writing it


class Peer:
    """A connection as the others see it."""

    __slots__ = ()

    @abstractmethod
    def advise(self, info: DestinationInfo) -> None:
        """Send an advisory about a temporary destination to the consumers that want it."""

    @abstractmethod
    def taken_over(self) -> None:
        """A new connection has the id of this one, whose client has lost it: end."""


class Group:
    """The connections of one application that take these advisories, by number, and the destinations that they know."""

    __slots__ = ("name", "members", "known")

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: dict[int, Peer] = {}
        self.known: dict[Destination, None] = {}


class Temporary:
    """owner: id of its connection.  told: names of the groups that know it, or knew it before it ended."""

    __slots__ = ("owner", "told")

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.told: dict[str, None] = {}


class Notice:
    """Advisories for connections that have waited for a later turn.  numbers: of these."""

    __slots__ = ("destination", "temporary", "operation", "numbers")

    def __init__(self, destination: Destination, temporary: Temporary, operation: int, numbers: list[int]) -> None:
        self.destination = destination
        self.temporary = temporary
        self.operation = operation
        self.numbers = numbers


@dataclass(slots=True, eq=False)
class Peers(Chore):
    """connections: by the id that the client has chosen.  watchers: those that take these advisories, by number."""

    connections: dict[str, Peer] = field(default_factory=dict)
    _watchers: dict[int, Group] = field(default_factory=dict)
    _groups: dict[str, Group] = field(default_factory=dict)
    _temporaries: dict[Destination, Temporary] = field(default_factory=dict)
    _ended: dict[Destination, Temporary] = field(default_factory=dict)
    _notices: deque[Notice] = field(default_factory=deque)

    def enter(self, connection_id: str, peer: Peer) -> None:
        """Note a connection; one with the same id ends first, whose client has reconnected."""
        former = self.connections.pop(connection_id, None)
        if former is not None:
            former.taken_over()
        self.connections[connection_id] = peer

    def leave(self, connection_id: str, number: int, peer: Peer) -> None:
        """Forget a connection, which owns no temporary destination any more."""
        group = self._watchers.pop(number, None)
        if group is not None:
            del group.members[number]
            if not group.members:
                del self._groups[group.name]
        if self.connections.get(connection_id) is peer:
            del self.connections[connection_id]

    def watch(self, number: int, peer: Peer, application: str, steps: Steps) -> None:
        """Let a connection take advisories; it is told what the others of its application know."""
        if number in self._watchers:
            return
        group = self._groups.get(application)
        if group is None:
            group = self._groups[application] = Group(application)
        group.members[number] = peer
        self._watchers[number] = group
        for destination in group.known:
            self._notify(destination, self._temporaries[destination], ADDED, [number], 0, steps)

    def added(self, destination: Destination, connection_id: str, number: int, steps: Steps) -> None:
        """Note a temporary destination; its owner is told, and who knew it before.  number: of the owner."""
        temporary = self._ended.pop(destination, None)
        if temporary is None:
            temporary = Temporary(connection_id)
        temporary.owner = connection_id
        self._temporaries[destination] = temporary
        former = list(temporary.told)
        temporary.told.clear()
        for name in former:
            if name in self._groups:
                self._tell(destination, temporary, self._groups[name], number, steps)
        self.tell(destination, number, steps)

    def tell(self, destination: Destination, number: int, steps: Steps) -> None:
        """Tell a connection of a temporary destination, unless it knows; there may be none."""
        temporary = self._temporaries.get(destination)
        group = self._watchers.get(number)
        if temporary is not None and group is not None and destination not in group.known:
            self._tell(destination, temporary, group, number, steps)

    def removed(self, destination: Destination, steps: Steps) -> None:
        """Let those who know a temporary destination hear of its end."""
        temporary = self._temporaries.pop(destination, None)
        if temporary is None:
            return
        if len(self._ended) >= ENDED_MOST:
            del self._ended[next(iter(self._ended))]
        self._ended[destination] = temporary
        for name in temporary.told:
            group = self._groups.get(name)
            if group is not None:
                group.known.pop(destination, None)
                self._notify(destination, temporary, REMOVED, list(group.members), 0, steps)

    def go_on(self, steps: Steps) -> bool:
        while self._notices and steps.left > 0:
            steps.left -= NOTICE_STEPS
            notice = self._notices[0]
            is_there = notice.destination in self._temporaries
            if not notice.numbers or is_there != (notice.operation == ADDED):  # it has ended, or begun again
                self._notices.popleft()
                continue
            number = notice.numbers.pop()
            group = self._watchers.get(number)
            if group is not None:
                group.members[number].advise(info_of(notice.destination, notice.temporary.owner, notice.operation))
        return not self._notices

    # -- the steps

    def _tell(self, destination: Destination, temporary: Temporary, group: Group, number: int, steps: Steps) -> None:
        """Tell a group; the connection with this number first, if it is one of it."""
        if len(temporary.told) > 2 * len(self._groups):  # most of them have gone
            temporary.told = {name: None for name in temporary.told if name in self._groups}
        temporary.told[group.name] = None
        group.known[destination] = None
        first = [number] if number in group.members else []
        others = [one for one in group.members if one != number]
        self._notify(destination, temporary, ADDED, first + others, len(first), steps)

    def _notify(
        self,
        destination: Destination,
        temporary: Temporary,
        operation: int,
        numbers: list[int],
        at_least: int,
        steps: Steps,
    ) -> None:
        """Send advisories; those that this turn has no steps for come in the next ones.  at_least: are not late."""
        info = info_of(destination, temporary.owner, operation)
        at_once = 0
        while at_once < len(numbers) and (steps.left > 0 or at_once < at_least):
            number = numbers[at_once]
            self._watchers[number].members[number].advise(info)
            at_once += 1
        if at_once < len(numbers):
            self._notices.append(Notice(destination, temporary, operation, numbers[at_once:]))
            if len(self._notices) == 1:
                steps.begin(self)


def info_of(destination: Destination, connection_id: str, operation: int) -> DestinationInfo:
    return DestinationInfo(connection_id=ConnectionId(connection_id), destination=destination, operation_type=operation)
