"""Time limits of a connection: heartbeats both ways, a limit for open and for every frame (transport 2.4.5)."""

from __future__ import annotations

from typing import Final

from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.errors import NotAllowed
from protocols.peer_times import PeerTimes

IDLE_TIME_OUT_LEAST_MS: Final = 200  # a peer that asks for less is refused


class IdleTimes(PeerTimes):
    """send_every_ms: the interval that the peer asks for, 0 for none."""

    __slots__ = ("idle_time_ms", "send_every_ms")

    def __init__(self, settings: AmqpSettings, now_ms: int) -> None:
        super().__init__(now_ms, "open", settings.connect_time_ms, settings.frame_time_ms)
        self.idle_time_ms = settings.idle_time_ms
        self.send_every_ms = 0

    def agree(self, idle_time_out_ms: int | None) -> None:
        """Take the idle-time-out of the peer's open.  Raises: NotAllowed if it cannot be kept (transport 2.4.5)."""
        if idle_time_out_ms:
            if idle_time_out_ms < IDLE_TIME_OUT_LEAST_MS:
                raise NotAllowed(
                    f"idle-time-out is {idle_time_out_ms} ms; allowed is 0 (none), {IDLE_TIME_OUT_LEAST_MS} and above"
                )
            self.send_every_ms = idle_time_out_ms

    def silence(self, silent_ms: int) -> str:
        if 0 < self.idle_time_ms < silent_ms:
            return f"no frame came for {silent_ms} ms (local-idle-timeout expired)"
        return ""

    def must_send(self, now_ms: int) -> bool:
        return self.send_every_ms > 0 and now_ms - self.sent_ms >= self.send_every_ms // 2

    def open_interval_ms(self, now_ms: int) -> int:
        every_ms = self.send_every_ms
        return self.until_due_ms(self.sent_ms + every_ms // 2, every_ms, now_ms)
