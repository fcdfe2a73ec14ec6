"""Listening sockets that the service manager has opened and passes on (socket activation).

The manager keeps them while the gateway is restarted, so clients that come meanwhile wait instead of being refused.

Source: sd_listen_fds(3).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any, Final

FIRST: Final = 3  # number of the first descriptor that is passed
COUNT_DIGITS: Final = 6
ALLOWED: Final = "allowed are sockets of TCP (ListenStream=)"


class PassedSockets:
    """Those that no listener has taken yet."""

    def __init__(self, sockets: list[socket.socket]) -> None:
        self._sockets = sockets

    def take(self, address: tuple[Any, ...]) -> socket.socket | None:
        """Return the socket that is bound to an address, None if there is none."""
        for passed in self._sockets:
            if passed.getsockname()[:2] == address[:2]:
                self._sockets.remove(passed)
                return passed
        return None

    def refuse_rest(self) -> None:
        """Raises: OSError if some were not taken, because nobody would ever accept their clients."""
        if self._sockets:
            rest = ", ".join(_shown(passed) for passed in self._sockets)
            raise OSError(
                f"the service manager passes a socket of {rest}, which is the address of no listener; "
                "allowed are the addresses in 'listeners'"
            )


def passed_sockets(environment: Mapping[str, str] = os.environ, first: int = FIRST) -> PassedSockets:
    """Return what was passed to this process.  Raises: OSError if it is something else than TCP sockets."""
    if environment.get("LISTEN_PID") != str(os.getpid()):
        return PassedSockets([])
    sockets: list[socket.socket] = []
    count = environment.get("LISTEN_FDS", "0")
    if not (count.isascii() and count.isdigit() and len(count) <= COUNT_DIGITS):
        raise OSError(f"the service manager passes LISTEN_FDS={count[:80]!r}; allowed is a number of sockets")
    for descriptor in range(first, first + int(count)):
        try:
            passed = socket.socket(fileno=descriptor)
        except OSError as error:
            seen = f"descriptor {descriptor} ({os.strerror(error.errno or 0).lower()})"
            raise OSError(f"the service manager passes {seen}; {ALLOWED}") from None
        passed.set_inheritable(False)
        passed.setblocking(False)
        sockets.append(passed)
        if passed.family not in (socket.AF_INET, socket.AF_INET6) or passed.type != socket.SOCK_STREAM:
            seen = _shown(passed)
            for one in sockets:
                one.close()
            raise OSError(f"the service manager passes {seen}; {ALLOWED}")
    return PassedSockets(sockets)


def _shown(passed: socket.socket) -> str:
    address = passed.getsockname()
    if not isinstance(address, tuple):
        return f"the socket {address!r}"
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    return f"{host}:{address[1]}"
