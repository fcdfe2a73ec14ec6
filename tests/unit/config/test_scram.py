"""SCRAM verifiers: RFC 5802, 5803, 7677, and SASLprep (RFC 4013)."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from config.saslprep import saslprep
from config.scram import Verifier, hash_password, prepare

ITERATIONS = 4096


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
