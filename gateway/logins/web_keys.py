"""The public keys of an issuer (JWKS), and which of them a token may be signed with.  Source: RFC 7517, RFC 7518."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.exceptions import PyJWTError

KEYS_MAX: Final = 100  # of one document
KEY_ID_MAX_CHARACTERS: Final = 255
RSA_BITS: Final = (2_048, 8_192)  # shorter ones are weak (RFC 7518, 3.3), longer ones cost too much time

PublicKey: TypeAlias = "RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey | Ed448PublicKey"

_READERS: Final[Mapping[str, Callable[[dict[str, object]], object]]] = {
    "RSA": RSAAlgorithm.from_jwk,
    "EC": ECAlgorithm.from_jwk,
    "OKP": OKPAlgorithm.from_jwk,
}
_RSA_ALGORITHMS: Final = frozenset(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"))
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
# What a document or a key may make a library raise.
_FAULTS: Final = (PyJWTError, ValueError, TypeError, LookupError, ArithmeticError)


@dataclass(frozen=True, slots=True)
class WebKey:
    """key_id: "" for none.  algorithms: for which it may be used, and no other one: its kind decides, not the token."""

    key_id: str
    algorithms: frozenset[str]
    key: PublicKey


class WebKeys:
    """The keys of one document.  Without a key id a token is checked only if a single key fits."""

    def __init__(self, keys: list[WebKey]) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key_id: str, algorithm: str) -> PublicKey | None:
        """key_id: "" for none."""
        fitting = [one for one in self._keys if algorithm in one.algorithms and (not key_id or one.key_id == key_id)]
        return fitting[0].key if len(fitting) == 1 else None

    def knows(self, key_id: str) -> bool:
        return any(one.key_id == key_id for one in self._keys)


def keys_of(document: object) -> WebKeys:
    """Return the usable keys of a JWKS; others are left out: secret ones, those for encryption, weak ones.

    Raises: ValueError if there is none.
    """
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ValueError("has no list 'keys'")
    if len(listed) > KEYS_MAX:
        raise ValueError(f"has {len(listed)} keys, the limit is {KEYS_MAX}")
    keys = [found for one in listed if isinstance(one, dict) and (found := _key(one)) is not None]
    if not keys:
        raise ValueError("has no public key that signatures can be checked with")
    return WebKeys(keys)


def _key(described: dict[str, object]) -> WebKey | None:
    key_id = described.get("kid", "")
    is_for_checks = described.get("use", "sig") == "sig" and "verify" in _texts(described.get("key_ops", ["verify"]))
    reader = _READERS.get(str(described.get("kty")))
    if reader is None or "d" in described or not is_for_checks or not isinstance(key_id, str):
        return None
    if len(key_id) > KEY_ID_MAX_CHARACTERS:
        return None
    try:
        key = reader(described)
    except _FAULTS:
        return None
    algorithms = _algorithms(key)
    if "alg" in described:
        algorithms &= frozenset((str(described["alg"]),))
    if not algorithms:
        return None
    assert isinstance(key, RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey | Ed448PublicKey)
    return WebKey(key_id, algorithms, key)


def _algorithms(key: object) -> frozenset[str]:
    """Return the algorithms of a public key's kind; none for other keys, and for weak ones."""
    if isinstance(key, RSAPublicKey):
        return _RSA_ALGORITHMS if RSA_BITS[0] <= key.key_size <= RSA_BITS[1] else frozenset()
    if isinstance(key, EllipticCurvePublicKey):
        name = _CURVES.get(key.curve.name)
        return frozenset((name,)) if name else frozenset()
    return frozenset(("EdDSA",)) if isinstance(key, Ed25519PublicKey | Ed448PublicKey) else frozenset()


def _texts(value: object) -> list[object]:
    return value if isinstance(value, list) else []
