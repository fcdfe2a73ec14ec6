"""``penstock replay``: which headers go along, and what is refused before anything is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.selector.evaluate import compile_selector
from engine.store.read.found_message import FoundMessage
from engine.values.message import AMQP_1_0, STOMP
from gateway.__main__ import main
from gateway.cli.messages.replay_source import ReplaySource
from gateway.process import exit_codes
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import UInt


def found(
    headers: bytes, is_text: bool = True, encoding: int = STOMP, body: bytes = b"body", offset: int = 8
) -> FoundMessage:
    return FoundMessage(
        f"ID:s-{offset}",
        "queue://a",
        4,
        0,
        offset,
        1,
        5,
        encoding,
        True,
        False,
        is_text,
        [],
        b"added:1\n",
        headers,
        body,
        7,
    )


def sent(*messages: FoundMessage, selector: str = "", limit: int = 0) -> tuple[ReplaySource, list[dict[str, str]]]:
    source = ReplaySource("s", compile_selector(selector) if selector else None, limit)
    return source, [headers for headers, _ in source.of(iter(messages))]


def test_a_senders_headers_go_along_but_for_those_of_the_first_sending() -> None:
    _, [headers] = sent(found(b"colour:a\\cb\ncolour:second\nexpires:5\ntransaction:t\nreceipt:r\nkeys:k\n"))
    assert headers == {
        "colour": "a:b",
        "keys": "k",
        "replayed-message-id": "ID:s-8",
        "replayed-destination": "queue://a",
        "persistent": "true",
        "priority": "7",
    }
    assert sent(found(b"", is_text=False))[1][0]["content-length"] == "4"


def test_a_selector_and_a_limit_choose() -> None:
    messages = [found(b"n:%d\n" % number, offset=8 * number) for number in range(10)]
    source, headers = sent(*messages, selector="n >= 4 AND JMSPriority = 7", limit=3)
    assert [each["n"] for each in headers] == ["4", "5", "6"]
    assert (source.found, source.not_selected, source.converted) == (3, 4, 0)
    source, headers = sent(*messages, selector="JMSMessageID = 'ID:s-16'")
    assert [each["n"] for each in headers] == ["2"]


def test_what_an_amqp_client_has_sent_goes_out_in_the_form_of_stomp() -> None:
    properties = b"\x00\x53\x74" + encode({"colour": "red", "n": UInt(3)})
    message = found(properties, encoding=AMQP_1_0, body=b"\x00\x53\x77" + encode("hello"))
    source, [headers] = sent(message, selector="colour = 'red' AND n = 3")
    assert (headers["colour"], headers["n"], headers["replayed-message-id"]) == ("red", "3", "ID:s-8")
    assert source.converted == 1
    assert [body for _, body in ReplaySource("s", None, 0).of(iter([message]))] == [b"hello"]


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (["--rate", "-1"], exit_codes.USAGE, "--rate is -1, allowed is 0 (no limit) or more"),
        (["--rate", "nan"], exit_codes.USAGE, "--rate is nan, allowed is 0 (no limit) or more"),
        (["--limit", "-1"], exit_codes.USAGE, "--limit is -1, allowed is 0 (no limit) or more"),
        (["--selector", "a ="], exit_codes.FAILED, "selector"),
        (["--from", "noon"], exit_codes.USAGE, "from is 'noon'; allowed are milliseconds"),
        (["--dry-run"], exit_codes.STORE, "is not a store"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, expected: str
) -> None:
    assert main(["replay", "a", "b", "--data", str(tmp_path), *words]) == code
    assert expected in capsys.readouterr().err
