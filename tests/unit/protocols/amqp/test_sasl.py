"""SASL, seen from a client that is written here from the RFCs."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from protocols.amqp.sasl import Challenge, Check, Credentials, Failure, Login, Proof, ScramVerifier, Success

# The example of RFC 7677, section 3.
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def verifier(passcode: str, hash_name: str) -> ScramVerifier:
    salted = hashlib.pbkdf2_hmac(hash_name, passcode.encode(), SALT, 4096)
    stored_key = hashlib.new(hash_name, hmac.digest(salted, b"Client Key", hash_name)).digest()
    return ScramVerifier(SALT, 4096, stored_key, hmac.digest(salted, b"Server Key", hash_name))


class OneUser(Credentials):
    """user, with the password of the RFC's example."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def scram_mechanisms(self) -> tuple[str, ...]:
        return ("SCRAM-SHA-512", "SCRAM-SHA-256")

    def scram(self, mechanism: str, login: str) -> ScramVerifier:
        self.asked.append(login)
        hash_name = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
        return verifier("pencil", hash_name)

    def nonce(self) -> str:
        return SERVER_NONCE


def login(mechanism: str, identity: str = "") -> Login:
    return Login((mechanism,), OneUser(), identity)


def test_the_example_of_rfc_7677() -> None:
    attempt = login("SCRAM-SHA-256")
    assert attempt.start("SCRAM-SHA-256", CLIENT_FIRST) == Challenge(SERVER_FIRST)
    assert attempt.respond(CLIENT_FINAL) == Proof("user", True, SERVER_FINAL)


def test_scram_sha_512() -> None:
    attempt = login("SCRAM-SHA-512")
    challenge = attempt.start("SCRAM-SHA-512", b"y,,n=user,r=abc")
    assert isinstance(challenge, Challenge)
    without_proof = b"c=eSws,r=abc" + SERVER_NONCE.encode()
    message = b"n=user,r=abc," + challenge.octets + b"," + without_proof
    salted = hashlib.pbkdf2_hmac("sha512", b"pencil", SALT, 4096)
    client_key = hmac.digest(salted, b"Client Key", "sha512")
    signature = hmac.digest(hashlib.sha512(client_key).digest(), message, "sha512")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True)))
    done = attempt.respond(without_proof + b",p=" + proof)
    assert isinstance(done, Proof) and done.is_right
    server_key = hmac.digest(salted, b"Server Key", "sha512")
    assert done.octets == b"v=" + base64.b64encode(hmac.digest(server_key, message, "sha512"))


@pytest.mark.parametrize("proof", [b",p=e" + CLIENT_FINAL.partition(b",p=d")[2], b",p=!!!!", b",p=", b",p=AAAA"])
def test_a_wrong_proof_is_told_apart_for_it_is_a_guess(proof: bytes) -> None:
    attempt = login("SCRAM-SHA-256")
    attempt.start("SCRAM-SHA-256", CLIENT_FIRST)
    assert attempt.respond(CLIENT_FINAL.partition(b",p=")[0] + proof) == Proof("user", False, b"")


@pytest.mark.parametrize(
    "final",
    [CLIENT_FINAL.replace(b"c=biws", b"c=eSws"), CLIENT_FINAL.replace(b"r=rO", b"r=rP"), b"c=biws", b"", b"\xff\xfe"],
)
def test_a_wrong_final_message_fails_once_and_for_all(final: bytes) -> None:
    attempt = login("SCRAM-SHA-256")
    attempt.start("SCRAM-SHA-256", CLIENT_FIRST)
    assert isinstance(attempt.respond(final), Failure)


def test_a_proof_is_taken_once() -> None:
    attempt = login("SCRAM-SHA-256")
    attempt.start("SCRAM-SHA-256", CLIENT_FIRST)
    attempt.respond(CLIENT_FINAL.replace(b"p=d", b"p=e"))
    assert attempt.respond(CLIENT_FINAL) == Failure("SCRAM's final message without a first")


@pytest.mark.parametrize(
    "first",
    [b"", b"n,,", b"n,,n=user", b"n,,n=user,r=", b"p=tls-unique,,n=user,r=a", b"n,,m=x,n=user,r=a", b"n,,n=,r=a"]
    + [b"n,a=other,n=user,r=a", b"n,,n=us=er,r=a", b"n,,r=a,n=user", b"\xff"],
)
def test_a_wrong_first_message_fails(first: bytes) -> None:
    assert isinstance(login("SCRAM-SHA-256").start("SCRAM-SHA-256", first), Failure)


def test_a_name_is_unescaped() -> None:
    attempt = login("SCRAM-SHA-256")
    attempt.start("SCRAM-SHA-256", b"n,a=a=2Cb=3D,n=a=2Cb=3D,r=abc")
    assert isinstance(attempt.credentials, OneUser)
    assert attempt.credentials.asked == ["a,b="]


@pytest.mark.parametrize(
    ("response", "step"),
    [
        (b"\0user\0pass\xc3\xa4", Check("user", "pass\u00e4")),
        (b"user\0user\0pass", Check("user", "pass")),
        (b"\0\0", Check("", "")),
        (b"other\0user\0pass", Failure("PLAIN has another authorization identity")),
        (b"user\0pass", Failure("PLAIN with 1 NUL octets; it has 2")),
        (b"\0user\0\xff", Failure("PLAIN that is not UTF-8")),
        (b"\0" + b"x" * 16384, Failure("a response of 16385 octets; the limit is 16384")),
    ],
)
def test_plain(response: bytes, step: object) -> None:
    assert login("PLAIN").start("PLAIN", response) == step


def test_a_missing_initial_response_is_asked_for() -> None:
    attempt = login("PLAIN")
    assert attempt.start("PLAIN", None) == Challenge(b"")
    assert attempt.respond(b"\0user\0pass") == Check("user", "pass")


def test_anonymous_may_say_anything_or_nothing() -> None:
    assert login("ANONYMOUS").start("ANONYMOUS", None) == Success("")
    assert login("ANONYMOUS").start("ANONYMOUS", b"me") == Success("")


def test_external_is_who_the_certificate_names() -> None:
    assert login("EXTERNAL", "alice").start("EXTERNAL", b"") == Success("alice")
    assert login("EXTERNAL", "alice").start("EXTERNAL", b"alice") == Success("alice")
    assert isinstance(login("EXTERNAL", "alice").start("EXTERNAL", b"bob"), Failure)
    assert isinstance(login("EXTERNAL").start("EXTERNAL", b""), Failure)


def test_only_what_is_offered_is_taken() -> None:
    assert login("PLAIN").start("ANONYMOUS", b"") == Failure("mechanism 'ANONYMOUS' is not offered; offered are PLAIN")


BEARER = b"auth=Bearer eyJ.a.b"


@pytest.mark.parametrize(
    ("mechanism", "response", "expected"),
    [
        ("XOAUTH2", b"user=ann\1" + BEARER + b"\1\1", Check("ann", "eyJ.a.b")),
        ("XOAUTH2", b"user=\1" + BEARER + b"\1\1", Check("", "eyJ.a.b")),
        ("XOAUTH2", b"user=ann\1auth=bearer  eyJ.a.b\1\1", Check("ann", "eyJ.a.b")),
        ("OAUTHBEARER", b"n,,\1" + BEARER + b"\1\1", Check("", "eyJ.a.b")),
        ("OAUTHBEARER", b"n,a=ann,\1host=h\1port=1\1" + BEARER + b"\1\1", Check("ann", "eyJ.a.b", "ann")),
        ("OAUTHBEARER", b"y,a=a=2Cb=3D,\1" + BEARER + b"\1\1", Check("a,b=", "eyJ.a.b", "a,b=")),
    ],
)
def test_bearer_tokens(mechanism: str, response: bytes, expected: Check) -> None:
    assert login(mechanism).start(mechanism, response) == expected
    later = login(mechanism)
    assert later.start(mechanism, None) == Challenge(b"")
    assert later.respond(response) == expected


@pytest.mark.parametrize("mechanism", ["XOAUTH2", "OAUTHBEARER"])
@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"\1\1",
        BEARER,
        b"%b\1" + BEARER,
        b"%b\1" + BEARER + b"\1",
        b"%b\1" + BEARER + b"\1\1more",
        b"%b\1auth=Basic eyJ\1\1",
        b"%b\1" + BEARER + b"\1" + BEARER + b"\1\1",
        b"%b\1host=h\1\1",
        b"other\1" + BEARER + b"\1\1",
        b"p=tls-unique,,\1" + BEARER + b"\1\1",
        b"n,ann,\1" + BEARER + b"\1\1",
        b"n,a=,\1" + BEARER + b"\1\1",
        b"n,a=x=41,\1" + BEARER + b"\1\1",
        b"n,a=x,y\1" + BEARER + b"\1\1",
        b"\xff\1" + BEARER + b"\1\1",
        b"%b\1auth=Bearer " + b"x" * 20_000 + b"\1\1",
    ],
)
def test_bearer_responses_that_are_refused(mechanism: str, response: bytes) -> None:
    first = b"user=ann" if mechanism == "XOAUTH2" else b"n,,"
    refused = login(mechanism).start(mechanism, response.replace(b"%b", first))
    assert isinstance(refused, Failure) and b"eyJ" not in refused.reason.encode()
