"""Commands and what they may have."""

from __future__ import annotations

from protocols.stomp.codec.frames import (
    ACK,
    BODIED,
    COMMANDS,
    CONNECT,
    CONNECTED,
    ERROR,
    MESSAGE,
    NAMES,
    SEND,
    Frame,
    Head,
)


def test_commands_and_names_are_the_same_table() -> None:
    assert {NAMES[number]: number for number in NAMES} == COMMANDS
    assert sorted(NAMES) == list(range(1, 16))


def test_client_commands_come_before_server_commands() -> None:
    assert COMMANDS[b"CONNECT"] == CONNECT == 1
    assert [name for name, number in COMMANDS.items() if number >= CONNECTED] == [
        b"CONNECTED",
        b"MESSAGE",
        b"RECEIPT",
        b"ERROR",
    ]


def test_commands_with_a_body() -> None:
    assert frozenset({SEND, MESSAGE, ERROR}) == BODIED


def test_a_head_knows_whether_its_block_is_plain() -> None:
    assert Head(SEND, {}, -1, b"a:b\n").is_plain
    assert not Head(SEND, {}, -1, b"a:b\\c\n").is_plain


def test_a_frame_is_what_it_is_given() -> None:
    head = Head(ACK, {}, -1, b"")
    frame = Frame(ACK, head, b"r", b"i", b"")
    assert (frame.command, frame.head, frame.receipt, frame.id, frame.body) == (ACK, head, b"r", b"i", b"")
    assert head.mapped is None
