"""``penstock send`` and ``receive`` against a scripted STOMP server."""

from __future__ import annotations

import base64
import io
import json
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.cli.shared.stomp_client import (
    UNCONFIRMED_MAX,
    Event,
    Receipt,
    Received,
    Sender,
    StompClient,
    destination_header,
)
from gateway.process import exit_codes
from tests.support.process.stomp_peer import StompPeer

LIMIT_S = 60.0


def unused_url() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"tcp://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("orders", "/queue/orders"),
        ("queue://orders.eu", "/queue/orders.eu"),
        ("topic://news", "/topic/news"),
        ("/topic/news", "/topic/news"),
        ("/queue/a?consumer.prefetchSize=1", "/queue/a?consumer.prefetchSize=1"),
    ],
)
def test_destinations(text: str, header: str) -> None:
    assert destination_header(text) == header


class Quiet(StompClient):
    """Confirms a message only to somebody who waits for ever."""

    def __init__(self) -> None:
        super().__init__("tcp://127.0.0.1:1", None)

    def next_event(self, timeout_s: float | None) -> Event | None:
        return Receipt() if timeout_s is None else None

    def send(self, destination: str, body: bytes, headers: Mapping[str, str]) -> None:
        pass


def test_send_says_once_where_to_ask_why_it_waits(capsys: pytest.CaptureFixture[str]) -> None:
    sender = Sender(Quiet(), "/queue/a")
    sender.send_all([({}, b"one"), ({}, b"two")])
    assert sender.confirmed_count == 2
    said = capsys.readouterr().err
    assert said == "penstock: no confirmation for 10 s; 'penstock stat' says what producers wait for\n"


def test_send_waits_for_the_receipt(capsys: pytest.CaptureFixture[str]) -> None:
    with StompPeer() as peer:
        argv = ["send", "orders", "hi: \u00e4", "--header", "type:greeting", "--header", "x-a:b:c", "--url", peer.url]
        assert main(argv) == exit_codes.OK
        (frame,) = peer.said("SEND")
    assert frame.body == "hi: \u00e4".encode()
    assert frame.headers["destination"] == "/queue/orders"
    assert frame.headers["persistent"] == "true"
    assert frame.headers["type"] == "greeting"
    assert frame.headers["x-a"] == "b\\cc"
    assert "content-length" not in frame.headers  # which would make it a bytes message
    assert capsys.readouterr().out.startswith("sent 1 to /queue/orders in ")


def test_send_many(capsys: pytest.CaptureFixture[str]) -> None:
    count = UNCONFIRMED_MAX + 7
    with StompPeer() as peer:
        argv = ["send", "topic://t", "x", "--count", str(count), "--non-persistent", "--json", "--url", peer.url]
        assert main(argv) == exit_codes.OK
        frames = peer.said("SEND")
    assert len(frames) == len({frame.headers["receipt"] for frame in frames}) == count
    assert {frame.headers["persistent"] for frame in frames} == {"false"}
    document = json.loads(capsys.readouterr().out)
    assert (document["destination"], document["sent"]) == ("/topic/t", count)


@pytest.mark.parametrize("content", [b"a\0b", b"\xff\xfe", b"--bytes"])
def test_what_is_no_text_goes_with_its_length(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "body"
    path.write_bytes(content)
    with StompPeer() as peer:
        extra = ["--bytes"] if content == b"--bytes" else []
        assert main(["send", "q", "--file", str(path), "--url", peer.url, *extra]) == exit_codes.OK
        (frame,) = peer.said("SEND")
    assert frame.body == content
    assert frame.headers["content-length"] == str(len(content))


def test_send_takes_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"from a pipe\n")))
    with StompPeer() as peer:
        assert main(["send", "q", "--url", peer.url]) == exit_codes.OK
        (frame,) = peer.said("SEND")
    assert frame.body == b"from a pipe\n"


def test_an_error_says_how_much_was_confirmed(capsys: pytest.CaptureFixture[str]) -> None:
    with StompPeer(refuse={"SEND": "no such thing"}) as peer:
        assert main(["send", "q", "x", "--count", "3", "--url", peer.url]) == exit_codes.FAILED
    assert capsys.readouterr().err == "penstock: no such thing: details (0 of 3 confirmed)\n"


@pytest.mark.parametrize("command", [["send", "q", "x"], ["receive", "q"]])
def test_nobody_there(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    url = unused_url()
    assert main([*command, "--url", url]) == exit_codes.UNREACHABLE
    assert capsys.readouterr().err == f"penstock: cannot reach {url}: Connection refused\n"


@pytest.mark.parametrize("command", [["send", "q", "x"], ["receive", "q"]])
def test_a_refused_login(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_PASSWORD", "pass:word")
    with StompPeer(refuse={"STOMP": "wrong password"}) as peer:
        assert main([*command, "--user", "alice", "--url", peer.url]) == exit_codes.UNREACHABLE
        (frame,) = peer.said("STOMP")
    assert (frame.headers["login"], frame.headers["passcode"]) == ("alice", "pass:word")
    assert "refused: wrong password" in capsys.readouterr().err


def test_a_user_needs_a_password(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_PASSWORD", raising=False)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert main(["receive", "q", "--user", "alice"]) == exit_codes.USAGE
    assert "PENSTOCK_PASSWORD" in capsys.readouterr().err


@pytest.mark.parametrize(("hang_up_at", "command"), [("SEND", ["send", "q", "x"]), ("SUBSCRIBE", ["receive", "q"])])
def test_a_lost_connection(hang_up_at: str, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with StompPeer(hang_up_at=hang_up_at) as peer:
        assert main([*command, "--url", peer.url]) == exit_codes.UNREACHABLE
    assert "lost the connection" in capsys.readouterr().err


@pytest.fixture
def wait_for_messages(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """A function that lets the command's silence begin after so many messages, however slowly they come."""

    def wait_for(count: int) -> None:
        class Patient(StompClient):
            left = count

            def next_event(self, timeout_s: float | None) -> Event | None:
                event = super().next_event(LIMIT_S if self.left else timeout_s)
                self.left -= isinstance(event, Received)
                return event

        monkeypatch.setattr("gateway.cli.shared.stomp_client.StompClient", Patient)

    return wait_for


def test_receive_prints_and_acknowledges(
    capsysbinary: pytest.CaptureFixture[bytes], wait_for_messages: Callable[[int], None]
) -> None:
    wait_for_messages(2)
    with StompPeer(messages=[({}, b"one"), ({}, b"\xff\0two")]) as peer:
        assert main(["receive", "orders", "--timeout", "0.01", "--url", peer.url]) == exit_codes.OK
        (subscribe,) = peer.said("SUBSCRIBE")
        acks = peer.said("ACK")
    assert capsysbinary.readouterr().out == b"one\n\xff\0two\n"
    assert subscribe.headers["destination"] == "/queue/orders"
    assert subscribe.headers["ack"] == "client-individual"
    assert subscribe.headers["activemq.prefetchSize"] == "1000"
    assert [frame.headers["id"] for frame in acks] == ["a0", "a1"]


def test_receive_takes_no_more_than_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with StompPeer(messages=[({}, b"1"), ({}, b"2"), ({}, b"3")]) as peer:
        assert main(["receive", "q", "--count", "2", "--ack", "client", "--url", peer.url]) == exit_codes.OK
        (subscribe,) = peer.said("SUBSCRIBE")
        acks = peer.said("ACK")
    assert capsys.readouterr().out == "1\n2\n"
    assert (subscribe.headers["activemq.prefetchSize"], subscribe.headers["ack"]) == ("2", "client")
    assert [frame.headers["id"] for frame in acks] == ["a0", "a1"]


def test_receive_says_when_too_few_came(
    capsys: pytest.CaptureFixture[str], wait_for_messages: Callable[[int], None]
) -> None:
    wait_for_messages(1)
    with StompPeer(messages=[({}, b"1")]) as peer:
        argv = ["receive", "q", "--count", "2", "--timeout", "0.01", "--prefetch", "5", "--url", peer.url]
        assert main(argv) == exit_codes.INCOMPLETE
        (subscribe,) = peer.said("SUBSCRIBE")
    assert subscribe.headers["activemq.prefetchSize"] == "5"
    assert capsys.readouterr().err == "penstock: 1 of 2 messages came\n"


def test_receive_in_auto_mode_acknowledges_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with StompPeer(messages=[({}, b"1")]) as peer:
        assert main(["receive", "q", "--count", "1", "--ack", "auto", "--url", peer.url]) == exit_codes.OK
        assert peer.said("ACK") == []


def test_receive_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with StompPeer(messages=[({"type": "t"}, b"text"), ({}, b"\xff")]) as peer:
        assert main(["receive", "topic://n", "--count", "2", "--json", "--url", peer.url]) == exit_codes.OK
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (first["destination"], first["message_id"], first["body"]) == ("/topic/n", "m0", "text")
    assert first["headers"]["type"] == "t"
    assert base64.b64decode(second["body_base64"]) == b"\xff"
    assert "body" not in second


def test_receive_reports_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with StompPeer(refuse={"SUBSCRIBE": "invalid selector"}) as peer:
        assert main(["receive", "q", "--follow", "--url", peer.url]) == exit_codes.FAILED
    assert capsys.readouterr().err == "penstock: invalid selector: details\n"


def test_a_url_with_options_asks_for_them(capsys: pytest.CaptureFixture[str]) -> None:
    with StompPeer(messages=[({}, b"1")]) as peer:
        url = f"failover:({peer.url})?randomize=false&jms.prefetchPolicy.all=7&jms.clientID=c&jms.useAsyncSend=true"
        assert main(["receive", "q", "--count", "1", "--url", url]) == exit_codes.OK
        (subscribe,) = peer.said("SUBSCRIBE")
        (connect,) = peer.said("STOMP") or peer.said("CONNECT")
    assert subscribe.headers["activemq.prefetchSize"] == "7"
    assert connect.headers["client-id"] == "c"
    assert "jms.useAsyncSend has no effect" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["http://h:1", "tcp://h:1?jms.x=1", "failover:()"])
def test_a_url_that_leads_nowhere(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["receive", "q", "--url", url]) == exit_codes.USAGE
    assert f"penstock: --url is {url!r}, allowed is tcp://HOST:PORT" in capsys.readouterr().err
