"""Which keys of a document are used, and for which algorithms."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("jwt", reason="needs the extra jwt")

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from gateway.logins.web_keys import KEYS_MAX, keys_of
from tests.support.token_issuer import RSA_KEY, public_jwk

P256 = ec.generate_private_key(ec.SECP256R1())
RSA = public_jwk(RSA_KEY)
EC = public_jwk(P256)
ED = public_jwk(ed25519.Ed25519PrivateKey.generate())
RSA_ALGORITHMS = {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
EVERY = {*RSA_ALGORITHMS, "ES256", "ES384", "ES512", "EdDSA", "HS256", "HS384", "HS512", "none", ""}
OF_HMAC = {"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"}


@pytest.mark.parametrize(
    ("key", "algorithms"),
    [
        pytest.param(RSA, RSA_ALGORITHMS, id="RSA"),
        pytest.param({**RSA, "alg": "PS256"}, {"PS256"}, id="RSA for one algorithm"),
        pytest.param({**RSA, "use": "sig", "key_ops": ["verify"]}, RSA_ALGORITHMS, id="for signatures"),
        pytest.param(EC, {"ES256"}, id="P-256"),
        pytest.param(public_jwk(ec.generate_private_key(ec.SECP384R1())), {"ES384"}, id="P-384"),
        pytest.param(public_jwk(ec.generate_private_key(ec.SECP521R1())), {"ES512"}, id="P-521"),
        pytest.param(ED, {"EdDSA"}, id="Ed25519"),
    ],
)
def test_the_kind_of_a_key_decides_the_algorithms(key: dict[str, Any], algorithms: set[str]) -> None:
    keys = keys_of({"keys": [{**key, "kid": "k"}]})
    assert {algorithm for algorithm in EVERY if keys.find("k", algorithm) is not None} == algorithms
    assert all(keys.find("other", algorithm) is None for algorithm in EVERY)


UNUSABLE = [
    pytest.param(OF_HMAC, id="a secret"),
    pytest.param({**OF_HMAC, "alg": "RS256"}, id="a secret that calls itself RSA"),
    pytest.param({**RSA, "alg": "HS256"}, id="RSA for HMAC"),
    pytest.param({**RSA, "alg": "ES256"}, id="RSA for ECDSA"),
    pytest.param({**EC, "alg": "none"}, id="for none"),
    pytest.param({**RSA, "alg": None}, id="for null"),
    pytest.param({**RSA, "use": "enc"}, id="for encryption"),
    pytest.param({**RSA, "key_ops": ["encrypt"]}, id="for another operation"),
    pytest.param({**RSA, "key_ops": "verify"}, id="operations that are no list"),
    pytest.param(public_jwk(rsa.generate_private_key(65537, 1024)), id="short"),
    pytest.param(dict(RSAAlgorithm.to_jwk(RSA_KEY, as_dict=True)), id="private RSA"),
    pytest.param(dict(ECAlgorithm.to_jwk(P256, as_dict=True)), id="private EC"),
    pytest.param({**EC, "crv": "secp256k1"}, id="another curve"),
    pytest.param({**EC, "x": EC["y"]}, id="no point of the curve"),
    pytest.param({**RSA, "n": "!"}, id="no Base64"),
    pytest.param({**RSA, "n": 5}, id="a number"),
    pytest.param({"kty": "RSA"}, id="no numbers"),
    pytest.param({**RSA, "kty": ["RSA"]}, id="a list as the kind"),
    pytest.param({**RSA, "kid": 5}, id="a number as the id"),
    pytest.param({**RSA, "kid": "x" * 256}, id="a long id"),
    pytest.param("RSA", id="a text"),
]


@pytest.mark.parametrize("unusable", UNUSABLE)
def test_other_keys_are_left_out(unusable: object) -> None:
    keys = keys_of({"keys": [unusable, {**ED, "kid": "sound"}]})
    assert len(keys) == 1 and keys.knows("sound")
    with pytest.raises(ValueError, match="has no public key"):
        keys_of({"keys": [unusable]})


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "no list 'keys'"),
        ({}, "no list 'keys'"),
        ({"keys": RSA}, "no list 'keys'"),
        ({"keys": []}, "no public key"),
        ({"keys": [EC] * (KEYS_MAX + 1)}, f"{KEYS_MAX + 1} keys, the limit is {KEYS_MAX}"),
    ],
)
def test_other_documents_are_refused(document: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        keys_of(document)


def test_without_a_key_id_one_key_must_fit_alone() -> None:
    keys = keys_of({"keys": [{**RSA, "kid": "a"}, {**EC, "kid": "b"}]})
    assert keys.find("", "RS256") is not None and keys.find("", "ES256") is not None
    twice = keys_of({"keys": [{**EC, "kid": "a"}, {**public_jwk(ec.generate_private_key(ec.SECP256R1())), "kid": "b"}]})
    assert twice.find("", "ES256") is None and twice.find("a", "ES256") is not None


def test_one_id_of_two_kinds() -> None:
    keys = keys_of({"keys": [{**RSA, "kid": "a"}, {**EC, "kid": "a"}]})
    assert keys.find("a", "RS256") is not None and keys.find("a", "ES256") is not None
