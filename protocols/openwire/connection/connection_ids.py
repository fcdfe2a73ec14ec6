"""Whose connection ids are: temporary destinations have their names from them, and answers find their way by those.

A client chooses its id and keeps it when it connects again, and others read it in its messages.  So an id belongs to
the user that came with it first, and for a while also when none of its connections is there.  Otherwise another user
could make the destinations of a client that is just connecting again, and take the answers that come meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from protocols.openwire.connection.peers import Peer

FORMER_MOST: Final = 100  # ids of one user without a connection; they take some 60 kB at most


class Claim:
    """The present connections of one id, all of one user."""

    __slots__ = ("user", "holders")

    def __init__(self, user: str) -> None:
        self.user = user
        self.holders: dict[Peer, None] = {}


@dataclass(slots=True, eq=False)
class ConnectionIds:
    """_former: by user, the ids without a connection, the oldest first."""

    _claims: dict[str, Claim] = field(default_factory=dict)
    _former: dict[str, dict[str, None]] = field(default_factory=dict)

    def enter(self, connection_id: str, user: str, peer: Peer) -> None:
        claim = self._claims.get(connection_id)
        if claim is None:
            claim = self._claims[connection_id] = Claim(user)
        elif claim.user != user:
            return
        claim.holders[peer] = None
        self._former.get(user, {}).pop(connection_id, None)

    def leave(self, connection_id: str, peer: Peer) -> None:
        claim = self._claims.get(connection_id)
        if claim is None or peer not in claim.holders:
            return
        del claim.holders[peer]
        if claim.holders:
            return
        former = self._former.setdefault(claim.user, {})
        former[connection_id] = None
        if len(former) > FORMER_MOST:
            oldest = next(iter(former))
            del former[oldest], self._claims[oldest]

    def holds(self, connection_id: str, peer: Peer) -> bool:
        """Say whether an id belongs to the user of this connection, which has it."""
        claim = self._claims.get(connection_id)
        return claim is not None and peer in claim.holders
