"""Every condition has its text."""

from __future__ import annotations

import pytest

from engine.values.errors import InvalidDestination, PenstockError
from protocols.errors import FrameError, ProtocolError
from protocols.stomp.errors import MESSAGES, message_for


def _below(root: type[PenstockError]) -> list[type[PenstockError]]:
    return [root, *(found for child in root.__subclasses__() for found in _below(child))]


def _ours() -> list[type[PenstockError]]:
    """Not those that a test defines."""
    return [
        found
        for found in _below(PenstockError)
        if found.__module__ in ("engine.values.errors", "protocols.errors", "protocols.stomp.errors")
    ]


@pytest.mark.parametrize("error", _ours(), ids=lambda error: str(error.__name__))
def test_every_condition_has_a_text(error: type[PenstockError]) -> None:
    # Two roots that are never raised themselves leave their word to the classes below.
    assert error.condition in MESSAGES
    assert message_for(error("x")) == MESSAGES[error.condition]


def test_texts_fit_into_a_header_of_every_version() -> None:
    assert all(text.isascii() and text.isprintable() and ":" not in text for text in MESSAGES.values())
    assert all(text.strip() == text for text in MESSAGES.values())


def test_an_unknown_condition_speaks_for_itself() -> None:
    class Strange(PenstockError):
        condition = "very-strange"

    assert message_for(Strange("x")) == "very strange"


def test_a_protocol_error_ends_the_connection() -> None:
    assert ProtocolError.scope == "connection"
    assert FrameError.scope == "connection"
    assert InvalidDestination.scope == "request"
