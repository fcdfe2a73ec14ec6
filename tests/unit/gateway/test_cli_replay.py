"""``penstock replay``: which headers go along, and what is refused before anything is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.message import STOMP
from engine.store.query import FoundMessage
from gateway.__main__ import main
from gateway.cli import exit_codes
from gateway.cli.replay import headers_of


def found(headers: bytes, is_text: bool = True) -> FoundMessage:
    return FoundMessage(
        "ID:s-8", "queue://a", 4, 0, 8, 1, 5, STOMP, True, False, is_text, [], b"added:1\n", headers, b"body", 7
    )


def test_a_senders_headers_go_along_but_for_those_of_the_first_sending() -> None:
    headers = headers_of(found(b"colour:a\\cb\ncolour:second\nexpires:5\ntransaction:t\nreceipt:r\nkeys:k\n"))
    assert headers == {
        "colour": "a:b",
        "keys": "k",
        "replayed-message-id": "ID:s-8",
        "replayed-destination": "queue://a",
        "persistent": "true",
        "priority": "7",
    }
    assert headers_of(found(b"", is_text=False))["content-length"] == "4"


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (["--rate", "-1"], exit_codes.USAGE, "--rate is -1, allowed is 0 (no limit) or more"),
        (["--from", "noon"], exit_codes.USAGE, "from is 'noon'; allowed are milliseconds"),
        (["--dry-run"], exit_codes.FAILED, "is not a store"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, expected: str
) -> None:
    assert main(["replay", "a", "b", "--data", str(tmp_path), *words]) == code
    assert expected in capsys.readouterr().err
