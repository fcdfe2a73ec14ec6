"""Users of a directory, over every protocol, against the real process and OpenLDAP's server."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    ldap3 = pytest.importorskip("ldap3", reason="needs the extra ldap")

from config.scram import hash_password
from tests.support.process.certificates import Certificates
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.login_clients import DENIED, REFUSED, SENT, Amqp, OpenWire, Stomp
from tests.support.process.slapd import GROUPS, PEOPLE, PROGRAM, Slapd, running_slapd
from tests.support.process.waiting import wait_until

pytestmark = pytest.mark.skipif(not PROGRAM, reason="needs slapd (Debian: slapd)")

VERIFIERS: Final = "".join(f"\n      - {text}" for text in hash_password("own", 4096))
CONFIG: Final = """\
security:
  ldap:
    url: "{url}"
    remember: 1s
    {more}
    group-base: "{groups}"
    group-filter: "(member={{dn}})"
users:
  nemo:
    groups: [ops]
    verifiers:{verifiers}
permissions:
  - {{match: ">", read: ops, write: ops, admin: ops}}
  - {{match: "shop.>", read: [shop, ops], write: [shop, ops], admin: [shop, ops]}}
"""
TEMPLATE: Final = f'user-dn: "uid={{user}},{PEOPLE}"'


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def slapd(tmp_path: Path, certificates: Certificates) -> Iterator[Slapd]:
    with running_slapd(tmp_path / "slapd", certificates) as one:
        yield one


def config(url: str, more: str = TEMPLATE) -> str:
    return CONFIG.format(url=url, more=more, groups=GROUPS, verifiers=VERIFIERS)


def by_http(gateway: GatewayProcess, login: str, passcode: str, queue: str) -> str:
    gateway.http_login = (login, passcode)
    status, text = gateway.get(f"/api/destinations/{queue}/body", {})
    return {401: REFUSED, 403: DENIED, 201: SENT, 200: SENT}.get(status, f"{status} {text}")


def outcome(protocol: str, gateway: GatewayProcess, login: str, passcode: str, queue: str = "shop.q") -> str:
    if protocol == "http":
        return by_http(gateway, login, passcode, queue)
    if protocol == "stomp":
        client: Stomp | Amqp | OpenWire = Stomp(gateway, passcode, login)
    elif protocol == "openwire":
        client = OpenWire(gateway, passcode, login)
    else:
        client = Amqp(gateway, "PLAIN", f"\0{login}\0{passcode}".encode())
    with closing(client):
        return client.send(queue)


@contextmanager
def as_root(slapd: Slapd) -> Iterator[Any]:
    """Yield a connection that may change everything."""
    with ldap3.Connection(ldap3.Server(slapd.ldap, get_info=ldap3.NONE), "cn=root,dc=shop", "root") as root:
        root.bind()  # not before: the end of ``with`` restores the state of its beginning
        yield root


PROTOCOLS: Final = ("stomp", "amqp", "openwire", "http")


def test_groups_of_the_directory_meet_the_permissions(slapd: Slapd, start_gateway: StartGateway) -> None:
    gateway = start_gateway(config(slapd.ldap))
    matrix = {
        ("ann", "secret"): (SENT, DENIED),
        ("olga", "secret"): (SENT, SENT),
        ("nemo", "own"): (SENT, SENT),
    }
    found = {
        (user, protocol): tuple(outcome(protocol, gateway, *user, queue) for queue in ("shop.q", "other.q"))
        for user in matrix
        for protocol in PROTOCOLS
    }
    assert found == {(user, protocol): said for user, said in matrix.items() for protocol in PROTOCOLS}
    for protocol in PROTOCOLS:
        assert outcome(protocol, gateway, "nemo", "secret") == REFUSED, "a user of the configuration is not asked for"
        assert outcome(protocol, gateway, f"no.{protocol}", "secret") == REFUSED
        assert outcome(protocol, gateway, "gateway", "") == REFUSED, "without a password a directory lets everybody in"
    for login in ("*", "ann)(uid=*", "ann,ou=people", "uid=ann", "ann\\00"):
        assert outcome("stomp", gateway, login, "secret") == REFUSED
    with closing(Amqp(gateway, "PLAIN", b"\0ann\0secret")) as client:
        assert client.mechanisms == ["PLAIN"], "SCRAM would be preferred, and the directory takes passwords"


def test_a_search_over_tls(
    slapd: Slapd, certificates: Certificates, start_gateway: StartGateway, tmp_path: Path
) -> None:
    password = tmp_path / "password"
    password.write_text("secret\n")
    searching = (
        f'user-base: "{PEOPLE}"\n    bind-dn: "uid=gateway,{PEOPLE}"\n    bind-password-file: "{password}"\n'
        f'    ca: "{certificates.ca}"'
    )
    for url, more in ((slapd.ldaps, ""), (slapd.ldap, "\n    start-tls: true")):
        gateway = start_gateway(config(url, searching + more))
        assert outcome("stomp", gateway, "ann", "secret") == SENT
        assert outcome("stomp", gateway, "ann", "secret", "other.q") == DENIED
        assert outcome("stomp", gateway, "ann", "wrong") == REFUSED
        assert outcome("stomp", gateway, "ANN", "secret") == SENT, "as ann"
        gateway.http_login = ("olga", "secret")
        listed = gateway.get_json("/api/connections")
        assert "ANN" not in str(listed)


def test_a_certificate_of_nobody_who_is_known(slapd: Slapd, start_gateway: StartGateway) -> None:
    gateway = start_gateway(config(slapd.ldaps))
    assert outcome("stomp", gateway, "ann", "secret") == REFUSED
    assert "security.ldap: ldaps://" in gateway.log.read_text()


def test_a_certificate_of_another_host(start_gateway: StartGateway, tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    certificates.gateway = certificates.issue("elsewhere", "elsewhere.example")
    with running_slapd(tmp_path / "slapd", certificates) as slapd:
        for url, more in ((slapd.ldaps, ""), (slapd.ldap, "\n    start-tls: true")):
            gateway = start_gateway(config(url, f'{TEMPLATE}\n    ca: "{certificates.ca}"{more}'))
            assert outcome("stomp", gateway, "ann", "secret") == REFUSED
            assert "IP address mismatch" in gateway.log.read_text()


def test_a_changed_password_and_an_outage(slapd: Slapd, start_gateway: StartGateway) -> None:
    gateway = start_gateway(config(slapd.ldap))
    ann = Stomp(gateway, "secret", "ann")
    with closing(ann):
        assert ann.send("shop.q") == SENT
        with as_root(slapd) as root:
            root.modify(f"uid=ann,{PEOPLE}", {"userPassword": [(ldap3.MODIFY_REPLACE, ["changed"])]})
        wait_until(lambda: outcome("stomp", gateway, "ann", "secret") == REFUSED, "the end of what is remembered")
        assert outcome("stomp", gateway, "ann", "changed") == SENT
        slapd.stop()
        wait_until(lambda: outcome("http", gateway, "ann", "changed") == REFUSED, "the end of what is remembered")
        assert outcome("stomp", gateway, "nemo", "own") == SENT, "who is in the configuration gets in"
        assert ann.send("shop.q") == SENT, "and who is there stays"
        slapd.start()
        wait_until(lambda: outcome("http", gateway, "ann", "changed") == SENT, "the directory")
    assert "cannot be asked" in gateway.log.read_text() and "changed" not in gateway.log.read_text()


def begin_session(gateway: GatewayProcess, login: str) -> tuple[str, str]:
    """Return the cookie, and the user's name here."""
    asked = json.dumps({"login": login, "passcode": "secret"}).encode()
    with urllib.request.urlopen(f"{gateway.http_url}/api/session", asked, timeout=60) as response:
        return response.headers["Set-Cookie"].partition(";")[0], json.load(response)["login"]


def status_of_stat(gateway: GatewayProcess, cookie: str) -> int:
    asked = urllib.request.Request(f"{gateway.http_url}/api/stat", headers={"Cookie": cookie})
    try:
        with urllib.request.urlopen(asked, timeout=60) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_a_session_of_the_console(slapd: Slapd, start_gateway: StartGateway) -> None:
    gateway = start_gateway(config(slapd.ldap))
    cookie, name = begin_session(gateway, "olga")
    assert name == "olga"
    assert status_of_stat(gateway, cookie) == 200, "with the groups of the directory"


def test_groups_of_a_session_follow_the_directory(slapd: Slapd, start_gateway: StartGateway, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("secret\n")
    binder = f'\n    bind-dn: "uid=gateway,{PEOPLE}"\n    bind-password-file: "{password}"'
    gateway = start_gateway(config(slapd.ldap, TEMPLATE + binder))
    cookie, _ = begin_session(gateway, "olga")
    assert status_of_stat(gateway, cookie) == 200
    with as_root(slapd) as root:
        root.modify(f"cn=ops,{GROUPS}", {"member": [(ldap3.MODIFY_REPLACE, [f"uid=nemo,{PEOPLE}"])]})
    wait_until(lambda: status_of_stat(gateway, cookie) == 403, "the loss of the group")
    slapd.stop()
    assert status_of_stat(gateway, cookie) == 403, "a session outlives an outage"
    slapd.start()
    with as_root(slapd) as root:
        root.delete(f"uid=olga,{PEOPLE}")
    wait_until(lambda: status_of_stat(gateway, cookie) == 401, "the end of the session")


def test_a_prefix_keeps_users_apart(slapd: Slapd, start_gateway: StartGateway) -> None:
    gateway = start_gateway(config(slapd.ldap, f'{TEMPLATE}\n    user-prefix: "ldap:"'))
    for protocol in PROTOCOLS:
        assert outcome(protocol, gateway, "ann", "secret") == SENT, protocol
        assert outcome(protocol, gateway, "ANN", "secret") == SENT, protocol
    assert begin_session(gateway, "OLGA")[1] == "ldap:olga"
    with closing(Stomp(gateway, "secret", "ann")) as client:
        assert client.send("shop.q") == SENT
        gateway.http_login = ("olga", "secret")
        assert '"ldap:ann"' in gateway.get("/api/connections")[1]


def test_wrong_settings_are_named(start_gateway: StartGateway) -> None:
    for text, words in (
        ("user-dn: x", "security.ldap.user-dn: has no effect without security.ldap.url"),
        ('url: "http://a"', "security.ldap.url: 'http://a' is no directory"),
        ('url: "ldap://a", user-dn: "uid={user}"', "security.ldap.url: passwords would cross the network"),
        ('url: "ldaps://a"', "security.ldap.user-dn: either this or"),
        ('url: "ldaps://a", user-dn: "uid=ann"', "security.ldap.user-dn: lacks {user}"),
        ('url: "ldaps://a", user-base: "dc=a"', "security.ldap.bind-dn: is needed"),
        ('url: "ldaps://a", user-dn: "uid={user}", bind-dn: "dc=a"', "security.ldap.bind-password-file: goes with"),
        ('url: "ldaps://a", user-dn: "uid={user}", group-filter: "(a={dn})"', "security.ldap.group-base: is needed"),
        ('url: "ldaps://a", user-dn: "{user}"', "security.ldap.user-dn: 'x' is no distinguished name"),
        ('url: "ldaps://a", user-dn: "uid={user}", ca: /no/file', "security.ldap.ca: '/no/file' cannot be used"),
    ):
        with pytest.raises(AssertionError) as caught:
            start_gateway(f"security: {{ldap: {{{text}}}}}\n")
        assert words in str(caught.value), text
