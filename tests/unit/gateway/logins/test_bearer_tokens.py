"""Tokens: which let somebody in, as whom, and what is wrong with the others."""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("jwt", reason="needs the extra jwt")

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from config.login_servers import JwtConfig
from gateway.logins.bearer_tokens import KEPT, TIME_MAX_S, TOKEN_MAX_CHARACTERS, BearerTokens
from gateway.logins.key_source import KeySource
from gateway.logins.web_keys import keys_of
from gateway.process.counters import GatewayCounters
from tests.support.token_issuer import AUDIENCE, ISSUER, LIFETIME_S, RSA_KEY, Issuer, part

LEEWAY_S = 30


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    found = Issuer()
    found.keys["rsa"] = RSA_KEY
    return found


def tokens_of(issuer: Issuer, clock: Callable[[], float] = time.time, **settings: Any) -> BearerTokens:
    config = JwtConfig(ISSUER, AUDIENCE, "/none", **settings)
    source = KeySource(config, GatewayCounters())
    source.keys = keys_of({"keys": issuer.documents()})
    return BearerTokens(config, source, clock)


def test_who_comes_with_a_token(issuer: Issuer) -> None:
    tokens = tokens_of(issuer)
    for key_id in ("one", "rsa"):
        text = issuer.token("ann", ["shop", "billing"], key_id)
        assert tokens.is_meant(text) and tokens.known(text) is None
        found = tokens.check(text)
        assert found is not None and found.user == "ann" and found.groups == {"shop", "billing"}
        assert found.is_external and found.ends_s is not None
        assert found.ends_s - time.time() == pytest.approx(LIFETIME_S + LEEWAY_S, abs=60)
        assert tokens.known(text) is found and tokens.refusal(text) == ""


NOW_S = 1_700_000_000

# Claims that are wrong, or that some reader could take wrongly; what is said about them.
CLAIMS: list[tuple[dict[str, Any], str]] = [
    ({"iss": "https://evil.example"}, "of another issuer"),
    ({"iss": ISSUER + "/"}, "of another issuer"),
    ({"iss": [ISSUER]}, "of another issuer"),
    ({"iss": None}, "lacks the claim iss"),
    ({"aud": "other"}, "another audience"),
    ({"aud": ["other", AUDIENCE.upper()]}, "another audience"),
    ({"aud": []}, "lacks the claim aud"),
    ({"aud": {AUDIENCE: 1}}, "another audience"),
    ({"aud": None}, "lacks the claim aud"),
    ({"exp": None}, "lacks the claim exp"),
    ({"exp": NOW_S - LEEWAY_S}, "it has expired"),
    ({"exp": 0}, "it has expired"),
    ({"exp": -1}, "claim exp is no time"),
    ({"exp": "9999999999"}, "claim exp is no time"),
    ({"exp": True}, "claim exp is no time"),
    ({"exp": [NOW_S + 9]}, "claim exp is no time"),
    ({"exp": float("nan")}, "claim exp is no time"),
    ({"nbf": NOW_S + LEEWAY_S + 1}, "not valid yet (nbf)"),
    ({"nbf": "soon"}, "claim nbf is no time"),
    ({"iat": NOW_S + LEEWAY_S + 1}, "not valid yet (iat)"),
    ({"sub": None}, "claim 'sub' names no user"),
    ({"sub": ""}, "claim 'sub' names no user"),
    ({"sub": 5}, "cannot be read"),
    ({"sub": "ann\0"}, "no name of 1 to 255 printable"),
    ({"sub": "ann\nadmin"}, "no name of 1 to 255 printable"),
    ({"sub": "ann\u202e"}, "no name of 1 to 255 printable"),
    ({"sub": "ann\ud800"}, "no name of 1 to 255 printable"),
    ({"sub": "x" * 256}, "no name of 1 to 255 printable"),
]


@pytest.mark.parametrize(("claims", "words"), CLAIMS, ids=[f"{claims}"[:60] for claims, _ in CLAIMS])
def test_wrong_claims(claims: dict[str, Any], words: str, issuer: Issuer) -> None:
    tokens = tokens_of(issuer, lambda: NOW_S)
    text = issuer.token(**{"iat": NOW_S, "exp": NOW_S + 60, **claims})
    assert tokens.check(text) is None and tokens.known(text) is None
    assert words in tokens.refusal(text)


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": ["other", AUDIENCE]},
        {"exp": NOW_S - LEEWAY_S + 1},
        {"exp": NOW_S + 0.5},
        {"nbf": NOW_S + LEEWAY_S, "iat": NOW_S + LEEWAY_S},
        {"iat": None},
        {"sub": "system:serviceaccount:shop:orders"},
        {"sub": "Änne O'Hara"},
    ],
)
def test_right_claims(claims: dict[str, Any], issuer: Issuer) -> None:
    tokens = tokens_of(issuer, lambda: NOW_S)
    found = tokens.check(issuer.token(**{"iat": NOW_S, "exp": NOW_S + 60, **claims}))
    assert found is not None and found.user == claims.get("sub", "ann")


def test_an_end_without_end(issuer: Issuer) -> None:
    tokens = tokens_of(issuer)
    for end in (10**400, 1e308, float("inf")):
        found = tokens.check(issuer.token(exp=end))
        assert found is not None and found.ends_s == TIME_MAX_S + LEEWAY_S


def forged(issuer: Issuer) -> dict[str, str]:
    """Return tokens that only somebody without the issuer's private keys would make, by what they try."""
    stranger = ec.generate_private_key(ec.SECP256R1())
    claims = issuer.claims("ann", ["ops"])
    sound = issuer.token("ann", key_id="one").split(".")
    public = RSA_KEY.public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    def by_hand(header: dict[str, Any], signature: bytes = b"") -> str:
        return ".".join((part(header), part(claims), part(signature) if signature else ""))

    def with_hmac(secret: bytes, algorithm: str = "HS256") -> str:
        signed = f"{part({'alg': algorithm, 'typ': 'JWT', 'kid': 'rsa'})}.{part(claims)}"
        return f"{signed}.{part(hmac.digest(secret, signed.encode(), 'sha256'))}"

    own = {"jwk": Issuer().documents()[0], "jku": "http://192.0.2.1/keys", "x5u": "http://192.0.2.1/", "x5c": ["x"]}
    return {
        "another key of the same id": issuer.signed(claims, {"kid": "one"}, stranger),
        "another key, which comes with it": issuer.signed(claims, {"kid": "one", **own}, stranger),
        "an unknown key, which comes with it": issuer.signed(claims, {"kid": "new", **own}, stranger),
        "a path as the key id": issuer.signed(claims, {"kid": "../../dev/null"}, stranger),
        "a URL as the key id": issuer.signed(claims, {"kid": "http://192.0.2.1/keys"}, stranger),
        "SQL as the key id": issuer.signed(claims, {"kid": "x' UNION SELECT 'secret"}, stranger),
        "NUL in the key id": issuer.signed(claims, {"kid": "one\0"}, stranger),
        "a number as the key id": by_hand({"alg": "ES256", "kid": 5}, b"x" * 64),
        "a list as the key id": by_hand({"alg": "ES256", "kid": ["one"]}, b"x" * 64),
        "no key id": issuer.signed(claims, {}, stranger),
        "none": by_hand({"alg": "none", "typ": "JWT", "kid": "one"}),
        "None": by_hand({"alg": "None", "typ": "JWT", "kid": "one"}),
        "none with a signature": by_hand({"alg": "none", "kid": "one"}, b"x" * 64),
        "no algorithm": by_hand({"typ": "JWT", "kid": "one"}, b"x" * 64),
        "an algorithm that is no text": by_hand({"alg": ["ES256"], "kid": "one"}, b"x" * 64),
        "HMAC with the public key": with_hmac(pem),
        "HMAC with the public key in DER": with_hmac(der),
        "HMAC with the JWK": with_hmac(json.dumps(issuer.documents()[1]).encode()),
        "HMAC with nothing": with_hmac(b""),
        "HMAC that calls itself RSA": with_hmac(pem, "RS256"),
        "RSA of a key for ECDSA": by_hand({"alg": "RS256", "kid": "one"}, b"x" * 256),
        "ECDSA of a key for RSA": by_hand({"alg": "ES256", "kid": "rsa"}, b"x" * 64),
        "a signature of zeros": by_hand({"alg": "ES256", "kid": "one"}, bytes(64)),
        "no signature": f"{sound[0]}.{sound[1]}.",
        "other claims": f"{sound[0]}.{part({**claims, 'sub': 'admin'})}.{sound[2]}",
        "an extension": issuer.signed(claims, {"kid": "one", "crit": ["b64"], "b64": False}, issuer.keys["one"]),
        "a token of another type": issuer.signed(claims, {"kid": "one", "typ": "logout+jwt"}, issuer.keys["one"]),
        "a deep header": f"eyJ{part(b'[' * 5000)}.{sound[1]}.{sound[2]}",
        "a large number": ".".join((part(b'{"alg":' + b"9" * 5000 + b"}"), *sound[1:])),
        "a header that is no object": ".".join((part(b'"eyJ"'), *sound[1:])),
        "no Base64": "eyJ!.eyJ!.!",
        "surrogates": "eyJ\ud800.\ud800.\ud800",
        "nothing": "eyJ..",
    }


def test_forged_tokens(issuer: Issuer) -> None:
    tokens = tokens_of(issuer, algorithms=("RS256", "ES256"))
    for tried, text in forged(issuer).items():
        assert tokens.check(text) is None, tried
        assert tokens.known(text) is None, tried
        assert tokens.refusal(text), tried
        tokens.claimed_user(text)


@pytest.mark.parametrize("payload", [[], "ann", None, 5, {"iss": {"deep": [[[]]]}}])
def test_payloads_that_are_no_claims(payload: Any, issuer: Issuer) -> None:
    tokens = tokens_of(issuer)
    text = issuer.signed(payload, {"kid": "one"}, issuer.keys["one"])
    assert tokens.check(text) is None and tokens.refusal(text) and tokens.claimed_user(text) == ""


def test_an_algorithm_that_is_not_allowed(issuer: Issuer) -> None:
    text = issuer.signed(issuer.claims(), {"kid": "rsa"}, RSA_KEY, "PS512")
    refused = tokens_of(issuer)
    assert refused.check(text) is None
    assert refused.refusal(text) == "its algorithm is none of RS256, ES256"
    assert tokens_of(issuer, algorithms=("PS512",)).check(text) is not None


def one_with(claims: dict[str, Any], issuer: Issuer) -> str:
    return issuer.token(**{"exp": NOW_S + 9, "iat": NOW_S, **claims})


def test_nothing_of_a_token_is_in_the_refusal(issuer: Issuer) -> None:
    tokens = tokens_of(issuer, lambda: NOW_S)
    secret = "Tr0ub4dor"
    for text in (
        *(one_with({name: secret}, issuer) for name in ("iss", "aud", "exp", "nbf")),
        issuer.token(secret + "\0", exp=NOW_S + 9, iat=NOW_S),
        issuer.signed(issuer.claims(), {"kid": secret}, issuer.keys["one"]),
        issuer.signed(issuer.claims(), {"kid": "one", "typ": secret}, issuer.keys["one"]),
        f"eyJ{secret}.{secret}.{secret}",
    ):
        assert tokens.check(text) is None
        assert tokens.refusal(text) and secret not in tokens.refusal(text)


def test_huge_tokens_are_not_read(issuer: Issuer) -> None:
    tokens = tokens_of(issuer)
    text = issuer.token(more="x" * TOKEN_MAX_CHARACTERS)
    assert tokens.check(text) is None and tokens.known(text) is None and tokens.refusal(text) == ""
    assert tokens.claimed_user(text) == ""
    fitting = issuer.token(more="x" * 5_000)
    assert len(fitting) < TOKEN_MAX_CHARACTERS and tokens.check(fitting) is not None


GROUPS: list[tuple[object, set[str]]] = [
    (["a", "b"], {"a", "b"}),
    ("a b", {"a", "b"}),
    ("a", {"a"}),
    ([], set()),
    (None, set()),
    ({"a": True}, set()),
    (5, set()),
    (["Domain Users"], {"Domain Users"}),
    (["*", ">", "#", "a"], {">", "#", "a"}),
    (["", "a,b", "a\nb", "a\0", "x" * 256, 5, None, ["b"], {"c": 1}, "a"], {"a"}),
]


@pytest.mark.parametrize(("claimed", "groups"), GROUPS, ids=[f"{claimed}"[:40] for claimed, _ in GROUPS])
def test_groups(claimed: object, groups: set[str], issuer: Issuer) -> None:
    found = tokens_of(issuer).check(
        issuer.signed({**issuer.claims(), "groups": claimed}, {"kid": "one"}, issuer.keys["one"])
    )
    assert found is not None and found.groups == groups


def test_names_of_claims(issuer: Issuer) -> None:
    more: dict[str, Any] = {"https://a.example/groups": ["flat"], "realm_access": {"roles": ["deep"]}, "who": "bob"}
    text = issuer.token(**more)
    for name, groups in (
        ("realm_access.roles", {"deep"}),
        ("https://a.example/groups", {"flat"}),
        ("realm_access", set()),
        ("realm_access.roles.0", set()),
        ("", set()),
    ):
        found = tokens_of(issuer, groups_claim=name, user_claim="who").check(text)
        assert found is not None and found.user == "bob" and found.groups == groups


def test_prefixes_keep_names_apart(issuer: Issuer) -> None:
    tokens = tokens_of(issuer, user_prefix="sso:", groups_prefix="sso-")
    found = tokens.check(issuer.token("admin", ["admin", "*", ""]))
    assert found is not None and found.user == "sso:admin" and found.groups == {"sso-admin"}


@pytest.mark.parametrize(
    ("claims", "is_let_in"),
    [
        ({"scope": "openid penstock.use"}, True),
        ({"scp": ["penstock.use"]}, True),
        ({"scp": "penstock.use"}, True),
        ({"scope": "penstock.use.not"}, False),
        ({"scope": ["other"]}, False),
        ({"scope": {"penstock.use": 1}}, False),
        ({}, False),
    ],
)
def test_a_scope(claims: dict[str, Any], is_let_in: bool, issuer: Issuer) -> None:
    assert (tokens_of(issuer, scope="penstock.use").check(issuer.token(**claims)) is not None) is is_let_in


def test_what_is_known_ends(issuer: Issuer) -> None:
    now = [float(NOW_S)]
    tokens = tokens_of(issuer, lambda: now[0])
    text = issuer.token(iat=NOW_S, exp=NOW_S + 60)
    assert tokens.check(text) is not None
    now[0] += 60 + LEEWAY_S - 1
    assert tokens.known(text) is not None
    now[0] += 1
    assert tokens.known(text) is None and tokens.check(text) is None


def test_other_keys_need_another_check(issuer: Issuer) -> None:
    tokens = tokens_of(issuer)
    text = issuer.token()
    assert tokens.check(text) is not None
    tokens.source.keys = keys_of({"keys": issuer.documents()})
    assert tokens.known(text) is None and tokens.check(text) is not None
    tokens.source.keys = keys_of({"keys": Issuer().documents()})
    assert tokens.known(text) is None and tokens.check(text) is None
    tokens.source.keys = None
    assert tokens.check(text) is None and "could not be read yet" in tokens.refusal(text)


def test_what_is_kept_is_bounded(issuer: Issuer) -> None:
    tokens = tokens_of(issuer)
    texts = [issuer.token(f"user{number}") for number in range(KEPT + 1)]
    assert all(tokens.check(text) is not None for text in texts)
    assert tokens.known(texts[0]) is None and tokens.known(texts[1]) is not None


def test_whom_a_token_names(issuer: Issuer) -> None:
    tokens = tokens_of(issuer)
    assert tokens.claimed_user(issuer.token("ann", iss="other")) == "ann"
    for text in ("eyJ..", "eyJ.!.!", f"eyJ.{part([])}.", f"eyJ.{part({'sub': 5})}.", "eyJ", ""):
        assert tokens.claimed_user(text) == ""


def test_what_is_meant_as_a_token() -> None:
    assert BearerTokens.is_meant(f"{part({'alg': 'x'})}.b.c")
    for text in ("", "secret", "pst_abc", "a.b.c", "eyJ.b", "eyJ.b.c.d.e"):
        assert not BearerTokens.is_meant(text)
