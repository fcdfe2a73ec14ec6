"""Time limits of a connection: keep-alives both ways, a limit for ConnectionInfo and for every frame."""

from __future__ import annotations

from typing import Final

from protocols.openwire.connection.negotiation import Terms
from protocols.openwire.connection.settings import OpenWireSettings
from protocols.peer_times import PeerTimes

SENDS: Final = 3  # keep-alives in the agreed time
GRACE: Final = 2  # times the agreed time: clients look only once in that time


class Inactivity(PeerTimes):
    """Any octet counts as life."""

    __slots__ = ("terms",)

    def __init__(self, settings: OpenWireSettings, terms: Terms, now_ms: int) -> None:
        super().__init__(now_ms, "ConnectionInfo", settings.connect_time_ms, settings.frame_time_ms)
        self.terms = terms

    def silence(self, silent_ms: int) -> str:
        agreed_ms = self.terms.inactivity_ms
        if 0 < GRACE * agreed_ms < silent_ms:
            return f"nothing came for {silent_ms} ms; {agreed_ms} ms were agreed, {GRACE * agreed_ms} ms are allowed"
        return ""

    def must_send(self, now_ms: int) -> bool:
        interval_ms = self.terms.inactivity_ms // SENDS
        return interval_ms > 0 and now_ms - self.sent_ms >= interval_ms

    def open_interval_ms(self, now_ms: int) -> int:
        interval_ms = self.terms.inactivity_ms // SENDS
        return self.until_due_ms(self.sent_ms + interval_ms, interval_ms, now_ms)
