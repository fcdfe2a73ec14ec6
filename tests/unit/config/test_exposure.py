"""Listeners beyond loopback: what they need, what is said of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from config.exposure import is_loopback, plain_passwords
from config.model import Endpoint, Listeners, ServerConfig, TlsConfig

OPEN = ServerConfig(
    listeners=Listeners(
        stomp=Endpoint("tcp", "0.0.0.0", 61613),
        amqp=Endpoint("tcp", "127.0.0.1", 5672),
        http=Endpoint("http", "::", 8161),
    ),
    users={"ann": ("a verifier",)},
    sources={"listeners.http": "p.yaml:7"},
)


def test_passwords_that_are_sent_unencrypted() -> None:
    assert [str(note) for note in plain_passwords(OPEN)] == [
        "default: listeners.stomp: tcp://0.0.0.0:61613 is open to the network without TLS: passwords are sent "
        "unencrypted; set tls.certificate, or put a TLS proxy in front of a loopback address",
        "p.yaml:7: listeners.http: http://[::]:8161 is open to the network without TLS: passwords are sent "
        "unencrypted; set tls.certificate, or put a TLS proxy in front of a loopback address",
    ]


def test_with_tls_and_without_passwords() -> None:
    tls = TlsConfig(certificate="c.pem")
    listeners = replace(OPEN.listeners, stomp=Endpoint("tls", "0.0.0.0", 61614))
    assert [note.element for note in plain_passwords(replace(OPEN, tls=tls, listeners=listeners))] == ["listeners.http"]
    assert [str(note) for note in plain_passwords(replace(OPEN, tls=tls))] == [
        "default: listeners.stomp: tcp://0.0.0.0:61613 is open to the network and accepts plain connections as well as "
        "TLS: clients without TLS send their passwords unencrypted; for TLS alone use tls://0.0.0.0:61613",
        "p.yaml:7: listeners.http: http://[::]:8161 is open to the network and accepts plain connections as well as "
        "TLS: clients without TLS send their passwords unencrypted; for TLS alone use https://[::]:8161",
    ]
    listeners = replace(listeners, http=Endpoint("https", "::", 8161))
    assert plain_passwords(replace(OPEN, tls=tls, listeners=listeners)) == []
    assert plain_passwords(replace(OPEN, users={})) == []
    assert plain_passwords(replace(OPEN, listeners=Listeners())) == []


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("localhost.example.com", False),
        ("", False),
    ],
)
def test_is_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
