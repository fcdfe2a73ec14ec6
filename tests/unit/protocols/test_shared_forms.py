"""Forms of messages that several receivers get: each is made once, within a bound of memory."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest

from engine.values.message import OPENWIRE, PLAIN, Message
from gateway.settings.conversions import CONVERTERS
from protocols.converter import FORMS_BYTES, KNOWN_STEPS, Converter, SharedForms, stomp_copy
from protocols.map_message import Map
from protocols.openwire.mapping.contents import DEFLATED_A_STEP, INFLATED_A_STEP, text_content
from tests.support.engine.broker_view import BrokerView
from tests.support.protocols.openwire_gateway import OpenWireGateway, queue, topic

MIB = 1024 * 1024
STEPS = 7
TEXT = "x" * (MIB - 4)  # with its size the most that a small content may inflate to


class Counting(Converter):
    """Makes bodies of a size, and counts them."""

    def __init__(self, form_bytes: int = 100) -> None:
        self.form_bytes = form_bytes
        self.made = 0

    def map_of(self, message: Message) -> Map | None:
        return None

    def stomp_form(self, message: Message) -> tuple[Message, int]:
        self.made += 1
        return stomp_copy(message, b"", b"x" * self.form_bytes, 0), STEPS

    def raw_form(self, message: Message) -> Message:
        return stomp_copy(message, b"", message.body, 0)


def message(holders: int = 0, log_offset: int = -1) -> Message:
    made = Message(1, OPENWIRE, PLAIN, 4, 0, 0, 0, b"", b"", b"x")
    made.holders = holders
    made.log_offset = log_offset
    return made


@pytest.mark.parametrize(
    ("holders", "log_offset", "made"),
    [(2, 8, 1), (0, -1, 1), (1, 8, 3), (1, -1, 3), (0, 8, 3)],
    ids=["several queues", "a topic", "a queue", "a queue, not logged", "read from the log"],
)
def test_a_form_is_kept_for_the_other_receivers(holders: int, log_offset: int, made: int) -> None:
    inner = Counting()
    forms = SharedForms(inner)
    one = message(holders, log_offset)
    found = [forms.stomp_form(one) for _ in range(3)]
    assert inner.made == made
    assert [steps for _, steps in found] == [STEPS] + [KNOWN_STEPS if made == 1 else STEPS] * 2
    assert (found[0][0] is found[2][0]) is (made == 1)


@pytest.mark.parametrize(("form_bytes", "kept"), [(MIB, 7), (FORMS_BYTES, 1), (3 * MIB, 2)])
def test_the_last_forms_are_kept_within_a_bound(form_bytes: int, kept: int) -> None:
    inner = Counting(form_bytes)
    forms = SharedForms(inner)
    messages = [message() for _ in range(20)]
    for one in messages:
        forms.stomp_form(one)
    inner.made = 0
    for one in reversed(messages[20 - kept :]):
        forms.stomp_form(one)
    assert inner.made == 0
    forms.stomp_form(messages[19 - kept])
    assert inner.made == 1


def test_forgotten_forms_are_made_again() -> None:
    inner = Counting(FORMS_BYTES)
    forms = SharedForms(inner)
    one = message()
    for _ in range(2):
        forms.stomp_form(one)
        forms.forget()
    assert inner.made == 2
    assert forms.stomp_form(one)[1] == STEPS
    assert forms.stomp_form(one)[1] == KNOWN_STEPS


class Watched(Counting):
    def stomp_form(self, message: Message) -> tuple[Message, int]:
        self.made += 1
        return CONVERTERS.stomp_form(message)


def watched() -> tuple[OpenWireGateway, Watched]:
    gateway = OpenWireGateway()
    inner = Watched()
    forms = SharedForms(inner)
    gateway.settings = replace(gateway.settings, converter=forms)
    gateway.amqp_settings = replace(gateway.amqp_settings, converter=forms)
    return gateway, inner


def test_a_compressed_message_to_many_subscribers_is_inflated_once() -> None:
    gateway, inner = watched()
    stomp = [gateway.subscriber("/topic/t") for _ in range(20)]
    amqp = [gateway.amqp_session() for _ in range(20)]
    for session in amqp:
        session.attach_receiver("topic://t", credit=10)
    content = zlib.compress(text_content(TEXT))
    gateway.connect_openwire().publish(topic("t"), "", compressed=True, content=content)
    assert [len(body) for peer in stomp for body in peer.bodies()] == [len(TEXT)] * 20
    assert all(session.transfers() for session in amqp)
    assert inner.made == 1


def test_a_text_of_amqp_is_converted_once_for_all_its_stomp_subscribers() -> None:
    gateway, inner = watched()
    stomp = [gateway.subscriber("/topic/t", "auto") for _ in range(30)]
    gateway.amqp_sender("topic://t").publish("x" * 100_000)
    assert [len(body) for peer in stomp for body in peer.bodies()] == [100_000] * len(stomp)
    assert inner.made == 1


def test_what_a_message_inflates_to_counts_as_output() -> None:
    gateway, _ = watched()
    peer = gateway.subscriber("/queue/q", "auto")
    content = zlib.compress(text_content(TEXT))
    sender = gateway.connect_openwire()
    with gateway.one_turn():
        sender.send(sender.message(queue("q"), "", compressed=True, content=content))
        gateway.broker.end_turn()
        assert peer.session.outbox.size_bytes >= len(TEXT)
    assert [len(body) for body in peer.bodies()] == [len(TEXT)]


@pytest.mark.parametrize("is_broken", [True, False])
def test_inflating_costs_a_turn_its_steps(*, is_broken: bool) -> None:
    gateway, _ = watched()
    view = BrokerView(gateway.broker)
    gateway.subscriber("/queue/q")
    sender = gateway.connect_openwire()
    content = zlib.compress(text_content(TEXT))
    if is_broken:
        content = content[:-1] + bytes([content[-1] ^ 1])  # its checksum
    view.count_steps_anew()
    sender.publish(queue("q"), "", compressed=True, content=content)
    assert MIB // INFLATED_A_STEP <= view.most_steps() - len(content) // DEFLATED_A_STEP <= MIB // INFLATED_A_STEP + 500
