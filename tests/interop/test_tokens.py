"""JSON web tokens as logins, over every protocol, against the real process: rights, ends, other keys, reload."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final

import aiohttp
import pytest

pytest.importorskip("jwt", reason="needs the extra jwt")

from config.login_servers import DISCOVERY
from config.scram import hash_password
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.login_clients import DENIED, REFUSED, SENT, Amqp, OpenWire, Stomp
from tests.support.process.waiting import wait_until
from tests.support.token_issuer import Issuer, KeyServer, serving_keys

LIMIT_S: Final = 10.0
ADMIN: Final = ("admin", "secret")
VERIFIERS: Final = "".join(f"\n      - {text}" for text in hash_password("secret", 4096))
CONFIG: Final = """\
security:
  jwt: {{issuer: "{issuer}", audience: penstock, keys: "{keys}", leeway: 0{more}}}
users:
  admin:
    groups: [ops]
    verifiers:{verifiers}
permissions:
  - {{match: ">", read: ops, write: ops, admin: ops}}
  - {{match: "shop.>", read: [shop, ops], write: [shop, ops], admin: [shop, ops]}}
"""


class World:
    """An issuer that publishes its keys, and a gateway that takes its tokens."""

    def __init__(self, server: KeyServer, start_gateway: StartGateway, more: str = "") -> None:
        self.issuer = Issuer()
        self.server = server
        self._more = more
        self._start = start_gateway
        self.publish()
        self.gateway = start_gateway(self.config())

    def config(self) -> str:
        keys = self.server.url + "/keys"
        return CONFIG.format(issuer=self.issuer.name, keys=keys, more=self._more, verifiers=VERIFIERS)

    def publish(self) -> None:
        self.server.publish("/keys", self.issuer.jwks())

    def shop_token(self, **more: Any) -> str:
        return self.issuer.token("ann", ["shop"], **more)


@pytest.fixture(scope="module")
def server() -> Iterator[KeyServer]:
    with serving_keys() as one:
        yield one


@pytest.fixture
def world(server: KeyServer, start_gateway: StartGateway) -> World:
    return World(server, start_gateway)


def by_http(gateway: GatewayProcess, token: str, queue: str) -> str:
    status, text = asked(gateway, token, f"/api/destinations/{queue}/body", b"x")
    return {401: REFUSED, 403: DENIED, 201: SENT, 200: SENT}.get(status, f"{status} {text}")


def asked(gateway: GatewayProcess, token: str, path: str, posted: bytes | None = None) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "text/plain"}
    request = urllib.request.Request(gateway.http_url + path, posted, headers)
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode() + str(error.headers.get("WWW-Authenticate"))


def plain(gateway: GatewayProcess, token: str) -> Amqp:
    return Amqp(gateway, "PLAIN", b"\0whoever\0" + token.encode())


def xoauth2(gateway: GatewayProcess, token: str) -> Amqp:
    return Amqp(gateway, "XOAUTH2", b"user=whoever\1auth=Bearer " + token.encode() + b"\1\1")


def oauthbearer(gateway: GatewayProcess, token: str, first: str = "n,,") -> Amqp:
    return Amqp(gateway, "OAUTHBEARER", f"{first}\1host=h\1auth=Bearer {token}\1\1".encode())


CONNECTIONS: Final[dict[str, Callable[[GatewayProcess, str], Any]]] = {
    "stomp": Stomp,
    "plain": plain,
    "xoauth2": xoauth2,
    "oauthbearer": oauthbearer,
    "openwire": OpenWire,
}


def outcome(protocol: str, gateway: GatewayProcess, token: str, queue: str) -> str:
    if protocol == "http":
        return by_http(gateway, token, queue)
    with closing(CONNECTIONS[protocol](gateway, token)) as client:
        return str(client.send(queue))


PROTOCOLS: Final = (*CONNECTIONS, "http")


def test_groups_of_a_token_meet_the_permissions(world: World) -> None:
    """A matrix: the protocols, groups, and queues."""
    matrix = {
        ("shop",): (SENT, DENIED),
        ("ops",): (SENT, SENT),
        (): (DENIED, DENIED),
        ("*", ">", "#", "shop.>", "SHOP", "shop,ops", " shop"): (DENIED, DENIED),
    }
    found = {
        (groups, protocol): tuple(
            outcome(protocol, world.gateway, world.issuer.token("ann", groups), queue)
            for queue in ("shop.q", "other.q")
        )
        for groups in matrix
        for protocol in PROTOCOLS
    }
    assert found == {(groups, protocol): said for groups, said in matrix.items() for protocol in PROTOCOLS}


def test_wrong_tokens_let_nobody_in(world: World) -> None:
    """Each names another user, because wrong tokens of the same one are delayed."""
    issuer, gateway = world.issuer, world.gateway
    now_s = int(time.time())
    tokens = [
        (protocol, token)
        for protocol in PROTOCOLS
        for token in (
            issuer.token(f"1{protocol}", ["ops"], exp=now_s - 1),
            issuer.token(f"2{protocol}", ["ops"], nbf=now_s + 500),
            issuer.token(f"3{protocol}", ["ops"], aud="other"),
            issuer.token(f"4{protocol}", ["ops"], iss="https://evil.example"),
            issuer.token(f"5{protocol}\0", ["ops"]),
            issuer.token(f"6{protocol}\nadmin", ["ops"]),
            Issuer().token(f"7{protocol}", ["ops"]),
        )
    ]
    tokens = [("stomp", issuer.token("admin", ["ops"])), ("http", issuer.token("admin", ["ops"])), *tokens]
    assert [(one, outcome(one[0], gateway, one[1], "shop.q")) for one in tokens] == [(one, REFUSED) for one in tokens]
    log = gateway.log.read_text()
    assert "the token is refused: it has expired" in log and "its user is one of the configuration" in log
    assert not any(part in log for _, token in tokens for part in token.split(".")), "nothing of a token is in the log"
    gateway.http_login = ADMIN
    lines = gateway.get("/metrics")[1].splitlines()
    failed = next(line for line in lines if line.startswith("penstock_failed_logins_total"))
    assert float(failed.split()[1]) == len(tokens)


async def test_a_websocket(world: World) -> None:
    for token, command in ((world.shop_token(), "CONNECTED"), ("eyJ.b.c", "ERROR")):
        async with aiohttp.ClientSession() as session, session.ws_connect(world.gateway.http_url + "/ws") as one:
            await one.send_str(f"CONNECT\naccept-version:1.2\nhost:h\npasscode:{token}\n\n\0")
            assert (await one.receive(timeout=LIMIT_S)).data.startswith(command)


def test_a_token_ends_its_connections(world: World) -> None:
    end_s = time.time() + 8
    tokens = {name: world.issuer.token(name, ["shop"], exp=end_s) for name in CONNECTIONS}
    lasting = Stomp(world.gateway, world.shop_token())
    with closing(lasting):
        clients = {name: opened(world.gateway, tokens[name]) for name, opened in CONNECTIONS.items()}
        sent = {name: client.send("shop.q") for name, client in clients.items()}
        assert sent == dict.fromkeys(CONNECTIONS, SENT)
        for name, client in clients.items():
            with closing(client):
                said = client.end()
                wanted = {"stomp": "login-expired", "openwire": "the token has expired"}
                assert wanted.get(name, "amqp:unauthorized-access") in said, name
                assert outcome(name, world.gateway, tokens[name], "shop.q") == REFUSED, name
        assert by_http(world.gateway, tokens["stomp"], "shop.q") == REFUSED
        assert lasting.send("shop.q") == SENT


def test_what_the_client_and_the_operator_read(world: World) -> None:
    status, text = asked(world.gateway, world.shop_token(exp=1), "/api/stat")
    assert status == 401
    assert 'Bearer realm="penstock", error="invalid_token", error_description="it has expired"' in text
    status, text = asked(world.gateway, world.shop_token(), "/api/session")
    assert (status, json.loads(text)["login"]) == (200, "ann")
    assert asked(world.gateway, world.issuer.token("olga", ["ops"]), "/api/stat")[0] == 200
    assert asked(world.gateway, world.shop_token(), "/api/stat")[0] == 403, "not every destination is hers"
    world.gateway.http_login = ("ann", world.shop_token())
    assert world.gateway.get("/api/session")[0] == 200, "as the password of its user"
    world.gateway.http_login = ("admin", world.shop_token())
    assert world.gateway.get("/api/session")[0] == 401, "not as that of another one"
    begin = {"login": "ann", "passcode": world.shop_token()}
    world.gateway.http_login = ("", "")
    assert world.gateway.get("/api/session", begin)[0] == 401, "a token begins no session"


def test_who_an_oauthbearer_token_says_it_is_for(world: World) -> None:
    for first, is_let_in in (("n,a=ann,", True), ("y,,", True), ("n,a=admin,", False)):
        with closing(oauthbearer(world.gateway, world.shop_token(), first)) as client:
            assert client.is_let_in is is_let_in, first
            assert client.mechanisms[-2:] == ["OAUTHBEARER", "XOAUTH2"]


def test_mechanisms_without_tokens(start_gateway: StartGateway) -> None:
    gateway = start_gateway(
        "users:" + CONFIG.format(issuer="", keys="", more="", verifiers=VERIFIERS).partition("users:")[2]
    )
    with closing(Amqp(gateway, "XOAUTH2", b"user=admin\1auth=Bearer secret\1\1")) as client:
        assert client.mechanisms == ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"] and not client.is_let_in


def test_an_issuer_without_users(server: KeyServer, start_gateway: StartGateway) -> None:
    issuer = Issuer(server.url)
    keys = server.publish("/own", issuer.jwks())
    server.publish(DISCOVERY, json.dumps({"issuer": issuer.name, "jwks_uri": keys}).encode())
    gateway = start_gateway(f'security: {{jwt: {{issuer: "{issuer.name}", audience: penstock}}}}\n')
    for protocol in PROTOCOLS:
        assert outcome(protocol, gateway, issuer.token(), "q") == SENT, protocol
        assert outcome(protocol, gateway, "secret", "q") == REFUSED, protocol
    with closing(plain(gateway, "secret")) as client:
        assert client.mechanisms == ["PLAIN", "OAUTHBEARER", "XOAUTH2"]


def test_a_rotation_and_an_outage(world: World) -> None:
    gateway, issuer, server = world.gateway, world.issuer, world.server
    assert outcome("stomp", gateway, world.shop_token(), "shop.q") == SENT
    asked_before = server.asked.count("/keys")
    issuer.keys["two"] = Issuer().keys["one"]
    world.publish()
    assert outcome("stomp", gateway, world.shop_token(key_id="two"), "shop.q") == SENT
    assert server.asked.count("/keys") == asked_before + 1
    for number in range(3):
        stranger = Issuer()
        stranger.keys["three"] = stranger.keys["one"]
        token = stranger.token(f"stranger{number}", ["shop"], "three")
        assert outcome("stomp", gateway, token, "shop.q") == REFUSED
    assert server.asked.count("/keys") == asked_before + 1, "strangers bring no more readings forward"
    server.publish("/keys", b"", 503)
    gateway.http_login = ADMIN
    assert gateway.get("/api/reload", {})[0] == 200
    wait_until(lambda: "the keys from before stay in use" in gateway.log.read_text(), "the failure in the log")
    assert outcome("stomp", gateway, world.shop_token(key_id="two"), "shop.q") == SENT
    issuer.keys = {"two": issuer.keys["two"]}
    world.publish()
    assert gateway.get("/api/reload", {})[0] == 200
    wait_until(lambda: outcome("stomp", gateway, world.shop_token(key_id="two"), "shop.q") == SENT, "the keys")
    wait_until(lambda: gateway.log.read_text().count(" keys of the issuer, from ") == 3, "the new keys")
    stale = Issuer()
    stale.keys["one"] = Issuer().keys["one"]
    assert outcome("stomp", gateway, stale.token("ann", ["shop"]), "shop.q") == REFUSED


def test_a_reload_knows_users_of_tokens(world: World) -> None:
    gateway = world.gateway
    gateway.http_login = ADMIN
    ann, bob = Stomp(gateway, world.shop_token()), Stomp(gateway, world.issuer.token("bob", ["shop"]))
    with closing(ann), closing(bob):
        assert (ann.send("shop.q"), bob.send("shop.q")) == (SENT, SENT)
        path = gateway.configs[0]
        text = path.read_text()
        path.write_text(text + '  - {match: "new.>", write: [shop, ops], admin: [shop, ops]}\n')
        assert gateway.get("/api/reload", {})[0] == 200
        assert (ann.send("new.q"), bob.send("shop.q")) == (SENT, SENT), "they stay, with their groups"
        bobs = f"  bob:\n    groups: [shop]\n    verifiers:{VERIFIERS}\npermissions:"
        path.write_text(text.replace("permissions:", bobs))
        assert gateway.get("/api/reload", {})[0] == 200
        assert bob.end() == "connection-forced", "who is in the configuration now has a password"
        assert outcome("stomp", gateway, world.issuer.token("bob", ["shop"]), "shop.q") == REFUSED
        assert ann.send("shop.q") == SENT and ann.send("new.q") == DENIED


def test_wrong_settings_are_named(world: World, start_gateway: StartGateway) -> None:
    for text, words in (
        ('issuer: "https://a.example"', "security.jwt.audience: is needed"),
        ("audience: penstock", "security.jwt.audience: has no effect without security.jwt.issuer"),
        ("issuer: shop, audience: penstock", "security.jwt.keys: is needed"),
        ('issuer: "http://a.example", audience: p', "security.jwt.issuer: 'http://a.example/.well-known"),
        ('issuer: shop, audience: p, keys: "http://a.example/keys"', "security.jwt.keys: 'http://a.example/keys'"),
        ('issuer: shop, audience: p, keys: "file:///etc/passwd"', "security.jwt.keys: 'file:///etc/passwd'"),
        ("issuer: shop, audience: p, keys: /no/such/file", "security.jwt.keys: '/no/such/file' cannot be read"),
        ("issuer: shop, audience: p, keys: /dev/null", "security.jwt.keys: '/dev/null' cannot be read"),
        ('issuer: shop, audience: p, keys: "https://a/", ca: /no/file', "security.jwt.ca: '/no/file' cannot be used"),
        ("issuer: shop, algorithms: HS256", "security.jwt.algorithms: 'HS256', allowed is algorithms"),
        ("issuer: shop, algorithms: none", "security.jwt.algorithms: 'none', allowed is algorithms"),
    ):
        with pytest.raises(AssertionError) as caught:
            start_gateway(f"security: {{jwt: {{{text}}}}}\n")
        assert words in str(caught.value), text
