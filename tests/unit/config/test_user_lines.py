"""Users edited in the text of a file: the rest of it stays, and a text that cannot be edited so is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.errors import ConfigError
from config.scram import hash_password
from config.sources import yaml
from config.sources.user_lines import UserFile

OLD = hash_password("old", 4_096)
NEW = hash_password("new", 4_096)
LISTED = "".join(f"\n      - {one}" for one in OLD)
TWO = f"""# ours
users:   # everybody
  ann:
    # the boss
    verifiers:{LISTED}
    groups: [a, b]  # both

  "b c":
    groups: a
    verifiers:{LISTED}
# the store
data: /tmp/x
"""


def users(text: str) -> dict[str, tuple[str, ...]]:
    document = yaml.read("f", text.encode())
    assert document.problems == []
    return document.users


@pytest.mark.parametrize("text", ["", "# nothing\n", "data: x", "users: {}\ndata: x\n", TWO])
def test_a_user_is_added(text: str) -> None:
    known = users(text)
    changed = UserFile("f", text).with_user("zoe", NEW, ["ops", "a"])
    assert users(changed) == {**known, "zoe": tuple(NEW)}
    assert yaml.read("f", changed.encode()).groups["zoe"] == {"ops", "a"}
    lines = iter(changed.splitlines())
    assert all(line in lines for line in text.splitlines() if line != "users: {}")


def test_a_password_is_changed_and_nothing_else() -> None:
    changed = UserFile("f", TWO).with_verifiers("ann", NEW)
    assert changed == TWO.replace(LISTED, "".join(f"\n      - {one}" for one in NEW), 1)
    assert users(UserFile("f", TWO).with_verifiers("b c", NEW))["b c"] == tuple(NEW)


def test_a_user_is_removed_with_its_groups() -> None:
    changed = UserFile("f", TWO).without_user("b c")
    assert changed == TWO.replace(f'  "b c":\n    groups: a\n    verifiers:{LISTED}\n', "")
    assert yaml.read("f", changed.encode()).groups == {"ann": {"a", "b"}}


@pytest.mark.parametrize(
    "text",
    [
        f"users: {{ann: {{verifiers: ['{OLD[0]}']}}, bob: {{verifiers: ['{OLD[0]}']}}}}\n",
        f"users: &all\n  ann:\n    verifiers: &v\n      - {OLD[0]}\n  bob: {{verifiers: *v}}\n",
        f"{{users: {{ann: {{verifiers: ['{OLD[0]}']}}}}, data: x}}\n",
    ],
    ids=["flow", "alias", "all in one line"],
)
def test_a_text_that_cannot_be_edited_by_line_is_refused(text: str) -> None:
    file = UserFile("f", text)
    with pytest.raises(ConfigError, match="f: users: are not written line by line"):
        file.without_user("ann")
    with pytest.raises(ConfigError, match="f: users: are not written line by line"):
        file.with_verifiers("ann", NEW)


def test_a_file_with_errors_is_refused() -> None:
    with pytest.raises(ConfigError, match="f:1: dat: "):
        UserFile("f", "dat: x\n")


NAMES = st.one_of(
    st.sampled_from(
        ["true", "null", "~", "1", "0x1", "a:b"[::-1].replace(":", "#"), "- a", "'", '"', "a b", "&a", "*a"]
    ),
    st.text(
        st.characters(codec="utf-8", exclude_categories=("C", "Z"), exclude_characters=":"), min_size=1, max_size=20
    ),
)


@given(names=st.lists(NAMES, min_size=1, max_size=4, unique=True))
def test_any_name_can_be_added_and_removed(names: list[str]) -> None:
    text = TWO
    for name in names:
        text = UserFile("f", text).with_user(name, NEW, [name.replace(",", "")] if name.strip(",") else [])
    assert set(users(text)) == {"ann", "b c", *names}
    for name in names:
        text = UserFile("f", text).without_user(name)
    assert text == TWO


TOKENS = [f"nightly$never${'0' * 64}", f"ci$2027-01-31${'a' * 64}"]


def test_access_tokens_are_added_changed_and_removed() -> None:
    first = UserFile("f", TWO).with_access_tokens("ann", TOKENS[:1])
    assert first == TWO.replace(LISTED, f"{LISTED}\n    access-tokens:\n      - {TOKENS[0]}", 1)
    both = UserFile("f", first).with_access_tokens("ann", TOKENS)
    assert UserFile("f", both).access_tokens_of("ann") == tuple(TOKENS)
    assert UserFile("f", both).with_access_tokens("ann", []) == TWO
    assert UserFile("f", UserFile("f", both).without_user("ann")).names == ["b c"]
    assert UserFile("f", UserFile("f", both).with_verifiers("ann", NEW)).access_tokens_of("ann") == tuple(TOKENS)
