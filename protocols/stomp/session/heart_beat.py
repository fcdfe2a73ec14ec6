"""Time limits of a connection: heart-beats both ways, a limit for CONNECT and for every frame."""

from __future__ import annotations

from typing import Final

from protocols.peer_times import PeerTimes
from protocols.stomp.session.handshake import Terms
from protocols.stomp.session.settings import SessionSettings

SEND_EARLY: Final = 0.8  # fraction of the agreed interval, so that a loaded machine is not late


class HeartBeat(PeerTimes):
    """Any octet counts as a heart-beat."""

    __slots__ = ("grace", "terms")

    def __init__(self, settings: SessionSettings, terms: Terms, now_ms: int) -> None:
        super().__init__(now_ms, "CONNECT", settings.connect_time_ms, settings.frame_time_ms)
        self.grace = settings.heart_beat_grace
        self.terms = terms

    def silence(self, silent_ms: int) -> str:
        agreed_ms = self.terms.receive_ms
        allowed_ms = int(agreed_ms * self.grace)
        if allowed_ms and silent_ms > allowed_ms:
            return f"no heart-beat for {silent_ms} ms; {agreed_ms} ms were agreed, {allowed_ms} ms are allowed"
        return ""

    def must_send(self, now_ms: int) -> bool:
        interval_ms = self.terms.send_ms
        return interval_ms > 0 and now_ms - self.sent_ms >= int(interval_ms * SEND_EARLY)

    def open_interval_ms(self, now_ms: int) -> int:
        send_ms = self.terms.send_ms
        receive_ms = self.terms.receive_ms
        return min(
            self.until_due_ms(self.sent_ms + int(send_ms * SEND_EARLY), send_ms, now_ms),
            self.until_due_ms(self.received_ms + int(receive_ms * self.grace) + 1, receive_ms, now_ms),
        )
