"""The id that a message has from its sender, in the headers of each encoding: JMSMessageID before the gateway's own."""

from __future__ import annotations

from abc import ABC, abstractmethod


class SenderIds(ABC):
    """Finds a sender's id in headers of one encoding."""

    @abstractmethod
    def octets(self, sender_id: str) -> list[bytes]:
        """Return octets of which at least one is in the headers of every message that has the id; [] for no message."""

    @abstractmethod
    def has(self, headers: bytes, sender_id: str) -> bool:
        """Say whether a message has the id.  headers: ``Message.headers``.  Raises: DATA_FAULTS if they are damaged."""
