"""CONNECT and CONNECTED: versions, heart-beats, what is echoed (STOMP 1.2, "Connecting", "Heart-beating")."""

from __future__ import annotations

import pytest

from protocols.errors import UnsupportedVersion
from protocols.stomp.codec.frames import CONNECT, Frame, Head
from protocols.stomp.codec.versions import VERSION_1_0, VERSION_1_1, VERSION_1_2
from protocols.stomp.errors import InvalidHeader
from protocols.stomp.session.handshake import Terms, connected_headers, negotiate


def negotiated(headers: dict[str, str]) -> Terms:
    terms = Terms()
    negotiate(headers, terms)
    return terms


@pytest.mark.parametrize(
    ("accepted", "version"),
    [
        (None, VERSION_1_0),
        ("1.0", VERSION_1_0),
        ("1.1", VERSION_1_1),
        ("1.2", VERSION_1_2),
        ("1.0,1.1,1.2", VERSION_1_2),
        ("1.2,1.1,1.0", VERSION_1_2),
        ("1.1, 1.0", VERSION_1_1),
        ("1.0,1.3,2.0", VERSION_1_0),
    ],
)
def test_the_highest_common_version(accepted: str | None, version: int) -> None:
    headers = {} if accepted is None else {"accept-version": accepted}
    assert negotiated(headers).version == version


@pytest.mark.parametrize("accepted", ["2.0", "", "1", "1.2.1", "v1.2"])
def test_no_common_version(accepted: str) -> None:
    with pytest.raises(UnsupportedVersion, match="supported are 1.0, 1.1, 1.2"):
        negotiated({"accept-version": accepted})


@pytest.mark.parametrize(
    ("text", "receive_ms", "send_ms"),
    [
        (None, 0, 0),
        ("0,0", 0, 0),
        ("10000,10000", 10_000, 10_000),
        ("5000,0", 5_000, 0),
        ("0,7000", 0, 7_000),
        (" 1000 , 2000 ", 1_000, 2_000),
        ("1,1", 500, 500),
        ("2147483647,2147483647", 2**31 - 1, 2**31 - 1),
    ],
)
def test_heart_beats_are_what_the_client_can_and_wants(text: str | None, receive_ms: int, send_ms: int) -> None:
    terms = negotiated({} if text is None else {"heart-beat": text})
    assert (terms.receive_ms, terms.send_ms) == (receive_ms, send_ms)


@pytest.mark.parametrize("text", ["", "10", "10,", ",10", "a,b", "-1,0", "1.5,0", "1,2,3", "2147483648,0", "٣,0"])
def test_heart_beats_that_make_no_sense(text: str) -> None:
    with pytest.raises(InvalidHeader, match="heart-beat is"):
        negotiated({"heart-beat": text})


def request(headers: dict[str, str] | None = None, receipt: bytes | None = None) -> Frame:
    return Frame(CONNECT, Head(CONNECT, headers or {}, -1, b""), receipt, None, b"")


def test_credentials_and_client_id() -> None:
    terms = negotiated({"login": "ann", "passcode": "a:b", "client-id": "c1"})
    assert (terms.login, terms.passcode, terms.client_id) == ("ann", "a:b", "c1")
    terms = negotiated({})
    assert (terms.login, terms.passcode, terms.client_id) == ("", "", "")


def test_connected_says_what_was_agreed() -> None:
    terms = negotiated({"accept-version": "1.1", "heart-beat": "5000,6000"})
    assert connected_headers(terms, "Penstock", "17", request()) == [
        ("version", "1.1"),
        ("session", "17"),
        ("server", "Penstock"),
        ("heart-beat", "6000,5000"),
    ]


@pytest.mark.parametrize(
    ("headers", "receipt", "response_id", "receipt_id"),
    [({"request-id": "r1"}, None, "r1", "r1"), ({}, b"r2", "r2", "r2"), ({"request-id": "r1"}, b"r2", "r1", "r2")],
)
def test_connected_answers_request_id_and_receipt(
    headers: dict[str, str], receipt: bytes | None, response_id: str, receipt_id: str
) -> None:
    found = dict(connected_headers(negotiated({}), "Penstock", "1", request(headers, receipt)))
    assert (found["response-id"], found["receipt-id"]) == (response_id, receipt_id)


def test_the_session_is_called_by_its_client_id() -> None:
    assert dict(connected_headers(negotiated({"client-id": "me"}), "Penstock", "1", request()))["session"] == "me"
