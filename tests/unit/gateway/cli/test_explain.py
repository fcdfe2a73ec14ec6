"""``penstock explain`` of what a running gateway says."""

from __future__ import annotations

import json

import pytest

from gateway.__main__ import main
from gateway.process import exit_codes
from tests.support.answering import answering


def test_what_clients_ask_for_adds_no_lines_and_gives_the_terminal_no_orders(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = {
        "what": "queue://q for connection 1: c\n  may write: *",
        "settings": {},
        "permissions": {"read": ["all"]},
        "left_out": ["a\x1b[2J"],
        "asked": ["a client\r\n\u202e"],
    }
    with answering(200, json.dumps(document).encode()) as url:
        assert main(["explain", "q", "--connection", "1", "--http", url]) == exit_codes.OK
    assert capsys.readouterr().out.splitlines() == [
        "queue://q for connection 1: c\\n  may write: *",
        "  may read: all",
        "  not applied: a\\x1b[2J",
        "  connection: a client\\r\\n\\u202e",
    ]
