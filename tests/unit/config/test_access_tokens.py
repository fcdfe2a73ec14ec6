"""Access tokens in configuration files."""

from __future__ import annotations

import pytest

from config.access_tokens import AccessToken, digest_of, new_token, token_line
from config.loader import merged
from config.reports.changes import changes, with_rights_of
from config.scram import hash_password
from config.sources import yaml

VERIFIERS = "".join(f"\n      - {one}" for one in hash_password("secret", 4_096))
USER = f"users:\n  ann:\n    verifiers:{VERIFIERS}\n    access-tokens:"
DIGEST = "0" * 64


def test_a_token_is_long_and_its_own() -> None:
    token = new_token()
    assert token.startswith("pst_") and len(token) == 47 and token != new_token()
    parsed = AccessToken.parse(token_line("nightly", "2027-01-31", token))
    assert parsed == AccessToken("nightly", 1_801_353_600.0, digest_of(token))
    assert AccessToken.parse(token_line("ci", "never", token)).ends_s is None


@pytest.mark.parametrize(
    ("listed", "text"),
    [
        ("pst_secret", "is not valid, allowed is a list"),
        ("[pst_secret]", "is not valid, allowed is NAME$DAY$DIGEST as 'penstock user token' writes it"),
        (f"['a$2027-02-30${DIGEST}']", "has a day that does not exist, allowed is"),
        (f"['a$never${DIGEST}', 'a$never${DIGEST}']", "a second token a"),
        ("[[x]]", "is not valid, allowed is NAME"),
    ],
)
def test_what_is_no_token_is_reported_and_not_repeated(listed: str, text: str) -> None:
    (problem,) = yaml.read("f", f"{USER} {listed}\n".encode()).problems
    assert text in str(problem) and "pst_secret" not in str(problem)


def test_a_file_that_names_a_user_again_says_all_of_it() -> None:
    first = yaml.read("a", f"{USER} ['a$never${DIGEST}']\n".encode())
    assert merged([first]).access_tokens == {"ann": (f"a$never${DIGEST}",)}
    second = yaml.read("b", f"users:\n  ann:\n    verifiers:{VERIFIERS}\n".encode())
    assert merged([first, second]).access_tokens == {}


def test_a_reload_takes_tokens_over_and_says_so() -> None:
    old = merged([yaml.read("a", f"{USER} []\n".encode())])
    new = merged([yaml.read("a", f"{USER} ['a$never${DIGEST}']\n".encode())])
    assert changes(old, new).applied == ["users.ann: other access tokens, now a"]
    assert with_rights_of(old, new).access_tokens == new.access_tokens
    assert changes(new, old).applied == ["users.ann: other access tokens, now none"]
