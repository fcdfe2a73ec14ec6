"""A running gateway that reads its configuration again: users, groups and permissions hold at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.process.command import answer, penstock
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.stomp_py import Client
from tests.support.process.waiting import wait_until

PERMISSIONS = """\
permissions:
  - {match: ">", read: ops, write: ops, admin: ops}
  - {match: "open.>", read: [ops, guests], write: [ops, guests], admin: [ops, guests]}
"""


class Operator:
    """Edits the users of a gateway with the commands, and makes it read them."""

    def __init__(self, path: Path, start_gateway: StartGateway) -> None:
        self._path = path
        path.write_text(PERMISSIONS)
        self.user("add", "admin", "--group", "ops")
        self.gateway = start_gateway(path.read_text())
        self._path = self.gateway.configs[0]
        self.gateway.http_login = ("admin", "secret")

    def user(self, action: str, name: str, *words: str, password: str = "secret") -> None:
        cost = [] if action in ("remove", "revoke") else ["--iterations", "4096"]
        answer("user", action, name, *words, *cost, "--config", str(self._path), given=password)

    def token(self, name: str, token_name: str) -> str:
        return answer("user", "token", name, "--name", token_name, "--config", str(self._path)).strip()

    def edit(self, old: str, new: str) -> None:
        text = self._path.read_text()
        assert old in text
        self._path.write_text(text.replace(old, new))

    def reload(self) -> subprocess.CompletedProcess[str]:
        return penstock("reload", "--http", self.gateway.http_url, "--user", "admin", PENSTOCK_PASSWORD="secret")


@pytest.fixture
def operator(tmp_path: Path, start_gateway: StartGateway) -> Operator:
    return Operator(tmp_path / "start.yaml", start_gateway)


def login(gateway: GatewayProcess, name: str, password: str = "secret") -> Client:
    return Client(gateway, "1.2").connect(login=name, passcode=password)


def is_let_in(gateway: GatewayProcess, name: str, password: str) -> bool:
    gateway.http_login = (name, password)
    status, _ = gateway.get("/api/openapi.json")
    gateway.http_login = ("admin", "secret")
    return status == 200


def test_a_user_comes_changes_and_goes_without_a_restart(operator: Operator) -> None:
    gateway = operator.gateway
    admin = login(gateway, "admin")
    operator.user("add", "ann", "--group", "guests")
    assert not is_let_in(gateway, "ann", "secret")
    assert operator.reload().stdout == "users.ann: added\nusers.ann: groups guests, before none\n"
    ann = login(gateway, "ann")
    ann.send("/queue/open.q", "x", persistent="true")
    operator.user("passwd", "ann", password="other")
    assert operator.reload().stdout == "users.ann: other verifiers\n"
    assert (is_let_in(gateway, "ann", "secret"), is_let_in(gateway, "ann", "other")) == (False, True)
    ann.send("/queue/open.q", "her connection stays", persistent="true")
    operator.user("remove", "ann")
    assert operator.reload().stdout == "users.ann: removed\n"
    error = ann.error()
    assert "the user ann was removed" in error.headers["message"] + error.body
    assert not is_let_in(gateway, "ann", "other")
    admin.send("/queue/open.q", "others stay", persistent="true")
    admin.close()


def test_permissions_and_groups_hold_for_connections_that_are_there(operator: Operator) -> None:
    gateway = operator.gateway
    operator.user("add", "bob", "--group", "guests")
    operator.reload()
    bob = login(gateway, "bob")
    bob.send("/queue/open.q", "x", persistent="true")
    operator.edit("groups: [guests]", "groups: [ops]")
    os.kill(gateway.pid, signal.SIGHUP)
    wait_until(lambda: "users.bob: groups ops, before guests" in gateway.log.read_text(), "the reload in the log")
    bob.send("/queue/closed", "he is one of them now", persistent="true")
    operator.edit('match: ">", read: ops, write: ops', 'match: ">", read: ops, write: nobody')
    assert operator.reload().stdout == "permissions.>: other grants\n"
    bob.send("/queue/open.q", "this entry stays", persistent="true")
    bob.connection.send("/queue/closed", "y")
    assert "no permission to write queue://closed" in bob.error().body


def test_an_error_changes_nothing_and_other_settings_need_a_restart(operator: Operator) -> None:
    gateway = operator.gateway
    operator.user("add", "ann", "--group", "guests")
    operator.edit("permissions:", "memory-limit-bytes: 1GiBB\npermissions:")
    refused = operator.reload()
    assert refused.returncode == 1
    assert "nothing has changed" in refused.stderr and "memory-limit-bytes" in refused.stderr
    assert not is_let_in(gateway, "ann", "secret")
    operator.edit("1GiBB", "1GiB")
    restart = "needs a restart: memory-limit-bytes: 1GiB, before 256MiB\n"
    assert operator.reload().stdout.endswith(restart)
    assert is_let_in(gateway, "ann", "secret")
    assert operator.reload().stdout == restart, "it is still so"
    explained: dict[str, Any] = json.loads(gateway.get("/api/explain/destination/open.q")[1])
    assert explained["permissions"]


def asked_as(gateway: GatewayProcess, token: str, path: str, posted: bytes | None = None) -> tuple[int, dict[str, Any]]:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(gateway.http_url + path, posted, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_an_access_token_is_a_login_until_it_is_revoked(operator: Operator) -> None:
    gateway = operator.gateway
    operator.user("add", "ann", "--group", "guests")
    token = operator.token("ann", "ci")
    assert operator.reload().stdout.splitlines()[-1] == "users.ann: other access tokens, now ci"
    login(gateway, "ann", token).send("/queue/open.q", "x", persistent="true")
    assert is_let_in(gateway, "ann", token)
    assert asked_as(gateway, token, "/api/session") == (200, {"login": "ann", "csrf": ""})
    status, problem = asked_as(gateway, token, "/api/why/message?id=ID:x-1")
    assert status == 403 and "needs the permission browse" in problem["detail"], "its rights are those of its user"
    begin = json.dumps({"login": "ann", "passcode": token}).encode()
    assert asked_as(gateway, token, "/api/session", begin)[0] == 401
    for who in ("admin", ""):
        assert not is_let_in(gateway, who, token)
    status, problem = asked_as(gateway, token + "x", "/api/stat")
    assert status == 401 and "an access token (Bearer)" in problem["detail"]
    operator.user("revoke", "ann", "--name", "ci")
    assert operator.reload().stdout == "users.ann: other access tokens, now none\n"
    assert not is_let_in(gateway, "ann", token)
    assert asked_as(gateway, token, "/api/session")[0] == 401
    assert is_let_in(gateway, "ann", "secret")
