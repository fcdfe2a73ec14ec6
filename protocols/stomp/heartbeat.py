"""What time asks of a connection: heart-beats both ways, a limit for CONNECT and for every frame."""

from __future__ import annotations

from typing import Final

from protocols.peer_times import TICK_CONNECTING_MS, TICK_LEAST_MS, TICK_MOST_MS, PeerTimes
from protocols.stomp.handshake import Terms
from protocols.stomp.settings import SessionSettings

SEND_EARLY: Final = 0.8  # of the agreed interval, so that a loaded machine is not late


class Heartbeat(PeerTimes):
    """Any octet counts as a heart-beat."""

    __slots__ = ("settings", "terms")

    def __init__(self, settings: SessionSettings, now_ms: int) -> None:
        super().__init__(now_ms)
        self.settings = settings
        self.terms = Terms()

    def fault(self, now_ms: int, is_open: bool, is_reading_paused: bool) -> str:
        """Return what the client took too long for, "" for nothing.  While we do not read, its clock stands still."""
        settings = self.settings
        if is_reading_paused:
            return ""
        if not is_open and now_ms - self.opened_ms >= settings.connect_time_ms:
            return f"no CONNECT within {settings.connect_time_ms} ms"
        if self.is_frame_late(now_ms, settings.frame_time_ms):
            return f"a frame took longer than {settings.frame_time_ms} ms"
        silent_ms = now_ms - self.received_ms
        allowed_ms = int(self.terms.receive_ms * settings.heart_beat_grace)
        if is_open and allowed_ms and silent_ms > allowed_ms:
            return (
                f"no heart-beat for {silent_ms} ms; {self.terms.receive_ms} ms were agreed, {allowed_ms} ms are allowed"
            )
        return ""

    def must_send(self, now_ms: int) -> bool:
        interval_ms = self.terms.send_ms
        return interval_ms > 0 and now_ms - self.sent_ms >= int(interval_ms * SEND_EARLY)

    def interval_ms(self, is_open: bool) -> int:
        """Return when to look again."""
        if not is_open:
            return TICK_CONNECTING_MS
        interval_ms = TICK_MOST_MS
        for agreed_ms in (self.terms.send_ms, self.terms.receive_ms):
            if agreed_ms:
                interval_ms = min(interval_ms, agreed_ms // 5)
        return max(TICK_LEAST_MS, interval_ms)
