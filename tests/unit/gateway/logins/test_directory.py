"""A directory as the judge of passwords: its answers come from the library's own mock."""

from __future__ import annotations

import dataclasses
import socket
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    pytest.importorskip("ldap3", reason="needs the extra ldap")

import ldap3

from config.login_servers import LdapConfig
from gateway.logins.directory import GROUPS_MAX, KEPT, PASSCODE_MAX_CHARACTERS, STEPS_MOST, Directory
from gateway.logins.metered_socket import OCTETS_MAX

LIMIT_S = 60.0
PEOPLE, GROUPS = "ou=people,dc=shop", "ou=groups,dc=shop"
BINDER = "cn=gateway,dc=shop"
TEMPLATE = LdapConfig("ldap://localhost", user_dn=f"uid={{user}},{PEOPLE}", member_of="memberOf")


def server(*more: tuple[str, dict[str, Any]]) -> Any:
    """Return a directory with ann, bob and two groups."""
    found = ldap3.Server("fake", get_info=ldap3.NONE)
    entries = {
        BINDER: {"objectClass": "device", "userPassword": "binder"},
        f"uid=ann,{PEOPLE}": {
            **{"objectClass": "person", "uid": "ann", "userPassword": "secret", "mail": "ann@shop"},
            "memberOf": [f"cn=billing,{GROUPS}", f"cn=ops,{GROUPS}", "cn=ops2,ou=elsewhere,dc=shop"],
        },
        f"uid=bob,{PEOPLE}": {"objectClass": "person", "uid": "bob", "userPassword": "other"},
        f"cn=audit,{GROUPS}": {"objectClass": "group", "cn": "audit", "member": [f"uid=ann,{PEOPLE}"]},
        f"cn=sales,{GROUPS}": {"objectClass": "group", "cn": "sales", "member": [f"uid=bob,{PEOPLE}"]},
        **dict(more),
    }
    filling = ldap3.Connection(found, client_strategy=ldap3.MOCK_SYNC)
    for dn, attributes in entries.items():
        filling.strategy.add_entry(dn, attributes)
    return found


def directory(config: LdapConfig = TEMPLATE, at: Any = None, **more: Any) -> Directory:
    return Directory(config, server() if at is None else at, ldap3.MOCK_SYNC, **more)


@pytest.fixture
def searching(tmp_path: Path) -> LdapConfig:
    password = tmp_path / "password"
    password.write_text("binder\n")
    return LdapConfig(
        "ldap://localhost",
        user_base=PEOPLE,
        bind_dn=BINDER,
        bind_password_file=str(password),
        group_base=GROUPS,
        group_filter="(member={dn})",
    )


def test_a_name_by_a_template() -> None:
    found = directory().check("ann", "secret")
    assert found is not None and found.is_external and found.ends_s is None
    assert found.user == "ann" and found.groups == {"billing", "ops", "ops2"}
    assert directory().check("ann", "other") is None
    assert directory().check("nobody", "secret") is None


def test_a_name_by_a_search(searching: LdapConfig) -> None:
    found = directory(searching).check("ann", "secret")
    assert found is not None and found.user == "ann" and found.groups == {"audit"}
    assert directory(searching).check("ann", "binder") is None
    assert directory(searching).check("nobody", "secret") is None
    twice = server(("uid=ann,ou=more," + PEOPLE, {"objectClass": "person", "uid": "ann", "userPassword": "secret"}))
    assert directory(searching, twice).check("ann", "secret") is None, "it is not clear who that is"


def test_a_search_by_another_attribute(searching: LdapConfig) -> None:
    by_mail = dataclasses.replace(searching, user_filter="(mail={user})", user_name="mail")
    found = directory(by_mail).check("ann@shop", "secret")
    assert found is not None and found.user == "ann@shop" and found.groups == {"audit"}


def test_groups_below_a_base_and_with_a_prefix() -> None:
    config = dataclasses.replace(TEMPLATE, group_base="OU=Groups, dc=shop", groups_prefix="ldap-")
    found = directory(config).check("ann", "secret")
    assert found is not None and found.groups == {"ldap-billing", "ldap-ops"}


def test_users_with_a_prefix(searching: LdapConfig) -> None:
    """The directory knows nothing of it: it is in no question."""
    config = dataclasses.replace(searching, user_prefix="ldap:", group_filter="(|(member={dn})(cn={user}))")
    at = server((f"cn=ann,{GROUPS}", {"objectClass": "group", "cn": "ann", "member": ["cn=nobody"]}))
    found = directory(config, at).check("ANN", "secret")
    assert found is not None and found.user == "ldap:ann" and found.groups == {"audit", "ann"}
    assert directory(config, at).check("ldap:ann", "secret") is None
    assert directory(dataclasses.replace(config, user_prefix="x" * 253), at).check("ann", "secret") is None, "too long"


@pytest.mark.parametrize("name", ["*", "a,b", "", "x" * 256, "a\nb"])
def test_groups_that_have_no_name(name: str) -> None:
    member_of = [f"cn={name},{GROUPS}", "no name", "", f"cn=sound,{GROUPS}"]
    entry = {"objectClass": "person", "uid": "eve", "userPassword": "secret", "memberOf": member_of}
    found = directory(at=server((f"uid=eve,{PEOPLE}", entry))).check("eve", "secret")
    assert found is not None and found.groups <= {"sound", "x" * 255, "a"}
    assert not found.groups & {"*", "a,b", "b"}


@pytest.mark.parametrize("passcode", ["", "\0", "x" * (PASSCODE_MAX_CHARACTERS + 1)])
def test_no_bind_without_a_password(passcode: str, searching: LdapConfig) -> None:
    """RFC 4513, 5.1.2: a name without a password binds as nobody, and succeeds."""
    for config in (TEMPLATE, searching):
        assert directory(config).check("ann", passcode) is None
        assert directory(config).bound(f"uid=ann,{PEOPLE}", "") is None


NAMES = [
    *("*", "a*", "ann*", "*)(uid=ann", "ann)(|(uid=*", "ann)(objectClass=*)", "(ann", "\\61nn", "ann\\", "|", "&"),
    *("ann,ou=people", f"ann,{PEOPLE}", "ann+uid=bob", "ann,dc=shop", "uid=ann", "#616e6e", '"ann"', "ann;x", "<ann>"),
    *("ann\0", "ann\n", "\0", "", " ann", "ann ", "x" * 256, "ann\u202e", "{user}", "{dn}", "%s", "{0}"),
]


@pytest.mark.parametrize("login", NAMES)
def test_names_are_escaped(login: str, searching: LdapConfig) -> None:
    for config in (TEMPLATE, searching, dataclasses.replace(searching, group_filter="(cn={user})")):
        assert directory(config).check(login, "secret") is None


@pytest.mark.parametrize("login", ["b,ob", "b+ob", "b*b", "b(o)b", "b\\ob", 'b"ob', "#bob", "b=ob"])
def test_such_names_are_names_where_an_entry_has_them(login: str, searching: LdapConfig) -> None:
    entry = {"objectClass": "person", "uid": login, "userPassword": "secret"}
    group = {"objectClass": "group", "cn": "odd", "member": ["cn=x,dc=shop"]}
    at = server(("cn=x,dc=shop", {**entry}), (f"cn=odd,{GROUPS}", group))
    found = directory(dataclasses.replace(searching, user_base="dc=shop"), at).check(login, "secret")
    assert found is not None and found.user == login and found.groups == {"odd"}


def test_the_directory_spells_the_name() -> None:
    """ANN and ann are one entry: as two users they would have twice the limits, and each other's names."""
    found = directory().check("ANN", "secret")
    assert found is not None and found.user == "ann"


def test_an_entry_without_the_name(caplog: pytest.LogCaptureFixture) -> None:
    config = dataclasses.replace(TEMPLATE, user_name="mail")
    assert directory(config).check("bob", "other") is None
    assert "has no attribute mail that is the login" in caplog.text


def test_a_wrong_password_of_the_gateway(searching: LdapConfig, caplog: pytest.LogCaptureFixture) -> None:
    Path(searching.bind_password_file).write_text("wrong")
    now = [0.0]
    asked = directory(searching, clock=lambda: now[0])
    for _ in range(5):
        assert asked.check("ann", "secret") is None
    assert caplog.text.count("refuses security.ldap.bind-dn") == 1
    now[0] = 30.0
    assert asked.check("ann", "secret") is None
    assert caplog.text.count("refuses security.ldap.bind-dn") == 2
    assert "secret" not in caplog.text and "wrong" not in caplog.text
    for octets in (b"", b"\n", b"\xff", b"x" * 5_000):
        Path(searching.bind_password_file).write_bytes(octets)
        assert asked.check("ann", "secret") is None


def test_what_is_remembered_ends() -> None:
    now = [0.0]
    at = server()
    asked = directory(at=at, clock=lambda: now[0])
    assert asked.known("ann", "secret") is None
    found = asked.check("ann", "secret")
    assert asked.known("ann", "secret") == found is not None
    assert asked.known("ann", "other") is None and asked.known("bob", "secret") is None
    now[0] = 60.0
    assert asked.known("ann", "secret") is None, "a changed password is wrong by then"
    asked.check("ann", "wrong")
    assert asked.known("ann", "wrong") is None


def test_what_is_remembered_is_bounded() -> None:
    more = [(f"uid=u{n},{PEOPLE}", {"objectClass": "person", "uid": f"u{n}", "userPassword": "x"}) for n in range(3)]
    asked = directory(at=server(*more))
    asked.check("u0", "x")
    asked._known.update({bytes([n % 256, n // 256]): asked._known[next(iter(asked._known))] for n in range(KEPT - 1)})
    asked.check("u1", "x")
    assert len(asked._known) == KEPT and asked.known("u0", "x") is None and asked.known("u1", "x") is not None


def test_a_user_is_looked_up_without_a_password(searching: LdapConfig, caplog: pytest.LogCaptureFixture) -> None:
    config = dataclasses.replace(searching, user_prefix="ldap:")
    by_name = dataclasses.replace(config, user_base="", user_dn=TEMPLATE.user_dn)
    for asked in (directory(config), directory(by_name)):
        assert asked.can_look_up
        found, is_said = asked.look_up("ldap:ann")
        assert is_said and found is not None and found.user == "ldap:ann" and found.groups == {"audit"}
        assert found.is_external
        assert asked.look_up("ldap:nobody") == (None, True)
        assert asked.look_up("ldap:ANN") == (None, True), "here that is another user"
        assert caplog.text == ""
    Path(searching.bind_password_file).write_text("wrong")
    assert directory(config).look_up("ldap:ann") == (None, False)
    assert "refuses security.ldap.bind-dn" in caplog.text
    assert not directory().can_look_up


class Busy:
    """A connection to a directory that has no time."""

    def __init__(self) -> None:
        self.result = {"result": 51, "description": "busy"}
        self.response: list[dict[str, Any]] = []

    def search(self, *asked: str, **options: object) -> bool:
        return False


def test_a_directory_that_is_busy_has_said_nothing(searching: LdapConfig) -> None:
    with pytest.raises(ValueError, match="answers a search with busy"):
        directory(searching)._dn(Busy(), "ann")


def test_a_server_that_is_not_there(caplog: pytest.LogCaptureFixture) -> None:
    config = dataclasses.replace(TEMPLATE, url="ldap://127.0.0.1:1", time_ms=500)
    assert Directory(config).check("ann", "Tr0ub4dor") is None
    assert "security.ldap: ldap://127.0.0.1:1 cannot be asked" in caplog.text and "Tr0ub4dor" not in caplog.text


def test_the_number_of_groups_is_bounded() -> None:
    member_of = [f"cn=g{number},{GROUPS}" for number in range(GROUPS_MAX + 5)]
    entry = {"objectClass": "person", "uid": "eve", "userPassword": "secret", "memberOf": member_of}
    found = directory(at=server((f"uid=eve,{PEOPLE}", entry))).check("eve", "secret")
    assert found is not None and len(found.groups) == GROUPS_MAX


def test_an_answer_that_comes_octet_by_octet_ends(caplog: pytest.LogCaptureFixture) -> None:
    """Each octet begins the time for an answer anew."""
    now = [0.0]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = dataclasses.replace(TEMPLATE, url=f"ldap://127.0.0.1:{listening.getsockname()[1]}")
        asked = Directory(config, clock=lambda: now[0])
        found: list[object] = []
        client = threading.Thread(target=lambda: found.append(asked.check("ann", "secret")), daemon=True)
        client.start()
        peer = listening.accept()[0]
        with peer:
            peer.recv(4_096)
            peer.sendall(b"\x30\x82\x27\x10")  # of 10,000 octets
            now[0] = STEPS_MOST * 5.0 - 0.1
            asked.tick()
            peer.sendall(b"\0")
            assert client.is_alive()
            now[0] += 0.1
            asked.tick()
            assert peer.recv(4_096) == b"", "the end of the connection"
            client.join(LIMIT_S)
    assert found == [None] and "cannot be asked" in caplog.text


def answer_to(message: bytes, operation: bytes) -> bytes:
    """Return a message with the id of another one, which is the first element in it (RFC 4511, 4.1.1)."""
    at = 2 if message[1] < 0x80 else 3
    body = message[at : at + 2 + message[at + 1]] + operation
    return bytes((0x30, len(body))) + body


@pytest.mark.parametrize("is_many", [False, True])
def test_an_answer_without_end_is_cut(is_many: bool, caplog: pytest.LogCaptureFixture) -> None:
    """One message that is announced as 2 GiB, or entries that never end."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = dataclasses.replace(TEMPLATE, url=f"ldap://127.0.0.1:{listening.getsockname()[1]}")
        asked = Directory(config)
        found: list[object] = []
        client = threading.Thread(target=lambda: found.append(asked.check("ann", "secret")), daemon=True)
        client.start()
        peer = listening.accept()[0]
        with peer:
            bind = peer.recv(4_096)
            if is_many:
                peer.sendall(answer_to(bind, b"\x61\x07\x0a\x01\0\x04\0\x04\0"))
                part = answer_to(peer.recv(4_096), b"\x64\x07\x04\x03c=x\x30\0") * 256
            else:
                peer.sendall(b"\x30\x84\x7f\xff\xff\xff")
                part = b"\0" * 4_096
            with pytest.raises(ConnectionError):  # more than the buffers between hold
                peer.sendall(part * (128 * OCTETS_MAX // len(part)))
            client.join(LIMIT_S)
    assert found == [None] and f"more than {OCTETS_MAX} octets" in caplog.text


def test_an_entry_that_is_called_like_a_place_has_no_groups_of_others(searching: LdapConfig) -> None:
    entry = {"objectClass": "person", "uid": "eve", "userPassword": "secret"}
    group = {"objectClass": "group", "cn": "ops", "member": [f"cn=eve,{PEOPLE}"]}
    at = server((f"cn={{user}},{PEOPLE}", entry), (f"cn=ops,{GROUPS}", group))
    found = directory(searching, at).check("eve", "secret")
    assert found is not None and found.user == "eve" and found.groups == set()


@pytest.mark.parametrize("passcode", ["\x7f", "\u00ad", "\ue000", "\ud800"])
def test_what_is_no_password_is_no_outage(passcode: str, caplog: pytest.LogCaptureFixture) -> None:
    """The line about a real one would be left out for a while."""
    assert directory().check("ann", passcode) is None
    assert caplog.text == ""
