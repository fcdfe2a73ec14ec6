"""A socket that ends when its peer has sent too much.

The library of the directory keeps an answer in memory until it is whole, and reads as many answers as come.
"""

from __future__ import annotations

import socket
from typing import Any, Final

OCTETS_MAX: Final = 512 << 10  # of one connection: room for 1,000 groups with names of 500 octets


class MeteredSocket:
    """Stands for ``endpoint``, from which it reads ``OCTETS_MAX`` at most."""

    def __init__(self, endpoint: socket.socket) -> None:
        self.endpoint = endpoint
        self._left = OCTETS_MAX

    def recv(self, size: int) -> bytes:
        """Raises: OSError when there are more."""
        octets = self.endpoint.recv(size)
        self._left -= len(octets)
        if self._left < 0:
            raise OSError(f"the answers have more than {OCTETS_MAX} octets")
        return octets

    def __getattr__(self, name: str) -> Any:
        return getattr(self.endpoint, name)


def metered(endpoint: object) -> object:
    """Return it with a meter; without a socket, or for what has one, as it is."""
    return MeteredSocket(endpoint) if isinstance(endpoint, socket.socket) else endpoint


def endpoint_of(endpoint: object) -> socket.socket | None:
    """Return the socket itself, None if there is none."""
    found = endpoint.endpoint if isinstance(endpoint, MeteredSocket) else endpoint
    return found if isinstance(found, socket.socket) else None
