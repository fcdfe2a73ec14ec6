"""Passwords, verifiers and open listeners."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import hmac

import pytest

from config.errors import ConfigError
from config.model import Endpoint, Listeners, ServerConfig
from gateway.saslprep import saslprep
from gateway.security import (
    PASSCODE_MAX_CHARACTERS,
    REMEMBERED_MAX,
    Security,
    Verifier,
    hash_password,
    is_loopback,
    prepare,
)

ITERATIONS = 4096


def with_users(**passcodes: str) -> ServerConfig:
    return ServerConfig(users={name: tuple(hash_password(code, ITERATIONS)) for name, code in passcodes.items()})


def test_rfc_7677_example() -> None:
    """Section 3: the proof that the client sends and the signature that the server answers."""
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    message = (f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r={nonce}").encode()
    verifier = Verifier.create("SCRAM-SHA-256", "pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
    signature = hmac.digest(verifier.server_key, message, "sha256")
    assert base64.b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    client_key = bytes(
        left ^ right for left, right in zip(proof, hmac.digest(verifier.stored_key, message, "sha256"), strict=True)
    )
    assert hashlib.sha256(client_key).digest() == verifier.stored_key


def test_the_text_form_is_rfc_5803s() -> None:
    sha256, sha512 = hash_password("secret", ITERATIONS)
    assert sha256.startswith("SCRAM-SHA-256$4096:")
    assert sha512.startswith("SCRAM-SHA-512$4096:")
    for text in (sha256, sha512):
        assert str(Verifier.parse(text)) == text


def test_each_verifier_has_a_salt_of_its_own() -> None:
    salts = {Verifier.parse(text).salt for text in hash_password("x", ITERATIONS) + hash_password("x", ITERATIONS)}
    assert len(salts) == 4


@pytest.mark.parametrize("at", [0, 1])
def test_either_mechanism_proves_the_password(at: int) -> None:
    verifier = Verifier.parse(hash_password("secret", ITERATIONS)[at])
    assert verifier.proves("secret")
    assert not verifier.proves("Secret")
    assert not verifier.proves("")


def test_check() -> None:
    security = Security(with_users(alice="secret", bob="other"))
    assert security.is_required
    assert security.check("alice", "secret")
    assert security.check("alice", "secret")
    assert not security.check("alice", "other")
    assert security.check("bob", "other")
    assert not security.check("nobody", "secret")
    assert not security.check("", "")


def test_without_users_anything_goes() -> None:
    security = Security(ServerConfig())
    assert not security.is_required
    assert security.check("anybody", "anything")


def test_what_was_good_is_remembered_what_was_not_is_not() -> None:
    security = Security(with_users(alice="secret"))
    assert not security.remembers("alice", "secret")
    security.check("alice", "wrong")
    security.check("alice", "secret")
    assert security.remembers("alice", "secret")
    assert not security.remembers("alice", "wrong")
    assert not security.remembers("bob", "secret")


def test_what_is_remembered_is_bounded() -> None:
    security = Security(with_users(alice="secret"))
    security.check("alice", "secret")
    for at in range(REMEMBERED_MAX):
        security.remember("alice", f"as if {at} were good")
    assert security.remembers("alice", f"as if {REMEMBERED_MAX - 1} were good")
    assert not security.remembers("alice", "secret")
    assert security.check("alice", "secret")


def test_an_enormous_password_is_refused_unread() -> None:
    passcode = "x" * (PASSCODE_MAX_CHARACTERS + 1)
    assert not Security(with_users(alice=passcode)).check("alice", passcode)


def test_lone_surrogates_are_no_crash() -> None:
    security = Security(with_users(alice="secret"))
    assert not security.check("alice", "\udcff")
    assert not security.check("\udcff", "secret")


@pytest.mark.parametrize(
    ("text", "prepared"),
    [  # RFC 4013, section 3
        ("I\u00adX", "IX"),
        ("user", "user"),
        ("USER", "USER"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        ("\u0007", None),
        ("\u0627\u0031", None),
        ("\u0627\u0031\u0628", "\u0627\u0031\u0628"),
        ("a\u00a0b", "a b"),
        ("\u0627a\u0628", None),
        ("\u00ad", None),
    ],
)
def test_saslprep(text: str, prepared: str | None) -> None:
    assert saslprep(text) == prepared


def test_a_password_that_saslprep_forbids_stays_usable() -> None:
    assert prepare("\u0007") == b"\x07"
    assert prepare("p\u00e4ss") == "p\u00e4ss".encode()
    assert prepare("pa\u0308ss") == "p\u00e4ss".encode()


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


@pytest.mark.parametrize("element", ["listeners.stomp", "listeners.http"])
@pytest.mark.parametrize(
    ("sources", "place"),
    [({}, "default"), ({"listeners.stomp": "p.yaml:7", "listeners.http": "p.yaml:7"}, "p.yaml:7")],
)
def test_an_open_listener_needs_users(element: str, sources: dict[str, str], place: str) -> None:
    name = element.removeprefix("listeners.")
    listeners = dataclasses.replace(Listeners(), **{name: Endpoint("tcp", "0.0.0.0", 61613)})
    config = ServerConfig(listeners=listeners, sources=sources)
    with pytest.raises(ConfigError) as caught:
        Security(config)
    assert str(caught.value).startswith(f"{place}: {element}: tcp://0.0.0.0:61613 is open to the network")
    assert "penstock user hash" in str(caught.value)
    Security(dataclasses.replace(config, users=with_users(alice="x").users))


def test_an_open_listener_by_flag_names_the_flag() -> None:
    config = ServerConfig(listeners=Listeners(stomp=Endpoint("tcp", "::", 1)), sources={"listeners.stomp": "--stomp"})
    with pytest.raises(ConfigError, match=r"^--stomp: listeners\.stomp: tcp://\[::\]:1 is open"):
        Security(config)
