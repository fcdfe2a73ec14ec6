"""Limits of one frame: the decoder refuses a larger one before it buffers it."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class FrameLimits:
    """Limits of one frame.  Defaults are ActiveMQ's.

    header_line_bytes: name, colon and value of one header, as on the wire, without the line end; 64 or more.
    header_count, command_bytes: 2 and 16 or more.
    """

    header_count: int = 1000
    header_line_bytes: int = 10240
    command_bytes: int = 1024
    body_bytes: int = 100 * 1024 * 1024

    def __post_init__(self) -> None:
        # With lower limits the fast paths would have to measure more.
        assert self.header_line_bytes >= 64, f"header_line_bytes is {self.header_line_bytes}, at least 64"
        assert self.header_count >= 2, f"header_count is {self.header_count}, at least 2"
        assert self.command_bytes >= 16, f"command_bytes is {self.command_bytes}, at least 16"

    def before_login(self) -> FrameLimits:
        """Return the limits before the login: RabbitMQ's 100 headers and 64 KiB, or ours if they are lower."""
        return replace(self, header_count=min(self.header_count, 100), body_bytes=min(self.body_bytes, 64 * 1024))
