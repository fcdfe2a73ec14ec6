"""The owners of pending schedules, as numbers, because there may be millions of schedules and few users.

Schedules from before the start have no owner, like destinations (docs/decisions/0032).
"""

from __future__ import annotations

from typing import Final

from engine.consumers.client import Client
from engine.consumers.user_quota import Quota
from engine.values.errors import LimitReached

NO_OWNER: Final = 0


class Owners:
    """quota: schedules per holder.  _holders: by number; "" for a free number."""

    __slots__ = ("quota", "_clients", "_numbers", "_holders", "_free")

    def __init__(self, quota: Quota, clients: dict[int, Client]) -> None:
        self.quota = quota
        self._clients = clients
        self._numbers: dict[str, int] = {}
        self._holders = [""]
        self._free: list[int] = []

    def require(self, sender: int, count: int) -> None:
        """Raises: LimitReached if a client, given by its number, may not have ``count`` more."""
        client = self._clients.get(sender)
        if client is not None:
            self.quota.require(client.holder, count)

    def add(self, sender: int) -> int:
        """Count a new schedule of a client; return the number of its holder."""
        client = self._clients.get(sender)
        if client is None or not client.holder:
            return NO_OWNER
        number = self._numbers.get(client.holder, NO_OWNER)
        if number == NO_OWNER:
            number = self._free.pop() if self._free else len(self._holders)
            if number == len(self._holders):
                self._holders.append("")
            self._holders[number] = client.holder
            self._numbers[client.holder] = number
        self.quota.add(client.holder)
        return number

    def is_of(self, number: int, client: Client) -> bool:
        """Say whether a schedule belongs to a client, or to another connection of its user."""
        return number != NO_OWNER and self._holders[number] == client.holder

    def has_room(self, number: int) -> bool:
        """Say whether a holder may have one more; it counts as refused if not."""
        try:
            self.quota.require(self._holders[number])
        except LimitReached:
            return False
        return True

    def add_another(self, number: int) -> None:
        """Count another schedule of a holder that has one."""
        self.quota.add(self._holders[number])

    def give_back(self, number: int) -> None:
        holder = self._holders[number]
        self.quota.give_back(holder)
        if holder and not self.quota.count(holder):
            self._holders[number] = ""
            del self._numbers[holder]
            self._free.append(number)
