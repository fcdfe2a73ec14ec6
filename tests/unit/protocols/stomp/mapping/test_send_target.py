"""Heads of SEND: what they ask for."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from engine.features.scheduler.delayed_send import Delayed
from engine.features.scheduler.plan import Plan
from engine.values.errors import InvalidDestination, InvalidOption
from engine.values.message import KEYED, PERSISTENT, PLAIN, TEXT
from protocols.stomp.codec.decoder import Decoder
from protocols.stomp.codec.frames import Frame, Head
from protocols.stomp.codec.versions import VERSION_1_2
from protocols.stomp.errors import InvalidHeader
from protocols.stomp.mapping.destination_resolver import DestinationResolver
from protocols.stomp.mapping.send_target import SCHEDULED_KEPT, SendTarget, send_target
from tests.support.engine.engine_world import EngineWorld


def head(headers: str) -> Head:
    """Return the head of a SEND with these lines."""
    decoder = Decoder()
    decoder.version = VERSION_1_2
    decoder.receive_data(f"SEND\n{headers.rstrip()}\n\n\0".encode())
    frame = decoder.next_frame()
    assert isinstance(frame, Frame)
    return frame.head


def resolver(world: EngineWorld | None = None) -> DestinationResolver:
    world = world or EngineWorld()
    return DestinationResolver(world.broker, world.client())


def sent(headers: str, *, default_persistent: bool = False) -> SendTarget:
    """Return what a SEND with these lines asks for."""
    return send_target(head(headers), resolver(), default_persistent)


def test_the_defaults_of_a_send() -> None:
    target = sent("destination:/queue/a\n")
    assert target.destination.uri() == "queue://a"
    assert (target.flags, target.priority, target.expires_ms) == (PLAIN | TEXT, 4, 0)
    assert (target.tag_hash, target.group_hash, target.transaction, target.block) == (0, 0, None, b"")
    assert not target.is_persistent


def test_everything_that_a_send_may_say() -> None:
    target = sent(
        "destination:/topic/a\npersistent:true\npriority:9\nexpires:1700000000001\ntype:order\nJMSXGroupID:g\n"
        "transaction:t\ncorrelation-id:c\nreply-to:/queue/r\ncolour:red\n"
    )
    assert target.destination.uri() == "topic://a"
    assert target.is_persistent
    assert (target.flags, target.priority, target.expires_ms) == (
        PLAIN | TEXT | PERSISTENT | KEYED,
        9,
        1_700_000_000_001,
    )
    assert (target.tag_hash, target.group_hash) == (crc32c(b"order"), crc32c(b"g"))
    assert target.transaction == "t"
    assert target.block == b"type:order\nJMSXGroupID:g\ncorrelation-id:c\nreply-to:/queue/r\ncolour:red\n"


@pytest.mark.parametrize("text", ["true", "True", "TRUE", "1", "yes"])
def test_persistent_as_clients_write_it(text: str) -> None:
    assert sent(f"destination:q\npersistent:{text}\n").is_persistent


@pytest.mark.parametrize("text", ["false", "False", "0", "no", ""])
def test_not_persistent_stands_above_the_listener_s_default(text: str) -> None:
    assert not sent(f"destination:q\npersistent:{text}\n", default_persistent=True).is_persistent


def test_the_listener_may_make_persistent_the_default() -> None:
    assert sent("destination:q\n", default_persistent=True).is_persistent


@pytest.mark.parametrize(
    ("headers", "is_text"),
    [
        ("", True),
        ("content-length:0\n", False),
        ("amq-msg-type:text\ncontent-length:0\n", True),
        ("amq-msg-type: Bytes \n", False),
    ],
)
def test_text_or_bytes(headers: str, is_text: bool) -> None:
    assert bool(sent("destination:q\n" + headers).flags & TEXT) == is_text


@pytest.mark.parametrize(
    ("headers", "seen"),
    [
        ("priority:10\n", "priority is '10'; allowed is a whole number from 0 to 9"),
        ("priority:-1\n", "priority is '-1'"),
        ("priority:high\n", "priority is 'high'"),
        ("expires:soon\n", "expires is 'soon'"),
        ("expires:99999999999999999999\n", "expires is '99999999999999999999'"),
        ("persistent:maybe\n", "persistent is 'maybe'; allowed are true and false"),
        ("amq-msg-type:map\n", "amq-msg-type is 'map'; allowed are text and bytes"),
    ],
)
def test_values_that_make_no_sense(headers: str, seen: str) -> None:
    with pytest.raises(InvalidOption, match=seen):
        sent("destination:q\n" + headers)


def test_a_send_without_destination() -> None:
    with pytest.raises(InvalidHeader, match="SEND needs a header destination"):
        sent("colour:red\n")


@pytest.mark.parametrize("name", ["/queue/", "/topic/", "", "/queue/a.>"])
def test_what_names_no_destination(name: str) -> None:
    with pytest.raises(InvalidDestination):
        sent(f"destination:{name}\n")


def test_a_client_s_timestamp_is_kept() -> None:
    target = sent("destination:q\ntimestamp:1234\n")
    assert target.block == b"timestamp:1234\n"
    assert target.flags & PLAIN


def test_a_timestamp_with_an_escape_makes_the_head_one_with_escapes() -> None:
    target = sent("destination:q\ntimestamp:12\\c34\n")
    assert target.block == b"timestamp:12\\c34\n"
    assert not target.flags & PLAIN


def test_what_only_a_broker_can_know_is_not_taken_from_a_client() -> None:
    forged = "message-id:mine\nredelivered:true\nsubscription:x\nack:9\nJMSXUserID:root\nJMSXDeliveryCount:7\n"
    assert sent("destination:q\n" + forged + "original-destination:/queue/x\n").block == b""


def test_a_send_that_is_wrong_makes_no_destination() -> None:
    for line in ("priority:x", "expires:x", "persistent:maybe", "amq-msg-type:map"):
        world = EngineWorld()
        with pytest.raises(InvalidOption):
            send_target(head("destination:/queue/new\n" + line), resolver(world), default_persistent=False)
        assert world.queue_names() == [], line


@pytest.mark.parametrize(
    ("headers", "is_text"),
    [
        ("transformation:jms-byte\n", False),
        ("transformation:jms-map-json\n", True),
        ("transformation:jms-map-json\ncontent-length:0\n", False),
        ("transformation:jms-byte\namq-msg-type:text\n", True),
    ],
)
def test_a_transformation_says_what_the_body_is(headers: str, is_text: bool) -> None:
    target = send_target(head("destination:q\n" + headers), resolver(), False, body=b'{"map":""}')
    assert bool(target.flags & TEXT) == is_text
    assert target.block.startswith(b"transformation:jms-") and target.block.count(b"\n") == 1


def test_a_transformation_that_is_not_done_is_told_and_the_body_passed_on() -> None:
    target = sent("destination:q\ntransformation:jms-object-json\ntransformation-error:forged\n")
    assert target.block == (
        b"transformation:jms-object-json\n"
        b"transformation-error:jms-object-json needs Java; allowed are jms-map-json, jms-map-xml and jms-byte\n"
    )
    assert target.flags == TEXT | PLAIN


def test_a_later_delivery_is_part_of_the_target_and_not_of_what_is_delivered() -> None:
    target = sent("destination:q\nx:1\nAMQ_SCHEDULED_DELAY:5\nAMQ_SCHEDULED_REPEAT: 2\nAMQ_SCHEDULED_PERIOD:700\ny:2\n")
    assert isinstance(target.destination, Delayed)
    assert target.destination.plan == Plan(delay_ms=5, period_ms=700, repeat=2)
    assert target.block == b"x:1\ny:2\n"
    assert target.is_persistent  # its receipt waits for the disk whatever its delivery mode
    assert not target.flags & PERSISTENT


def test_rabbitmq_s_expiration_counts_from_now_and_is_not_kept_for_the_next_send() -> None:
    world = EngineWorld()
    one = head("destination:q\nexpiration:5000\n")
    target = send_target(one, resolver(world), default_persistent=False)
    assert target.expires_ms == world.broker.wall_ms + 5_000
    assert one.mapped is None
    both = send_target(head("destination:q\nexpiration:5000\nexpires:7\n"), resolver(world), default_persistent=False)
    assert both.expires_ms == 7


def test_what_all_sends_with_a_head_have_in_common_is_kept() -> None:
    one = head("destination:q\n")
    target = send_target(one, resolver(), default_persistent=False)
    assert one.mapped is target


@pytest.mark.parametrize(("line", "is_keyed"), [("correlation-id:1", True), ("keys:a b", True), ("x-keys:a", False)])
def test_messages_with_keys_are_flagged_for_the_index(line: str, is_keyed: bool) -> None:
    assert bool(sent(f"destination:/queue/a\n{line}\n").flags & KEYED) == is_keyed


def test_heads_that_differ_in_their_times_share_the_rest_and_nothing_else() -> None:
    world = EngineWorld()
    shared = resolver(world)
    due_ms = world.broker.wall_ms + 1_000
    rests = (
        "",
        "content-length:0\n",
        "persistent:true\n",
        "priority:9\ntype:t\nJMSXGroupID:g\n",
        "colour:red\n",
        "colour:blue\\n\n",
        "keys:k\ntransaction:t\n",
        "expires:1700000009000\n",
        "expiration:5\n",
        "reply-to:/temp-queue/r\n",
    )
    fields = ("flags", "priority", "expires_ms", "tag_hash", "group_hash", "transaction", "is_persistent")
    for time_ms in (due_ms, due_ms + 7):
        for rest in rests:
            lines = f"destination:/queue/a\nAMQ_SCHEDULED_TIME:{time_ms}\n{rest}"
            found, alone = send_target(head(lines), shared, False), sent(lines)
            assert [getattr(found, name) for name in fields] == [getattr(alone, name) for name in fields], rest
            assert isinstance(found.destination, Delayed)
            assert found.destination.plan == Plan(time_ms=time_ms, renews_expiry=False)
            assert found.destination.parts == [world.queue_there("a")]
            assert b"AMQ_SCHEDULED" not in found.block
            assert found.block == alone.block or "temp-queue" in rest
    assert len(shared.scheduled) == len(rests) - 1  # the time of an expiration is another one for each
    for number in range(200):
        send_target(head(f"destination:/queue/a\nAMQ_SCHEDULED_DELAY:5\nn:{number}\n"), shared, False)
    assert len(shared.scheduled) <= SCHEDULED_KEPT
