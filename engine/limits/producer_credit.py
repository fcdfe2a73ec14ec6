"""How many messages a producer may be granted, for protocols with credit."""

from __future__ import annotations

from engine.backlog.address_account import BLOCK
from engine.sources.composite import Composite, Destination
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic


def blocking(destination: Destination | None) -> Queue | Topic | None:
    """Return a single destination whose producers wait when it is full, None for any other."""
    if destination is None or isinstance(destination, Composite):
        return None
    account = destination.account
    return destination if account is not None and account.action == BLOCK else None


def producer_credit(destination: Queue | Topic, wanted: int, message_bytes: int) -> int:
    """Return how many messages a producer may be granted now: at most ``wanted``.

    Granted messages are accepted even once the address is full, so little is granted near its limit: at most
    producer-window-size, and no more than there is room for; 0 while the address is full.
    message_bytes: size of the producer's messages, as far as it is known.
    """
    account = destination.account
    if account is None or account.action != BLOCK:
        return wanted
    if account.is_shut or account.is_over():
        return 0
    size_bytes = max(1, message_bytes)
    granted = wanted
    window_bytes = destination.settings.flow.producer_window_size_bytes
    if window_bytes >= 0:
        granted = min(granted, max(1, window_bytes // size_bytes))
    if account.max_bytes >= 0:
        granted = min(granted, max(1, (account.max_bytes - account.used_bytes) // size_bytes))
    if account.max_messages >= 0:
        granted = min(granted, account.max_messages - account.used_messages)
    return granted


def must_reject(destination: Queue | Topic) -> bool:
    """Say whether even granted messages are refused, as max-size-bytes-reject-threshold is exceeded."""
    account = destination.account
    return account is not None and 0 <= account.reject_bytes < account.used_bytes
