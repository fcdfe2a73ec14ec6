"""What a reload takes from a connection that is there: a frame like earlier ones is not known any more."""

from __future__ import annotations

import pytest

from config.matching import BOTH, Pattern
from config.permissions import EVERYBODY, Permission, PermissionMap
from tests.support.protocols.stomp_gateway import StompGateway

ANYBODY = frozenset({EVERYBODY})
WRITERS = frozenset({"writers"})


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content_length": "1"},
        {"AMQ_SCHEDULED_DELAY": "60000"},
        {"x": "y" * 4_000},
    ],
    ids=["plain", "with a length", "delayed", "long"],
)
@pytest.mark.parametrize("destination", ["/queue/q", "/queue/q,/topic/t"])
def test_a_send_like_the_last_ones_is_refused(destination: str, headers: dict[str, str]) -> None:
    granted = Permission(Pattern.parse(">"), BOTH, {"read": ANYBODY, "write": WRITERS, "create": ANYBODY})
    gateway = StompGateway(permissions=PermissionMap([granted]))
    peer = gateway.connect()
    peer.session.groups = WRITERS
    for _ in range(3):
        peer.send("SEND", b"x", destination=destination, receipt="1", **headers)
        assert [frame.command for frame in peer.take()] == ["RECEIPT"]
    peer.session.rights_changed()
    peer.send("SEND", b"x", destination=destination, receipt="1", **headers)
    assert [frame.command for frame in peer.take()] == ["RECEIPT"], "it is allowed still"
    peer.session.groups = frozenset()
    peer.session.rights_changed()
    peer.send("SEND", b"x", destination=destination, receipt="1", **headers)
    assert peer.error()["condition"] == "access-denied"
