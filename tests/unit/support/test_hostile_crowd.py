"""What the gateway may say to random clients: STOMP only to those whose protocol it cannot know."""

from __future__ import annotations

import random

import pytest

from tests.support.hostile.hostile_crowd import TIMED_OUT, Client, Violation
from tests.support.hostile.random_amqp import RandomAmqp
from tests.support.hostile.random_openwire import RandomOpenWire


class _TimedOut:
    """The socket of a client that the gateway gave up waiting for."""

    def fileno(self) -> int:
        return 1

    def send(self, octets: bytes | bytearray, /) -> int:
        return len(octets)

    def recv(self, size: int, /) -> bytes:
        return TIMED_OUT

    def setsockopt(self, level: int, name: int, value: bytes, /) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize(("kind", "enough"), [(RandomAmqp, 8), (RandomOpenWire, 13)])
def test_who_has_shown_a_protocol_is_told_in_that(kind: type[RandomAmqp | RandomOpenWire], enough: int) -> None:
    for count in (0, 1, enough - 1, enough):
        client = Client(kind(random.Random(1)), _TimedOut())
        client.write(count)
        client.shown = client.sent
        if count < enough:
            client.read()
            client.read()
            assert client.speaker.is_refused
            continue
        with pytest.raises(Violation, match="cannot read what came"):
            client.read()
