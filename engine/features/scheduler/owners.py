"""Whose the pending schedules are, as numbers: there may be millions of schedules, and few users.

What was there before the start is nobody's, as with destinations (docs/decisions/0032).
"""

from __future__ import annotations

from typing import Final

from engine.consumers.client import Client
from engine.consumers.quota import Quota

NOBODY: Final = 0


class Owners:
    """quota: what each holder has.  _holders: by number; "" where a number is free."""

    __slots__ = ("quota", "_clients", "_numbers", "_holders", "_free")

    def __init__(self, quota: Quota, clients: dict[int, Client]) -> None:
        self.quota = quota
        self._clients = clients
        self._numbers: dict[str, int] = {}
        self._holders = [""]
        self._free: list[int] = []

    def require(self, sender: int, count: int) -> None:
        """Raises: LimitReached if a client, by its number, is to have so many more and may not."""
        client = self._clients.get(sender)
        if client is not None:
            self.quota.require(client.holder, count)

    def add(self, sender: int) -> int:
        """Count one more that a client sends; return the number of its holder."""
        client = self._clients.get(sender)
        if client is None or not client.holder:
            return NOBODY
        number = self._numbers.get(client.holder, NOBODY)
        if number == NOBODY:
            number = self._free.pop() if self._free else len(self._holders)
            if number == len(self._holders):
                self._holders.append("")
            self._holders[number] = client.holder
            self._numbers[client.holder] = number
        self.quota.add(client.holder)
        return number

    def is_of(self, number: int, client: Client) -> bool:
        """Say whether a schedule is of a client, or of another connection of its user."""
        return number != NOBODY and self._holders[number] == client.holder

    def add_another(self, number: int) -> None:
        """Count one more of a holder that has one."""
        self.quota.add(self._holders[number])

    def give_back(self, number: int) -> None:
        holder = self._holders[number]
        self.quota.give_back(holder)
        if holder and not self.quota.count(holder):
            self._holders[number] = ""
            del self._numbers[holder]
            self._free.append(number)
