"""What comes in one packet with CONNECT, and is processed once the password was checked, is still its client's."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from config.matching import BOTH, Pattern
from config.permissions import Permission, PermissionMap
from engine.sources.queue import MANAGEMENT
from protocols.stomp.session.settings import SessionSettings
from tests.support.protocols.stomp_gateway import StompGateway

EVERYBODY = frozenset({"ann", "eve"})
CONNECT = b"CONNECT\naccept-version:1.2\nhost:x\nlogin:eve\npasscode:x\n\n\0"
QUESTION = b"SEND\ndestination:/topic/%b\nAMQ_SCHEDULER_ACTION:%b\nreply-to:%b\n\n\0"
SUBSCRIBE = b"SUBSCRIBE\ndestination:/queue/answers\nid:1\n\n\0"


def granted(name: str, groups: frozenset[str]) -> Permission:
    return Permission(Pattern.parse(name), BOTH, {"read": groups, "write": groups, "create": groups})


@pytest.fixture
def gateway() -> StompGateway:
    permissions = PermissionMap(
        (granted(">", frozenset({"ann"})), granted("answers", EVERYBODY), granted("ActiveMQ.>", EVERYBODY))
    )
    groups = MappingProxyType({name: frozenset({name}) for name in EVERYBODY})
    gateway = StompGateway(settings=SessionSettings(needs_login=True, groups=groups), permissions=permissions)
    ann = gateway.open()
    ann.send("CONNECT", **{"accept-version": "1.2", "host": "x", "login": "ann", "passcode": "x"})
    ann.answer_login(is_allowed=True)
    ann.take()
    ann.publish("/queue/secrets", b"secret", persistent="true", AMQ_SCHEDULED_DELAY="60000")
    assert len(gateway.schedule) == 1
    return gateway


@pytest.mark.parametrize("action", ["BROWSE", "REMOVEALL"])
@pytest.mark.parametrize("reply_to", ["/queue/answers", "/queue/forbidden"])
def test_a_question_behind_connect_reaches_what_its_client_may(
    gateway: StompGateway, action: str, reply_to: str
) -> None:
    eve = gateway.open()
    eve.send_octets(CONNECT + SUBSCRIBE + QUESTION % (MANAGEMENT.encode(), action.encode(), reply_to.encode()))
    gateway.settle()  # the turn ends before the password is checked
    eve.answer_login(is_allowed=True)
    assert [frame.command for frame in eve.take()] == ["CONNECTED"]
    assert len(gateway.schedule) == 1
    assert not gateway.has_queue("forbidden")
