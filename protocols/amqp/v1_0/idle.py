"""What time asks of a connection: heartbeats both ways, a limit for open and for every frame (transport 2.4.5)."""

from __future__ import annotations

from typing import Final

from protocols.amqp.v1_0.settings import AmqpSettings
from protocols.peer_times import TICK_CONNECTING_MS, TICK_LEAST_MS, TICK_MOST_MS, PeerTimes

SEND_LEAST_MS: Final = 100  # a peer that asks for something more often gets this


class IdleTimes(PeerTimes):
    """send_every_ms: what the peer asks for, 0 for nothing."""

    __slots__ = ("settings", "send_every_ms")

    def __init__(self, settings: AmqpSettings, now_ms: int) -> None:
        super().__init__(now_ms)
        self.settings = settings
        self.send_every_ms = 0

    def agree(self, idle_time_out_ms: int | None) -> None:
        """Take what the peer's open asks for."""
        if idle_time_out_ms:
            self.send_every_ms = max(SEND_LEAST_MS, idle_time_out_ms)

    def fault(self, now_ms: int, is_open: bool, is_reading_paused: bool) -> str:
        """Return what the peer took too long for, "" for nothing.  While we do not read, its clock stands still."""
        settings = self.settings
        if is_reading_paused:
            return ""
        if not is_open and now_ms - self.opened_ms >= settings.connect_time_ms:
            return f"no open within {settings.connect_time_ms} ms"
        if self.is_frame_late(now_ms, settings.frame_time_ms):
            return f"a frame took longer than {settings.frame_time_ms} ms"
        silent_ms = now_ms - self.received_ms
        if is_open and 0 < settings.idle_time_ms < silent_ms:
            return f"nothing came for {silent_ms} ms (local-idle-timeout expired)"
        return ""

    def must_send(self, now_ms: int) -> bool:
        return self.send_every_ms > 0 and now_ms - self.sent_ms >= self.send_every_ms // 2

    def interval_ms(self, is_open: bool) -> int:
        """Return when to look again."""
        if not is_open:
            return TICK_CONNECTING_MS
        if not self.send_every_ms:
            return TICK_MOST_MS
        return max(TICK_LEAST_MS, min(TICK_MOST_MS, self.send_every_ms // 5))
