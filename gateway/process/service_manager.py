"""Informs systemd that the gateway is ready, works and stops.

Source: sd_notify(3), systemd.service(5) ``Type=notify`` and ``WatchdogSec=``.  Each message is a datagram to the socket
that ``NOTIFY_SOCKET`` names.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from typing import Final

log: Final = logging.getLogger("penstock")


class ServiceManager:
    """The manager that has started this process; does nothing if none has."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        self._is_watching = "WATCHDOG_USEC" in environment

    def ready(self) -> None:
        """Every listener accepts."""
        self._say(b"READY=1")

    def alive(self) -> None:
        """The event loop turns; call it at least twice in ``WatchdogSec``."""
        if self._is_watching:
            self._say(b"WATCHDOG=1")

    def stopping(self) -> None:
        self._say(b"STOPPING=1")

    def _say(self, assignment: bytes) -> None:
        if not self._address:
            return
        name = "\0" + self._address[1:] if self._address.startswith("@") else self._address  # an abstract socket
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as endpoint:
                endpoint.sendto(assignment, name)
        except OSError as error:
            log.warning("the service manager at NOTIFY_SOCKET=%s cannot be informed: %s", self._address, error)
            self._address = ""
